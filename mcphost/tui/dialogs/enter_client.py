"""Dialog for the client id of a manual registration, for a server without dynamic registration."""

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widget import Widget

from mcphost.host.questions.sign_in import ClientVerdict, DeclineClient, EnterClientId, EnteredClient
from mcphost.tui.dialogs.dialog import Dialog
from mcphost.tui.screen_text import clean, clean_line
from mcphost.tui.widgets.key_values import KeyValueList
from mcphost.tui.widgets.prompt_line import LabeledInput, LabeledInputGroup


class EnterClientIdDialog(Dialog[ClientVerdict]):
    """Ask for the client id and secret of mcphost at an authorization server."""

    SHOW_ACCOUNT: ClassVar[bool] = False
    BUTTONS: ClassVar[tuple[tuple[str, str], ...]] = (("refuse", "Cancel"), ("enter", "Enter the client id"))
    KEYS: ClassVar[str] = "esc/d cancel · e enter the client id"
    INPUT_ACTIONS: ClassVar[frozenset[str]] = frozenset({"enter"})
    INPUT_KEYS: ClassVar[str] = "enter goes on · esc goes back"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("d", "refuse", show=False),
        Binding("e", "enter", show=False, priority=True),
    ]

    def __init__(self, question: EnterClientId) -> None:
        super().__init__(question)
        self.details = question

    def headline(self) -> str:
        """Return the title."""
        return f"Enter a client id for {self.details.server}?"

    def preview(self) -> str:
        """Return the subject for the card."""
        return f"mcphost must be registered at {self.details.issuer}"

    def body(self) -> list[Content | Widget]:
        """Return the content of the dialog."""
        asked = self.details
        pairs = [("register mcphost at", clean(asked.issuer)), ("for the address", clean(asked.redirect_uri))]
        if asked.account:
            pairs.append(("account", clean_line(asked.account, 100)))
        return [
            Content.styled(clean(asked.note) + "\n", "bold $warning"),
            Content(
                "mcphost must be registered there before you can sign in. Register it, then enter its client id.\n"
            ),
            KeyValueList(pairs),
            Content.styled(
                "\nThe id and secret are sent only there, and saved with your sign-ins after a successful sign-in. "
                "Do not enter your own password.",
                "$faint",
            ),
        ]

    def compose_extra(self) -> ComposeResult:
        """Yield the inputs."""
        yield LabeledInputGroup(
            LabeledInput("client id", "client"),
            LabeledInput("client secret", "secret", hidden=True, placeholder="if there is one; not shown"),
        )

    def action_refuse(self) -> None:
        """Cancel the sign-in; from the open inputs, go back to the buttons first."""
        if not self.close_extra():
            self.dismiss(DeclineClient())

    def action_enter(self) -> None:
        """Open the inputs."""
        self.open_extra("client", self.INPUT_KEYS)

    def on_labeled_input_group_submitted(self, event: LabeledInputGroup.Submitted) -> None:
        """Move from the id to the secret, then answer."""
        event.stop()
        client, secret = (value.strip() for value in event.values)
        if not client:
            self.query_one(LabeledInputGroup).focus_input()
        elif event.index:
            self.dismiss(EnteredClient(client, secret))
