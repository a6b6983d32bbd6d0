"""Limits for Markdown from untrusted sources; text beyond them would be slow to parse.

Text that exceeds a limit is shown as plain text instead.
"""

import re

from mcphost.sanitize import is_shown_within, measure_beginning

MAX_SOURCE = 8_000
"""Maximum characters parsed at a time; longer texts are split, so that the screen stays responsive."""
_MAX_MARKS = 1_000
"""Maximum brackets, stars, underscores, backticks, bars and tildes; the parsing time is quadratic in their number."""
_MAX_LINES = 2_000
"""Maximum lines parsed at a time; the parser is slow if many of them are blank."""
_MAX_REFERENCES = 100
"""Maximum link reference definitions parsed at a time."""
_MAX_CELLS = 4_000
"""Maximum table cells parsed at a time, counted as if every line had as many cells as the longest."""
_MAX_QUOTED_LINES = 2_000
"""Maximum lines of block quotes, each counted as often as its quotes are nested."""
_CONTAINER_MARKS = re.compile(r"(?:[ \t>*+-]|\d{1,9}[.)])*+")
"""Marks of block quotes and list items at the beginning of a line."""


def fitting_length(source: str) -> int:
    """Return the length of the longest prefix of *source* that is short enough to be parsed."""
    return min(len(source), MAX_SOURCE) if source.isascii() else measure_beginning(source, MAX_SOURCE)


def is_too_complex(source: str) -> bool:
    """Return whether a text would be slow to parse as Markdown, and must be shown as plain text instead."""
    if not is_shown_within(source, 2 * MAX_SOURCE) or sum(map(source.count, "[*_`|~")) > _MAX_MARKS:
        return True
    if source.count("]:") > _MAX_REFERENCES or source.count("\n") > _MAX_LINES:
        return True
    # The parser pads every short table row to the width of its head. A line break in a cell adds a row on the screen.
    lines = source.split("\n")
    if max(line.count("|") for line in lines) * (len(lines) + source.count("<br")) > _MAX_CELLS:
        return True
    return ">" in source and _count_quoted_lines(lines) > _MAX_QUOTED_LINES


def is_long_text_too_complex(source: str) -> bool:
    """Return whether any part of a text of any length would be slow to parse as Markdown."""
    return any(is_too_complex(source[at : at + MAX_SOURCE]) for at in range(0, len(source), MAX_SOURCE))


def _count_quoted_lines(lines: list[str]) -> int:
    """Return the sum of the nesting depths of all lines in block quotes, which predicts the time to parse them.

    Every line counts with the greatest depth in its paragraph, even if the line has no `>`: a line without `>` can
    continue the innermost quote, so the parser tries all enclosing quotes for it.
    """
    count = deepest = length = 0
    for line in lines:
        if not line or line.isspace():
            count += deepest * length
            deepest = length = 0
            continue
        length += 1
        marks = _CONTAINER_MARKS.match(line)
        deepest = max(deepest, marks.group().count(">") if marks else 0)
    return count + deepest * length
