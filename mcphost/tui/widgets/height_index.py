"""Index of block positions: running sums of heights, recomputed only after a change."""

from bisect import bisect_right
from collections.abc import Iterable
from itertools import accumulate


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
