"""Input widgets for form fields: text, numbers, dates, JSON, checkboxes and lists of options.

They extend Textual's widgets in three ways: a field can have no value, symbols show the state in addition to colors,
and a list without the focus shows only the selected options.
"""

from typing import Any, ClassVar, Self, cast

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.css.styles import RulesMap
from textual.geometry import Size
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget
from textual.widgets import Checkbox, Input, OptionList, SelectionList, TextArea
from textual.widgets.selection_list import Selection

from mcphost.errors import MalformedMessage
from mcphost.host.questions.form_fields import Field, accepts_empty_text
from mcphost.serialization import dumps, loads
from mcphost.translation import _, join_list
from mcphost.tui.forms.wrapped_text import WrappedText
from mcphost.tui.screen_text import clean_line
from mcphost.tui.widgets.text_inputs import OrderedInput, OrderedTextArea


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


_MAX_ROWS = 6
_OPENS = " ▾"
"""Mark at the end of a list that shows only the selected options."""


def make_compact(widget: Input | TextArea) -> None:
    """Remove the border of an input that was just created.

    This is faster than passing `compact=True` to Textual's inputs, which matches the widget against all style
    rules. That takes 3 milliseconds for a text area, and happens again when the input is mounted.
    """
    widget.add_class("-textual-compact", update=False)
    widget.set_reactive(Input.compact if isinstance(widget, Input) else TextArea.compact, True)  # pyright: ignore[reportArgumentType]


def _describe_missing(field: Field) -> str:
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
        self.set_class(value is None, "missing")
        self.label = Content(_describe_missing(self.field) if value is None else _("yes") if value else _("no"))


