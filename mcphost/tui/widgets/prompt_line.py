"""One line to type into with its name before it, so that it is known what it is for; and several, one after the other.

What is typed right after Enter belongs to the next line, however fast it comes: a slow connection brings a pass phrase,
Enter and the same again as one piece.
"""

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.message import Message
from textual.widgets import Input, Static

from mcphost.tui.widgets.ordered_input import OrderedInput


class LabeledInput(Horizontal):
    """`name` is ours, not a server's; `ident` is the id of the Input. What is typed `hidden` is drawn as dots."""

    DEFAULT_CSS: ClassVar[str] = """
    LabeledInput { height: 1; margin-bottom: 1; }
    LabeledInput Static { width: 16; color: $muted; }
    LabeledInput Input { width: 1fr; border: none; height: 1; background: $surface; }
    """

    def __init__(self, name: str, ident: str, *, hidden: bool = False, placeholder: str = "") -> None:
        super().__init__()
        self._label = Content(name)
        self._input = OrderedInput(placeholder=placeholder, id=ident, password=hidden, compact=True)

    def compose(self) -> ComposeResult:
        yield Static(self._label, markup=False)
        yield self._input


class LabeledInputGroup(Vertical):
    """Lines that are filled in one after the other: Enter leads to the next, and in the last one it is Filled.

    The focus moves at once, before any later key is handed on; what a line holds is read only after everything that was
    typed into it before has arrived there.
    """

    DEFAULT_CSS: ClassVar[str] = "LabeledInputGroup { height: auto; }"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "next_input", show=False, priority=True)]

    class Submitted(Message):
        """Enter was typed in line `at`, counted from 0; `values` are what all held then, those after it included."""

        def __init__(self, index: int, values: tuple[str, ...]) -> None:
            super().__init__()
            self.index = index
            self.values = values

    def __init__(self, *lines: LabeledInput) -> None:
        super().__init__(*lines)

    @property
    def inputs(self) -> list[Input]:
        """What is typed into."""
        return list(self.query(Input))

    def focus_input(self, index: int = 0) -> None:
        """From now on what is typed belongs to that line."""
        self.screen.set_focus(self.inputs[index])

    def action_next_input(self) -> None:
        """To the next line."""
        boxes = self.inputs
        at = next((number for number, box in enumerate(boxes) if box is self.screen.focused), 0)
        if at + 1 < len(boxes):
            self.focus_input(at + 1)
        values: dict[int, str] = {}

        def arrived(number: int) -> None:
            values[number] = boxes[number].value
            if len(values) == len(boxes):
                self.post_message(self.Submitted(at, tuple(values[one] for one in range(len(boxes)))))

        for number, box in enumerate(boxes):
            box.call_later(arrived, number)
