"""Differences between two lists of lines, compared by difflib within a bounded time."""

from collections.abc import Iterable
from difflib import SequenceMatcher
from itertools import accumulate
from typing import Any, NamedTuple

MAX_COMPARED_LINES = 1_000
"""Maximum number of lines between the first and the last difference that are compared with each other."""
MAX_STEPS = 300_000
"""Maximum number of pairs of lines that difflib visits, which takes about 20 ms; ordinary texts need a tenth of it."""

Opcode = tuple[Any, int, int, int, int]
"""An edit as in `difflib.SequenceMatcher.get_opcodes`."""


class LineComparison(NamedTuple):
    """The edits that turn old lines into new ones.

    If `is_exact` is false, comparing would take too long, and everything between the first and the last difference is a
    single "replace".
    """

    opcodes: list[Opcode]
    is_exact: bool


def compare_lines(old: list[str], new: list[str], max_steps: int = MAX_STEPS) -> LineComparison:
    """Compare two lists of lines; the lines that are equal at both ends are not passed to difflib."""
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
    """Matcher that gives up when it has visited too many pairs of lines.

    difflib searches for the longest match, then in the lines before and after it. Lines that occur often, in an order
    in which each search splits off only one of them, make it visit all of their pairs again and again.
    """

    b2j: dict[str, list[int]]
    """The positions of each line in `other`; set by the base class."""

    def __init__(self, one: list[str], other: list[str], max_steps: int) -> None:
        super().__init__(None, one, other)
        self._steps_left = max_steps
        # A search visits each line of a range, and for each all lines of `other` that are equal to it.
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
    """Group edits that are close to each other, with *context_lines* equal lines around each group."""
    matcher: Any = SequenceMatcher(None, "", "")
    matcher.opcodes = opcodes  # difflib uses them instead of comparing, which could take arbitrarily long
    return matcher.get_grouped_opcodes(context_lines)
