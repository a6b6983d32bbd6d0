"""Dialog to continue a turn that used up its rounds of tool calls."""

from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.content import Content

from mcphost.host.questions.questions import ContinueTurn
from mcphost.tui.dialogs.dialog import Dialog


class ContinueTurnDialog(Dialog[bool]):
    """Ask whether the model may continue for the same number of rounds."""

    BUTTONS: ClassVar[tuple[tuple[str, str], ...]] = (("refuse", "Stop here"), ("continue", "Go on"))
    KEYS: ClassVar[str] = "esc/d stop here · g go on"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("d", "refuse", show=False),
        Binding("g", "continue", show=False),
    ]

    def __init__(self, question: ContinueTurn) -> None:
        super().__init__(question)
        self.rounds = question.rounds

    def headline(self) -> str:
        """Return the title."""
        return "Continue?"

    def preview(self) -> str:
        """Return the subject for the card."""
        return f"The model asked for tools {self.rounds} times in this turn."

    def body(self) -> list[Content]:
        """Return the content of the dialog."""
        return [
            Content(
                f"The model asked for tools {self.rounds} times in this turn. It may be stuck, or the task is long. "
                f"Going on allows up to {self.rounds} more rounds; every call is still subject to your approval."
            )
        ]

    def action_continue(self) -> None:
        """Allow the same number of rounds again."""
        self.dismiss(True)
