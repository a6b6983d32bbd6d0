"""Form for the name of an additional account of a server."""

from textual.app import ComposeResult
from textual.content import Content
from textual.widgets import Input, Static

from mcphost.errors import UsageError
from mcphost.host.servers.accounts import MAX_NAME, parse_account_name
from mcphost.tui.screen_text import clean_line
from mcphost.tui.screens.form_screen import FormScreen
from mcphost.tui.widgets.ordered_input import OrderedInput

ABOUT = (
    "You sign in with an additional account, and mcphost uses it from then on. The name is yours "
    "to choose. If the browser remembers another account there, sign out of it first."
)


class AccountNameForm(FormScreen[str]):
    """One field; ends with the name, or None. *taken* are existing names: signing in with one replaces that sign-in."""

    DEFAULT_CSS = """
    AccountNameForm #box { max-width: 76; }
    AccountNameForm Input { border: none; height: 1; background: $surface; margin: 1 0; }
    """

    def __init__(self, server: str, existing_names: tuple[str, ...]) -> None:
        super().__init__()
        self.server, self.existing_names = server, existing_names

    def headline(self) -> str:
        """Return the title."""
        return f"Sign in to {self.server} under another name"

    def body(self) -> ComposeResult:
        """Yield the name field."""
        yield Static(Content.styled(ABOUT, "$muted"), markup=False)
        yield OrderedInput(placeholder="work", id="name", max_length=MAX_NAME, compact=True)

    def key_hints(self) -> str:
        """Return the line that explains the keys."""
        return "enter signs in · esc back"

    def on_input_changed(self, event: Input.Changed) -> None:
        """Show an error, or what the name does."""
        event.stop()
        self.query_one("#fault", Static).update(self._name_message(event.value))

    def _name_message(self, text: str) -> Content:
        try:
            name = parse_account_name(text)
        except UsageError as error:
            return Content.styled(error.message, "$error")
        again = f"{name} is signed in already; this signs in again." if name in self.existing_names else ""
        return Content.styled(clean_line(again, 120), "$warning")

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Accept a valid name."""
        event.stop()
        try:
            name = parse_account_name(event.value)
        except UsageError:
            return
        if name:
            self.dismiss(name)
