"""Input widgets for form fields: text, numbers, dates, JSON and checkboxes.

They extend Textual's widgets in two ways: a field can be without a value, and its state is shown by symbols as
well as colors.
"""

from itertools import islice
from typing import Any, ClassVar, Self

from textual import events
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.geometry import Size
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Checkbox, Input, TextArea

from mcphost.errors import MalformedMessage
from mcphost.host.questions.form_fields import Field, accepts_empty_list, accepts_empty_text, is_text_list
from mcphost.serialization import dumps, loads
from mcphost.translation import _
from mcphost.tui.widgets.text_inputs import OrderedInput, OrderedTextArea, make_compact


class FieldChanged(Message):
    """Posted when the value of a field has changed."""


class FocusMoveRequested(Message):
    """Posted when a key moves the focus out of a field; `direction` is 1 (next) or -1 (previous)."""

    def __init__(self, direction: int) -> None:
        super().__init__()
        self.direction = direction


class PasteRefused(Message):
    """Posted when a masked input did not insert pasted text, because the text has several lines."""


EXIT_KEYS = {"enter": 1, "down": 1, "up": -1}
"""Keys that leave a single-line field, with their direction: 1 to the next field, -1 to the previous one."""


def request_focus_move(widget: Widget, direction: int) -> bool:
    """Ask the form to move the focus away from *widget*; do nothing and return False if *direction* is 0."""
    return bool(direction) and widget.post_message(FocusMoveRequested(direction))


def describe_missing(field: Field) -> str:
    """Return the text that is shown in an empty field.

    The text states that a value must be chosen if the field is required, and otherwise that no value is sent.
    """
    return _("to be chosen") if field.required else _("not sent")


class TristateCheckbox(Checkbox, inherit_bindings=False):
    """Checkbox for a boolean field: yes, no or, if the field is optional, no value.

    A field without a value is omitted from the values that are sent.
    """

    DEFAULT_CSS: ClassVar[str] = """
    TristateCheckbox, TristateCheckbox:focus { border: none; padding: 0 1; background-tint: $foreground 0%; }
    TristateCheckbox > .toggle--button, TristateCheckbox.missing > .toggle--button {
        color: $muted; background: transparent;
    }
    TristateCheckbox.-on > .toggle--button { color: $accent; background: transparent; }
    TristateCheckbox > .toggle--label { color: $text; background: transparent; }
    TristateCheckbox.missing > .toggle--label { color: $faint; }
    TristateCheckbox:focus > .toggle--label {
        color: $accent; background: transparent; text-style: bold;
    }
    TristateCheckbox:blur:hover > .toggle--label { background: transparent; }
    """

    scrolls_pages = False
    BUTTON_LEFT: str = ""
    BUTTON_RIGHT: str = ""

    def __init__(self, field: Field, value: Any) -> None:
        self.field = field
        self.field_value: bool | None = value if isinstance(value, bool) else None
        super().__init__(value=self.field_value is True)
        self._show_value()

    @property
    def key_hints(self) -> str:
        """The key hints that the form shows while the field has the focus."""
        return _("space, y, n") if self.field.required else _("space, y, n · backspace: not sent")

    @property
    def _answers(self) -> list[bool | None]:
        return [True, False] if self.field.required else [True, False, None]

    def exit_direction(self, key: str) -> int:
        """Return 1 if *key* moves the focus to the next field, -1 for the previous field, and 0 otherwise."""
        return EXIT_KEYS.get(key, 0)

    async def _on_key(self, event: events.Key) -> None:
        match event.key:
            case "space":
                self._set_value(not self.field_value)
            case "y" | "n":
                self._set_value(event.key == "y")
            case "left" | "right":
                self._cycle(1 if event.key == "right" else -1)
            case "backspace" | "delete":
                self._set_value(self.field_value if self.field.required else None)
            case key if not request_focus_move(self, self.exit_direction(key)):
                return
            case _:
                pass
        event.stop()

    def toggle(self) -> Self:
        """Switch to the next state, in the order yes, no and, if the field is optional, no value."""
        self._cycle(1)
        return self

    def _cycle(self, by: int) -> None:
        order = self._answers
        at = order.index(self.field_value) if self.field_value in order else -1
        self._set_value(order[(at + by) % len(order)])

    def _set_value(self, value: bool | None) -> None:
        self.field_value = value
        with self.prevent(Checkbox.Changed):
            self.value = value is True
        self._show_value()
        self.post_message(FieldChanged())

    def _show_value(self) -> None:
        value = self.field_value
        self.BUTTON_INNER = "–" if value is None else "■" if value else "□"
        self.set_class(value is None, "missing", update=self.is_attached)
        self.label = Content(describe_missing(self.field) if value is None else _("yes") if value else _("no"))


