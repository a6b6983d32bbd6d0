"""Differences between two lists of lines, compared by difflib within a bounded time."""

from collections.abc import Iterable
from difflib import SequenceMatcher
from typing import Any, NamedTuple

MAX_COMPARED_LINES = 1_000
"""Maximum number of lines between the first and the last difference that are compared with each other."""
MAX_EQUAL_PAIRS = 100_000
"""Maximum number of pairs of equal lines among these lines; difflib's time is proportional to it."""

Opcode = tuple[Any, int, int, int, int]
"""An edit as in `difflib.SequenceMatcher.get_opcodes`."""


class LineComparison(NamedTuple):
    """The edits that turn old lines into new ones.

    If `is_exact` is false, comparing would take too long, and everything between the first and the last difference is a
    single "replace".
    """

    opcodes: list[Opcode]
    is_exact: bool


def compare_lines(old: list[str], new: list[str]) -> LineComparison:
    """Compare two lists of lines; the lines that are equal at both ends are not passed to difflib."""
    start, least = 0, min(len(old), len(new))
    while start < least and old[start] == new[start]:
        start += 1
    end = 0
    while end < least - start and old[-1 - end] == new[-1 - end]:
        end += 1
    one, other = old[start : len(old) - end], new[start : len(new) - end]
    counts: dict[str, int] = {}
    for line in other:
        counts[line] = counts.get(line, 0) + 1
    pairs = sum(counts.get(line, 0) for line in one)
    is_exact = max(len(one), len(other)) <= MAX_COMPARED_LINES and pairs <= MAX_EQUAL_PAIRS
    inner: list[Opcode] = [("replace", 0, len(one), 0, len(other))]
    if is_exact:
        inner = list(SequenceMatcher(None, one, other).get_opcodes())
    out: list[Opcode] = [("equal", 0, start, 0, start)] if start else []
    out += [(kind, a + start, b + start, c + start, d + start) for kind, a, b, c, d in inner]
    if end:
        out.append(("equal", len(old) - end, len(old), len(new) - end, len(new)))
    return LineComparison(out, is_exact)


def group_opcodes(opcodes: list[Opcode], context_lines: int) -> Iterable[list[Opcode]]:
    """Group edits that are close to each other, with *context_lines* equal lines around each group."""
    matcher: Any = SequenceMatcher(None, "", "")
    matcher.opcodes = opcodes  # difflib uses them instead of comparing, which could take arbitrarily long
    return matcher.get_grouped_opcodes(context_lines)
