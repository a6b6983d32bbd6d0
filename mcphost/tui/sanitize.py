"""The one cleaning function for text on the screen: `mcphost.clean`, and what only a grid of cells needs besides.

Outside text is everything a server, a model, a file or an error brought. After `clean` it holds no control
character but LF and TAB, nothing that reorders or hides others, no flood of combining marks, and nothing whose width
terminals disagree on. It must still never pass a markup parser: give it to `Content(text)` or to a widget with
`markup=False`.
"""

import re

from mcphost.clean import visible

_FLOOD = re.compile("[\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]{5,}")
_COMBINING_KEPT = 4
# Joined emoji and presentation selectors: terminals draw them one, two or six cells wide. Shown one beside the other
# they never break a border. Joiners between letters stay, they are spelling.
_UNSURE = re.compile("(?<=[\u2190-\u2bff\U0001f000-\U0001faff\ufe0f])\u200d|[\ufe0e\ufe0f]")
_ODD = re.compile("[\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u200d\u20d0-\u20ff\ufe0e-\ufe2f]")


def clean(text: str) -> str:
    """The text with everything dangerous or hidden as a visible mark (␛, ‹U+202E›); LF and TAB stay, CRLF is LF."""
    text = visible(text)
    if not _ODD.search(text):
        return text
    return _FLOOD.sub(_count, _UNSURE.sub("", text))


def _count(match: "re.Match[str]") -> str:
    marks = match.group()
    return f"{marks[:_COMBINING_KEPT]}‹+{len(marks) - _COMBINING_KEPT} marks›"


def clean_line(text: str, limit: int = 200) -> str:
    """One line of at most `limit` characters: line ends and tabs become marks too, the rest is cut with `…`."""
    cut = len(text) > limit * 4
    line = clean(text[: limit * 4] if cut else text).replace("\n", "⏎").replace("\t", "␉")
    return line[: limit - 1] + "…" if cut or len(line) > limit else line


def is_clean(text: str) -> bool:
    """Whether `clean` would leave the text as it is."""
    return clean(text) == text


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