class ChoiceList(SelectionList[int], inherit_bindings=False):
    """List from which the user selects one or more values with the arrow keys and Space.

    While the list does not have the focus, it shows only the selected options. The options are created when the list
    first gets the focus, because a form may contain many lists with a thousand options each.
    """

    DEFAULT_CSS: ClassVar[str] = """
    ChoiceList, ChoiceList:focus { border: none; padding: 0 1; background-tint: $foreground 0%; text-wrap: wrap; }
    ChoiceList { overflow-y: hidden; scrollbar-size-vertical: 1; }
    ChoiceList:focus { overflow-y: auto; }
    ChoiceList.long:focus { border-bottom: blank; border-subtitle-align: left; border-subtitle-color: $faint;
                            border-subtitle-background: transparent; }
    ChoiceList > .option-list--option { padding: 0; color: $muted; }
    ChoiceList:focus > .option-list--option-highlighted { color: $background; background: $accent; }
    ChoiceList > .selection-list--button { color: $muted; background: transparent; }
    ChoiceList > .selection-list--button-selected { color: $accent; background: transparent; }
    ChoiceList > .option-list--option-hover { background: $panel; }
    """

    def __init__(self, field: Field, value: Any, *, missing: str = "") -> None:
        """Create a list with *value* selected; the text *missing* is shown while nothing is selected."""
        super().__init__()
        self.field = field
        self._missing = missing or _describe_missing(field)
        self._is_multiple = field.kind == "choices"
        self._pressed_option: int | None = None
        self._summarized: frozenset[int] | None = None
        self._summary_text = WrappedText("")
        values = cast("list[Any]", value) if isinstance(value, list) else [value]
        given = {one for one in values if isinstance(one, str)}
        for at, option in enumerate(field.options):
            if option.value in given:
                self.select(at)
        self.set_class(len(field.options) > _MAX_ROWS, "long")

    @property
    def field_value(self) -> Any:
        """The selected value; for a multiple choice, the list of selected values in the order of the options.

        If nothing is selected, this is None, and the field is not sent. The exception is a required multiple choice
        without `min_items`, whose value is then an empty list.
        """
        values = [self.field.options[at].value for at in sorted(self.selected)]
        if self._is_multiple:
            return values or ([] if self.field.required and not self.field.min_items else None)
        return values[0] if values else None

    @property
    def scrolls_pages(self) -> bool:
        """Whether Page up and Page down scroll this widget; otherwise, they show another page of the form."""
        return len(self.field.options) > _MAX_ROWS

    @property
    def key_hints(self) -> str:
        """The key hints that the form shows while the field has the focus."""
        keys = _("↑ ↓ · space selects") + (_(" several") if self._is_multiple else "")
        return keys if self.field.required else keys + _(" · backspace clears")

    # -- what is shown

    def _title(self, at: int) -> str:
        option = self.field.options[at]
        title = clean_line(option.title, 120)
        said = option.title == option.value or option.title.startswith(f"{option.value} ")
        return title if said else f"{title}  ({clean_line(option.value, 80)})"

    @property
    def _summary(self) -> WrappedText:
        """The selected options as text, which is cached because a server may select a thousand options."""
        selected = frozenset(self._selected)
        if selected != self._summarized:
            self._summarized = selected
            chosen = [clean_line(self.field.options[at].title, 80) for at in sorted(selected)]
            self._summary_text = WrappedText(join_list(chosen) if chosen else self._missing)
        return self._summary_text

    def _mark(self, at: int) -> str:
        chosen = at in self._selected
        return ("■ " if chosen else "□ ") if self._is_multiple else ("● " if chosen else "○ ")

    def _get_left_gutter_width(self) -> int:
        return 2

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Return the height in rows.

        While the list has the focus, this is the height of all options, up to a limit; otherwise, it is the height of
        the selection.
        """
        rules = cast("RulesMap", self.styles)
        if not self.has_focus:
            return self._summary.count_rows(max(1, width - len(_OPENS)))
        rows = 0
        for option in self.options:
            rows += self._get_visual(option).get_height(rules, width - self._get_left_gutter_width())
            if rows >= _MAX_ROWS:
                return _MAX_ROWS
        return rows

    def _update_lines(self) -> None:
        if self.has_focus:
            super()._update_lines()

    def render_line(self, y: int) -> Strip:
        """Render one row of the options, or of the selected options if the list does not have the focus.

        `SelectionList.render_line` is not used, because it marks selected options only by color and does not support
        options that are wrapped onto several rows.
        """
        if not self.has_focus:
            color = self.visual_style if self._selected else self.visual_style + self._get_style("$faint")
            width = max(1, self.scrollable_content_region.width - len(_OPENS))
            mark = _OPENS if y == 0 else " " * len(_OPENS)
            row = self._summary.render_row(y, width, color.rich_style)
            return Strip([*row, Segment(mark, self.visual_style.rich_style)])
        line = OptionList.render_line(self, y)
        rows = self._lines[self.scroll_offset.y + y :][:1]
        style = next(iter(line)).style or self.rich_style
        if not rows or rows[0][1]:
            return Strip([Segment("  ", style), *line])
        at = rows[0][0]
        if at != self.highlighted:
            state = "-selected" if at in self._selected else ""
            color = self.get_component_rich_style(f"selection-list--button{state}", partial=True).color
            style += Style(color=color)
        return Strip([Segment(self._mark(at), style), *line])

    # -- focus, keys and the pointer

    def watch_has_focus(self, has_focus: bool) -> None:
        """Show all options while the list has the focus, and only the selection otherwise."""
        super().watch_has_focus(has_focus)
        if has_focus and not self.options:
            self.add_options(Selection(Content(self._title(at)), at) for at in range(len(self.field.options)))
            # Space selects the highlighted row. Begin at the selection, so that Space does not change it by accident.
            self.highlighted = min(self.selected, default=None)
        self._clear_caches()
        self.refresh(layout=True)

    def _size_updated(self, size: Size, virtual_size: Size, container_size: Size, layout: bool = True) -> bool:
        is_changed = super()._size_updated(size, virtual_size, container_size, layout)
        if is_changed:
            self.call_later(self.scroll_to_highlight)
        return is_changed

    def watch_highlighted(self, highlighted: int | None) -> None:
        """Show the position of the highlighted option below a long list, for example "3 of 20"."""
        super().watch_highlighted(highlighted)
        if len(self.field.options) > _MAX_ROWS:
            self.border_subtitle = _("{highlighted} of {options_count}").format(
                highlighted=(highlighted or 0) + 1, options_count=len(self.field.options)
            )

    def exit_direction(self, key: str) -> int:
        """Return 1 if *key* moves the focus to the next field, -1 for the previous field, and 0 otherwise.

        Up leaves the list only from the first option, and Down only from the last.
        """
        at = self.highlighted if self.options else min(self.selected, default=None)
        stays = (key == "up" and at) or (key == "down" and at != len(self.field.options) - 1)
        return 0 if stays else EXIT_KEYS.get(key, 0)

    async def _on_key(self, event: events.Key) -> None:
        # Handled here, because a binding would run after keys that were pressed later.
        is_long = len(self.field.options) > _MAX_ROWS
        match event.key:
            case key if request_focus_move(self, self.exit_direction(key)):
                pass
            case "down":
                self.action_cursor_down()
            case "up":
                self.action_cursor_up()
            case "home":
                self.action_first()
            case "end":
                self.action_last()
            case "pageup" if is_long:
                self.action_page_up()
            case "pagedown" if is_long:
                self.action_page_down()
            case "space":
                self.action_select()
            case "backspace" | "delete":
                self._selected.clear()
                self._notify_change()
            case _:
                return
        event.stop()

    def action_select(self) -> None:
        """Select the highlighted option, or deselect it if it is already selected.

        In a required single choice, the selected option cannot be deselected.
        """
        at = self.highlighted
        if at is None:
            return
        if at in self._selected:
            if self._is_multiple or not self.field.required:
                del self._selected[at]
        else:
            if not self._is_multiple:
                self._selected.clear()
            self._selected[at] = None
        self._notify_change()

    def _notify_change(self) -> None:
        self.refresh()
        self.post_message(FieldChanged())

    def on_mouse_down(self, event: events.MouseDown) -> None:
        """Record the option under the mouse; a click selects an option only if it began and ended on that option."""
        self._pressed_option = event.style.meta.get("option")

    async def _on_click(self, event: events.Click) -> None:
        event.prevent_default()  # otherwise, Textual would select the option as well
        # A press that focuses the list also opens it under the pointer, but must not select an option.
        if self._pressed_option is not None and self._pressed_option == event.style.meta.get("option"):
            self.highlighted = self._pressed_option
            self.action_select()

    def on_selection_list_selection_highlighted(self, event: SelectionList.SelectionHighlighted[int]) -> None:
        """Stop the base class's message from bubbling, because the form handles only FieldChanged."""
        event.stop()


