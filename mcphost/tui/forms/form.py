"""Keyboard-driven form that shows fields in a column and validates each value as it is entered.

Example::

    form = Form(fields, {"age": 30})  # a tuple of Field, and initial values by field name
    form.values()  # {"age": 30, "note": None}: all fields, with None for those without a value
    form.validate()  # whether all values may be sent; if not, the form shows the errors

A form posts `Form.Changed` after each change, and `Form.FocusExited` when Enter or an arrow key moves past the
last field or before the first. Put it into a scrolling container with `scrollbar-gutter: stable`. Otherwise,
the scrollbar could appear and disappear endlessly, because a scrollbar makes the form narrower and may change
its height.

A form with more than 13 fields has pages of about ten, because Textual lays out all visible widgets at once: a
form with 100 fields would block the program for half a second after each key. The rows of a page are mounted
and shown three at a time for the same reason.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from textual import events
from textual.app import ComposeResult
from textual.content import Content
from textual.message import Message

from mcphost.host.questions.form_fields import Field
from mcphost.translation import _
from mcphost.tui.forms.field_widgets import (
    INVALID_JSON,
    JSON_NULL,
    FieldChanged,
    FocusMoveRequested,
    TextEntry,
)
from mcphost.tui.forms.form_page import PAGE_FIELDS, split_into_pages
from mcphost.tui.forms.form_row import FormRow, cell_width
from mcphost.tui.screen_reader import announce
from mcphost.tui.screen_text import clean_line
from mcphost.tui.widgets.laid_out_once import Column, Row, StaticText

_MAX_LABEL_WIDTH = 40
_PAGE_KEYS = {"pagedown": 1, "pageup": -1}
_PREPARED_FIELDS = 3
_MAX_ANNOUNCED = 5


class PageLink(StaticText):
    """Text that shows another page of the form when it is clicked."""

    class Clicked(Message):
        """Posted when the link is clicked; `step` is 1 for the next page and -1 for the previous one."""

        def __init__(self, step: int) -> None:
            super().__init__()
            self.step = step

    def __init__(self, step: int, text: str) -> None:
        super().__init__(Content(text), markup=False)
        self.step = step

    def on_click(self, event: events.Click) -> None:
        """Post Clicked."""
        event.stop()
        self.post_message(self.Clicked(self.step))


class PageNavigation(Row):
    """Line above a page of fields that shows which fields are visible, and has links to the other pages."""

    DEFAULT_CSS = """
    PageNavigation { height: 1; }
    PageNavigation > Static { width: auto; height: 1; color: $muted; margin: 0 3 0 0; }
    PageNavigation > PageLink { color: $accent; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._position = StaticText("", markup=False)
        self._links = (PageLink(-1, _("‹ page up")), PageLink(1, _("page down ›")))

    def compose(self) -> ComposeResult:
        """Create the text with the range of visible fields, and the links to the previous and next page."""
        yield self._position
        yield from self._links

    def show_position(self, first: int, last: int, total: int) -> None:
        """Show that the fields *first* to *last*, counted from 1, of *total* fields are visible.

        Hide the link to the previous page on the first page, and the link to the next page on the last page.
        """
        self._position.update(
            Content(_("fields {first} to {last} of {total}").format(first=first, last=last, total=total))
        )
        self._links[0].display, self._links[1].display = first > 1, last < total


class Form(Column):
    """Column of form fields, in the given order.

    The messages that a form posts contain no field values.
    """

    DEFAULT_CSS = """
    Form.whole TextArea { max-height: 4001; }
    """

    class Changed(Message):
        """Posted when the value of any field has changed."""

    class PageShown(Message):
        """Posted when another page has been laid out.

        `edge` is the position to scroll to: -1 for the beginning of the page, 1 for its end, and 0 if a field has the
        focus, because that field scrolls into view automatically.
        """

        def __init__(self, edge: int) -> None:
            super().__init__()
            self.edge = edge

    class PageKeyPressed(Message):
        """Posted when Page down (`direction` 1) or Page up (-1) is pressed and there is no other page to show."""

        def __init__(self, direction: int) -> None:
            super().__init__()
            self.direction = direction

    class FocusExited(Message):
        """Posted when a key moves past the last field (`direction` 1) or before the first (`direction` -1)."""

        def __init__(self, direction: int) -> None:
            super().__init__()
            self.direction = direction

    def __init__(
        self,
        fields: tuple[Field, ...],
        values: Mapping[str, Any] | None = None,
        *,
        widget_id: str | None = None,
        shows_names: bool = True,
        shows_whole_values: bool = False,
    ) -> None:
        """Create a form with initial *values*, which are keyed by field name.

        A field that is missing from *values*, or whose value is None, starts empty; its default is ignored. If
        *shows_names* is true, the names of fields and the values of options are shown in addition to their titles,
        because a server or a tool may choose misleading titles. If *shows_whole_values* is true, each text area grows
        to show its whole value without scrolling.
        """
        super().__init__(id=widget_id)
        self.fields = fields
        given = values or {}
        self._widest_label = max(
            (cell_width(clean_line(field.title or field.name, 200)) for field in fields), default=0
        )
        self.label_cells = self._compute_label_width(3 * _MAX_LABEL_WIDTH)
        self.rows = tuple(
            FormRow(field, given.get(field.name), self.label_cells, shows_name=shows_names) for field in fields
        )
        self.set_class(shows_whole_values, "whole", update=False)

        self._pages = split_into_pages(self.rows)
        self._page_index = 0
        self._is_turning = not self._pages[0].is_mounted_whole
        self._unmounted_focus: FormRow | None = None
        """The row that gets the focus once it is mounted."""
        self._seen_pages: set[int] = set()
        self._navigation = PageNavigation()

    def compose(self) -> ComposeResult:
        """Create the first page and, if there are several pages, the navigation line above it."""
        if len(self._pages) > 1:
            yield self._navigation
        yield from self._pages[:1]

    def on_mount(self) -> None:
        """Mount the other rows of the first page, and create the input widgets of the other pages, in small steps."""
        self._show_position()
        self.call_after_refresh(self._finish_page, 0, 0)
        if len(self._pages) > 1:
            self.call_after_refresh(self._prepare_rows, PAGE_FIELDS)

    def _prepare_rows(self, at: int) -> None:
        """Create the missing input widgets of all rows from index *at*, a few rows at a time."""
        for row in self.rows[at : at + _PREPARED_FIELDS]:
            row.create_widget()
        if at + _PREPARED_FIELDS < len(self.rows):
            self.call_after_refresh(self._prepare_rows, at + _PREPARED_FIELDS)

    # -- pages

    def _show_position(self) -> None:
        first = sum(len(page.rows) for page in self._pages[: self._page_index])
        shown = len(self._pages[self._page_index].rows)
        self._navigation.show_position(first + 1, first + shown, len(self.rows))

    def show_page(self, index: int, focused: FormRow | None = None, edge: int = 0) -> None:
        """Show the page *index*, counted from 0; if *focused* is given, focus that row of the page.

        Form.PageShown is posted with *edge* once the page has been laid out, unless the page is already the current
        one. If the page is not mounted yet, it is mounted first; until then, keys have no effect.
        """
        is_other = index != self._page_index
        if is_other:
            self._page_index, self._is_turning = index, True
            for at, page in enumerate(self._pages):
                page.display = at == index
            self._show_position()
        if focused is not None:
            self._pages[index].show_rows_to(focused)
        self._unmounted_focus = focused if focused is not None and not focused.is_mounted else None
        if focused is not None:
            # Not `focus()`, which is deferred: the next key would go to the old field.
            self.screen.set_focus(focused.field_widget if focused.is_mounted else None)
        if is_other:
            self.call_later(self._finish_page, index, edge)

    async def _finish_page(self, index: int, edge: int) -> None:
        """Show the remaining rows of the current page, group by group, then post PageShown with *edge*.

        Do nothing if *index* is no longer the current page, or if the form was closed.
        """
        page = self._pages[index]
        if index != self._page_index or not self.is_attached:
            return  # the user has gone on to another page, or the form was closed
        if not page.is_attached:
            await self.mount(page)
        elif not page.is_shown_whole:
            await page.show_next_rows()
        if not page.is_shown_whole:
            self.call_after_refresh(self._finish_page, index, edge)
            return
        if self._unmounted_focus is not None and self.screen.focused is None:
            self.screen.set_focus(self._unmounted_focus.field_widget)
        self._unmounted_focus = None
        self.call_after_refresh(self._announce_page, index, edge)

    def _announce_page(self, index: int, edge: int) -> None:
        if index == self._page_index:
            self._is_turning = False
            self.post_message(self.PageShown(edge))
            self.call_after_refresh(self._prepare_page, index + 1)

    async def _prepare_page(self, index: int) -> None:
        """Mount the page *index*, one group of rows at a time, if it is the page after the current one.

        The page is mounted in advance so that keys typed right after a page change reach its fields.
        """
        if index != self._page_index + 1 or index >= len(self._pages) or not self.is_attached:
            return
        page = self._pages[index]
        if page.is_attached:
            await page.mount_next_rows()
        else:
            page.display = False
            await self.mount(page)
        if not page.is_mounted_whole:
            self.call_after_refresh(self._prepare_page, index)

    def turn_page(self, by: int) -> bool:
        """Show the next page if *by* is positive, otherwise the previous page.

        Return False if there is no such page.
        """
        index = self._page_index + (1 if by > 0 else -1)
        if not 0 <= index < len(self._pages):
            return False
        self._show_page_with_focus(index, -by)
        return True

    def show_end(self, by: int) -> None:
        """Show the last page if *by* is positive, otherwise the first one."""
        index = len(self._pages) - 1 if by > 0 else 0
        if index != self._page_index:
            self._show_page_with_focus(index, by)

    def _show_page_with_focus(self, index: int, edge: int) -> None:
        """Show the page *index*, counted from 0; if a field has the focus, focus a field of the new page.

        *edge* is 1 for the end of the page and -1 for its beginning: the last or first field gets the focus or, if no
        field had the focus, the page is scrolled to this edge.
        """
        rows = [row for row in self._pages[index].rows if row.display]
        if rows and self.current_row is not None:
            self.show_page(index, rows[-1 if edge > 0 else 0])
        else:
            self.show_page(index, None, edge)

    @property
    def has_pages(self) -> bool:
        """Whether the fields are divided into several pages."""
        return len(self._pages) > 1

    @property
    def unread_height(self) -> int:
        """The approximate total height, in terminal rows, of all unread pages except the current one.

        A page is unread until its end has been visible. While a page is being laid out, the height is at least 1,
        because the form must not count as read until then.
        """
        unseen = self._unseen_pages - {self._page_index}
        return sum(self._pages[index].estimated_height for index in unseen) + self._is_turning

    @property
    def _unseen_pages(self) -> set[int]:
        return set(range(len(self._pages))) - self._seen_pages

    def mark_page_seen(self) -> None:
        """Record that the end of the current page is visible; do nothing while the page is being laid out."""
        if not self._is_turning:
            self._seen_pages.add(self._page_index)

    def show_unseen_page(self) -> None:
        """Show the first page whose end has not been visible yet.

        Do nothing if there is no such page, or if the current page is such a page.
        """
        unseen = self._unseen_pages
        if unseen and self._page_index not in unseen:
            self._show_page_with_focus(min(unseen), -1)

    def on_page_link_clicked(self, event: PageLink.Clicked) -> None:
        """Show the next or the previous page."""
        event.stop()
        self.turn_page(event.step)

    # -- values

    def on_resize(self, event: events.Resize) -> None:
        """Make the title column as wide as the longest title, but at most 40 cells and half the width of the form."""
        width = self._compute_label_width(event.size.width)
        if width != self.label_cells:
            self.label_cells = width
            for row in self.rows:
                row.set_label_width(width)

    def _compute_label_width(self, width: int) -> int:
        return max(8, min(_MAX_LABEL_WIDTH, self._widest_label + 3, width // 2))

    def values(self) -> dict[str, Any]:
        """Return the values of all fields, keyed by field name.

        A field with the value None is not sent, and JSON_NULL is sent as a JSON null. Invalid values are included;
        invalid JSON is included as text.
        """
        return {
            row.field.name: row.field_widget.text
            if row.value is INVALID_JSON and isinstance(row.field_widget, TextEntry)
            else row.value
            for row in self.rows
        }

    def content(self) -> dict[str, Any]:
        """Return the values to send, keyed by field name.

        Empty fields are omitted, and JSON_NULL becomes None. Call `validate` first, because invalid values are
        included.
        """
        return {
            name: None if value is JSON_NULL else value for name, value in self.values().items() if value is not None
        }

    def set_problems(self, faults: Mapping[str, str]) -> None:
        """Show errors that were found outside the form, for example by schema validation.

        *faults* maps field names to error messages. Errors from an earlier call are cleared.
        """
        for row in self.rows:
            row.set_problem(faults.get(row.field.name, ""))
        self._announce_problems([row for row in self.rows if row.field.name in faults])

    async def set_values(self, values: Mapping[str, Any]) -> None:
        """Replace the values of all fields, keyed by field name; a field missing from *values* becomes empty."""
        for row in self.rows:
            await row.set_value(values.get(row.field.name))

    def validate(self) -> bool:
        """Return whether all values may be sent; if not, show all errors and focus the first invalid field."""
        wrong = [row for row in self.rows if not row.validate()]
        if wrong:
            self._focus_row(wrong[0])
            self._announce_problems(wrong)
        return not wrong

    def _announce_problems(self, rows: Sequence[FormRow]) -> None:
        announce(self, _("; ").join(row.describe_problem() for row in rows[:_MAX_ANNOUNCED]))

    @property
    def is_unchanged(self) -> bool:
        """Whether all fields still have their initial values."""
        return all(row.is_unchanged for row in self.rows)

    def secrets(self) -> tuple[Field, ...]:
        """Return the fields that seem to ask for a secret and have a value."""
        return tuple(row.field for row in self.rows if row.field.secret and row.value is not None)

    def masked_values(self) -> dict[str, Any]:
        """Return the entered values that the form shows only as dots, keyed by field name."""
        return {row.field.name: row.value for row in self.rows if row.is_masked and row.value is not None}

    def focus_first(self) -> None:
        """Focus the first required field that is empty or, if there is none, the first field.

        If a page other than the first is shown, focus the first field on that page with an invalid value or, if there
        is none, the first field on that page.
        """
        if self._page_index:
            shown = [row for row in self._pages[self._page_index].rows if row.display]
            gaps = [row for row in shown if row.problem()]
        else:
            shown = [row for row in self.rows if row.display]
            gaps = [row for row in shown if row.field.required and row.value is None]
        for row in (gaps or shown)[:1]:
            self._focus_row(row)

    def focus_last(self) -> None:
        """Focus the last field."""
        for row in self.rows[-1:]:
            self._focus_row(row)

    def _focus_row(self, row: FormRow) -> None:
        self.show_page(next(at for at, page in enumerate(self._pages) if row in page.rows), row)

    @property
    def current_row(self) -> FormRow | None:
        """The row whose input widget has the focus, or None."""
        # Not `has_focus`, which is updated later.
        focused = self.screen.focused
        return next((row for row in self.rows if row.is_input(focused)), None)

    def move_focus(self, by: int) -> bool:
        """Focus the next field if *by* is 1, or the previous one if *by* is -1.

        Return False if there is no such field.
        """
        at = self.rows.index(self.current_row) + by if self.current_row is not None else -1
        while 0 <= at < len(self.rows):
            if self.rows[at].display:
                self._focus_row(self.rows[at])
                return True
            at += by
        return False

    def show_descriptions(self, is_shown: bool) -> None:
        """If *is_shown* is true, show the descriptions of all fields; otherwise, only that of the focused field."""
        for row in self.rows:
            row.show_description(is_shown)

    @property
    def estimated_height(self) -> int:
        """The approximate height, in rows, of the form's tallest page if all descriptions are shown."""
        return max(page.estimated_height for page in self._pages) + (1 if len(self._pages) > 1 else 0)

    def process_key(self, key: str) -> bool:
        """Handle a key that leaves the current field or shows another page; return False for any other key.

        If there is no other page, Page up and Page down post PageKeyPressed, so that the form can be scrolled. If the
        focused field can scroll, these two keys are left to the field. The focus moves before this method returns, so
        that the next key goes to the newly focused field.
        """
        row = self.current_row
        if row is not None and key in _PAGE_KEYS and not row.field_widget.scrolls_pages:
            if not self.turn_page(_PAGE_KEYS[key]):
                self.post_message(self.PageKeyPressed(_PAGE_KEYS[key]))
            return True
        direction = row.field_widget.exit_direction(key) if row is not None else 0
        if direction and not self.move_focus(direction):
            self.post_message(self.FocusExited(direction))
        return bool(direction)

    def on_focus_move_requested(self, event: FocusMoveRequested) -> None:
        """Move the focus to the next or previous field, or post FocusExited if there is none."""
        event.stop()
        if not self.move_focus(event.direction):
            self.post_message(self.FocusExited(event.direction))

    def on_field_changed(self, event: FieldChanged) -> None:
        """Post Form.Changed in place of FieldChanged."""
        event.stop()
        self.post_message(self.Changed())
