"""Renderer of a block as strips; each character has its text position, so selections are of text, not of cells."""

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

from mcphost.tui.transcript.blocks import TranscriptBlock
from mcphost.tui.transcript.image_block import render_half_blocks
from mcphost.tui.transcript.prefixed_content import PrefixedContent

LINES_PER_BLOCK = 1_000_000  # logical lines of one block in selection space
_EMPTY_RULES = cast("RulesMap", {})


def list_plain_lines(block: TranscriptBlock, width: int) -> list[str]:
    """Return the logical lines of a block, as numbered in selection space."""
    return [line for piece in block.render(width) for line in piece.content.plain.split("\n")]


class BlockRenderer:
    """What rendering needs: width, base style, style lookup, styles of the current block and the selection."""

    def __init__(
        self,
        width: int,
        base: Style,
        resolve_style: Callable[[str | Style], Style],
        current_style: Style,
        selection_style: Style | None,
    ) -> None:
        self.width, self.base, self.resolve_style, self.current_style, self.selection_style = (
            width,
            base,
            resolve_style,
            current_style,
            selection_style,
        )

    def render(self, block: TranscriptBlock, first_line: int, selection: Selection | None) -> list[Strip]:
        """Return all rows of a block, including its gap."""
        # The gap has a position too: a drag may end on it.
        gap = self.base.rich_style + RichStyle.from_meta({"offset": (0, first_line)})
        out = [Strip([Segment(" " * self.width, gap)], self.width)] * block.gap
        line = first_line
        for piece in block.render(self.width):
            out.extend(self._render_content(piece, line, selection))
            line += piece.content.plain.count("\n") + 1
        return out

    def _render_content(self, piece: PrefixedContent, line: int, selection: Selection | None) -> list[Strip]:
        style = self.base + (self.resolve_style(piece.style) if piece.style else self.current_style)
        if piece.image_rows:
            return self._render_image(piece, style)
        options = RenderOptions(
            self.resolve_style, _EMPTY_RULES, _shift_selection(selection, line), self.selection_style
        )
        room = max(8, self.width - len(piece.first_prefix))
        rows = piece.content.render_strips(room, None, style, options) or [Strip.blank(room)]
        lead = (style + self.resolve_style(piece.prefix_style)).rich_style if piece.prefix_style else style.rich_style
        return [
            Strip(
                [
                    Segment(piece.rest_prefix if number else piece.first_prefix, lead),
                    *(_offset_segment(segment, line) for segment in row),
                ]
            ).adjust_cell_length(self.width, style.rich_style)
            for number, row in enumerate(rows)
        ]

    def _render_image(self, piece: PrefixedContent, style: Style) -> list[Strip]:
        """Return the rows of an image, blank until it is decoded; an image cannot be selected."""
        lead = Segment(piece.first_prefix, (style + self.resolve_style(piece.prefix_style)).rich_style)
        ground = style.background or self.base.background or Color(0, 0, 0)
        rows = render_half_blocks(piece.drawing, ground)[: piece.image_rows] if piece.drawing else []
        rows += [Strip.blank(0)] * (piece.image_rows - len(rows))
        return [Strip([lead, *row]).adjust_cell_length(self.width, style.rich_style) for row in rows]


def _offset_segment(segment: Segment, line: int) -> Segment:
    """Return the segment with its line counted from the beginning of the conversation."""
    style = segment.style
    if style is None or "offset" not in (meta := style.meta):
        return segment
    x, y = meta["offset"]
    return Segment(segment.text, style + RichStyle.from_meta({"offset": (x, y + line)}))


def _shift_selection(selection: Selection | None, base: int) -> Selection | None:
    def move(offset: Offset | None) -> Offset | None:
        """Return the offset moved by the block's first line."""
        return None if offset is None else Offset(max(0, offset.x), offset.y - base)

    return None if selection is None else Selection(move(selection.start), move(selection.end))