MAX_EDITABLE_LENGTH = 4_000
_MAX_INLINE_JSON = 60
INVALID_JSON = object()
"""Value of a JSON field whose text is not valid JSON."""
JSON_NULL = object()
"""Value of a JSON field that contains `null`, which is sent; a field with the value None is not sent."""


class TextEntry(OrderedTextArea):
    """Multi-line input for a text, number or JSON field; its height grows with the text.

    Enter, Down in the last row and Up in the first row move to another field.
    """

    BINDINGS: ClassVar[list[BindingType]] = [Binding("ctrl+t", "empty_text", show=False)]

    def __init__(self, field: Field, value: Any) -> None:
        self.field = field
        self._is_empty_text = value == "" and accepts_empty_text(field)
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
            return _('"" · the empty text is sent')
        return _describe_empty(self.field)

    @property
    def field_value(self) -> Any:
        """The text converted to the field's type; None if the field is empty.

        Invalid JSON becomes INVALID_JSON; an invalid number remains a string.
        """
        return "" if not self.text and self._is_empty_text else _parse_text(self.field, self.text)

    @property
    def scrolls_pages(self) -> bool:
        """Whether Page up and Page down scroll this widget; otherwise, they show another page of the form."""
        return self.virtual_size.height > self.size.height > 0

    @property
    def key_hints(self) -> str:
        """The key hints that the form shows while the field has the focus."""
        lines = _("ctrl+j new line") if self.field.kind in ("text", "json") and not self.field.format else ""
        offer = accepts_empty_text(self.field) and not self.text
        empty = (_("ctrl+t not sent") if self._is_empty_text else _("ctrl+t empty text")) if offer else ""
        return " · ".join(word for word in (lines, empty) if word)

    def action_empty_text(self) -> None:
        """Switch an empty field between sending an empty string and sending no value."""
        if accepts_empty_text(self.field) and not self.text:
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
        if key in {"ctrl+j", "shift+enter", "alt+enter"} and self.field.kind in ("text", "json"):
            self.insert("\n")
        elif key == "backspace":
            # A binding would run after letters that were typed later.
            self.action_delete_left()
        else:
            return False
        return True


class LineEntry(OrderedInput):
    """Single-line input for a number, date or time, or for a text that is masked like a password."""

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
        """The text converted to the field's type, or None if the input is empty. An invalid number remains a string."""
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
    """Return *value* as editable text: JSON, except that a string stays unchanged unless *field* is a JSON field.

    The text is "" for None, and "null" for JSON_NULL.
    """
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
    """Convert *text* to an int or a float; return it unchanged if it is not a number."""
    try:
        return int(text) if len(text) <= 400 else text
    except ValueError:
        try:
            return float(text) if "_" not in text else text
        except ValueError:
            return text
