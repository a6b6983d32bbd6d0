"""Text inputs that handle keys in the order they were pressed, single or as a labeled group."""

import asyncio
from contextlib import suppress
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.geometry import Offset
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Input, Static, TextArea


async def run_key_binding(widget: Input | TextArea, event: events.Key) -> None:
    """Run the widget's binding for a key when the widget receives the key.

    Textual inserts letters when the widget receives them, but runs bindings such as backspace only after the key has
    bubbled up to the app. On a busy screen, backspace would delete letters typed after it.
    """
    for binding in () if event.is_printable else widget._bindings.key_to_bindings.get(event.key, ()):  # pyright: ignore[reportPrivateUsage]
        if not binding.priority and await widget.app.run_action(binding.action, widget):  # pyright: ignore[reportUnknownMemberType]
            event.stop()
            event.prevent_default()
            return


async def wait_for_typed_text(*fields: Widget) -> None:
    """Wait until the fields have received all keys that were pressed before this call, at most a second each."""
    for field in fields:
        arrived = asyncio.Event()
        if field.call_later(arrived.set):
            with suppress(TimeoutError):
                async with asyncio.timeout(1):
                    await arrived.wait()


class OrderedInput(Input):
    """Input that runs editing keys such as backspace in the order they were pressed."""

    async def _on_key(self, event: events.Key) -> None:
        await run_key_binding(self, event)


class OrderedTextArea(TextArea):
    """TextArea that runs editing keys such as backspace in the order they were pressed."""

    def scroll_cursor_visible(self, center: bool = False, animate: bool = False) -> Offset:
        """Scroll to the cursor unless its line was just removed by an undo.

        Textual 8.2.8 moves the cursor only after changing the text. If a scrollbar appears in between, it looks up a
        line that no longer exists (ValueError). It scrolls again when the cursor has moved.
        """
        if self.cursor_location[0] >= self.document.line_count:
            return Offset()
        return super().scroll_cursor_visible(center=center, animate=animate)

    async def _on_key(self, event: events.Key) -> None:
        await run_key_binding(self, event)


class LabeledInput(Horizontal):
    """One-line input with a label to its left.

    *name* is the label, *widget_id* the id of the Input inside; *hidden* masks the text, for passwords.
    """

    DEFAULT_CSS: ClassVar[str] = """
    LabeledInput { height: 1; margin-bottom: 1; }
    LabeledInput Static { width: 16; color: $muted; }
    LabeledInput Input { width: 1fr; border: none; height: 1; background: $surface; }
    """

    def __init__(self, name: str, widget_id: str, *, hidden: bool = False, placeholder: str = "") -> None:
        super().__init__()
        self._label = Content(name)
        self._input = OrderedInput(placeholder=placeholder, id=widget_id, password=hidden, compact=True)

    def compose(self) -> ComposeResult:
        """Create the label and the input."""
        yield Static(self._label, markup=False)
        yield self._input


class LabeledInputGroup(Vertical):
    """Column of labeled inputs: Enter focuses the next input and posts `Submitted`.

    The focus moves before later keys are handled; the values are read after earlier keys have arrived.
    """

    DEFAULT_CSS: ClassVar[str] = "LabeledInputGroup { height: auto; }"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "next_input", show=False, priority=True)]

    class Submitted(Message):
        """Message posted when the user presses Enter.

        `index` is the position of the focused input, starting at 0; `values` are the texts of all inputs.
        """

        def __init__(self, index: int, values: tuple[str, ...]) -> None:
            super().__init__()
            self.index = index
            self.values = values

    def __init__(self, *lines: LabeledInput) -> None:
        super().__init__(*lines)

    @property
    def inputs(self) -> list[Input]:
        """The inputs, from top to bottom."""
        return list(self.query(Input))

    def focus_input(self, index: int = 0) -> None:
        """Focus the input at this position, starting at 0."""
        self.screen.set_focus(self.inputs[index])

    def action_next_input(self) -> None:
        """Focus the next input, then post `Submitted` with the values of all inputs."""
        boxes = self.inputs
        at = next((number for number, box in enumerate(boxes) if box is self.screen.focused), 0)
        if at + 1 < len(boxes):
            self.focus_input(at + 1)
        values: dict[int, str] = {}

        def arrived(number: int) -> None:
            """Record the value of an input whose earlier keys were handled; after the last, post `Submitted`."""
            values[number] = boxes[number].value
            if len(values) == len(boxes):
                self.post_message(self.Submitted(at, tuple(values[one] for one in range(len(boxes)))))

        for number, box in enumerate(boxes):
            box.call_later(arrived, number)
