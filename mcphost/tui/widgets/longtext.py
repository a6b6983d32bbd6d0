"""A long text of any size: an index of line starts, only the rows in view are cleaned and drawn."""

from array import array
from bisect import bisect_right
from collections.abc import Iterator
from functools import lru_cache
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

from mcphost.tui.sanitize import clean, is_clean

_EXACT = 100_000


class LongText(ScrollView, can_focus=True):
    """Read-only text, wrapped between words where that wastes little; opening costs one pass over the text."""

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
        self.text = text
        self._starts = array("q", [0])  # offset of each row's first character
        self._wrapped_at: int = 0

    @property
    def rows(self) -> int:
        """How many rows it has at its present width."""
        return len(self._starts)

    def show(self, text: str) -> None:
        """Show another text from its beginning."""
        self.text = text
        self._wrapped_at = 0
        self._layout_rows()
        self.scroll_to(y=0, animate=False, force=True)

    def on_resize(self, event: events.Resize) -> None:
        """Rows depend on the width."""
        del event
        self._layout_rows()

    @property
    def _room(self) -> int:
        """The cells of a row: the scrollbar lies over the last ones, and is always there."""
        return max(0, self.size.width - self.scrollbar_size_vertical)

    def _layout_rows(self) -> None:
        width = self._room
        if width and width != self._wrapped_at:
            self._wrapped_at = width
            self._starts = _row_starts(self.text, width)
            self.virtual_size = Size(width, len(self._starts))
        self.refresh()

    def _row(self, number: int) -> str:
        start = self._starts[number]
        end = self._starts[number + 1] if number + 1 < len(self._starts) else len(self.text)
        return self.text[start:end].rstrip("\r\n")

    def render_line(self, y: int) -> Strip:
        """One row, cleaned; what does not fit (wide characters) wraps no further and is cut."""
        number = y + self.scroll_offset.y
        style = self.visual_style.rich_style
        width = self._room
        if number >= len(self._starts) or not self._wrapped_at:
            return Strip.blank(width, style)
        text = clean(self._row(number)).replace("\t", "    ")
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
        return Strip(segments, cell_len(text)).adjust_cell_length(width, style)

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        """The selected rows, joined as they are in the text."""
        first = selection.start.y if selection.start else 0
        last = min(selection.end.y if selection.end else len(self._starts) - 1, len(self._starts) - 1)
        out: list[str] = []
        for number in range(first, last + 1):
            span = selection.get_span(number)
            if span is None:
                continue
            row = clean(self._row(number)).replace("\t", "    ")
            out.append(row[max(0, span[0]) : None if span[1] == -1 else span[1]])
            end = self._starts[number + 1] if number + 1 < len(self._starts) else len(self.text)
            if number < last and self.text[end - 1 : end] == "\n":
                out.append("\n")
        return "".join(out), "\n"

    def selection_updated(self, selection: Selection | None) -> None:
        """Draw the selection."""
        del selection
        self.refresh()

    def row_of(self, offset: int) -> int:
        """The row that holds this character."""
        return bisect_right(self._starts, offset) - 1

    def find(self, needle: str, after: int = -1) -> int:
        """The offset of the next place that holds it (from the start again at the end), -1 when none does."""
        found = self.text.find(needle, after + 1)
        return found if found >= 0 else self.text.find(needle)


def _step(line: str, width: int) -> int:
    if line.isascii():
        return width if "\t" not in line else max(1, width // 4)
    return max(1, width // (2 if is_clean(line) else 9))


@lru_cache(4096)
def _cells(character: str) -> int:
    """How wide a character is once it is cleaned; at most, for its neighbours may make it narrower."""
    return 4 if character == "\t" else cell_len(clean(character))


def _cuts(line: str, position: int, width: int) -> list[int]:
    cuts: list[int] = []
    used = word = before = 0  # `before`: the cells of the row up to the word that begins at `word`
    for number, character in enumerate(line):
        cells = _cells(character)
        if used + cells > width and before * 2 > width:
            cuts.append(position + word)
            used, before = used - before, 0
        if used + cells > width and used:
            cuts.append(position + number)
            used = before = 0
        used += cells
        if character == " ":
            word, before = number + 1, used
    return cuts


def _steps(line: str, position: int, step: int) -> Iterator[int]:
    """The same where each character takes as much room as any other."""
    at, size = 0, len(line)
    while at + step < size:
        # In the first half of a row it is too early: an indented or named run would be left with rows of blanks.
        blank = line.rfind(" ", at + step // 2, at + step)
        at = blank + 1 if blank >= 0 else at + step
        yield position + at


def _row_starts(text: str, width: int) -> "array[int]":
    """Offsets of all rows: after each LF, and within a line after the last blank that fits into the row's second half,
    or else after `width` cells. No character is left out: the blank stays at the end of its row.

    Lines of ASCII wrap exactly, and so does every line of a text of up to 100,000 characters. In longer texts other
    lines wrap early: each character counts as the widest it could be, so that all always fit.
    """
    starts = array("q", [0])
    exact = len(text) <= _EXACT
    append = starts.append
    find = text.find
    position, size = 0, len(text)
    while position < size:
        end = find("\n", position)
        stop = size if end < 0 else end
        if stop - position > width // 8:
            line = text[position:stop]
            step = _step(line, width)
            if exact and stop - position > step and not line.isascii():
                starts.extend(_cuts(line, position, width))
            elif stop - position > step:
                starts.extend(_steps(line, position, step))
        position = stop + 1
        if position < size or (end >= 0 and position == size):
            append(position)
    return starts
