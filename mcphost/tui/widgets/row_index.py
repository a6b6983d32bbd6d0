"""Row index of a long text: counted in short steps, laid out only where it is visible."""

import asyncio
from array import array
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterator
from functools import lru_cache
from time import perf_counter

from mcphost.sanitize import is_sanitized
from mcphost.tui.screen_text import TAB_WIDTH, find_row_breaks, is_clean, measure_character

SLICE_SECONDS = 0.008
_CHUNK_CHARACTERS = 16 * 1024
_MAX_CACHED_CHUNKS = 16
_WIDEST_MARK = 9
_JOINERS = ("\u200c", "\u200d")
_CONTEXT_DEPENDENT = (*_JOINERS, "\ufe0e", "\ufe0f")
"""Characters whose mark depends on their neighbours; every other invisible character always has one."""
_JOINERS_AT_BOTH_ENDS = 16
_MAX_BACKTRACK = 8


class RowIndex:
    """Offsets at which the rows of a text begin.

    A row ends after an LF, after the last space in its second half, or else after *width* cells. No character is left
    out: the space stays at the end of its row. ASCII lines and sanitized text wrap exactly; other lines wrap early,
    because each character counts as the widest it could be.

    The text is read in chunks of about 16,000 characters, each of which begins a row. Only the first row and offset of
    each chunk are kept; its rows are laid out again on request.
    """

    def __init__(self, text: str, width: int, *, is_cleaned: bool) -> None:
        self._text = text
        self._width = width
        self._is_cleaned = is_cleaned
        self._chunk_offsets = array("q", [0])  # of each piece, and where the next one begins
        self._first_rows = array("q", [0])
        self._row_start_cache: OrderedDict[int, array[int]] = OrderedDict()
        self.is_complete = False

    @property
    def rows(self) -> int:
        """Return how many rows are counted so far."""
        return self._first_rows[-1]

    def advance(self) -> bool:
        """Count rows for a few milliseconds; return whether all are counted."""
        until = perf_counter() + SLICE_SECONDS
        while not self.is_complete and perf_counter() < until:
            self._count_chunk()
        return self.is_complete

    async def advance_to(self, offset: int) -> None:
        """Count rows up to an offset, yielding to other tasks."""
        while not self.is_complete and self._chunk_offsets[-1] <= offset:
            self.advance()
            await asyncio.sleep(0)

    def span(self, row: int) -> tuple[int, int]:
        """Return the offsets of the first character of a counted row and of the first one after it."""
        piece = bisect_right(self._first_rows, row) - 1
        starts = self._get_row_starts(piece)
        at = row - self._first_rows[piece]
        return starts[at], (starts[at + 1] if at + 1 < len(starts) else self._chunk_offsets[piece + 1])

    def find_row(self, offset: int) -> int:
        """Return the counted row that contains the character at an offset."""
        piece = min(bisect_right(self._chunk_offsets, offset), len(self._chunk_offsets) - 1) - 1
        return self._first_rows[piece] + bisect_right(self._get_row_starts(piece), offset) - 1

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
        """Return the end of the chunk that starts at *position*, after a line or a row, and its number of rows."""
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
    """Return a length up to which every line of the text fits in one row."""
    if not text.isascii():
        return width // _WIDEST_MARK
    return width if is_cleaned or "\t" not in text else width // TAB_WIDTH


def _count_rows(text: str, width: int, *, is_cleaned: bool) -> int:
    """Return the number of rows of a chunk; lines that never wrap are counted without a look at each."""
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
    """Return the offsets of the rows of a chunk that starts at *offset*."""
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
    """Yield the offsets of the rows of a line, except the first."""
    if is_cleaned and not line.isascii():
        return iter(find_row_breaks(line, width))
    return _iter_fixed_breaks(line, width if is_cleaned else _fixed_row_length(line, width))


def _fixed_row_length(line: str, width: int) -> int:
    """Return how many characters of a line that is sanitized row by row fit into any row."""
    if line.isascii():
        return width if "\t" not in line else max(1, width // TAB_WIDTH)
    if not is_clean(line) or "\t" in line:
        return max(1, width // _WIDEST_MARK)
    if any(joiner in line for joiner in _JOINERS):
        # At both ends of a row a character lacks a neighbour, and may become a mark.
        return max(1, width // _WIDEST_MARK, (width - _JOINERS_AT_BOTH_ENDS) // 2)
    return max(1, width // 2)


def _iter_fixed_breaks(line: str, step: int) -> Iterator[int]:
    """Yield the row offsets of a line in which every character has the same width."""
    at, size = 0, len(line)
    plain = line.isascii()
    while at + step < size:
        # Not in the first half of a row: indented text would leave rows of spaces.
        blank = line.rfind(" ", at + step // 2, at + step)
        at = _avoid_splitting_marks(line, at + 1, blank + 1 if blank >= 0 else at + step, plain=plain)
        yield at


def _avoid_splitting_marks(line: str, least: int, at: int, *, plain: bool) -> int:
    """Return the start of the character that *at* would separate from its combining marks, unless it is far back."""
    if plain or not _are_joined(line[at - 1 : at + 1]):
        return at
    for back in range(at - 1, max(least, at - _MAX_BACKTRACK) - 1, -1):
        if not _are_joined(line[back - 1 : back + 1]):
            return back
    return at


@lru_cache(4096)
def _are_joined(pair: str) -> bool:
    """Return whether the second of two characters combines with the first."""
    if pair[0] in _JOINERS:
        return True
    return measure_character(pair[1])[1] and (is_sanitized(pair[1]) or pair[1] in _CONTEXT_DEPENDENT)
