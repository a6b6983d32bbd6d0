"""Vertical layout of the transcript: block heights, cached rows, and the count of new blocks below the view."""

import re
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate
from typing import NamedTuple, cast

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style as RichStyle
from textual.color import Color
from textual.content import Content
from textual.css.styles import RulesMap
from textual.geometry import Offset
from textual.selection import Selection
from textual.strip import Strip
from textual.style import Style
from textual.visual import RenderOptions

from mcphost.translation import _
from mcphost.tui.transcript.blocks import MarkdownBlock, TranscriptBlock, remove_heading_gaps
from mcphost.tui.transcript.image_block import render_half_blocks
from mcphost.tui.transcript.line_breaks import break_line, needs_own_breaks
from mcphost.tui.transcript.prefixed_content import PrefixedContent


class HeightIndex:
    """Index of block heights, for finding the block at a given row."""

    def __init__(self) -> None:
        # The first row of each block, and the row below the last. The first entry may be negative, so that no other
        # changes when blocks are prepended.
        self._tops: list[int] = [0]

    @property
    def total(self) -> int:
        """The total height of all blocks in rows."""
        return self._tops[-1] - self._tops[0]

    def top(self, index: int) -> int:
        """Return the number of the row in which the block at *index* begins, counting from 0."""
        return self._tops[index] - self._tops[0]

    def append(self, height: int) -> None:
        """Append a block with a height of *height* rows."""
        self._tops.append(self._tops[-1] + height)

    def replace(self, index: int, heights: Iterable[int]) -> None:
        """Replace the heights of the block at *index* and of all blocks after it with *heights*."""
        top = self._tops[index]
        del self._tops[index:]
        self._tops.extend(accumulate(heights, initial=top))

    def prepend(self, heights: Sequence[int]) -> None:
        """Insert the heights of new blocks before all others."""
        before = list(accumulate(heights, initial=self._tops[0] - sum(heights)))
        self._tops[:1] = before

    def find_index(self, y: int) -> int:
        """Return the index of the block that contains row *y*.

        If no block contains the row, return the index of the nearest block.
        """
        return max(0, min(len(self._tops) - 2, bisect_right(self._tops, y + self._tops[0]) - 1))


_MAX_CACHED_BLOCKS = 300  # blocks with cached strips


