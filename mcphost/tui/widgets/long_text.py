"""Read-only view for text of any size, in which only the visible rows are sanitized and rendered."""

import asyncio
from array import array
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from functools import lru_cache, partial
from time import perf_counter
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style as RichStyle
from textual import events
from textual._cells import cell_len
from textual.binding import Binding, BindingType
from textual.content import Span
from textual.geometry import Size
from textual.selection import Selection
from textual.strip import Strip

from mcphost.sanitize import count_unsafe, is_sanitized
from mcphost.tui.immediate_scroll import ImmediateScrollView
from mcphost.tui.screen_reader import is_reader, replace_drawing
from mcphost.tui.screen_text import TAB_WIDTH, clean, find_row_breaks, is_clean, measure_character
from mcphost.tui.widget_messages import Section, join_sections

SLICE_SECONDS = 0.008
_CHUNK_CHARACTERS = 16 * 1024
_MAX_CACHED_CHUNKS = 16
_WIDEST_MARK = 9
_JOINERS = ("\u200c", "\u200d")
_CONTEXT_DEPENDENT = (*_JOINERS, "\ufe0e", "\ufe0f")
"""Invisible characters that are replaced by a mark only next to certain characters; others always are."""
_JOINERS_AT_BOTH_ENDS = 16
_MAX_BACKTRACK = 8


class RowIndex:
    """Index of the offsets at which the rows of a string begin when it is wrapped to *width* cells.

    A row ends after a line feed. A longer line is broken after the last space in the second half of the row or, if
    there is none, where the row is full. Every character belongs to a row; a space at which a line is broken is the
    last character of its row. In ASCII lines and sanitized text, the width of each row is computed exactly. Other lines
    may be wrapped too early, because each of their characters is assumed to have the maximum width.

    The text is processed in chunks of about 16,000 characters, each of which begins a new row. The index stores the
    first row and the offset of each chunk. The rows within a chunk are computed when needed, and cached for 16 chunks.
    """

    def __init__(self, text: str, width: int, *, is_cleaned: bool) -> None:
        self._text = text
        self._width = width
        self._is_cleaned = is_cleaned
        self._chunk_offsets = array("q", [0])  # offset of each chunk, then of the end of the last one
        self._first_rows = array("q", [0])
        self._row_start_cache: OrderedDict[int, array[int]] = OrderedDict()
        self.is_complete = False

    @property
    def rows(self) -> int:
        """The number of rows counted so far."""
        return self._first_rows[-1]

    def advance(self) -> bool:
        """Count more rows for about 8 milliseconds; return whether all rows have been counted."""
        until = perf_counter() + SLICE_SECONDS
        while not self.is_complete and perf_counter() < until:
            self._count_chunk()
        return self.is_complete

    async def advance_to(self, offset: int) -> None:
        """Count rows up to the row that contains *offset*, yielding to other tasks in between."""
        while not self.is_complete and self._chunk_offsets[-1] <= offset:
            self.advance()
            await asyncio.sleep(0)

    def span(self, row: int) -> tuple[int, int]:
        """Return the offsets at which *row* begins and ends.

        The row must already have been counted.
        """
        piece = bisect_right(self._first_rows, row) - 1
        starts = self._get_row_starts(piece)
        at = row - self._first_rows[piece]
        return starts[at], (starts[at + 1] if at + 1 < len(starts) else self._chunk_offsets[piece + 1])

    def find_row(self, offset: int) -> int:
        """Return the number of the row that contains *offset*.

        The row must already have been counted.
        """
        piece = min(bisect_right(self._chunk_offsets, offset), len(self._chunk_offsets) - 1) - 1
        return self._first_rows[piece] + bisect_right(self._get_row_starts(piece), offset) - 1

    def extend(self, text: str) -> None:
        """Replace the text with *text*, which must begin with the previous text; only the end is counted again."""
        self._text = text
        if self.is_complete:
            self.is_complete = False
            self._chunk_offsets.pop()
            self._first_rows.pop()
            self._row_start_cache.pop(len(self._chunk_offsets) - 1, None)

    def _count_chunk(self) -> None:
        end, rows = self._measure_next_chunk(self._chunk_offsets[-1])
        if end >= len(self._text):
            self.is_complete = True
            if end and self._text[end - 1] == "\n":
                rows += 1  # an empty row after the last LF
            rows = max(1, rows)
        self._chunk_offsets.append(end)
        self._first_rows.append(self._first_rows[-1] + rows)

    def _measure_next_chunk(self, position: int) -> tuple[int, int]:
        """Return the end of the chunk that starts at *position*, and the number of rows in the chunk.

        A chunk always ends at the end of a row.
        """
        size, length = len(self._text), _CHUNK_CHARACTERS
        while position + length < size:
            piece = self._text[position : position + length]
            line_end = piece.rfind("\n")
            if line_end >= 0:
                rows = _count_rows(piece[: line_end + 1], self._width, is_cleaned=self._is_cleaned)
                return position + line_end + 1, rows
            breaks = list(_iter_row_breaks(piece, self._width, is_cleaned=self._is_cleaned))
            if breaks:
                return position + breaks[-1], len(breaks)
            length *= 2  # a row may contain any number of zero-width characters
        return size, _count_rows(self._text[position:], self._width, is_cleaned=self._is_cleaned)

    def _get_row_starts(self, piece: int) -> "array[int]":
        found = self._row_start_cache.get(piece)
        if found is not None:
            self._row_start_cache.move_to_end(piece)
            return found
        start, end = self._chunk_offsets[piece], self._chunk_offsets[piece + 1]
        found = _find_row_starts(self._text[start:end], start, self._width, is_cleaned=self._is_cleaned)
        if (end == len(self._text) and self._text[end - 1 : end] == "\n") or start == end:
            found.append(end)
        self._row_start_cache[piece] = found
        if len(self._row_start_cache) > _MAX_CACHED_CHUNKS:
            self._row_start_cache.popitem(last=False)
        return found


