"""Text wrapped to rows that are drawn one at a time, for long values in a form.

Textual styles and draws every row of a text whenever it lays out the text, which takes 5 microseconds for each
character. A form can show 16,000 characters of default values, so each layout would block the program for 80
ms.
"""

from itertools import pairwise

from rich.segment import Segment
from rich.style import Style
from textual._cells import cell_len
from textual.selection import Selection
from textual.strip import Strip

from mcphost.tui.screen_text import TAB_WIDTH, find_row_breaks, measure_character
from mcphost.tui.transcript.line_breaks import break_line, needs_own_breaks


class WrappedText:
    """Sanitized text that is wrapped to the width of a widget."""

    def __init__(self, text: str) -> None:
        self._lines = text.replace("\t", " " * TAB_WIDTH).split("\n")
        self._width = 0
        self._rows: list[tuple[int, int, int]] = []  # number of the line, and where the row begins and ends in it

    def count_rows(self, width: int) -> int:
        """Return the number of rows at this width in cells."""
        return len(self._wrap(width))

    def render_row(
        self, number: int, width: int, style: Style, selection: Selection | None = None, selected: Style | None = None
    ) -> Strip:
        """Draw the row *number*, counted from 0, with the style *selected* for the part in *selection*.

        A row that does not exist is blank.
        """
        rows = self._wrap(width)
        if number >= len(rows):
            return Strip.blank(width, style)
        at, begin, end = rows[number]
        line = self._lines[at]
        span = selection.get_span(at) if selection is not None else None
        left, right = span or (0, 0)
        left, right = (min(max(begin, place), end) for place in (left, len(line) if right == -1 else right))
        segments = [
            Segment(line[start:stop], paint + Style.from_meta({"offset": (start, at)}))
            for start, stop, paint in ((begin, left, style), (left, right, style + selected), (right, end, style))
            if start < stop
        ]
        return Strip(segments, cell_len(line[begin:end])).adjust_cell_length(width, style)

    def _wrap(self, width: int) -> list[tuple[int, int, int]]:
        if width != self._width:
            self._width = width
            self._rows = [
                (at, begin, end) for at, line in enumerate(self._lines) for begin, end in _wrap_line(line, width)
            ]
        return self._rows


def _wrap_line(line: str, width: int) -> list[tuple[int, int]]:
    """Return the start and end index of each row of a line that is wrapped to *width* cells.

    Spaces at which the line is broken do not belong to any row.
    """
    if len(line) <= width and cell_len(line) <= width:
        return [(0, len(line))]
    if width < 2:
        return [(at, at + 1) for at in range(len(line))]
    if line.isascii() or all(measure_character(character) == (1, False) for character in set(line)):
        return _wrap_narrow_line(line, width)
    breaks = break_line(line, width) if needs_own_breaks(line, width) else find_row_breaks(line, width)
    places = [0, *breaks, len(line)]
    return [(begin, begin + len(line[begin:end].rstrip(" "))) for begin, end in pairwise(places)]


def _wrap_narrow_line(line: str, width: int) -> list[tuple[int, int]]:
    """Wrap a line in which every character is one cell wide; return the start and end index of each row.

    A row ends before the last space that fits or, if there is none, after *width* characters.
    """
    rows: list[tuple[int, int]] = []
    begin = 0
    while len(line) - begin > width:
        space = line.rfind(" ", begin + 1, begin + width + 1)
        end = space if space > begin else begin + width
        rows.append((begin, end))
        begin = end + (space > begin)
    return [*rows, (begin, len(line))]