class BlockLayout:
    """Layout of the transcript's blocks: their order, their positions, and their cached rows.

    The height of a block is an estimate until the block is first rendered. *draw* is called with a block and its index,
    and returns the rendered rows; *width* returns the current width in columns.
    """

    def __init__(self, draw: Callable[[TranscriptBlock, int], list[Strip]], width: Callable[[], int]) -> None:
        self.blocks: list[TranscriptBlock] = []
        self.layout_width = 0
        """The width in columns for which the heights were computed."""
        self._draw, self._width = draw, width
        self._height_index = HeightIndex()
        self._cached_blocks: OrderedDict[int, TranscriptBlock] = OrderedDict()

    @property
    def total(self) -> int:
        """The total height of all blocks in rows."""
        return self._height_index.total

    def find_index(self, y: int) -> int:
        """Return the index of the block that contains row *y*.

        If no block contains the row, return the index of the nearest block.
        """
        return self._height_index.find_index(y)

    def top(self, index: int) -> int:
        """Return the number of the row in which the block at *index* begins, counting from 0."""
        return self._height_index.top(index)

    def first_row(self, index: int) -> int:
        """Return the number of the first row of the block at *index*, below the gap that precedes the block."""
        return self.top(index) + self.blocks[index].gap

    def first_line(self, index: int) -> str:
        """Return the text of the first row of the block at *index*, below the gap that precedes the block."""
        return "".join(strip.text for strip in self.get_strips(index)[self.blocks[index].gap :][:1]).strip()

    def find_last_in_view(self, y: int, height: int) -> int:
        """Return the index of the lowest selectable block in the view, or -1 if there is none.

        The view consists of *height* rows, beginning with row *y*.
        """
        if not self.blocks:
            return -1
        last = self.find_index(min(self.total - 1, y + height - 1))
        return next((index for index in range(last, self.find_index(y) - 1, -1) if self.blocks[index].can_step), -1)

    def find_step(self, index: int, by: int, is_target: Callable[[TranscriptBlock], bool]) -> int:
        """Return the index of the next block for which *is_target* is true, starting at *index* + *by*.

        *by* is 1 to search downwards, or -1 to search upwards. If *index* is negative, the search starts after the last
        block. If no block is found, return -1 for an upward search, or the number of blocks for a downward search.
        """
        index = (index if index >= 0 else len(self.blocks)) + by
        while 0 <= index < len(self.blocks) and not is_target(self.blocks[index]):
            index += by
        return index

    def load(self, blocks: Iterable[TranscriptBlock]) -> None:
        """Replace all blocks and estimate their heights."""
        self.blocks = list(blocks)
        remove_heading_gaps(self.blocks)
        self._cached_blocks.clear()
        self.estimate_heights()

    def estimate(self, blocks: Sequence[TranscriptBlock]) -> None:
        """Set the estimated heights of blocks that have not been added to the layout yet."""
        remove_heading_gaps(blocks)
        width = self._width()
        for block in blocks:
            block.height = block.estimate_height(width)

    def prepend(self, blocks: list[TranscriptBlock]) -> None:
        """Insert blocks before all others; their heights must already be set."""
        self.blocks[0:0] = blocks
        self._height_index.prepend([block.height for block in blocks])

    def append(self, block: TranscriptBlock) -> None:
        """Append a block and estimate its height."""
        block.height = block.estimate_height(self._width())
        self.blocks.append(block)
        self._height_index.append(block.height)

    def insert(self, index: int, blocks: Sequence[TranscriptBlock]) -> None:
        """Insert blocks before the block at *index* and estimate their heights."""
        for block in blocks:
            block.height = block.estimate_height(self._width())
        self.blocks[index:index] = blocks
        self._update_heights(index)

    def remove(self, index: int) -> None:
        """Remove the block at *index*."""
        del self.blocks[index]
        self._update_heights(index)

    def estimate_heights(self) -> None:
        """Estimate the heights of all blocks for the current width, and discard the cached rows."""
        width = self.layout_width = self._width()
        for block in self.blocks:
            block.strips, block.is_measured = None, False
            block.height = block.estimate_height(width)
        self._update_heights(0)

    def estimate_last_height(self) -> None:
        """Estimate the last block's height again, without rendering it, because its text has changed."""
        last = self.blocks[-1]
        last.height = last.estimate_height(self._width())
        self._update_heights(len(self.blocks) - 1)

    def measure(self, index: int) -> int:
        """Render the block at *index* to get its exact height; return the change in height, in rows."""
        block = self.blocks[index]
        before = block.height
        self.get_strips(index)
        if block.height != before:
            self._update_heights(index)
        return block.height - before

    def measure_end(self, height: int) -> None:
        """Render blocks, from the last one upwards, until the rendered blocks fill at least *height* rows."""
        index, seen = len(self.blocks) - 1, 0
        while index >= 0 and seen < height:
            self.measure(index)
            seen += self.blocks[index].height
            index -= 1

    def measure_rows(self, y: int, height: int) -> None:
        """Render the blocks that cover *height* rows, beginning with row *y*, to get their exact heights."""
        index = self.find_index(y)
        while index < len(self.blocks) and self.top(index) < y + height:
            self.measure(index)
            index += 1

    def get_strips(self, index: int) -> list[Strip]:
        """Return the rows of the block at *index*; render it if no rows are cached for the current width."""
        block = self.blocks[index]
        strips = block.strips
        if strips is None or len(strips) != block.height or (strips and strips[0].cell_length != self._width()):
            strips = block.strips = self._draw(block, index)
            block.height, block.is_measured = len(strips), True
            self._cached_blocks[id(block)] = block
            while len(self._cached_blocks) > _MAX_CACHED_BLOCKS:
                self._cached_blocks.popitem(last=False)[1].strips = None
        return strips

    def clear_strips(self, start: int = 0) -> None:
        """Discard the cached rows of the blocks from index *start* on, by default of all blocks; keep the heights."""
        if start:
            for block in self.blocks[start:]:
                block.strips = None
            return
        for block in self._cached_blocks.values():
            block.strips = None
        self._cached_blocks.clear()

    def _update_heights(self, index: int) -> None:
        self._height_index.replace(index, (block.height for block in self.blocks[index:]))


LINES_PER_BLOCK = 1_000_000  # line numbers reserved for each block in the coordinates of selections
_EMPTY_RULES = cast("RulesMap", {})


def list_plain_lines(block: TranscriptBlock, width: int) -> list[str | None]:
    """Return the lines of a block before wrapping; a line that is only decoration is replaced by None.

    A text selection identifies lines by their position in this list.
    """
    return [
        None if piece.is_decoration else line
        for piece in block.render(width)
        for line in piece.content.plain.split("\n")
    ]


