"""Draws a block as strips, each character with its place in the text, so that a selection is of text, not of cells."""

from collections.abc import Callable
from typing import cast

from rich.segment import Segment
from rich.style import Style as RichStyle
from textual.color import Color
from textual.css.styles import RulesMap
from textual.geometry import Offset
from textual.selection import Selection
from textual.strip import Strip
from textual.style import Style
from textual.visual import RenderOptions

from mcphost.tui.widgets.blocks import Block
from mcphost.tui.widgets.halfblocks import painted
from mcphost.tui.widgets.piece import Piece

STRIDE = 1_000_000  # logical lines of one block in selection space
_RULES = cast("RulesMap", {})


def plain_lines(block: Block, width: int) -> list[str]:
    """The logical lines of a block, as they are numbered in selection space."""
    return [line for piece in block.pieces(width) for line in piece.content.plain.split("\n")]


class Pen:
    """What drawing needs: width, base style, how styles are looked up, the styles of the current and the chosen."""

    def __init__(
        self, width: int, base: Style, look_up: Callable[[str | Style], Style], edge: Style, chosen: Style | None
    ) -> None:
        self.width, self.base, self.look_up, self.edge, self.chosen = width, base, look_up, edge, chosen

    def draw(self, block: Block, first_line: int, selection: Selection | None) -> list[Strip]:
        """All rows of a block, its gap included."""
        # The gap has a place too: a drag that ends on it must end somewhere.
        gap = self.base.rich_style + RichStyle.from_meta({"offset": (0, first_line)})
        out = [Strip([Segment(" " * self.width, gap)], self.width)] * block.gap
        line = first_line
        for piece in block.pieces(self.width):
            out.extend(self._piece(piece, line, selection))
            line += piece.content.plain.count("\n") + 1
        return out

    def _piece(self, piece: Piece, line: int, selection: Selection | None) -> list[Strip]:
        style = self.base + (self.look_up(piece.style) if piece.style else self.edge)
        if piece.rows:
            return self._picture(piece, style)
        options = RenderOptions(self.look_up, _RULES, _shifted(selection, line), self.chosen)
        room = max(8, self.width - len(piece.first))
        rows = piece.content.render_strips(room, None, style, options) or [Strip.blank(room)]
        lead = (style + self.look_up(piece.lead)).rich_style if piece.lead else style.rich_style
        return [
            Strip(
                [Segment(piece.rest if number else piece.first, lead), *(_placed(segment, line) for segment in row)]
            ).adjust_cell_length(self.width, style.rich_style)
            for number, row in enumerate(rows)
        ]

    def _picture(self, piece: Piece, style: Style) -> list[Strip]:
        """Its place, painted as soon as it was decoded; nothing of it can be selected."""
        lead = Segment(piece.first, (style + self.look_up(piece.lead)).rich_style)
        ground = style.background or self.base.background or Color(0, 0, 0)
        rows = painted(piece.drawing, ground)[: piece.rows] if piece.drawing else []
        rows += [Strip.blank(0)] * (piece.rows - len(rows))
        return [Strip([lead, *row]).adjust_cell_length(self.width, style.rich_style) for row in rows]


def _placed(segment: Segment, line: int) -> Segment:
    """The segment with its line counted from the beginning of the conversation."""
    style = segment.style
    if style is None or "offset" not in (meta := style.meta):
        return segment
    x, y = meta["offset"]
    return Segment(segment.text, style + RichStyle.from_meta({"offset": (x, y + line)}))


def _shifted(selection: Selection | None, base: int) -> Selection | None:
    def move(offset: Offset | None) -> Offset | None:
        return None if offset is None else Offset(max(0, offset.x), offset.y - base)

    return None if selection is None else Selection(move(selection.start), move(selection.end))
