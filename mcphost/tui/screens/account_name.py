"""Asks under which name somebody signs in to a server, beside whoever is signed in there already."""

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from mcphost.errors import UsageError
from mcphost.host.servers.accounts import MOST_NAME, name_of
from mcphost.tui.sanitize import clean_line
from mcphost.tui.widgets.typed import TextLine

ABOUT = (
    "You sign in beside whoever is signed in already, and mcphost uses the new account from then on. The name is yours "
    "to choose. If the browser remembers somebody else there, sign out of that first."
)


class AccountName(ModalScreen[str | None]):
    """One field; ends with the name, or None. `taken` are the names that exist: signing in there renews that one."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "leave", show=False)]
    DEFAULT_CSS = """
    AccountName { align: center middle; background: $background 60%; }
    AccountName #box { width: 90%; max-width: 76; height: auto; max-height: 95%; background: $panel;
                       border: round $accent; border-title-color: $accent; border-title-style: bold; padding: 1 2 0 2; }
    AccountName Static { height: auto; }
    AccountName Input { border: none; height: 1; background: $surface; margin: 1 0; }
    AccountName #keys { color: $faint; text-align: right; }
    """

    def __init__(self, server: str, taken: tuple[str, ...]) -> None:
        super().__init__()
        self.server, self.taken = server, taken

    def compose(self) -> ComposeResult:
        with Vertical(id="box") as box:
            box.border_title = Content(clean_line(f"Sign in to {self.server} under another name", 80))
            yield Static(Content.styled(ABOUT, "$muted"), markup=False)
            yield TextLine(placeholder="work", id="name", max_length=MOST_NAME, compact=True)
            yield Static("", id="fault", markup=False)
            yield Static("enter signs in · esc back", id="keys", markup=False)

    def on_input_changed(self, event: Input.Changed) -> None:
        """Say what is wrong with it, or what it means."""
        event.stop()
        self.query_one("#fault", Static).update(self._said(event.value))

    def _said(self, text: str) -> Content:
        try:
            name = name_of(text)
        except UsageError as error:
            return Content.styled(error.message, "$error")
        again = f"{name} is signed in already; this signs in anew." if name in self.taken else ""
        return Content.styled(clean_line(again, 120), "$warning")

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """A name that can be one."""
        event.stop()
        try:
            name = name_of(event.value)
        except UsageError:
            return
        if name:
            self.dismiss(name)

    def action_leave(self) -> None:
        """Sign in nowhere."""
        self.dismiss(None)