def is_selected_from(selection: Selection, start: int) -> bool:
    """Return whether the selection begins or ends in a block whose index is at least *start*."""
    return any(place is not None and place.y // LINES_PER_BLOCK >= start for place in selection)


def select_text(blocks: Sequence[TranscriptBlock], selection: Selection, width: int) -> str:
    """Return the selected text without the line breaks that wrapping has added."""
    start = selection.start.y // LINES_PER_BLOCK if selection.start else 0
    end = min(selection.end.y // LINES_PER_BLOCK if selection.end else len(blocks) - 1, len(blocks) - 1)
    out: list[str] = []
    for index in range(start, end + 1):
        for number, line in enumerate(list_plain_lines(blocks[index], width)):
            span = selection.get_span(index * LINES_PER_BLOCK + number)
            if span is not None and line is not None:
                out.append(line[max(0, span[0]) : None if span[1] == -1 else span[1]].rstrip())
        if index < end and blocks[index + 1].gap:
            out.append("")
    return "\n".join(out)


class FoundText(NamedTuple):
    """Pattern whose matches are highlighted.

    `place` is the number of the current match, counting from 0; the current match has a different color. If `place`
    is -1, no match is current.
    """

    pattern: re.Pattern[str]
    place: int = -1


def find_current_row(strips: Sequence[Strip]) -> int:
    """Return the index of the row in which the current search match begins, or 0 if there is no such row."""
    return next(
        (
            number
            for number, strip in enumerate(strips)
            if any(segment.style and segment.style.meta.get("found") for segment in strip)
        ),
        0,
    )


class BlockRenderer:
    """Renderer of blocks as styled rows (strips) of *width* columns, with the selected text highlighted.

    *resolve_style* looks up a style by name. *current_style* is the style for content that has no style of its own; it
    is empty except for the current block, which it marks as the block on which keys act.
    """

    def __init__(
        self,
        width: int,
        base: Style,
        resolve_style: Callable[[str | Style], Style],
        current_style: Style,
        selection_style: Style | None,
        found: "FoundText | None" = None,
    ) -> None:
        self._found, self._found_count = found, 0
        self.is_reader = False
        """Whether the rows are for a screen reader."""
        self.width, self.base, self.resolve_style, self.current_style, self.selection_style = (
            width,
            base,
            resolve_style,
            current_style,
            selection_style,
        )

    def render(self, block: TranscriptBlock, first_line: int, selection: Selection | None) -> list[Strip]:
        """Return all rows of a block, including the gap before it.

        *first_line* is the line number of the block's first line, as used in *selection*.
        """
        # The gap needs a position too, because a selection may end on it.
        gap = self.base.rich_style + RichStyle.from_meta({"offset": (0, first_line)})
        out = [Strip([Segment(" " * self.width, gap)], self.width)] * block.gap
        line = first_line
        self._found_count = 0
        if self.is_reader and isinstance(block, MarkdownBlock):
            block.is_linear = True
        for piece in block.render(self.width):
            shown: PrefixedContent | None = piece
            if self._found is not None and not piece.is_decoration:
                shown = piece._replace(content=self._highlight(piece.content, self._found))
            if self.is_reader:
                from mcphost.tui.transcript.screen_reader_rows import simplify_piece

                shown = simplify_piece(shown)
            if shown is not None:
                out.extend(self._render_content(shown, line, selection))
            line += piece.content.plain.count("\n") + 1
        return out

    def _render_content(self, piece: PrefixedContent, line: int, selection: Selection | None) -> list[Strip]:
        style = self.base + (self.resolve_style(piece.style) if piece.style else self.current_style)
        if piece.image_rows:
            return self._render_image(piece, style)
        limit = min(self.width, piece.max_width or self.width)
        room = max(8, limit - max(cell_len(piece.first_prefix), cell_len(piece.rest_prefix)))
        rows = self._wrap(piece.content, room, style, selection, line) or [Strip.blank(room)]
        lead = (style + self.resolve_style(piece.prefix_style)).rich_style if piece.prefix_style else style.rich_style
        outer = (self.base + self.current_style).rich_style
        return [
            Strip(
                [
                    Segment(piece.rest_prefix if number else piece.first_prefix, lead),
                    *row,
                ]
            )
            .adjust_cell_length(limit, style.rich_style)
            .adjust_cell_length(self.width, outer)
            for number, row in enumerate(rows)
        ]

    def _wrap(
        self, content: Content, room: int, style: Style, selection: Selection | None, line: int
    ) -> Iterable[Iterable[Segment]]:
        """Wrap *content* into rows of *room* columns.

        *line* is the line number that *selection* uses for the first line of *content*.
        """
        if content.plain.isascii() or not needs_own_breaks(content.plain, room):
            options = self._options(_shift_selection(selection, line))
            rows = content.render_strips(room, None, style, options)
            return [[_offset_segment(segment, 0, line) for segment in row] for row in rows]
        out: list[list[Segment]] = []
        for number, part in enumerate(content.split("\n", allow_blank=True), line):
            span = selection.get_span(number) if selection is not None else None
            starts = [0, *break_line(part.plain, room)]
            for start, end in zip(starts, [*starts[1:], len(part)], strict=True):
                options = self._options(_clip_selection(span, start, end))
                rows = part[start:end].rstrip_end(room).render_strips(2 * room, None, style, options)
                out += [[_offset_segment(segment, start, number) for segment in row] for row in rows] or [[]]
        return out

    def _highlight(self, content: Content, found: FoundText) -> Content:
        for match in found.pattern.finditer(content.plain):
            is_current = self._found_count == found.place
            style = "bold $background on $accent" if is_current else "$background on $warning"
            meta = Style.from_meta({"found": is_current})
            content = content.stylize(style, *match.span()).stylize(meta, *match.span())
            self._found_count += 1
        return content

    def _options(self, selection: Selection | None) -> RenderOptions:
        return RenderOptions(self.resolve_style, _EMPTY_RULES, selection, self.selection_style)

    def _render_image(self, piece: PrefixedContent, style: Style) -> list[Strip]:
        """Return the rows of an image; they stay blank until the image is decoded, and cannot be selected."""
        lead = Segment(piece.first_prefix, (style + self.resolve_style(piece.prefix_style)).rich_style)
        ground = style.background or self.base.background or Color(0, 0, 0)
        rows = render_half_blocks(piece.drawing, ground)[: piece.image_rows] if piece.drawing else []
        rows += [Strip.blank(0)] * (piece.image_rows - len(rows))
        return [Strip([lead, *row]).adjust_cell_length(self.width, style.rich_style) for row in rows]


def _offset_segment(segment: Segment, column: int, line: int) -> Segment:
    """Add *column* and *line* to the position stored in the segment, from which Textual computes selections."""
    style = segment.style
    if style is None or "offset" not in (meta := style.meta):
        return segment
    x, y = meta["offset"]
    return Segment(segment.text, style + RichStyle.from_meta({"offset": (x + column, y + line)}))


def _clip_selection(span: tuple[int, int] | None, start: int, end: int) -> Selection | None:
    """Return the selection between offsets *start* and *end* of a line, relative to *start*.

    *span* is the selected part of the whole line; an end of -1 means the end of the line. Return None if nothing
    between *start* and *end* is selected.
    """
    if span is None:
        return None
    first, last = max(span[0], start), end if span[1] == -1 else min(span[1], end)
    return Selection(Offset(first - start, 0), Offset(last - start, 0)) if first < last else None


def _shift_selection(selection: Selection | None, base: int) -> Selection | None:
    def move(offset: Offset | None) -> Offset | None:
        """Return the offset with a line number that is relative to the first line of the content."""
        return None if offset is None else Offset(max(0, offset.x), offset.y - base)

    return None if selection is None else Selection(move(selection.start), move(selection.end))


class UnseenBlocks:
    """Counter of the blocks that were added below the visible rows while the user was reading further up.

    The transcript shows `count` at its lower edge.
    """

    def __init__(self) -> None:
        self.count = 0
        self._first_unseen = 0

    def update(self, total: int, bottom: int, *, is_at_end: bool) -> None:
        """Update the count; *total* is the number of blocks, and *bottom* the index of the lowest visible block.

        The count starts at 0 when the user scrolls up: only blocks added after that are counted. If *is_at_end* is
        true, the end is visible, and all blocks count as seen.
        """
        if is_at_end:
            self._first_unseen = total
        else:
            self._first_unseen = min(max(self._first_unseen, bottom + 1), total)
        self.count = total - self._first_unseen

    def shift(self, count: int) -> None:
        """Keep the count unchanged after *count* blocks were inserted above all others."""
        self._first_unseen += count

    def render(self, style: Style) -> Strip:
        """Return the label with the count; a click on it scrolls to the end."""
        rich_style = style.rich_style + RichStyle.from_meta({"act": "newest"})
        return Strip([Segment(_(" ↓ {count:,} new · end ").format(count=self.count), rich_style)])
