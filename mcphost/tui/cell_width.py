"""Width of characters in cells: as Textual counts it, and at most in any terminal."""

import unicodedata
from functools import lru_cache

from textual._cells import cell_len

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
