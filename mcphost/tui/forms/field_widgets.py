"""Widgets for one form field: growing text, yes or no, a list of choices."""

from typing import Any, ClassVar, cast

from textual import events
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Static, TextArea

from mcphost.errors import MalformedMessage
from mcphost.host.questions.form_fields import Field, accepts_empty_text
from mcphost.serialization import dumps, loads
from mcphost.tui.screen_text import clean, clean_line, is_clean
from mcphost.tui.widgets.ordered_input import OrderedTextArea

_MAX_ROWS = 6
_MAX_EDITABLE_LENGTH = 4_000
_MAX_INLINE_JSON = 60
INVALID_JSON = object()
"""The value of a JSON field with invalid JSON."""
JSON_NULL = object()
"""The value of a JSON field that contains null, which is sent; None is not sent."""


class FieldChanged(Message):
    """Posted when the user changed the value."""


class FocusMoveRequested(Message):
    """Posted when the user moves to the next field (1) or the previous one (-1)."""

    def __init__(self, direction: int) -> None:
        super().__init__()
        self.direction = direction


class TextEntry(OrderedTextArea):
    """A text, number or JSON field; it grows with its text and handles the keys of other fields."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("ctrl+t", "empty_text", show=False)]

    def __init__(self, field: Field, value: Any) -> None:
        self.field = field
        self._is_empty_text = value == "" and accepts_empty_text(field)
        super().__init__(
            _format_value(field, value),
            compact=True,
            soft_wrap=True,
            highlight_cursor_line=False,
            placeholder=self._placeholder(),
        )

    def on_mount(self) -> None:
        """Put the cursor at the end of the text."""
        self.move_cursor(self.document.end)

    def _placeholder(self) -> str:
        if self._is_empty_text:
            return '"" · the empty text is sent'
        return "required" if self.field.required else "not sent"

    @property
    def value(self) -> Any:
        """The value in the field's type if it can be parsed as such; None if empty."""
        text = self.text
        match self.field.kind:
            case "text":
                return text or ("" if self._is_empty_text else None)
            case "json":
                try:
                    value = loads(text, "JSON") if text.strip() else None
                    return JSON_NULL if value is None and text.strip() else value
                except MalformedMessage:
                    return INVALID_JSON
            case _:
                return _parse_number(text.strip()) if text.strip() else None

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

    async def _on_key(self, event: events.Key) -> None:
        if self._process_own_key(event.key):
            event.stop()
            event.prevent_default()
            return
        await super()._on_key(event)

    def _process_own_key(self, key: str) -> bool:
        at = self.wrapped_document.location_to_offset(self.cursor_location).y
        if key == "enter":
            self.post_message(FocusMoveRequested(1))
        elif key in {"ctrl+j", "shift+enter", "alt+enter"} and self.field.kind in ("text", "json"):
            self.insert("\n")
        elif key == "up" and at == 0:
            self.post_message(FocusMoveRequested(-1))
        elif key == "down" and at == self.wrapped_document.height - 1:
            self.post_message(FocusMoveRequested(1))
        elif key == "backspace":
            # A binding would be handled later than letters typed right after it.
            self.action_delete_left()
        else:
            return False
        return True


def _format_value(field: Field, value: Any) -> str:
    if value is None:
        return ""
    if value is JSON_NULL:
        return "null"
    if isinstance(value, str) and field.kind != "json":
        return value
    text = dumps(value)
    return text if len(text) <= _MAX_INLINE_JSON else dumps(value, indent=2)


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
        self.value: Any = value
        text = _format_value(field, value)
        more = f"\n… {len(text) - _MAX_EDITABLE_LENGTH:,} more characters" if len(text) > _MAX_EDITABLE_LENGTH else ""
        super().__init__(Content(clean(text[:_MAX_EDITABLE_LENGTH]) + more), markup=False)

    class Cleared(Message):
        """Posted when the value is to be replaced by an empty line."""

    def on_key(self, event: events.Key) -> None:
        """Clear the value, or move on."""
        if event.key in ("backspace", "delete"):
            event.stop()
            self.post_message(self.Cleared())
        elif _process_step_key(self, event.key):
            event.stop()


def _process_step_key(control: Widget, key: str) -> bool:
    by = {"enter": 1, "down": 1, "up": -1}.get(key, 0)
    if by:
        control.post_message(FocusMoveRequested(by))
    return bool(by)


class Toggle(Static, can_focus=True):
    """Yes, no, or neither, which is not sent."""

    def __init__(self, field: Field, value: Any) -> None:
        super().__init__(markup=False)
        self.field = field
        self.value: bool | None = value if isinstance(value, bool) else None

    @property
    def key_hints(self) -> str:
        """Return the keys."""
        return "space, y, n" if self.field.required else "space, y, n · backspace: not sent"

    def render(self) -> Content:
        """Return all answers side by side, the current one marked."""
        answers: list[tuple[bool | None, str]] = [(True, "yes"), (False, "no")]
        if not self.field.required:
            answers.append((None, "not sent"))
        marked = self.value is not None or not self.field.required
        return Content("   ").join(
            Content.styled(f"● {word}", "bold $accent" if self.has_focus else "$text")
            if answer is self.value and marked
            else Content.styled(f"○ {word}", "$muted")
            for answer, word in answers
        )

    def on_key(self, event: events.Key) -> None:
        """Choose an answer, or move on."""
        match event.key:
            case "space":
                self._set_value(not self.value)
            case "y" | "n":
                self._set_value(event.key == "y")
            case "left" | "right":
                self._cycle(1 if event.key == "right" else -1)
            case "backspace" | "delete":
                self._set_value(None if not self.field.required else self.value)
            case key if not _process_step_key(self, key):
                return
            case _:
                pass
        event.stop()

    def _cycle(self, by: int) -> None:
        order: list[bool | None] = [True, False] if self.field.required else [True, False, None]
        at = order.index(self.value) if self.value in order else -1
        self._set_value(order[(at + by) % len(order)])

    def _set_value(self, value: bool | None) -> None:
        self.value = value
        self.refresh()
        self.post_message(FieldChanged())

    def on_click(self, event: events.Click) -> None:
        """Choose the answer under the pointer."""
        # "● yes   ○ no   ○ not sent"
        self._set_value(
            True if event.x < 7 else False if event.x < 14 else None if not self.field.required else self.value
        )


