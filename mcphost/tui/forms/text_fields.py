"""Input widgets for form fields whose value is typed, and a read-only widget for unsafe values."""

from typing import Any, ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.geometry import Size
from textual.message import Message
from textual.widgets import Input, Static, TextArea

from mcphost.errors import MalformedMessage
from mcphost.host.questions.form_fields import Field, accepts_empty_text
from mcphost.serialization import dumps, loads
from mcphost.translation import N_, _
from mcphost.tui.forms.field_messages import EXIT_KEYS, FieldChanged, request_focus_move
from mcphost.tui.screen_text import clean
from mcphost.tui.widgets.inputs import OrderedInput, OrderedTextArea

MAX_EDITABLE_LENGTH = 4_000
_MAX_INLINE_JSON = 60
INVALID_JSON = object()
"""Value of a JSON field whose text is not valid JSON."""
JSON_NULL = object()
"""Value of a JSON field whose text is `null`, which is sent as null; a field with the value None is not sent."""


class TextEntry(OrderedTextArea):
    """Multi-line input for a text, number or JSON field; its height grows with the text.

    Enter, Down in the last row and Up in the first row move to another field.
    """

    BINDINGS: ClassVar[list[BindingType]] = [Binding("ctrl+t", "empty_text", show=False)]

    def __init__(self, field: Field, value: Any) -> None:
        self.field = field
        self._is_empty_text = value == "" and accepts_empty_text(field)
        super().__init__(
            format_value(field, value),
            compact=True,
            soft_wrap=True,
            highlight_cursor_line=False,
            placeholder=self._placeholder(),
        )

    def on_mount(self) -> None:
        """Move the cursor to the end of the text."""
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
            return _('"" · the empty text is sent')
        return _describe_empty(self.field)

    @property
    def field_value(self) -> Any:
        """The text converted to the field's type; None if the field is empty.

        Invalid JSON becomes INVALID_JSON; an invalid number remains a string.
        """
        return "" if not self.text and self._is_empty_text else _parse_text(self.field, self.text)

    @property
    def key_hints(self) -> str:
        """The key hints to show while the field has the focus."""
        lines = _("ctrl+j new line") if self.field.kind in ("text", "json") and not self.field.format else ""
        offer = accepts_empty_text(self.field) and not self.text
        empty = (_("ctrl+t not sent") if self._is_empty_text else _("ctrl+t empty text")) if offer else ""
        return " · ".join(word for word in (lines, empty) if word)

    def action_empty_text(self) -> None:
        """In an empty field, toggle between sending an empty string and sending no value."""
        if accepts_empty_text(self.field) and not self.text:
            self._is_empty_text = not self._is_empty_text
            self.placeholder = self._placeholder()
            self.post_message(FieldChanged())

    def on_text_area_changed(self, event: TextArea.Changed) -> None:
        """Post FieldChanged instead of TextArea's own message."""
        event.stop()
        if self.text and self._is_empty_text:
            self._is_empty_text = False
            self.placeholder = self._placeholder()
        self.post_message(FieldChanged())

    def exit_direction(self, key: str) -> int:
        """Return 1 if the key moves the focus to the next field, -1 to the previous field, otherwise 0."""
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
        if key in {"ctrl+j", "shift+enter", "alt+enter"} and self.field.kind in ("text", "json"):
            self.insert("\n")
        elif key == "backspace":
            # A binding would run after letters that were typed later.
            self.action_delete_left()
        else:
            return False
        return True


class LineEntry(OrderedInput):
    """Single-line input for a number, date or time."""

    key_hints = ""

    def __init__(self, field: Field, value: Any) -> None:
        self.field = field
        # `type` and `restrict` are not used, because they silently drop invalid characters; an error is better.
        super().__init__(
            format_value(field, value), placeholder=_describe_empty(field), select_on_focus=False, compact=True
        )

    @property
    def text(self) -> str:
        """The text as the user typed it, not converted."""
        return self.value

    @text.setter
    def text(self, text: str) -> None:
        self.value = text

    @property
    def field_value(self) -> Any:
        """The text converted to the field's type; None if it is empty, a string for an invalid number."""
        return _parse_text(self.field, self.value)

    def on_input_changed(self, event: Input.Changed) -> None:
        """Post FieldChanged instead of Input's own message."""
        event.stop()
        self.post_message(FieldChanged())

    def exit_direction(self, key: str) -> int:
        """Return 1 if the key moves the focus to the next field, -1 to the previous field, otherwise 0."""
        return EXIT_KEYS.get(key, 0)

    async def _on_key(self, event: events.Key) -> None:
        if request_focus_move(self, self.exit_direction(event.key)):
            event.stop()
            event.prevent_default()
            return
        await super()._on_key(event)


def _describe_empty(field: Field) -> str:
    return _("required") if field.required else _("not sent")


def format_value(field: Field, value: Any) -> str:
    """Format a value for editing: a string unchanged, anything else as JSON, and "" for None."""
    if value is None:
        return ""
    if value is JSON_NULL:
        return "null"
    if isinstance(value, str) and field.kind != "json":
        return value
    text = dumps(value)
    return text if len(text) <= _MAX_INLINE_JSON else dumps(value, indent=2)


def _parse_text(field: Field, text: str) -> Any:
    match field.kind:
        case "text":
            return text or None
        case "json":
            try:
                value = loads(text, "JSON") if text.strip() else None
                return JSON_NULL if value is None and text.strip() else value
            except MalformedMessage:
                return INVALID_JSON
        case _:
            return _parse_number(text.strip()) if text.strip() else None


def _parse_number(text: str) -> Any:
    """Parse *text* as an int or a float; return it unchanged if it is neither."""
    try:
        return int(text) if len(text) <= 400 else text
    except ValueError:
        try:
            return float(text) if "_" not in text else text
        except ValueError:
            return text


class ReadOnlyValue(Static, can_focus=True):
    """Read-only display of a value that is too long to edit or contains hidden characters.

    Hidden characters are shown as marks. Backspace clears the value, after which the field can be edited.
    """

    key_hints = N_("backspace clears it")

    def __init__(self, field: Field, value: Any) -> None:
        self.field_value: Any = value
        text = format_value(field, value)
        more = (
            _("\n… {text_count:,} more characters").format(text_count=len(text) - MAX_EDITABLE_LENGTH)
            if len(text) > MAX_EDITABLE_LENGTH
            else ""
        )
        super().__init__(Content(clean(text[:MAX_EDITABLE_LENGTH]) + more), markup=False)

    class Cleared(Message):
        """Posted when the user clears the value, so that the form replaces this widget with an empty input."""

    def exit_direction(self, key: str) -> int:
        """Return 1 if the key moves the focus to the next field, -1 to the previous field, otherwise 0."""
        return EXIT_KEYS.get(key, 0)

    def on_key(self, event: events.Key) -> None:
        """Clear the value with Backspace or Delete; move to another field with Enter or an arrow key."""
        if event.key in ("backspace", "delete"):
            event.stop()
            self.post_message(self.Cleared())
        elif request_focus_move(self, self.exit_direction(event.key)):
            event.stop()
