"""Read-only view of a text of any size: only visible rows are sanitized and drawn."""

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style as RichStyle
from textual import events
from textual._cells import cell_len
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.selection import Selection
from textual.strip import Strip

from mcphost.sanitize import count_unsafe
from mcphost.tui.messages import Section, join_sections
from mcphost.tui.screen_text import TAB_WIDTH, clean
from mcphost.tui.widgets.row_index import RowIndex

MAX_CLEANED_WHOLE = 100_000
_MAX_CLEANED_LENGTH = 150_000
_MAX_ODD_CHARACTERS = 5_000
_BAR, _CONTINUATION_BAR = "│ ", "┆ "
_MARGIN = len(_BAR)


class LongText(ScrollView, can_focus=True):
    """Read-only text, wrapped between words where possible; opening costs one pass over the text."""

    ALLOW_SELECT = True
    DEFAULT_CSS = """
    LongText { background: $background; color: $text; overflow-x: hidden; overflow-y: scroll; padding: 0 1;
               scrollbar-size-vertical: 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("g,home", "scroll_home", show=False),
        Binding("G,end", "scroll_end", show=False),
        Binding("space", "page_down", show=False),
    ]

    def __init__(self, text: str = "", *, id: str | None = None) -> None:  # noqa: A002 - Textual's own parameter name
        super().__init__(id=id)
        self._sections: Sequence[Section] = ()
        self._set_text(text)
        self._row_index = RowIndex("", 1, is_cleaned=True)
        self._row_index.advance()
        self._wrap_width: int = 0
        self._previous_rows = 0

    @property
    def rows(self) -> int:
        """The number of rows at the current width; of a very long text, those counted so far."""
        return self._row_index.rows

    @property
    def is_counted(self) -> bool:
        """Whether all rows are counted."""
        return self._row_index.is_complete

    def _set_text(self, text: str) -> None:
        self.text = text
        self._display_text, self._is_cleaned, self._headings = (
            _frame_sections(self._sections) if self._sections else (*prepare_text(text), frozenset[int]())
        )

    def show(self, text: str, sections: Sequence[Section] = ()) -> None:
        """Show a text from its beginning; sections have headings, and a bar before all other rows."""
        self._sections = sections
        self._set_text(join_sections(sections) if sections else text)
        self._wrap_width = self._previous_rows = 0
        self._layout_rows()
        self.scroll_to(y=0, animate=False, force=True)

    def on_resize(self, event: events.Resize) -> None:
        """Count the rows for the new width."""
        del event
        self._layout_rows()

    @property
    def _text_width(self) -> int:
        """The columns of a row; the scrollbar covers the last ones and is always there."""
        return max(0, self.size.width - self.scrollbar_size_vertical)

    def _layout_rows(self) -> None:
        width = self._text_width
        if width and width != self._wrap_width:
            self._wrap_width = width
            room = max(1, width - _MARGIN) if self._sections else width
            self._row_index = RowIndex(self._display_text, room, is_cleaned=self._is_cleaned)
            if not self._count_rows():
                self.run_worker(partial(self._count_rest, self._row_index), group="rows", exclusive=True)
        self.refresh()

    def _count_rows(self) -> bool:
        """Count more rows; until all are counted, keep at least the height of the last width."""
        is_complete = self._row_index.advance()
        if is_complete:
            self._previous_rows = self._row_index.rows
        self.virtual_size = Size(self._wrap_width, max(self._row_index.rows, self._previous_rows))
        return is_complete

    async def _count_rest(self, index: RowIndex) -> None:
        while True:
            await asyncio.sleep(0)  # text or width may have changed meanwhile
            if index is not self._row_index or self._count_rows():
                break
        self.refresh()

    def _row(self, number: int) -> str:
        start, end = self._row_index.span(number)
        return prepare_row(self._display_text[start:end], is_cleaned=self._is_cleaned)

    def _row_prefix(self, number: int) -> str:
        """Return the prefix of a row: none for a heading, a bar for other rows of sections."""
        start = self._row_index.span(number)[0]
        if not self._sections or start in self._headings:
            return ""
        return _BAR if not start or self._display_text[start - 1] == "\n" else _CONTINUATION_BAR

    def render_line(self, y: int) -> Strip:
        """Return one row, sanitized; all of it fits."""
        number = y + self.scroll_offset.y
        style = self.visual_style.rich_style
        width = self._text_width
        if number >= self.rows or not self._wrap_width:
            return Strip.blank(width, style)
        text = self._row(number)
        selection = self.text_selection
        span = selection.get_span(number) if selection is not None else None
        if span is None:
            segments = [Segment(text, style + RichStyle.from_meta({"offset": (0, number)}))]
        else:
            left, right = max(0, span[0]), len(text) if span[1] == -1 else span[1]
            chosen = style + self.screen.get_component_rich_style("screen--selection")
            segments = [
                Segment(text[a:b], paint + RichStyle.from_meta({"offset": (a, number)}))
                for a, b, paint in ((0, left, style), (left, right, chosen), (right, len(text), style))
                if a < b
            ]
        lead = self._row_prefix(number)
        return Strip([Segment(lead, style), *segments], len(lead) + cell_len(text)).adjust_cell_length(width, style)

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        """Return the selected rows, joined as in the text."""
        first = selection.start.y if selection.start else 0
        last = min(selection.end.y if selection.end else self.rows - 1, self.rows - 1)
        out: list[str] = []
        for number in range(first, last + 1):
            span = selection.get_span(number)
            if span is None:
                continue
            row = self._row(number)
            out.append(row[max(0, span[0]) : None if span[1] == -1 else span[1]])
            end = self._row_index.span(number)[1]
            if number < last and self._display_text[end - 1 : end] == "\n":
                out.append("\n")
        return "".join(out), "\n"

    def selection_updated(self, selection: Selection | None) -> None:
        """Draw the selection."""
        del selection
        self.refresh()

    async def find_row(self, offset: int) -> int:
        """Return the row that contains the character at an offset that `find` returned."""
        await self._row_index.advance_to(offset)
        return self._row_index.find_row(offset)

    def find(self, needle: str, after: int = -1) -> int:
        """Return the offset of the next match, wrapping around at the end; -1 if there is none."""
        found = self._display_text.find(needle, after + 1)
        return found if found >= 0 else self._display_text.find(needle)


def prepare_text(text: str) -> tuple[str, bool]:
    """Return the text to lay out and whether it is sanitized; a text that is or becomes long is sanitized row by row.

    Marks depend on neighbouring characters, so rows are exact only if sanitizing comes before wrapping.
    """
    if len(text) <= MAX_CLEANED_WHOLE and count_unsafe(text, _MAX_ODD_CHARACTERS) < _MAX_ODD_CHARACTERS:
        cleaned = clean(text).replace("\t", " " * TAB_WIDTH)
        if len(cleaned) <= _MAX_CLEANED_LENGTH:
            return cleaned, True
    return text, False


def _frame_sections(sections: Sequence[Section]) -> tuple[str, bool, frozenset[int]]:
    """Return what `prepare_text` returns, and the offsets of lines that belong to no section."""
    is_cleaned = prepare_text(join_sections(sections))[1]
    lines: list[str] = []
    headings: list[int] = []
    at = 0
    for one in sections:
        heading, text = one.heading.replace("\n", "⏎"), one.text
        if is_cleaned:
            heading, text = prepare_text(heading)[0], prepare_text(text)[0]
        if lines:
            lines.append("")
            headings.append(at)
            at += 1
        headings.append(at)
        lines += [heading, text]
        at += len(heading) + len(text) + 2
    return "\n".join(lines), is_cleaned, frozenset(headings)


def prepare_row(row: str, *, is_cleaned: bool) -> str:
    """Return one row without its line end."""
    if is_cleaned:
        return row.removesuffix("\n")
    if row.endswith("\n"):
        row = row[:-1].removesuffix("\r")
    return clean(row).replace("\t", " " * TAB_WIDTH)
