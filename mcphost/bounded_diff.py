"""Comparison of two lists of lines with difflib, in bounded time."""

from collections.abc import Iterable
from difflib import SequenceMatcher
from itertools import accumulate
from typing import Any, NamedTuple

MAX_COMPARED_LINES = 1_000
"""Maximum number of lines, from the first to the last difference, that are compared with each other."""
MAX_STEPS = 300_000
"""Maximum number of pairs of lines that difflib compares; they take about 20 ms, and ordinary texts a tenth of it."""

Opcode = tuple[Any, int, int, int, int]
"""An edit as in `difflib.SequenceMatcher.get_opcodes`."""


class LineComparison(NamedTuple):
    """Result of comparing two lists of lines: the edits that turn the old lines into the new ones.

    `opcodes` has the format of difflib's opcodes. If `is_exact` is False, an exact comparison would have taken too
    long, and all lines from the first to the last difference form a single "replace".
    """

    opcodes: list[Opcode]
    is_exact: bool


def compare_lines(old: list[str], new: list[str], max_steps: int = MAX_STEPS) -> LineComparison:
    """Compare two lists of lines with difflib, in at most *max_steps* comparisons of two lines.

    Lines that are equal at the beginning and at the end of both lists are not passed to difflib. The result is not
    exact if the limit is reached, or if more than MAX_COMPARED_LINES old or new lines remain.
    """
    start, least = 0, min(len(old), len(new))
    while start < least and old[start] == new[start]:
        start += 1
    end = 0
    while end < least - start and old[-1 - end] == new[-1 - end]:
        end += 1
    one, other = old[start : len(old) - end], new[start : len(new) - end]
    found = None
    if max(len(one), len(other)) <= MAX_COMPARED_LINES:
        found = _BoundedMatcher(one, other, max_steps).find_opcodes()
    inner = [("replace", 0, len(one), 0, len(other))] if found is None else found
    out: list[Opcode] = [("equal", 0, start, 0, start)] if start else []
    out += [(kind, a + start, b + start, c + start, d + start) for kind, a, b, c, d in inner]
    if end:
        out.append(("equal", len(old) - end, len(old), len(new) - end, len(new)))
    return LineComparison(out, found is not None)


class _OutOfSteps(Exception):
    pass


class _BoundedMatcher(SequenceMatcher[str]):
    """Subclass of difflib's SequenceMatcher that gives up after comparing too many pairs of lines.

    difflib finds the longest match, then searches the lines before and after this match in the same way. If a line
    occurs many times, each search may match only one occurrence, so the same pairs of lines are compared again and
    again.
    """

    b2j: dict[str, list[int]]
    """The positions of each line in `other`; set by the base class."""

    def __init__(self, one: list[str], other: list[str], max_steps: int) -> None:
        super().__init__(None, one, other)
        self._steps_left = max_steps
        # A search visits each line in a range and, for each of them, all equal lines in `other`.
        self._costs = (0, *accumulate(1 + len(self.b2j.get(line, ())) for line in one))

    def find_opcodes(self) -> list[Opcode] | None:
        """Return the edits, or None if finding them takes too many steps."""
        try:
            return list(self.get_opcodes())
        except _OutOfSteps:
            return None

    def find_longest_match(self, *limits: Any, **named: Any) -> Any:
        first: int = limits[0]  # the range in `one`
        end: int = limits[1]
        self._steps_left -= self._costs[end] - self._costs[first]
        if self._steps_left < 0:
            raise _OutOfSteps
        return super().find_longest_match(*limits, **named)


def group_opcodes(opcodes: list[Opcode], context_lines: int) -> Iterable[list[Opcode]]:
    """Group edits that are close to each other, with up to *context_lines* unchanged lines around each group."""
    matcher: Any = SequenceMatcher(None, "", "")
    matcher.opcodes = opcodes  # difflib uses them instead of comparing the texts, which could take arbitrarily long
    return matcher.get_grouped_opcodes(context_lines)
