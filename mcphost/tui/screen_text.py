"""The one cleaning function for text on the screen: `mcphost.sanitize`, and what only a grid of cells needs besides.

Outside text is everything a server, a model, a file or an error brought. After `clean` it holds no control
character but LF and TAB, nothing that reorders or hides others, no flood of combining marks, and nothing whose width
terminals disagree on. It must still never pass a markup parser: give it to `Content(text)` or to a widget with
`markup=False`.
"""

from mcphost.sanitize import is_sanitized, sanitize


def clean(text: str) -> str:
    """The text with everything dangerous or hidden as a visible mark (␛, ‹U+202E›); LF and TAB stay, CRLF is LF."""
    text = sanitize(text)
    if text.isascii():
        return text
    from mcphost.tui.combining_marks import limit_combining_marks  # with the first such text, not with the first frame

    return limit_combining_marks(text)


def clean_line(text: str, limit: int = 200) -> str:
    """One line of at most `limit` characters: line ends and tabs become marks too, the rest is cut with `…`."""
    cut = len(text) > limit * 4
    line = clean(text[: limit * 4] if cut else text).replace("\n", "⏎").replace("\t", "␉")
    return line[: limit - 1] + "…" if cut or len(line) > limit else line


def is_clean(text: str) -> bool:
    """Whether `clean` would leave the text as it is."""
    if text.isascii():
        return is_sanitized(text)
    from mcphost.tui.combining_marks import has_excess_marks

    return is_sanitized(text) and not has_excess_marks(text)


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
