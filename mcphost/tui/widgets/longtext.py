"""A long text of any size: an index of line starts, only the rows in view are cleaned and drawn."""

from array import array
from bisect import bisect_right
from collections.abc import Iterator, Sequence
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

from mcphost.tui.cell_width import TAB, row_breaks, widest
from mcphost.tui.messages import Section, joined
from mcphost.tui.sanitize import clean, is_clean

_EXACT = 100_000
_MOST_DRAWN = 4 * _EXACT
_WIDEST_MARK = 9
_JOINERS = ("\u200c", "\u200d")
_JOINERS_AT_BOTH_ENDS = 16
_FARTHEST_BACK = 8
_LINE, _CONTINUED = "│ ", "┆ "
_MARGIN = len(_LINE)


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
        self._sections: Sequence[Section] = ()
        self._set(text)
        self._starts = array("q", [0])  # offset of each row's first character
        self._wrapped_at: int = 0

    @property
    def rows(self) -> int:
        """How many rows it has at its present width."""
        return len(self._starts)

    def _set(self, text: str) -> None:
        self.text = text
        self._drawn, self._is_cleaned, self._headings = (
            _framed(self._sections) if self._sections else (*_drawn(text), frozenset[int]())
        )

    def show(self, text: str, sections: Sequence[Section] = ()) -> None:
        """Show another text from its beginning; one in sections with its headings, and a bar before all else."""
        self._sections = sections
        self._set(joined(sections) if sections else text)
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
            room = max(1, width - _MARGIN) if self._sections else width
            self._starts = _row_starts(self._drawn, room, is_cleaned=self._is_cleaned)
            self.virtual_size = Size(width, len(self._starts))
        self.refresh()

    def _row(self, number: int) -> str:
        start = self._starts[number]
        end = self._starts[number + 1] if number + 1 < len(self._starts) else len(self._drawn)
        return _as_drawn(self._drawn[start:end], is_cleaned=self._is_cleaned)

    def _lead(self, number: int) -> str:
        """Return what stands before a row: nothing before a heading, and before any other row of sections a bar."""
        start = self._starts[number]
        if not self._sections or start in self._headings:
            return ""
        return _LINE if not start or self._drawn[start - 1] == "\n" else _CONTINUED

    def render_line(self, y: int) -> Strip:
        """One row, cleaned; all of it fits."""
        number = y + self.scroll_offset.y
        style = self.visual_style.rich_style
        width = self._room
        if number >= len(self._starts) or not self._wrapped_at:
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
        lead = self._lead(number)
        return Strip([Segment(lead, style), *segments], len(lead) + cell_len(text)).adjust_cell_length(width, style)

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        """The selected rows, joined as they are in the text."""
        first = selection.start.y if selection.start else 0
        last = min(selection.end.y if selection.end else len(self._starts) - 1, len(self._starts) - 1)
        out: list[str] = []
        for number in range(first, last + 1):
            span = selection.get_span(number)
            if span is None:
                continue
            row = self._row(number)
            out.append(row[max(0, span[0]) : None if span[1] == -1 else span[1]])
            end = self._starts[number + 1] if number + 1 < len(self._starts) else len(self._drawn)
            if number < last and self._drawn[end - 1 : end] == "\n":
                out.append("\n")
        return "".join(out), "\n"

    def selection_updated(self, selection: Selection | None) -> None:
        """Draw the selection."""
        del selection
        self.refresh()

    def row_of(self, offset: int) -> int:
        """The row that holds the character at an offset that `find` returned."""
        return bisect_right(self._starts, offset) - 1

    def find(self, needle: str, after: int = -1) -> int:
        """The offset of the next place that holds it (from the start again at the end), -1 when none does."""
        found = self._drawn.find(needle, after + 1)
        return found if found >= 0 else self._drawn.find(needle)


def _drawn(text: str) -> tuple[str, bool]:
    """Return what is laid out, and whether it is clean; a text that is long, or becomes so, is cleaned row by row.

    What a mark stands for depends on its neighbours, so rows are exact only where cleaning comes before wrapping.
    """
    if len(text) <= _EXACT:
        cleaned = clean(text).replace("\t", " " * TAB)
        if len(cleaned) <= _MOST_DRAWN:
            return cleaned, True
    return text, False


def _framed(sections: Sequence[Section]) -> tuple[str, bool, frozenset[int]]:
    """Return what `_drawn` does, and the offsets of the lines that are no text of a section."""
    is_cleaned = _drawn(joined(sections))[1]
    lines: list[str] = []
    headings: list[int] = []
    at = 0
    for one in sections:
        heading, text = one.heading.replace("\n", "⏎"), one.text
        if is_cleaned:
            heading, text = _drawn(heading)[0], _drawn(text)[0]
        if lines:
            lines.append("")
            headings.append(at)
            at += 1
        headings.append(at)
        lines += [heading, text]
        at += len(heading) + len(text) + 2
    return "\n".join(lines), is_cleaned, frozenset(headings)


def _as_drawn(row: str, *, is_cleaned: bool) -> str:
    """Return one row without its line end."""
    if is_cleaned:
        return row.removesuffix("\n")
    if row.endswith("\n"):
        row = row[:-1].removesuffix("\r")
    return clean(row).replace("\t", " " * TAB)


def _step(line: str, width: int) -> int:
    """Return how many characters of a line that is cleaned row by row fit into any row."""
    if line.isascii():
        return width if "\t" not in line else max(1, width // TAB)
    if not is_clean(line) or "\t" in line:
        return max(1, width // _WIDEST_MARK)
    if any(joiner in line for joiner in _JOINERS):
        # At either end of a row one has no neighbour, and becomes a mark.
        return max(1, width // _WIDEST_MARK, (width - _JOINERS_AT_BOTH_ENDS) // 2)
    return max(1, width // 2)


def _steps(line: str, position: int, step: int) -> Iterator[int]:
    """Return the same where each character takes as much room as any other."""
    at, size = 0, len(line)
    plain = line.isascii()
    while at + step < size:
        # In the first half of a row it is too early: an indented or named run would be left with rows of blanks.
        blank = line.rfind(" ", at + step // 2, at + step)
        at = _before_marks(line, at + 1, blank + 1 if blank >= 0 else at + step, plain=plain)
        yield position + at


def _before_marks(line: str, least: int, at: int, *, plain: bool) -> int:
    """Return where the character that `at` would part from its marks begins, unless it is far back."""
    if plain:
        return at
    for back in range(at, max(least, at - _FARTHEST_BACK) - 1, -1):
        if not widest(line[back])[1] and line[back - 1] not in _JOINERS:
            return back
    return at


def _row_starts(text: str, width: int, *, is_cleaned: bool) -> "array[int]":
    """Offsets of all rows: after each LF, and within a line after the last blank that fits into the row's second half,
    or else after `width` cells. No character is left out: the blank stays at the end of its row.

    Lines of ASCII wrap exactly, and so does every line of a text that is clean. In others, lines wrap early: each
    character counts as the widest it could be, so that all always fit.
    """
    starts = array("q", [0])
    append = starts.append
    find = text.find
    position, size = 0, len(text)
    while position < size:
        end = find("\n", position)
        stop = size if end < 0 else end
        if stop - position > width // _WIDEST_MARK:
            line = text[position:stop]
            if is_cleaned and not line.isascii():
                starts.extend(position + at for at in row_breaks(line, width))
            elif stop - position > (step := width if is_cleaned else _step(line, width)):
                starts.extend(_steps(line, position, step))
        position = stop + 1
        if position < size or (end >= 0 and position == size):
            append(position)
    return starts
