"""Sanitizing of text for the screen: `mcphost.sanitize`, and the limits that a grid of cells needs.

Outside text is everything from a server, a model, a file or an error. After `clean` it holds no control character but
LF and TAB, nothing that reorders or hides other characters, few combining marks on a character, and nothing whose width
differs between terminals. It must still never reach a markup parser: pass it to `Content(text)` or to a widget with
`markup=False`.
"""

from mcphost.sanitize import is_sanitized, sanitize


def clean(text: str) -> str:
    """Return the text with unsafe and hidden characters as visible marks (␛, ‹U+202E›) and CRLF as LF."""
    text = sanitize(text)
    if text.isascii():
        return text
    from mcphost.tui.combining_marks import limit_combining_marks  # slow to import: only on first use

    return limit_combining_marks(text)


def clean_line(text: str, limit: int = 200) -> str:
    """Return one clean line of at most `limit` characters: LF and TAB become marks, the rest is cut with `…`."""
    cut = len(text) > limit * 4
    line = clean(text[: limit * 4] if cut else text).replace("\n", "⏎").replace("\t", "␉")
    return line[: limit - 1] + "…" if cut or len(line) > limit else line


def is_clean(text: str) -> bool:
    """Return whether `clean` would leave the text unchanged."""
    if text.isascii():
        return is_sanitized(text)
    from mcphost.tui.combining_marks import has_excess_marks

    return is_sanitized(text) and not has_excess_marks(text)


def first_lines(text: str, count: int, width: int = 500) -> tuple[list[str], int]:
    """Return the first `count` lines, cleaned and cut to `width` characters, and the number of other lines."""
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