def _max_unwrapped_length(text: str, width: int, *, is_cleaned: bool) -> int:
    """Return how many characters a line of *text* may have so that it certainly fits into *width* cells.

    *is_cleaned* is true if *text* is sanitized. If it is not, each row is sanitized later, which may make it longer.
    """
    if not text.isascii():
        return width // _WIDEST_MARK
    return width if is_cleaned or "\t" not in text else width // TAB_WIDTH


def _count_rows(text: str, width: int, *, is_cleaned: bool) -> int:
    """Return the number of rows in a chunk of text.

    If the lines are too short to wrap, only the line feeds are counted. For *width* and *is_cleaned*, see
    `_max_unwrapped_length`.
    """
    short = _max_unwrapped_length(text, width, is_cleaned=is_cleaned)
    position, size, rows = 0, len(text), 0
    while position < size:
        reached = position
        while reached < size and (line_end := text.rfind("\n", reached, reached + short + 1)) >= 0:
            reached = line_end + 1
        rows += text.count("\n", position, reached)
        if reached < size:
            end = text.find("\n", reached)
            stop = size if end < 0 else end
            rows += 1 + sum(1 for _ in _iter_row_breaks(text[reached:stop], width, is_cleaned=is_cleaned))
            reached = stop + 1
        position = reached
    return rows


def _find_row_starts(text: str, offset: int, width: int, *, is_cleaned: bool) -> "array[int]":
    """Return the offset of each row in the chunk *text*, which begins at *offset* in the full text.

    For *width* and *is_cleaned*, see `_max_unwrapped_length`.
    """
    starts = array("q")
    short = width // _WIDEST_MARK
    position, size = 0, len(text)
    while position < size:
        starts.append(offset + position)
        end = text.find("\n", position)
        stop = size if end < 0 else end
        if stop - position > short:
            line = text[position:stop]
            starts.extend(offset + position + at for at in _iter_row_breaks(line, width, is_cleaned=is_cleaned))
        position = stop + 1
    return starts


def _iter_row_breaks(line: str, width: int, *, is_cleaned: bool) -> Iterator[int]:
    """Yield the offset at which each row of a wrapped line begins, except for the first row.

    For *width* and *is_cleaned*, see `_max_unwrapped_length`.
    """
    if is_cleaned and not line.isascii():
        return iter(find_row_breaks(line, width))
    return _iter_fixed_breaks(line, width if is_cleaned else _fixed_row_length(line, width))


