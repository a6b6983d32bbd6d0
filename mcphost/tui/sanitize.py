"""The one cleaning function for text on the screen: `mcphost.clean`, and what only a grid of cells needs besides.

Outside text is everything a server, a model, a file or an error brought. After `clean` it holds no control
character but LF and TAB, nothing that reorders or hides others, no flood of combining marks, and nothing whose width
terminals disagree on. It must still never pass a markup parser: give it to `Content(text)` or to a widget with
`markup=False`.
"""

import re
from collections.abc import Callable

from mcphost.clean import is_visible, visible
from mcphost.tui.cell_width import STACKED, STACKED_BMP

_MARKS = "\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f"
_MARKS_KEPT = 4
_MARKS_FLOOD = re.compile(f"[{_MARKS}][{_MARKS}]{{{_MARKS_KEPT},}}")
# Of all scripts together: Burmese and Tibetan words have up to five on a letter, pointed Hebrew with accents, too.
_STACKED_KEPT = 6
_STACKED_FLOOD = re.compile(f"{STACKED}{STACKED}{{{_STACKED_KEPT},}}")
_STACKED_FLOOD_BMP = re.compile(f"{STACKED_BMP}{STACKED_BMP}{{{_STACKED_KEPT},}}")
_BEYOND_BMP = re.compile("[\U00010000-\U0010ffff]")
# Joined emoji and presentation selectors: terminals draw them one, two or six cells wide. Shown one beside the other
# they never break a border. Joiners between letters stay, they are spelling.
_UNSURE = re.compile("(?<=[\u2190-\u2bff\U0001f000-\U0001faff\ufe0f])\u200d|[\ufe0e\ufe0f]")


def clean(text: str) -> str:
    """The text with everything dangerous or hidden as a visible mark (␛, ‹U+202E›); LF and TAB stay, CRLF is LF."""
    text = visible(text)
    if text.isascii():
        return text
    text = _MARKS_FLOOD.sub(_count(_MARKS_KEPT), _UNSURE.sub("", text))
    return _stacked_flood(text).sub(_count(_STACKED_KEPT), text)


def _stacked_flood(text: str) -> "re.Pattern[str]":
    return _STACKED_FLOOD if _BEYOND_BMP.search(text) else _STACKED_FLOOD_BMP


def _count(kept: int) -> Callable[["re.Match[str]"], str]:
    def counted(match: "re.Match[str]") -> str:
        marks = match.group()
        return f"{marks[:kept]}‹+{len(marks) - kept} marks›"

    return counted


def clean_line(text: str, limit: int = 200) -> str:
    """One line of at most `limit` characters: line ends and tabs become marks too, the rest is cut with `…`."""
    cut = len(text) > limit * 4
    line = clean(text[: limit * 4] if cut else text).replace("\n", "⏎").replace("\t", "␉")
    return line[: limit - 1] + "…" if cut or len(line) > limit else line


def is_clean(text: str) -> bool:
    """Whether `clean` would leave the text as it is."""
    if text.isascii():
        return is_visible(text)
    odd = (_UNSURE, _MARKS_FLOOD, _stacked_flood(text))
    return is_visible(text) and not any(pattern.search(text) for pattern in odd)


def first_lines(text: str, count: int, width: int = 500) -> tuple[list[str], int]:
    """The first `count` lines, each cleaned and cut to `width` characters, and how many lines remain."""
    lines: list[str] = []
    start = 0
    while len(lines) < count and start <= len(text):
        end = text.find("\n", start)
        stop = len(text) if end < 0 else end
        line = text[start : min(stop, start + width)].removesuffix("\r")
        lines.append(clean(line) + ("…" if stop - start > width else ""))
        start = stop + 1
    rest = text.count("\n", start) + 1 if start < len(text) else 0
    return lines, rest
