"""Line breaking for Chinese, Japanese and Korean text, with its punctuation rules (kinsoku shori).

Textual breaks lines only at spaces, and splits text without spaces wherever a row is full. A row could therefore start
with "。", or stay half empty because the text up to the next space did not fit.
"""

from textual import content
from textual._cells import cell_len

from mcphost.tui.screen_text import measure_character

NO_ROW_START = frozenset(
    "。、，．：；？！・…‥—～”’）〕］｝〉》」』】〗〙〟ー々ゝゞヽヾ｡､･)]}!?,.:;%‰℃°ぁぃぅぇぉっゃゅょァィゥェォッャュョ"
)
"""Characters that must not start a row, such as closing punctuation and small kana."""
NO_ROW_END = frozenset("“‘（〔［｛〈《「『【〖〘〝([{￥＄$")
"""Characters that must not end a row, such as opening brackets."""
_MAX_PULLED = 4
"""Maximum characters moved to the next row to satisfy the rules for punctuation."""
_IDEOGRAPH_START = 0x1100
"""First code point of the scripts that are written without spaces and are two cells wide."""


_divide_line = content.divide_line  # pyright: ignore[reportPrivateImportUsage]


def divide_line(text: str, width: int, fold: bool = True) -> list[int]:
    """Return the indices at which to break a line; this function replaces Textual's `divide_line`.

    Text without wide characters is passed on to Textual's function. So is all text if *fold* is false, which means that
    words are not broken.
    """
    if fold and not text.isascii() and needs_own_breaks(text, width):
        return break_line(text, width)
    return _divide_line(text, width, fold)


def use_own_breaks() -> None:
    """Make all Textual widgets break lines according to this module, by replacing a function of Textual."""
    content.divide_line = divide_line  # pyright: ignore[reportPrivateImportUsage]


def needs_own_breaks(text: str, width: int) -> bool:
    """Return whether *text* must be broken by this module instead of by Textual.

    This is the case if *text* has a line wider than *width* cells and contains two-cell characters, such as ideographs.
    """
    return any(ord(character) >= _IDEOGRAPH_START and cell_len(character) == 2 for character in set(text)) and any(
        cell_len(line) > width for line in text.split("\n")
    )


def break_line(line: str, width: int) -> list[int]:
    """Return the indices at which to break a line so that no row is wider than *width* cells.

    A row may end after a space, and before or after a two-cell character. It must not end with a character in
    NO_ROW_END, and the next row must not start with a character in NO_ROW_START.
    """
    cells = {character: _measure(character) for character in set(line)}
    breaks: list[int] = []
    begin = used = 0
    at = 0
    while at < len(line):
        wide = cells[line[at]]
        if used + wide > width and at > begin and line[at] != " ":
            cut = _find_break(line, begin, at, cells)
            breaks.append(cut)
            used = sum(cells[character] for character in line[cut:at])
            begin = cut
        used += wide
        at += 1
    return breaks


def _measure(character: str) -> int:
    """Return the width of a character in cells, which is at least the width that Textual assumes."""
    return max(cell_len(character), measure_character(character)[0]) if character != "\t" else 8


def _find_break(line: str, begin: int, at: int, cells: dict[str, int]) -> int:
    """Return the index at which to break the row that starts at *begin* and is full at index *at*.

    *cells* maps each character to its width in cells.
    """
    for cut in range(at, max(begin, at - 60), -1):
        if _may_break(line, cut, cells):
            return cut
    joined = at  # for a word that fills the row, keep only punctuation and combining marks together
    while joined > max(begin + 1, at - _MAX_PULLED) and (line[joined] in NO_ROW_START or not cells[line[joined]]):
        joined -= 1
    return joined if joined > begin else at


def _may_break(line: str, cut: int, cells: dict[str, int]) -> bool:
    before, after = line[cut - 1], line[cut]
    if after in NO_ROW_START or before in NO_ROW_END or not cells[after]:
        return False
    return before == " " or (after != " " and (cells[before] == 2 or cells[after] == 2))
