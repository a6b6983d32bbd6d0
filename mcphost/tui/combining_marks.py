"""Functions that shorten runs of combining marks and remove characters of ambiguous width.

This module is separate from `screen_text` because the first frame does not need its regular expressions, and
compiling them would take 5% of the time until that frame is drawn.
"""

import re
from collections.abc import Callable

from rich._unicode_data import load as load_cell_table

from mcphost.translation import _

_FIRST_MARK = 0x300
_MARKS = "\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f"
_MAX_MARKS = 4
_EXCESS_MARKS = re.compile(f"[{_MARKS}][{_MARKS}]{{{_MAX_MARKS},}}")
_BEYOND_BMP = re.compile("[\U00010000-\U0010ffff]")
# Terminals draw joined emoji, and emoji with presentation selectors, one, two or six cells wide. Without joiners the
# emoji are drawn separately and do not break a border. Joiners between letters stay: they are part of the spelling.
_AMBIGUOUS_WIDTH = re.compile("(?<=[\u2190-\u2bff\U0001f000-\U0001faff\ufe0f])\u200d|[\ufe0e\ufe0f]")


def _zero_width_ranges(last_of_all: int) -> str:
    """Return the ranges of zero-width characters, up to code point *last_of_all*, for a regex character class.

    The ranges come from the table of cell widths that Textual uses.
    """
    table = load_cell_table("auto").widths
    none = [(first, min(last, last_of_all)) for first, last, cells in table if not cells and first >= _FIRST_MARK]
    return "".join(f"\\U{first:08x}-\\U{last:08x}" for first, last in none if first <= last)


ZERO_WIDTH = f"[{_zero_width_ranges(0x10FFFF)}]"
"""Characters drawn over the previous one: combining marks, Hangul vowels and finals, joiners, skin tones."""
ZERO_WIDTH_BMP = f"[{_zero_width_ranges(0xFFFF)}]"
"""ZERO_WIDTH limited to the Basic Multilingual Plane, which makes a regular expression ten times faster."""
# Burmese, Tibetan, and pointed Hebrew with accents have up to five zero-width characters on a letter.
_MAX_ZERO_WIDTH = 6
_EXCESS_ZERO_WIDTH = re.compile(f"{ZERO_WIDTH}{ZERO_WIDTH}{{{_MAX_ZERO_WIDTH},}}")
_EXCESS_ZERO_WIDTH_BMP = re.compile(f"{ZERO_WIDTH_BMP}{ZERO_WIDTH_BMP}{{{_MAX_ZERO_WIDTH},}}")


def limit_combining_marks(text: str) -> str:
    """Truncate long runs of combining marks, and remove characters that make the text's width ambiguous.

    A run is cut after 4 combining marks, or after 6 zero-width characters of any kind. The marker `‹+N marks›` replaces
    the N characters that were cut off.
    """
    text = _EXCESS_MARKS.sub(_create_marker(_MAX_MARKS), _AMBIGUOUS_WIDTH.sub("", text))
    return _select_zero_width_pattern(text).sub(_create_marker(_MAX_ZERO_WIDTH), text)


def has_excess_marks(text: str) -> bool:
    """Return whether `limit_combining_marks` would change the text."""
    return any(pattern.search(text) for pattern in (_AMBIGUOUS_WIDTH, _EXCESS_MARKS, _select_zero_width_pattern(text)))


def _select_zero_width_pattern(text: str) -> "re.Pattern[str]":
    return _EXCESS_ZERO_WIDTH if _BEYOND_BMP.search(text) else _EXCESS_ZERO_WIDTH_BMP


def _create_marker(limit: int) -> Callable[["re.Match[str]"], str]:
    def counted(match: "re.Match[str]") -> str:
        marks = match.group()
        return _("{marks}‹+{marks_count} marks›").format(marks=marks[:limit], marks_count=len(marks) - limit)

    return counted
