"""Small window that is open while mcphost checks a passphrase or redirect URL that the user entered."""

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from mcphost.translation import _
from mcphost.tui.widgets.screen_lifecycle import ScreenLifecycle
from mcphost.tui.widgets.text_inputs import LabeledInput


class EntryCheckScreen(ScreenLifecycle, ModalScreen[None]):
    """Window that receives the text typed while mcphost checks an entry, such as a passphrase.

    The user may already be typing a corrected passphrase, which must not end up in the composer. If the entry is
    rejected, the text is put into the input for the next attempt. Otherwise, it is discarded.
    """

    AUTO_FOCUS = "Input"
    DEFAULT_CSS = """
    EntryCheckScreen { align: center middle; background: $background 45%; }
    EntryCheckScreen #box {
        width: 95%; max-width: 104; height: auto; background: $panel; border: round $warning;
        border-title-color: $warning; border-title-style: bold; padding: 1 2 0 2;
    }
    EntryCheckScreen #keys { height: auto; color: $faint; text-align: right; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "leave", show=False)]

    def compose(self) -> ComposeResult:
        """Create the input and the key hint."""
        with Vertical(id="box") as box:
            box.border_title = Content(_("Checking…"))
            yield LabeledInput(_("if it was wrong"), "again", hidden=True, placeholder=_("type it again"))
            yield Static(_("esc goes back to the chat"), id="keys", markup=False)

    @property
    def typed_text(self) -> str:
        """The text that the user has typed during the check."""
        return "".join(field.value for field in self.query(Input))

    def action_leave(self) -> None:
        """Close the window; the check continues."""
        self.dismiss(None)
