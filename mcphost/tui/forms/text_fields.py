"""Widgets for form fields that are typed: growing text, one line, and values that cannot be edited as text."""

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
from mcphost.tui.forms.field_messages import EXIT_KEYS, FieldChanged, request_focus_move
from mcphost.tui.screen_text import clean
from mcphost.tui.widgets.inputs import OrderedInput, OrderedTextArea

MAX_EDITABLE_LENGTH = 4_000
_MAX_INLINE_JSON = 60
INVALID_JSON = object()
"""The value of a JSON field with invalid JSON."""
JSON_NULL = object()
"""The value of a JSON field that contains null, which is sent; None is not sent."""


class TextEntry(OrderedTextArea):
    """A text, number or JSON field; it grows with its text and handles the keys of other fields."""

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
        """Put the cursor at the end of the text."""
        self.move_cursor(self.document.end)

    def _size_updated(self, size: Size, virtual_size: Size, container_size: Size, layout: bool = True) -> bool:
        # Textual 8.2.8 sends no Resize event if a region was looked up between mounting and the first layout. The text
        # was then never wrapped, and a long value was sent of which one row was shown.
        is_changed = super()._size_updated(size, virtual_size, container_size, layout)
        if is_changed:
            self.call_later(self._rewrap_and_refresh_virtual_size)
        return is_changed

    def _placeholder(self) -> str:
        if self._is_empty_text:
            return '"" · the empty text is sent'
        return _describe_empty(self.field)

    @property
    def field_value(self) -> Any:
        """The value in the field's type if it can be parsed as such; None if empty."""
        return "" if not self.text and self._is_empty_text else _parse_text(self.field, self.text)

    @property
    def key_hints(self) -> str:
        """Return the keys with a special meaning here."""
        lines = "ctrl+j new line" if self.field.kind in ("text", "json") and not self.field.format else ""
        offer = accepts_empty_text(self.field) and not self.text
        empty = ("ctrl+t not sent" if self._is_empty_text else "ctrl+t empty text") if offer else ""
        return " · ".join(word for word in (lines, empty) if word)

    def action_empty_text(self) -> None:
        """Toggle between the empty text, which is sent, and no value, which is not."""
        if accepts_empty_text(self.field) and not self.text:
            self._is_empty_text = not self._is_empty_text
            self.placeholder = self._placeholder()
            self.post_message(FieldChanged())

    def on_text_area_changed(self, event: TextArea.Changed) -> None:
        """Post the change."""
        event.stop()
        if self.text and self._is_empty_text:
            self._is_empty_text = False
            self.placeholder = self._placeholder()
        self.post_message(FieldChanged())

    def exit_direction(self, key: str) -> int:
        """Return where the key moves the focus: 1 to the next field, -1 to the previous one, 0 if it stays."""
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
            # A binding would be handled later than letters typed right after it.
            self.action_delete_left()
        else:
            return False
        return True


class LineEntry(OrderedInput):
    """A number, a date or a time: one line, which no value of these kinds exceeds."""

    key_hints = ""

    def __init__(self, field: Field, value: Any) -> None:
        self.field = field
        # Neither `type` nor `restrict`: they drop characters, and what is wrong is better shown than gone.
        super().__init__(
            format_value(field, value), placeholder=_describe_empty(field), select_on_focus=False, compact=True
        )

    @property
    def text(self) -> str:
        """The text as it was typed."""
        return self.value

    @text.setter
    def text(self, text: str) -> None:
        self.value = text

    @property
    def field_value(self) -> Any:
        """The value in the field's type if it can be parsed as such; None if empty."""
        return _parse_text(self.field, self.value)

    def on_input_changed(self, event: Input.Changed) -> None:
        """Post the change."""
        event.stop()
        self.post_message(FieldChanged())

    def exit_direction(self, key: str) -> int:
        """Return where the key moves the focus."""
        return EXIT_KEYS.get(key, 0)

    async def _on_key(self, event: events.Key) -> None:
        if request_focus_move(self, self.exit_direction(event.key)):
            event.stop()
            event.prevent_default()
            return
        await super()._on_key(event)


def _describe_empty(field: Field) -> str:
    return "required" if field.required else "not sent"


def format_value(field: Field, value: Any) -> str:
    """Return the value as the text of its field."""
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
    """Return the number in the text, or the text itself."""
    try:
        return int(text) if len(text) <= 400 else text
    except ValueError:
        try:
            return float(text) if "_" not in text else text
        except ValueError:
            return text


class ReadOnlyValue(Static, can_focus=True):
    """A value that cannot be edited as a line: very long, or with hidden characters, shown as marks."""

    key_hints = "backspace clears it"

    def __init__(self, field: Field, value: Any) -> None:
        self.field_value: Any = value
        text = format_value(field, value)
        more = f"\n… {len(text) - MAX_EDITABLE_LENGTH:,} more characters" if len(text) > MAX_EDITABLE_LENGTH else ""
        super().__init__(Content(clean(text[:MAX_EDITABLE_LENGTH]) + more), markup=False)

    class Cleared(Message):
        """Posted when the value is to be replaced by an empty line."""

    def exit_direction(self, key: str) -> int:
        """Return where the key moves the focus."""
        return EXIT_KEYS.get(key, 0)

    def on_key(self, event: events.Key) -> None:
        """Clear the value, or move on."""
        if event.key in ("backspace", "delete"):
            event.stop()
            self.post_message(self.Cleared())
        elif request_focus_move(self, self.exit_direction(event.key)):
            event.stop()