class ChoiceList(Static, can_focus=True):
    """One or several values of a list: arrow keys move, Space selects; closed, it shows the selection."""

    def __init__(self, field: Field, value: Any) -> None:
        super().__init__(markup=False)
        self.field = field
        self._is_multiple = field.kind == "choices"
        given = cast("list[Any]", value) if isinstance(value, list) else [value]
        self._selected = {at for at, option in enumerate(field.options) if option.value in given}
        # Space takes the cursor's row, which starts on the selection, so that moving on changes nothing.
        self._cursor = min(self._selected, default=-1)
        self._scroll_top = 0

    @property
    def value(self) -> Any:
        """The selected value, or a list of them in the order of the options.

        No selection is None, which is not sent; or an invalid value if one is required.
        """
        values = [self.field.options[at].value for at in sorted(self._selected)]
        if self._is_multiple:
            return values or ([] if self.field.required and not self.field.min_items else None)
        return values[0] if values else None

    @property
    def key_hints(self) -> str:
        """Return the keys."""
        keys = "↑ ↓ · space selects" + (" several" if self._is_multiple else "")
        return keys if self.field.required else keys + " · backspace none"

    def _title(self, at: int) -> str:
        option = self.field.options[at]
        title = clean_line(option.title, 120)
        said = option.title == option.value or option.title.startswith(f"{option.value} ")
        return title if said else f"{title}  ({clean_line(option.value, 80)})"

    def render(self) -> Content:
        """Return the selection; with focus, the list."""
        if not self.has_focus:
            chosen = [clean_line(self.field.options[at].title, 80) for at in sorted(self._selected)]
            if chosen:
                return Content(", ".join(chosen))
            return Content.styled("to be chosen" if self.field.required else "not sent", "$faint")
        total = len(self.field.options)
        self._scroll_top = max(0, min(self._scroll_top, self._cursor, total - _MAX_ROWS), self._cursor - _MAX_ROWS + 1)
        lines = [self._render_option(at) for at in range(self._scroll_top, min(total, self._scroll_top + _MAX_ROWS))]
        if total > _MAX_ROWS:
            lines.append(Content.styled(f"  {max(self._cursor, 0) + 1} of {total}", "$faint"))
        return Content("\n").join(lines)

    def _render_option(self, at: int) -> Content:
        chosen = at in self._selected
        mark = ("■ " if chosen else "□ ") if self._is_multiple else ("● " if chosen else "○ ")
        style = "reverse $accent" if at == self._cursor else "$text" if chosen else "$muted"
        return Content.styled(mark + self._title(at), style)

    def _on_focus(self, event: events.Focus) -> None:
        super()._on_focus(event)
        self.refresh(layout=True)

    def _on_blur(self, event: events.Blur) -> None:
        super()._on_blur(event)
        self.refresh(layout=True)

    def on_key(self, event: events.Key) -> None:
        """Move, select, or move on."""
        match event.key:
            case "down" if self._cursor < len(self.field.options) - 1:
                self._move(self._cursor + 1)
            case "up" if self._cursor > 0:
                self._move(self._cursor - 1)
            case "home" | "end":
                self._move(0 if event.key == "home" else len(self.field.options) - 1)
            case "space" if self._cursor >= 0:
                self._toggle_option(self._cursor)
            case "backspace" | "delete":
                self._selected.clear()
                self._notify_change()
            case key if not _process_step_key(self, key):
                return
            case _:
                pass
        event.stop()

    def _move(self, at: int) -> None:
        self._cursor = at
        self.refresh()

    def _toggle_option(self, at: int) -> None:
        if at in self._selected:
            if self._is_multiple or not self.field.required:
                self._selected.remove(at)
        elif self._is_multiple:
            self._selected.add(at)
        else:
            self._selected = {at}
        self._notify_change()

    def _notify_change(self) -> None:
        self.refresh(layout=True)
        self.post_message(FieldChanged())

    def on_click(self, event: events.Click) -> None:
        """Select the row under the pointer."""
        at = self._scroll_top + event.y
        if self.has_focus and event.y < _MAX_ROWS and at < len(self.field.options):
            self._cursor = at
            self._toggle_option(at)


FieldWidget = TextEntry | ReadOnlyValue | Toggle | ChoiceList


def create_field_widget(field: Field, value: Any) -> FieldWidget:
    """Return the widget for a field, with *value*; None leaves it empty."""
    match field.kind:
        case "boolean":
            return Toggle(field, value)
        case "choice" | "choices":
            return ChoiceList(field, value)
        case _:
            text = _format_value(field, value)
            return (
                TextEntry(field, value)
                if is_clean(text) and len(text) <= _MAX_EDITABLE_LENGTH
                else ReadOnlyValue(field, value)
            )
