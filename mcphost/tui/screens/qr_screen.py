"""Screen with a QR code of a URL, for a phone or another machine."""

from typing import Any, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.screen import Screen
from textual.widgets import Static

from mcphost.tui.screen_text import clean_line
from mcphost.tui.widgets.qr import QrCode
from mcphost.tui.widgets.screen_lifecycle import ScreenLifecycle


class QrScreen(ScreenLifecycle, Screen[Any]):
    """A caption, the QR code, and the key to return."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,enter", "leave", show=False)]
    DEFAULT_CSS = """
    QrScreen { background: $background; }
    QrScreen #head { height: 1; background: $surface; padding: 0 2; }
    QrScreen QrCode { color: $text; }
    """

    def __init__(self, title: str, text: str) -> None:
        super().__init__()
        self.heading, self.text = clean_line(title, 120), text

    def compose(self) -> ComposeResult:
        """Create the widgets."""
        head = Content.assemble((self.heading, "bold $accent"), ("  esc back", "$faint"))
        yield Static(head, id="head", markup=False)
        yield QrCode(self.text)

    def action_leave(self) -> None:
        """Return to the previous screen."""
        self.dismiss(None)