MAX_EDITABLE_LENGTH = 4_000
_MAX_INLINE_JSON = 60
_KINDS_WITH_LINES = ("text", "texts", "json")
INVALID_JSON = object()
"""Value of a JSON field whose text is not valid JSON."""
JSON_NULL = object()
"""Value of a JSON field that contains `null`, which is sent; a field with the value None is not sent."""


class TextEntry(OrderedTextArea, inherit_component_classes=False):
    """Multi-line input for a string, a list of strings (one per line), a number or JSON.

    The height grows with the text. Enter, Down in the last row and Up in the first row move to another field.
    """

    COMPONENT_CLASSES: ClassVar[set[str]] = OrderedTextArea.PLAIN_COMPONENTS
    BINDINGS: ClassVar[list[BindingType]] = [Binding("ctrl+t", "empty_text", show=False)]

    def __init__(self, field: Field, value: Any) -> None:
        self.field = field
        self._is_empty_text = (value == "" and accepts_empty_text(field)) or (value == [] and accepts_empty_list(field))
        self._was_focused = False
        super().__init__(
            format_value(field, value),
            soft_wrap=True,
            highlight_cursor_line=False,
            placeholder=self._placeholder(),
        )
        make_compact(self)

    def on_focus(self) -> None:
        """Move the cursor to the end of the text when the input gets the focus for the first time."""
        if not self._was_focused:
            self._was_focused = True
            self.move_cursor(self.document.end)

    def _size_updated(self, size: Size, virtual_size: Size, container_size: Size, layout: bool = True) -> bool:
        # Textual 8.2.8 sends no Resize event if a region was looked up between mounting and the first layout. The text
        # was then never wrapped, so the user saw only one row of a long value before sending it.
        is_changed = super()._size_updated(size, virtual_size, container_size, layout)
        if is_changed:
            self.call_later(self._rewrap_and_refresh_virtual_size)
        return is_changed

    def _placeholder(self) -> str:
        if self._is_empty_text:
            return _("[] · the empty list is sent") if self.field.kind == "texts" else _('"" · the empty text is sent')
        return _describe_empty(self.field)

    @property
    def field_value(self) -> Any:
        """The text converted to the field's type; None if the field is empty.

        Invalid JSON becomes INVALID_JSON; an invalid number remains a string.
        """
        if not self.text and self._is_empty_text:
            return [] if self.field.kind == "texts" else ""
        return _parse_text(self.field, self.text)

    @property
    def scrolls_pages(self) -> bool:
        """Whether Page up and Page down scroll this widget; otherwise, they show another page of the form."""
        return self.virtual_size.height > self.size.height > 0

    @property
    def key_hints(self) -> str:
        """The key hints that the form shows while the field has the focus."""
        lines = _("ctrl+j new line") if self.field.kind in _KINDS_WITH_LINES and not self.field.format else ""
        sends_empty = _("ctrl+t empty list") if self.field.kind == "texts" else _("ctrl+t empty text")
        empty = (_("ctrl+t not sent") if self._is_empty_text else sends_empty) if self._may_be_empty else ""
        return " · ".join(word for word in (lines, empty) if word)

    @property
    def _may_be_empty(self) -> bool:
        return not self.text and (accepts_empty_text(self.field) or accepts_empty_list(self.field))

    def action_empty_text(self) -> None:
        """If the field is empty, switch between sending no value and sending an empty string or list."""
        if self._may_be_empty:
            self._is_empty_text = not self._is_empty_text
            self.placeholder = self._placeholder()
            self.post_message(FieldChanged())

    def on_text_area_changed(self, event: TextArea.Changed) -> None:
        """Replace `TextArea.Changed` with FieldChanged, the message that the form handles."""
        event.stop()
        if self.text and self._is_empty_text:
            self._is_empty_text = False
            self.placeholder = self._placeholder()
        self.post_message(FieldChanged())

    def exit_direction(self, key: str) -> int:
        """Return 1 if *key* moves the focus to the next field, -1 for the previous field, and 0 otherwise."""
        row = self.wrapped_document.location_to_offset(self.cursor_location).y
        stays = (key == "up" and row > 0) or (key == "down" and row < self.wrapped_document.height - 1)
        return 0 if stays else EXIT_KEYS.get(key, 0)

    async def _on_key(self, event: events.Key) -> None:
        if self._process_own_key(event.key):
            event.stop()
            event.prevent_default()
            return
        await super()._on_key(event)

    def _process_own_key(self, key: str) -> bool:
        if request_focus_move(self, self.exit_direction(key)):
            return True
        if key in {"ctrl+j", "shift+enter", "alt+enter"} and self.field.kind in _KINDS_WITH_LINES:
            self.insert("\n")
        elif key == "backspace":
            # A binding would run after letters that were typed later.
            self.action_delete_left()
        else:
            return False
        return True


