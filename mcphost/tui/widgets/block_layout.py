"""The blocks of a conversation below each other: how high each is, and its strips while they are kept."""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence

from textual.strip import Strip

from mcphost.tui.widgets.blocks import Block
from mcphost.tui.widgets.height_index import Heights

_KEPT = 300  # blocks whose strips are kept


class Column:
    """Heights are estimates until a block was drawn; `draw` makes the strips of one at the present `width`."""

    def __init__(self, draw: Callable[[Block, int], list[Strip]], width: Callable[[], int]) -> None:
        self.blocks: list[Block] = []
        self.guessed_for = 0
        """The width that the heights hold for."""
        self._draw, self._width = draw, width
        self._heights = Heights()
        self._kept: OrderedDict[int, Block] = OrderedDict()

    @property
    def total(self) -> int:
        """The rows of all blocks together."""
        return self._heights.total

    def at(self, y: int) -> int:
        """The block that has this row; the nearest one when none has."""
        return self._heights.at(y)

    def top(self, index: int) -> int:
        """The first row of a block."""
        return self._heights.tops[index]

    def load(self, blocks: Iterable[Block]) -> None:
        """These blocks instead."""
        self.blocks = list(blocks)
        self._kept.clear()
        self.guess()

    def append(self, block: Block) -> None:
        """One more block at the end."""
        block.height = block.estimate(self._width())
        self.blocks.append(block)
        self._heights.append(block.height)

    def insert(self, index: int, blocks: Sequence[Block]) -> None:
        """More blocks before this one."""
        for block in blocks:
            block.height = block.estimate(self._width())
        self.blocks[index:index] = blocks
        self._count_from(index)

    def remove(self, index: int) -> None:
        """Take one block away."""
        del self.blocks[index]
        self._count_from(index)

    def guess(self) -> None:
        """Another width: nothing that was measured holds any more."""
        width = self.guessed_for = self._width()
        for block in self.blocks:
            block.strips, block.measured = None, False
            block.height = block.estimate(width)
        self._count_from(0)

    def guess_last(self) -> None:
        """The last block is about to get a follower: what it may be without being drawn."""
        last = self.blocks[-1]
        last.height = last.estimate(self._width())
        self._count_from(len(self.blocks) - 1)

    def measure(self, index: int) -> int:
        """Draw one block; the difference to the height it was thought to have."""
        block = self.blocks[index]
        before = block.height
        self.strips(index)
        if block.height != before:
            self._count_from(index)
        return block.height - before

    def measure_end(self, height: int) -> None:
        """Draw what the last rows show."""
        index, seen = len(self.blocks) - 1, 0
        while index >= 0 and seen < height:
            self.measure(index)
            seen += self.blocks[index].height
            index -= 1

    def measure_rows(self, y: int, height: int) -> None:
        """Draw what these rows show."""
        index = self.at(y)
        while index < len(self.blocks) and self.top(index) < y + height:
            self.measure(index)
            index += 1

    def strips(self, index: int) -> list[Strip]:
        """All rows of a block, drawn now unless they were kept."""
        block = self.blocks[index]
        strips = block.strips
        if strips is None or len(strips) != block.height or (strips and strips[0].cell_length != self._width()):
            strips = block.strips = self._draw(block, index)
            block.height, block.measured = len(strips), True
            self._kept[id(block)] = block
            while len(self._kept) > _KEPT:
                self._kept.popitem(last=False)[1].strips = None
        return strips

    def forget_strips(self) -> None:
        """Other colours: draw all again, at the heights that are known."""
        for block in self._kept.values():
            block.strips = None
        self._kept.clear()

    def _count_from(self, index: int) -> None:
        self._heights.replace(index, (block.height for block in self.blocks[index:]))
