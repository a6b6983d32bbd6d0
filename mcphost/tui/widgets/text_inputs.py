"""Text inputs that handle keys in the order in which the user pressed them, alone or in a group with labels."""

import asyncio
from contextlib import suppress
from typing import ClassVar

from rich.style import Style
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.geometry import Offset
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Input, Static, TextArea

from mcphost.tui.screen_reader import is_reader
from mcphost.tui.widgets.styled_on_mount import StyledOnMount


async def run_key_binding(widget: Input | TextArea, event: events.Key) -> None:
    """Run the widget's binding for a key as soon as the key reaches the widget.

    Textual itself inserts letters at this time, but runs bindings such as Backspace only after the key has bubbled up
    to the app. In a busy app, Backspace would therefore delete letters that were typed after it.
    """
    for binding in () if event.is_printable else widget._bindings.key_to_bindings.get(event.key, ()):  # pyright: ignore[reportPrivateUsage]
        if not binding.priority and await widget.app.run_action(binding.action, widget):  # pyright: ignore[reportUnknownMemberType]
            event.stop()
            event.prevent_default()
            return


async def wait_for_typed_text(*fields: Widget) -> None:
    """Wait until *fields* have received every key pressed so far, for at most one second per field."""
    for field in fields:
        arrived = asyncio.Event()
        if field.call_later(arrived.set):
            with suppress(TimeoutError):
                async with asyncio.timeout(1):
                    await arrived.wait()


def make_compact(widget: Input | TextArea) -> None:
    """Remove the border of an input that was just created.

    This is faster than Textual's `compact=True`, which matches the widget against all style rules once more than
    necessary. For a text area, this takes 3 milliseconds.
    """
    widget.add_class("-textual-compact", update=False)
    widget.set_reactive(Input.compact if isinstance(widget, Input) else TextArea.compact, True)  # pyright: ignore[reportArgumentType]


class OrderedInput(StyledOnMount, Input, inherit_component_classes=False):
    """Input that handles letters and editing keys such as Backspace in the order of the key presses.

    It shows no suggestions, so it lacks the component class for these.
    """

    COMPONENT_CLASSES: ClassVar[set[str]] = {"input--cursor", "input--placeholder", "input--selection"}

    def on_mount(self) -> None:
        """Stop the cursor from blinking in screen reader mode."""
        self.cursor_blink = not is_reader(self)

    def process_key(self, key: str) -> bool:
        """Handle a key that the input uses, such as Tab; return whether it was handled. By default, use no key."""
        del key
        return False

    async def _on_key(self, event: events.Key) -> None:
        await run_key_binding(self, event)


class OrderedTextArea(StyledOnMount, TextArea, inherit_component_classes=False):
    """TextArea that handles letters and editing keys such as Backspace in the order of the key presses.

    It has no line numbers and shows no suggestions, so it lacks the component classes for these. A subclass that does
    not highlight the cursor's line should use PLAIN_COMPONENTS.
    """

    PLAIN_COMPONENTS: ClassVar[set[str]] = {
        "text-area--cursor",
        "text-area--matching-bracket",
        "text-area--placeholder",
        "text-area--selection",
    }

    COMPONENT_CLASSES: ClassVar[set[str]] = PLAIN_COMPONENTS | {"text-area--cursor-line"}

    def get_component_rich_style(self, *names: str, partial: bool = False, default: Style | None = None) -> Style:
        """Return the style of a component; if this widget does not have it, return *default* or an empty style."""
        empty = Style.null() if default is None else default
        return super().get_component_rich_style(*names, partial=partial, default=empty)

    def on_mount(self) -> None:
        """Stop the cursor from blinking in screen reader mode."""
        self.cursor_blink = not is_reader(self)

    def scroll_cursor_visible(self, center: bool = False, animate: bool = False) -> Offset:
        """Scroll to the cursor, unless an undo has just removed the line that the cursor was on.

        Textual 8.2.8 changes the text first and moves the cursor afterwards. If a scrollbar appears in between,
        scrolling would look up the removed line and raise ValueError. Textual scrolls again once the cursor has moved.
        """
        if self.cursor_location[0] >= self.document.line_count:
            return Offset()
        return super().scroll_cursor_visible(center=center, animate=animate)

    async def _on_key(self, event: events.Key) -> None:
        await run_key_binding(self, event)


class LabeledInput(Horizontal):
    """One-line input with a label on its left.

    *name* is the label, and *widget_id* is the id of the Input. If *hidden* is true, the text is masked like a
    password.
    """

    DEFAULT_CSS: ClassVar[str] = """
    LabeledInput { height: 1; margin-bottom: 1; }
    LabeledInput Static { width: 16; color: $muted; }
    LabeledInput Input { width: 1fr; border: none; height: 1; background: $surface; }
    """

    def __init__(self, name: str, widget_id: str, *, hidden: bool = False, placeholder: str = "") -> None:
        super().__init__()
        self._label = Content(name)
        self._input = OrderedInput(placeholder=placeholder, id=widget_id, password=hidden)
        make_compact(self._input)

    def compose(self) -> ComposeResult:
        """Create the label and the input."""
        yield Static(self._label, markup=False)
        yield self._input


class LabeledInputGroup(Vertical):
    """Column of labeled inputs in which Enter focuses the next input and posts `Submitted`.

    The focus moves before any later key is handled. The posted values include everything typed before Enter.
    """

    DEFAULT_CSS: ClassVar[str] = "LabeledInputGroup { height: auto; }"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "next_input", show=False, priority=True)]

    class Submitted(Message):
        """Posted when the user presses Enter.

        `index` is the position of the input in which Enter was pressed, starting at 0; `values` contains the text of
        each input.
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
        """Focus the input at position *index*, starting at 0."""
        self.screen.set_focus(self.inputs[index])

    def action_next_input(self) -> None:
        """Focus the next input, if any, then post `Submitted` with the values of all inputs."""
        boxes = self.inputs
        at = next((number for number, box in enumerate(boxes) if box is self.screen.focused), 0)
        if at + 1 < len(boxes):
            self.focus_input(at + 1)
        values: dict[int, str] = {}

        def arrived(number: int) -> None:
            """Record the value of input *number*, which has received all keys pressed before Enter.

            Once the values of all inputs are recorded, post `Submitted`.
            """
            values[number] = boxes[number].value
            if len(values) == len(boxes):
                self.post_message(self.Submitted(at, tuple(values[one] for one in range(len(boxes)))))

        for number, box in enumerate(boxes):
            box.call_later(arrived, number)