def _fixed_row_length(line: str, width: int) -> int:
    """Return how many characters of an unsanitized line certainly fit into a row of *width* cells.

    They fit even if sanitizing the row replaces some of them with longer text.
    """
    if line.isascii():
        return width if "\t" not in line else max(1, width // TAB_WIDTH)
    if not is_clean(line) or "\t" in line:
        return max(1, width // _WIDEST_MARK)
    if any(joiner in line for joiner in _JOINERS):
        # A joiner at either end of a row has lost its neighbor, so it may be replaced by a mark.
        return max(1, width // _WIDEST_MARK, (width - _JOINERS_AT_BOTH_ENDS) // 2)
    return max(1, width // 2)


def _iter_fixed_breaks(line: str, step: int) -> Iterator[int]:
    """Yield the offset of each row except the first, for rows of at most *step* characters."""
    at, size = 0, len(line)
    plain = line.isascii()
    while at + step < size:
        # Never break in the first half of a row, because indented text would leave rows of spaces.
        blank = line.rfind(" ", at + step // 2, at + step)
        at = _avoid_splitting_marks(line, at + 1, blank + 1 if blank >= 0 else at + step, plain=plain)
        yield at


def _avoid_splitting_marks(line: str, least: int, at: int, *, plain: bool) -> int:
    """Return a row break at or before *at* that does not separate a character from its combining marks.

    The break moves back by at most 8 characters, and not beyond *least*. If all breaks in this range separate such
    characters, *at* is returned unchanged. If *plain* is true, the line is ASCII and contains no combining marks.
    """
    if plain or not _are_joined(line[at - 1 : at + 1]):
        return at
    for back in range(at - 1, max(least, at - _MAX_BACKTRACK) - 1, -1):
        if not _are_joined(line[back - 1 : back + 1]):
            return back
    return at


@lru_cache(4096)
def _are_joined(pair: str) -> bool:
    """Return whether the second of two characters combines with the first, as an accent does."""
    if pair[0] in _JOINERS:
        return True
    return measure_character(pair[1])[1] and (is_sanitized(pair[1]) or pair[1] in _CONTEXT_DEPENDENT)


MAX_CLEANED_WHOLE = 100_000
_MAX_TOKENS = 40_000
_MAX_HIGHLIGHT_SECONDS = 0.5
"""CPU seconds after which highlighting, which runs on a thread, stops; the rest of the text stays plain."""
_MAX_CLEANED_LENGTH = 150_000
_MAX_ODD_CHARACTERS = 5_000
HEADING_MARK = "── "
_BAR, _CONTINUATION_BAR = "│ ", "┆ "
_MARGIN = len(_BAR)


class LongText(ImmediateScrollView, can_focus=True):
    """Scrollable read-only text of any size, wrapped between words where possible.

    The rows of long text are counted in the background, so the scrollable height may grow after the text appears.
    """

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
        self._has_bars = False
        self._spans: Sequence[Span] = ()
        self._set_text(text)
        self._row_index = RowIndex("", 1, is_cleaned=True)
        self._row_index.advance()
        self._wrap_width: int = 0
        self._previous_rows = 0

    @property
    def rows(self) -> int:
        """The number of rows at the current width; while `is_counted` is False, the number counted so far."""
        return self._row_index.rows

    @property
    def is_counted(self) -> bool:
        """Whether all rows have been counted for the current width."""
        return self._row_index.is_complete

    def _set_text(self, text: str) -> None:
        self.text = text
        self._display_text, self._is_cleaned, self._headings = (
            _frame_sections(self._sections) if self._sections else (*prepare_text(text), frozenset[int]())
        )

    def show(self, text: str, sections: Sequence[Section] = (), *, language: str = "") -> None:
        """Show *text*, or *sections* instead if there are any, and scroll to the beginning.

        A section is shown as a heading, followed by its text with a bar before each row. If *text* is in a programming
        *language* and has at most 100,000 characters, its beginning gets syntax highlighting shortly afterwards.
        """
        self._sections, self._spans = sections, ()
        self._has_bars = bool(sections)
        self._set_text(join_sections(sections) if sections else text)
        self._wrap_width = self._previous_rows = 0
        self._layout_rows()
        self.scroll_to(y=0, animate=False, force=True)
        if language and not sections and self._is_cleaned:
            self.run_worker(partial(self._highlight, self._display_text, language), group="colors", exclusive=True)

    def append(self, text: str, headings: Sequence[int] = ()) -> None:
        """Append sanitized *text* and keep the scroll position.

        *headings* are the offsets of headings in *text*; every other row has a bar before it. Do not use this method
        for a view whose text was set with `show`.
        """
        start = len(self._display_text)
        self._has_bars = self._is_cleaned = True
        self._headings |= {start + at for at in headings}
        self.text = self._display_text = self._display_text + text
        if self._wrap_width:
            self._row_index.extend(self._display_text)
            self._count_more()
        self._layout_rows()

    def clear_text(self) -> None:
        """Remove all text; if enough text is appended afterwards, the scroll position remains the same."""
        self.text = self._display_text = ""
        self._headings = frozenset[int]()
        self._wrap_width = 0

    async def _highlight(self, text: str, language: str) -> None:
        from mcphost.tui.transcript.code_theme import highlight

        color = partial(highlight, text, language, max_tokens=_MAX_TOKENS, max_seconds=_MAX_HIGHLIGHT_SECONDS)
        colored = await asyncio.to_thread(color)
        if text is self._display_text:
            self._spans = colored.spans[1:]  # the first highlight covers the whole text
            self.refresh()

    def on_resize(self, event: events.Resize) -> None:
        """Wrap the text to the new width."""
        del event
        self._layout_rows()

    @property
    def _text_width(self) -> int:
        """The width of a row in columns, excluding the scrollbar, which is always visible."""
        return max(0, self.size.width - self.scrollbar_size_vertical)

    def _layout_rows(self) -> None:
        width = self._text_width
        if width and width != self._wrap_width:
            self._wrap_width = width
            room = max(1, width - _MARGIN) if self._has_bars else width
            self._row_index = RowIndex(self._display_text, room, is_cleaned=self._is_cleaned)
            self._count_more()
        self.refresh()

    def _count_more(self) -> None:
        if not self._count_rows():
            self.run_worker(partial(self._count_rest, self._row_index), group="rows", exclusive=True)

    def _count_rows(self) -> bool:
        """Count rows for a few milliseconds and update the height.

        Return True once all rows have been counted. Until then, the height does not drop below the height at the
        previous width.
        """
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
        """Return the prefix of row *number*: a bar in the text of a section, otherwise "".

        Continuation rows of a wrapped line have a dashed bar. Headings, and text without sections, have no prefix.
        """
        start = self._row_index.span(number)[0]
        if not self._has_bars or start in self._headings:
            return ""
        bar = _BAR if not start or self._display_text[start - 1] == "\n" else _CONTINUATION_BAR
        return replace_drawing(bar) if is_reader(self) else bar

    def render_line(self, y: int) -> Strip:
        """Sanitize and render one row, cropped to the width of the widget, and highlight the selected text."""
        number = y + self.scroll_offset.y
        style = self.visual_style.rich_style
        width = self._text_width
        if number >= self.rows or not self._wrap_width:
            return Strip.blank(width, style)
        text = self._row(number)
        if text.startswith(HEADING_MARK) and self._row_index.span(number)[0] in self._headings and is_reader(self):
            text = " " * len(HEADING_MARK) + text.removeprefix(HEADING_MARK)
        selection = self.text_selection
        span = selection.get_span(number) if selection is not None else None
        if span is None:
            segments = [
                Segment(text[a:b], paint + RichStyle.from_meta({"offset": (a, number)}))
                for a, b, paint in self._color_row(number, len(text), style)
            ]
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

    def _color_row(self, number: int, length: int, style: RichStyle) -> Iterator[tuple[int, int, RichStyle]]:
        """Split the row *number*, which has *length* characters, by style; yield (start, end, style) tuples.

        *style* applies to characters without syntax highlighting.
        """
        at, start = 0, self._row_index.span(number)[0]
        for index in range(bisect_right(self._spans, start, key=_end_of), len(self._spans)):
            span = self._spans[index]
            if span.start >= start + length:
                break
            begin, end = max(0, span.start - start), min(length, span.end - start)
            if at < begin:
                yield at, begin, style
            yield begin, end, (self.visual_style + self._get_style(str(span.style))).rich_style
            at = end
        if at < length or not length:
            yield at, length, style

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        """Return the selected text, and the line feed that Textual appends to it.

        The text does not contain the line breaks added by wrapping.
        """
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
        """Redraw the widget because the selection has changed."""
        del selection
        self.refresh()

    async def find_row(self, offset: int) -> int:
        """Return the number of the row that contains *offset*.

        If necessary, the rows up to that row are counted first.
        """
        await self._row_index.advance_to(offset)
        return self._row_index.find_row(offset)

    def find(self, needle: str, after: int = -1) -> int:
        """Return the offset of the first match of *needle* that begins after offset *after*.

        If there is no such match, return the offset of the first match in the whole text. Return -1 if the text
        contains no match. The search is case-sensitive.
        """
        found = self._display_text.find(needle, after + 1)
        return found if found >= 0 else self._display_text.find(needle)


def _end_of(span: Span) -> int:
    return span.end


def prepare_text(text: str) -> tuple[str, bool]:
    """Sanitize *text* unless it is too long; return the text and whether it was sanitized.

    Text that is too long, or in which too many characters must be replaced, is returned unchanged, and the caller must
    sanitize it row by row. The rows of such text may be shorter than necessary: the replacement of a character can
    depend on its neighbors, so only the maximum width of a row is known when the text is wrapped.
    """
    if len(text) <= MAX_CLEANED_WHOLE and count_unsafe(text, _MAX_ODD_CHARACTERS) < _MAX_ODD_CHARACTERS:
        cleaned = clean(text).replace("\t", " " * TAB_WIDTH)
        if len(cleaned) <= _MAX_CLEANED_LENGTH:
            return cleaned, True
    return text, False


def _frame_sections(sections: Sequence[Section]) -> tuple[str, bool, frozenset[int]]:
    """Join sections into one text.

    Return the text, whether it is sanitized, and the offsets of the headings and of the blank lines that separate
    sections.
    """
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
    """Return a row without its line ending; sanitize the row unless *is_cleaned* is true."""
    if is_cleaned:
        return row.removesuffix("\n")
    if row.endswith("\n"):
        row = row[:-1].removesuffix("\r")
    return clean(row).replace("\t", " " * TAB_WIDTH)
