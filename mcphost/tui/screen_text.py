"""Sanitizing of text for the screen: `mcphost.sanitize`, and the limits that a grid of cells needs.

Outside text is everything from a server, a model, a file or an error. After `clean` it holds no control character but
LF and TAB, nothing that reorders or hides other characters, few combining marks on a character, and nothing whose width
differs between terminals. It must still never reach a markup parser: pass it to `Content(text)` or to a widget with
`markup=False`.
"""

import unicodedata
from collections.abc import Callable
from functools import lru_cache

from textual._cells import cell_len
from textual.geometry import Region
from textual.strip import Strip

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


TAB_WIDTH = 4
_PICTOGRAPHS = 0x1F000
_REGIONAL_INDICATORS = (0x1F1E6, 0x1F1FF)


@lru_cache(4096)
def measure_character(character: str) -> tuple[int, bool]:
    """Return the maximum cells of a clean character, and whether it combines with the previous one.

    Terminals disagree with Textual on spacing marks, single Hangul letters, skin tone modifiers, regional indicators,
    and letters after a joiner. Layout by these widths fits in all of them.
    """
    if character == "\t":
        return TAB_WIDTH, False
    cells = cell_len(character)
    if cells:
        return (2 if _REGIONAL_INDICATORS[0] <= ord(character) <= _REGIONAL_INDICATORS[1] else cells), False
    if unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0, True
    return (2 if ord(character) >= _PICTOGRAPHS else 1), True


def find_row_breaks(line: str, width: int) -> list[int]:
    """Return the start of each row but the first, so that no row of a clean line exceeds `width` cells.

    A row ends after the last space in its second half, or else before the first character that does not fit. A
    character and its combining marks stay together where a row has room for them.
    """
    breaks: list[int] = []
    used = word = before = base = lead = 0  # a word begins after `before` cells of the row, a character after `lead`
    known = {character: measure_character(character) for character in set(line)}
    for at, character in enumerate(line):
        cells, joins = known[character]
        if not joins:
            base, lead = at, used
            if at and line[at - 1] == " ":
                word, before = at, used
        if used + cells > width:
            if before * 2 > width:
                breaks.append(word)
                used, lead, before = used - before, lead - before, 0
            if used + cells > width and lead:
                breaks.append(base)
                used, lead, before = used - lead, 0, 0
            if used + cells > width and used:
                breaks.append(at)
                used = lead = before = 0
        used += cells
    return breaks


def has_stable_width(text: str) -> bool:
    """Return whether no terminal draws the text wider than Textual counts it."""
    return text.isascii() or sum(measure_character(character)[0] for character in text) == cell_len(text)


def render_with_blank_rows(render: Callable[[Region], list[Strip]], crop: Region, filled: int) -> list[Strip]:
    """Return what *render* returns for *crop*, rendering only one of the rows after the first *filled*.

    The widget has neither a border nor padding below, so these rows are all equal.
    """
    blank = crop.bottom - max(crop.y, filled)
    if blank < 2:
        return render(crop)
    strips = render(Region(crop.x, crop.y, crop.width, crop.height - blank + 1))
    return [*strips, *strips[-1:] * (blank - 1)]
