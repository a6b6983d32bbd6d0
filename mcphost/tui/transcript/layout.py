"""Vertical layout of transcript blocks: their heights, and their strips while cached."""

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate

from textual.strip import Strip

from mcphost.tui.transcript.blocks import TranscriptBlock


class HeightIndex:
    """`tops[i]` is the first row of block i; the last entry is the row after all blocks."""

    def __init__(self) -> None:
        self.tops: list[int] = [0]

    @property
    def total(self) -> int:
        """Return the height of all blocks."""
        return self.tops[-1]

    def append(self, height: int) -> None:
        """Append a block."""
        self.tops.append(self.tops[-1] + height)

    def replace(self, index: int, heights: Iterable[int]) -> None:
        """Replace the heights from this block to the last."""
        top = self.tops[index]
        del self.tops[index:]
        self.tops.extend(accumulate(heights, initial=top))

    def find_index(self, y: int) -> int:
        """Return the block at this row, or the nearest one."""
        return max(0, min(len(self.tops) - 2, bisect_right(self.tops, y) - 1))


_MAX_CACHED_BLOCKS = 300  # blocks with cached strips


class BlockLayout:
    """Heights are estimates until a block is drawn; `draw` creates its strips at the current `width`."""

    def __init__(self, draw: Callable[[TranscriptBlock, int], list[Strip]], width: Callable[[], int]) -> None:
        self.blocks: list[TranscriptBlock] = []
        self.layout_width = 0
        """The width that the heights apply to."""
        self._draw, self._width = draw, width
        self._height_index = HeightIndex()
        self._cached_blocks: OrderedDict[int, TranscriptBlock] = OrderedDict()

    @property
    def total(self) -> int:
        """Return the height of all blocks."""
        return self._height_index.total

    def find_index(self, y: int) -> int:
        """Return the block at this row, or the nearest one."""
        return self._height_index.find_index(y)

    def top(self, index: int) -> int:
        """Return the first row of a block."""
        return self._height_index.tops[index]

    def load(self, blocks: Iterable[TranscriptBlock]) -> None:
        """Replace all blocks."""
        self.blocks = list(blocks)
        self._cached_blocks.clear()
        self.estimate_heights()

    def append(self, block: TranscriptBlock) -> None:
        """Append a block."""
        block.height = block.estimate_height(self._width())
        self.blocks.append(block)
        self._height_index.append(block.height)

    def insert(self, index: int, blocks: Sequence[TranscriptBlock]) -> None:
        """Insert blocks before this one."""
        for block in blocks:
            block.height = block.estimate_height(self._width())
        self.blocks[index:index] = blocks
        self._update_heights(index)

    def remove(self, index: int) -> None:
        """Remove a block."""
        del self.blocks[index]
        self._update_heights(index)

    def estimate_heights(self) -> None:
        """Estimate all heights for a new width."""
        width = self.layout_width = self._width()
        for block in self.blocks:
            block.strips, block.is_measured = None, False
            block.height = block.estimate_height(width)
        self._update_heights(0)

    def estimate_last_height(self) -> None:
        """Estimate the last block's height without drawing it, before another block is appended."""
        last = self.blocks[-1]
        last.height = last.estimate_height(self._width())
        self._update_heights(len(self.blocks) - 1)

    def measure(self, index: int) -> int:
        """Draw a block; return the difference from its estimated height."""
        block = self.blocks[index]
        before = block.height
        self.get_strips(index)
        if block.height != before:
            self._update_heights(index)
        return block.height - before

    def measure_end(self, height: int) -> None:
        """Draw the blocks of the last rows."""
        index, seen = len(self.blocks) - 1, 0
        while index >= 0 and seen < height:
            self.measure(index)
            seen += self.blocks[index].height
            index -= 1

    def measure_rows(self, y: int, height: int) -> None:
        """Draw the blocks of these rows."""
        index = self.find_index(y)
        while index < len(self.blocks) and self.top(index) < y + height:
            self.measure(index)
            index += 1

    def get_strips(self, index: int) -> list[Strip]:
        """Return all rows of a block, from the cache if possible."""
        block = self.blocks[index]
        strips = block.strips
        if strips is None or len(strips) != block.height or (strips and strips[0].cell_length != self._width()):
            strips = block.strips = self._draw(block, index)
            block.height, block.is_measured = len(strips), True
            self._cached_blocks[id(block)] = block
            while len(self._cached_blocks) > _MAX_CACHED_BLOCKS:
                self._cached_blocks.popitem(last=False)[1].strips = None
        return strips

    def clear_strips(self) -> None:
        """Drop the strips after a change of colours; keep the known heights."""
        for block in self._cached_blocks.values():
            block.strips = None
        self._cached_blocks.clear()

    def _update_heights(self, index: int) -> None:
        self._height_index.replace(index, (block.height for block in self.blocks[index:]))
