"""What `sanitize.clean` does to text beyond ASCII: floods of combining marks, and joiners that terminals disagree on.

Apart from it because compiling these patterns takes as long as a twentieth of the first frame, which has no such text.
"""

import re
from collections.abc import Callable

from rich._unicode_data import load as load_cell_table

_FIRST_MARK = 0x300
_MARKS = "\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f"
_MARKS_KEPT = 4
_MARKS_FLOOD = re.compile(f"[{_MARKS}][{_MARKS}]{{{_MARKS_KEPT},}}")
_BEYOND_BMP = re.compile("[\U00010000-\U0010ffff]")
# Joined emoji and presentation selectors: terminals draw them one, two or six cells wide. Shown one beside the other
# they never break a border. Joiners between letters stay, they are spelling.
_UNSURE = re.compile("(?<=[\u2190-\u2bff\U0001f000-\U0001faff\ufe0f])\u200d|[\ufe0e\ufe0f]")


def _stacked(last_of_all: int) -> str:
    """Return the ranges of all characters up to this one that Textual gives no cell of their own."""
    table = load_cell_table("auto").widths
    none = [(first, min(last, last_of_all)) for first, last, cells in table if not cells and first >= _FIRST_MARK]
    return "".join(f"\\U{first:08x}-\\U{last:08x}" for first, last in none if first <= last)


STACKED = f"[{_stacked(0x10FFFF)}]"
"""Marks of every script, vowels and finals of Hangul, joiners, modifiers of skin: drawn on the character before."""
STACKED_BMP = f"[{_stacked(0xFFFF)}]"
"""Those of the first plane: without ranges beyond it, a regular expression finds them ten times as fast."""
# Of all scripts together: Burmese and Tibetan words have up to five on a letter, pointed Hebrew with accents, too.
_STACKED_KEPT = 6
_STACKED_FLOOD = re.compile(f"{STACKED}{STACKED}{{{_STACKED_KEPT},}}")
_STACKED_FLOOD_BMP = re.compile(f"{STACKED_BMP}{STACKED_BMP}{{{_STACKED_KEPT},}}")


def without_floods(text: str) -> str:
    """The text without more marks on a character than words have, and without what is as wide as a terminal likes."""
    text = _MARKS_FLOOD.sub(_count(_MARKS_KEPT), _UNSURE.sub("", text))
    return _stacked_flood(text).sub(_count(_STACKED_KEPT), text)


def has_floods(text: str) -> bool:
    """Whether `without_floods` would change the text."""
    return any(pattern.search(text) for pattern in (_UNSURE, _MARKS_FLOOD, _stacked_flood(text)))


def _stacked_flood(text: str) -> "re.Pattern[str]":
    return _STACKED_FLOOD if _BEYOND_BMP.search(text) else _STACKED_FLOOD_BMP


def _count(kept: int) -> Callable[["re.Match[str]"], str]:
    def counted(match: "re.Match[str]") -> str:
        marks = match.group()
        return f"{marks[:kept]}‹+{len(marks) - kept} marks›"

    return counted
