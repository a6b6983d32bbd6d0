"""A QR code on a page of its own, for a telephone or another machine to take an address from."""

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
    """One line that says what it is, the code, and the way back."""

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
        head = Content.assemble((self.heading, "bold $accent"), ("  esc back", "$faint"))
        yield Static(head, id="head", markup=False)
        yield QrCode(self.text)

    def action_leave(self) -> None:
        """Back to where it was asked for."""
        self.dismiss(None)
