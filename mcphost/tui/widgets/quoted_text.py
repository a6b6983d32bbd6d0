"""Text parts under headings of our own: every row of a part has a bar, so that it cannot imitate a heading."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from textual.content import Content
from textual.geometry import Size
from textual.selection import Selection
from textual.strip import Strip
from textual.visual import Visual
from textual.widget import Widget

from mcphost.tui.widgets.key_values import wrap_content

BAR, CONTINUATION_BAR = "│ ", "┆ "
_MARGIN = len(BAR)


class QuotedPart(NamedTuple):
    """A sanitized text in one style; headings start at the margin, continuation rows have their own mark."""

    text: str
    style: str = ""
    is_heading: bool = False


class QuotedRow(NamedTuple):
    """One row as drawn."""

    prefix: str
    text: str
    style: str


def layout_parts(parts: Iterable[QuotedPart], width: int) -> Iterator[QuotedRow]:
    """Return the rows of the parts, each at most *width* cells wide in any terminal."""
    room = max(1, width - _MARGIN)
    for text, style, is_heading in parts:
        first, more = ("", CONTINUATION_BAR) if is_heading else (BAR, BAR)
        for line in text.split("\n"):
            if len(line) <= room and line.isascii() and "\t" not in line:
                yield QuotedRow(
                    first, line, style
                )  # there may be hundreds of thousands of short lines, which need no check of each character
                continue
            for number, row in enumerate(wrap_content(Content(line), room)):
                yield QuotedRow(more if number else first, row.plain, style)


class QuotedText(Widget):
    """Widget that draws the visible rows of headings and parts."""

    DEFAULT_CSS = """
    QuotedText { height: auto; }
    """

    def __init__(self, parts: Iterable[QuotedPart]) -> None:
        super().__init__()
        self.parts = tuple(parts)
        self._cached_layout: tuple[int, list[QuotedRow]] = (-1, [])

    @property
    def plain(self) -> str:
        """Return headings and parts as text."""
        return "\n".join(part.text for part in self.parts)

    def _layout_rows(self, width: int) -> list[QuotedRow]:
        if self._cached_layout[0] != width:
            self._cached_layout = (width, list(layout_parts(self.parts, width)))
        return self._cached_layout[1]

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Return the number of rows."""
        del container, viewport
        return len(self._layout_rows(width)) if width else 0

    def render_line(self, y: int) -> Strip:
        """Return one row."""
        width = self.size.width
        rows = self._layout_rows(width)
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
        """Return the selected rows as drawn."""
        return selection.extract("\n".join(lead + text for lead, text, _ in self._layout_rows(self.size.width))), "\n"

    def selection_updated(self, selection: Selection | None) -> None:
        """Draw the selection."""
        del selection
        self.refresh()
