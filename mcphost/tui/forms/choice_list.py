"""List of options for a form field, which shows only the selected options while it is not focused."""

from typing import Any, ClassVar, Literal, cast

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.content import Content
from textual.css.styles import RulesMap
from textual.geometry import Offset, Size
from textual.strip import Strip
from textual.widgets import OptionList, SelectionList
from textual.widgets.selection_list import Selection

from mcphost.host.questions.form_fields import Field, Option
from mcphost.serialization import replace
from mcphost.translation import _, join_list
from mcphost.tui.forms.field_widgets import EXIT_KEYS, FieldChanged, describe_missing, request_focus_move
from mcphost.tui.forms.wrapped_text import WrappedText
from mcphost.tui.screen_text import clean_line
from mcphost.tui.widget_messages import CursorMoved

_MAX_ROWS = 6
_MAX_TITLE_LENGTH = 120
_MAX_VALUE_LENGTH = 500
"""Maximum characters of a value in the opened list; selected values are always shown in full."""
_MAX_SUMMARY_LENGTH = 300_000
"""Maximum characters of the text for the selected options; a form's schema allows fewer."""
_STEP_CHARACTERS = 15_000
"""Characters of options, with `_OPTION_COST` for each, whose rows are counted in one step, which takes about 20 ms."""
_OPTION_COST = 50
_FIRST_CHARACTERS = 3_000
"""Characters of options, counted like those, that fill the visible rows again while the next step is pending."""
_STEP_PAUSE = 0.001
"""Seconds between two steps."""
_OPENS = " ▾"
"""Mark at the end of a list that shows only the selected options."""


class ChoiceList(SelectionList[int], inherit_bindings=False):
    """List from which the user selects one or more values with the arrow keys and Space.

    While the list does not have the focus, it shows only the selected options. The options are created when the list
    first gets the focus, because a form may contain many lists with a thousand options each.
    """

    DEFAULT_CSS: ClassVar[str] = """
    ChoiceList, ChoiceList:focus { border: none; padding: 0 1; background-tint: $foreground 0%;
                                     text-wrap: wrap; text-overflow: fold; }
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

    def __init__(self, field: Field, value: Any, *, missing: str = "", shows_values: bool = True) -> None:
        """Create a list with *value* selected; the text *missing* is shown while nothing is selected.

        If *shows_values* is true, an option's value is shown as well if it differs from the title, because the value is
        sent, and a server may choose a misleading title.
        """
        super().__init__()
        self.field = field
        self._shows_values = shows_values
        self._missing = missing or describe_missing(field)
        self._is_multiple = field.kind == "choices"
        self._pressed_option: int | None = None
        self._is_counting_rows = False
        """Whether the rows of further options will be counted in another step."""
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

    def append_options(self, options: tuple[Option, ...]) -> None:
        """Add options below the existing ones; the selected and highlighted options do not change."""
        first = len(self.field.options)
        self.field = replace(self.field, options=(*self.field.options, *options))
        if self.options:  # otherwise, they are created with the others
            self.add_options(Selection(Content(self._title(at)), at) for at in range(first, len(self.field.options)))
        self.set_class(len(self.field.options) > _MAX_ROWS, "long")
        self._show_position(self.highlighted)
        self.refresh(layout=True)

    @property
    def scrolls_pages(self) -> bool:
        """Whether Page up and Page down scroll this widget; otherwise, they show another page of the form."""
        return len(self.field.options) > _MAX_ROWS

    @property
    def key_hints(self) -> str:
        """The key hints that the form shows while the field has the focus."""
        keys = _("↑↓ move · space select") + (_(" several") if self._is_multiple else "")
        return keys if self.field.required else keys + _(" · backspace clears")

    # -- what is shown

    def _title(self, at: int, max_length: int = _MAX_VALUE_LENGTH) -> str:
        option = self.field.options[at]
        value = clean_line(option.value, max_length)
        if option.title == option.value:
            return value
        title = clean_line(option.title, _MAX_TITLE_LENGTH)
        return f"{title}  ({value})" if self._shows_values else title

    @property
    def _summary(self) -> WrappedText:
        """The selected options as text.

        The text is cached, because a server can preselect a thousand options.
        """
        selected = frozenset(self._selected)
        if selected != self._summarized:
            self._summarized = selected
            chosen = [self._title(at, _MAX_SUMMARY_LENGTH) for at in sorted(selected)]
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
        # Those of a thousand long options at once would block the program for 0.2 seconds.
        cache = self._line_cache
        first, width = len(cache.heights), self.scrollable_content_region.width - self._get_left_gutter_width()
        if not self.has_focus or width <= 0 or (first and self._is_counting_rows):
            return
        # If the cache is cleared several times in a turn of the event loop, only the first rows are counted again.
        left = _FIRST_CHARACTERS if self._is_counting_rows else _STEP_CHARACTERS
        for at, option in enumerate(self.options[first:], first):
            if left <= 0:
                break
            left -= _OPTION_COST + len(str(option.prompt))
            height = self._get_visual(option).get_height(cast("RulesMap", self.styles), width)
            cache.index_to_line[at], cache.heights[at] = len(cache.lines), height
            cache.lines.extend((at, row) for row in range(height))
        size = Size(width, len(cache.lines))
        if size != self.virtual_size:
            self.virtual_size = size
            self._scroll_update(size)
        if len(cache.heights) < len(self.options) and not self._is_counting_rows:
            self._is_counting_rows = True
            # Not `call_later`: Textual handles all waiting messages of a widget in one turn of the event loop.
            self.set_timer(_STEP_PAUSE, self._count_more_rows)

    def _count_more_rows(self) -> None:
        self._is_counting_rows = False
        self._update_lines()
        if not self._is_counting_rows:
            self.scroll_to_highlight()

    def _move_page(self, direction: Literal[-1, 1]) -> None:
        for _option in self.options:  # more steps than are needed
            if len(self._line_cache.heights) == len(self.options):
                break
            self._count_more_rows()
        super()._move_page(direction)

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
        self._show_position(highlighted)

    def _show_position(self, highlighted: int | None) -> None:
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
        """Post CursorMoved, which screen readers need, instead of the message of the base class."""
        event.stop()
        self.post_message(CursorMoved(self))

    @property
    def cursor_screen_offset(self) -> Offset:
        """The position on the screen of the highlighted option's first row."""
        line = next((at for at, (option, _row) in enumerate(self._lines) if option == self.highlighted), 0)
        return self.content_region.offset + Offset(0, max(0, line - self.scroll_offset.y))
