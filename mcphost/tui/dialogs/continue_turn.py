"""The model used up its rounds of tool calls: may it go on?"""

from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.content import Content

from mcphost.host.questions.questions import ContinueTurn
from mcphost.tui.dialogs.dialog import Dialog


class ContinueTurnDialog(Dialog[bool]):
    """May the model go on for as many rounds again?"""

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
        return "Go on?"

    def preview(self) -> str:
        return f"The model asked for tools {self.rounds} times in this turn."

    def body(self) -> list[Content]:
        return [
            Content(
                f"The model asked for tools {self.rounds} times in this turn. It may be stuck, or the task is long. "
                f"Going on allows up to {self.rounds} more rounds; every call is still subject to your approval."
            )
        ]

    def action_continue(self) -> None:
        """As many rounds again."""
        self.dismiss(True)
