"""Parts of a text under headings in our own words: every row of a part has a bar, so it can fake no heading."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from textual.content import Content
from textual.geometry import Size
from textual.selection import Selection
from textual.strip import Strip
from textual.visual import Visual
from textual.widget import Widget

from mcphost.tui.widgets.key_values import wrapped

BAR, CONTINUED = "│ ", "┆ "
_MARGIN = len(BAR)


class Part(NamedTuple):
    """A clean text in one style. A heading stands at the margin; rows that it continues on have a mark of their own."""

    text: str
    style: str = ""
    is_heading: bool = False


class Row(NamedTuple):
    """One row as it is drawn."""

    lead: str
    text: str
    style: str


def rows_of(parts: Iterable[Part], width: int) -> Iterator[Row]:
    """Lay out the parts, each row at most `width` cells wide in any terminal."""
    room = max(1, width - _MARGIN)
    for text, style, is_heading in parts:
        first, more = ("", CONTINUED) if is_heading else (BAR, BAR)
        for line in text.split("\n"):
            if len(line) <= room and line.isascii() and "\t" not in line:
                yield Row(first, line, style)  # short lines may be hundreds of thousands, and need no look at each sign
                continue
            for number, row in enumerate(wrapped(Content(line), room)):
                yield Row(more if number else first, row.plain, style)


class Barred(Widget):
    """Draws the rows in view of headings and what stands under them, at the width it has."""

    DEFAULT_CSS = """
    Barred { height: auto; }
    """

    def __init__(self, parts: Iterable[Part]) -> None:
        super().__init__()
        self.parts = tuple(parts)
        self._laid: tuple[int, list[Row]] = (-1, [])

    @property
    def plain(self) -> str:
        """Headings and parts as text."""
        return "\n".join(part.text for part in self.parts)

    def _at(self, width: int) -> list[Row]:
        if self._laid[0] != width:
            self._laid = (width, list(rows_of(self.parts, width)))
        return self._laid[1]

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """As many rows as they take."""
        del container, viewport
        return len(self._at(width)) if width else 0

    def render_line(self, y: int) -> Strip:
        """Return one row; the others are not drawn."""
        width = self.size.width
        rows = self._at(width)
        if not 0 <= y < len(rows):
            return Strip.blank(width, self.visual_style.rich_style)
        lead, text, style = rows[y]
        content = Content.assemble((lead, "$faint"), (text, style))
        span = self.text_selection.get_span(y) if self.text_selection is not None else None
        if span is not None:
            chosen = self.screen.get_visual_style("screen--selection")
            content = content.stylize(chosen, span[0], None if span[1] == -1 else span[1])
        strips = Visual.to_strips(self, content, width, 1, self.visual_style, apply_selection=False, pad=True)
        return strips[0].apply_offsets(0, y)

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        """The selected rows, as they are drawn."""
        return selection.extract("\n".join(lead + text for lead, text, _ in self._at(self.size.width))), "\n"

    def selection_updated(self, selection: Selection | None) -> None:
        """Draw the selection."""
        del selection
        self.refresh()