class LineEntry(OrderedInput):
    """Single-line input for a number, date or time, or for text that is masked like a password."""

    key_hints = ""
    scrolls_pages = False

    def __init__(self, field: Field, value: Any, *, is_masked: bool = False) -> None:
        self.field = field
        # `type` and `restrict` would drop invalid characters silently; an error message is better.
        super().__init__(
            format_value(field, value),
            placeholder=_describe_empty(field),
            select_on_focus=False,
            password=is_masked,
        )
        make_compact(self)

    @property
    def text(self) -> str:
        """The text as the user typed it, before it is converted to the field's type."""
        return self.value

    @text.setter
    def text(self, text: str) -> None:
        self.value = text

    @property
    def field_value(self) -> Any:
        """The text converted to the field's type, or None if the input is empty.

        An invalid number remains a string.
        """
        return _parse_text(self.field, self.value)

    def on_input_changed(self, event: Input.Changed) -> None:
        """Replace `Input.Changed` with FieldChanged, the message that the form handles."""
        event.stop()
        self.post_message(FieldChanged())

    def exit_direction(self, key: str) -> int:
        """Return 1 if *key* moves the focus to the next field, -1 for the previous field, and 0 otherwise."""
        return EXIT_KEYS.get(key, 0)

    async def _on_key(self, event: events.Key) -> None:
        if request_focus_move(self, self.exit_direction(event.key)):
            event.stop()
            event.prevent_default()
            return
        await super()._on_key(event)

    def _on_paste(self, event: events.Paste) -> None:
        # Textual inserts only the first line, and behind the mask nobody sees that the rest is missing.
        if self.password and len(event.text.rstrip().splitlines()) > 1:
            event.stop()
            event.prevent_default()
            self.post_message(PasteRefused())


def _describe_empty(field: Field) -> str:
    return _("required") if field.required else _("not sent")


def format_value(field: Field, value: Any) -> str:
    """Return *value* as editable text.

    - None becomes "", and JSON_NULL becomes "null".
    - A string stays unchanged, unless *field* is a JSON field.
    - A list of strings becomes one line per string, if *field* is such a list.
    - Any other value becomes JSON.
    """
    if value is None:
        return ""
    if value is JSON_NULL:
        return "null"
    if isinstance(value, str) and field.kind != "json":
        return value
    if field.kind == "texts" and is_text_list(value):
        return "\n".join(value)
    text = dumps(value)
    return text if len(text) <= _MAX_INLINE_JSON else dumps(value, indent=2)


def _parse_text(field: Field, text: str) -> Any:
    match field.kind:
        case "text":
            return text or None
        case "texts":
            return [line for line in _split_lines(text) if line.strip()] or None
        case "json":
            try:
                value = loads(text, "JSON") if text.strip() else None
                return JSON_NULL if value is None and text.strip() else value
            except MalformedMessage:
                return INVALID_JSON
        case _:
            return _parse_number(text.strip()) if text.strip() else None


def _split_lines(text: str) -> list[str]:
    return text.replace("\r\n", "\n").split("\n")


def line_of_item(text: str, item: int) -> int:
    """Return the line number, counted from 1, of the nonblank line with index *item*, counted from 0.

    Return 0 if *text* has no such line. Each nonblank line of *text* is an item of a list.
    """
    numbers = (number for number, line in enumerate(_split_lines(text), 1) if line.strip())
    return next(islice(numbers, item, None), 0)


def count_blank_lines(text: str) -> int:
    """Return the number of blank lines in *text*; a final line break does not begin another blank line."""
    return sum(not line.strip() for line in _split_lines(text.removesuffix("\n")) if text)


def _parse_number(text: str) -> Any:
    """Convert *text* to an int or a float; return it unchanged if it is not a number."""
    try:
        return int(text) if len(text) <= 400 else text
    except ValueError:
        try:
            return float(text) if "_" not in text else text
        except ValueError:
            return text
