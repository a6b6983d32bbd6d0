"""Where each block begins: running sums of heights, of which only those after a change are counted again."""

from bisect import bisect_right
from collections.abc import Iterable
from itertools import accumulate


class HeightIndex:
    """`tops[i]` is the first row of block i; the last entry is the row after all."""

    def __init__(self) -> None:
        self.tops: list[int] = [0]

    @property
    def total(self) -> int:
        """The rows of all blocks together."""
        return self.tops[-1]

    def append(self, height: int) -> None:
        """One more block at the end."""
        self.tops.append(self.tops[-1] + height)

    def replace(self, index: int, heights: Iterable[int]) -> None:
        """New heights from this block on, to the last one."""
        top = self.tops[index]
        del self.tops[index:]
        self.tops.extend(accumulate(heights, initial=top))

    def find_index(self, y: int) -> int:
        """The block that has this row; the nearest one when none has."""
        return max(0, min(len(self.tops) - 2, bisect_right(self.tops, y) - 1))
