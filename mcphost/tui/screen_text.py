"""Functions that sanitize untrusted text for the terminal, and measure its width in terminal cells.

Any text from a server, a model, a file or an error message is untrusted. The result of `clean` contains no control
characters except LF and TAB, no characters that reorder or hide others, only a few combining marks in a row, and no
emoji sequences whose width depends on the terminal. It may still contain markup, so pass it only to `Content(text)` or
to a widget with `markup=False`.
"""

import unicodedata
from collections.abc import Callable
from functools import lru_cache

from textual._cells import cell_len
from textual.geometry import Region
from textual.strip import Strip

from mcphost.sanitize import is_sanitized, sanitize
from mcphost.translation import _

DEFAULT_ACCOUNT_NAME = "default"
"""The name that commands use for the account without a name."""
_NOTICE_LENGTH, _NOTICE_LINES = 800, 12
_DESCRIPTION_LENGTH, _DESCRIPTION_LINES = 2_000, 100
_MEASURED_CHARACTERS = 1_000
_SEPARATORS = str.maketrans("._ ", "---")


def clean(text: str) -> str:
    """Replace unsafe and hidden characters with visible marks, such as ␛ or ‹U+202E›, and CRLF with LF."""
    text = sanitize(text)
    if text.isascii():
        return text
    from mcphost.tui.combining_marks import limit_combining_marks  # imported here, because it is slow

    return limit_combining_marks(text)


def fold_separators(text: str) -> str:
    """Normalize a name for comparison: convert it to lowercase, and replace separators with hyphens.

    The separators are dots, underscores and spaces.
    """
    return text.lower().translate(_SEPARATORS)


def account_title(name: str) -> str:
    """Return an account's display name; the default account is shown as "default" in the user's language."""
    return _("default") if name == DEFAULT_ACCOUNT_NAME else name


def clean_line(text: str, limit: int = 200) -> str:
    """Sanitize the text as a single line; truncate it with `…` if it is longer than *limit* characters.

    LF becomes `⏎` and TAB becomes `␉`.
    """
    cut = len(text) > limit * 4
    line = clean(text[: limit * 4] if cut else text).replace("\n", "⏎").replace("\t", "␉")
    return line[: limit - 1] + "…" if cut or len(line) > limit else line


def pad_cells(text: str, width: int) -> str:
    """Append spaces to the text until it is *width* cells wide."""
    return text + " " * (width - cell_len(text))


def clean_notice(text: str) -> str:
    """Sanitize the text of a notification, and shorten it so that it does not cover too much of the screen."""
    lines = clean(text[: 4 * _NOTICE_LENGTH])[:_NOTICE_LENGTH].split("\n")
    cut = "\n".join(lines[:_NOTICE_LINES])
    return f"{cut}…" if len(text) > _NOTICE_LENGTH or len(lines) > _NOTICE_LINES else cut


def clean_beginning(text: str, characters: int, lines: int) -> tuple[str, int]:
    """Return the sanitized beginning of *text*, and the number of characters of *text* that are omitted.

    The beginning has at most *lines* line breaks and approximately *characters* characters. The characters are
    counted after sanitizing, because visible marks are longer than the characters that they replace. The remaining
    text is not sanitized.
    """
    stop = _end_of_lines(text, max(0, characters), lines)
    end, length = 0, _MEASURED_CHARACTERS
    while end < stop and length:
        piece = text[end : min(stop, end + length)]
        size = len(clean(piece))
        if size <= characters:
            end, characters = end + len(piece), characters - size
        else:
            length = len(piece) // 2
    return clean(text[:end]), len(text) - end


def clean_description(text: str) -> str:
    """Sanitize the description that a server gives of a form, and shorten it with `…` to leave room for the form."""
    kept, rest = clean_beginning(text, _DESCRIPTION_LENGTH, _DESCRIPTION_LINES)
    return f"{kept}…" if rest else kept


def _end_of_lines(text: str, characters: int, count: int) -> int:
    """Return the length of the longest prefix with at most *characters* characters and *count* line breaks."""
    end, stop = -1, min(len(text), characters)
    for _line in range(count + 1):
        end = text.find("\n", end + 1, stop)
        if end < 0:
            return stop
    return end


def find_line_end(text: str, count: int) -> int:
    """Return the index after the first *count* lines of *text*, or the length of *text* if it has fewer lines."""
    at = 0
    for _line in range(count):
        at = text.find("\n", at) + 1
        if not at:
            return len(text)
    return at


def is_clean(text: str) -> bool:
    """Return whether `clean` would leave the text unchanged."""
    if text.isascii():
        return is_sanitized(text)
    from mcphost.tui.combining_marks import has_excess_marks

    return is_sanitized(text) and not has_excess_marks(text)


def first_lines(text: str, count: int, width: int = 500) -> tuple[list[str], int]:
    """Return the first *count* lines of *text*, and the number of omitted lines.

    The returned lines are sanitized, and truncated with `…` after *width* characters.
    """
    lines: list[str] = []
    start = 0
    while len(lines) < count and start <= len(text):
        end = text.find("\n", start)
        stop = len(text) if end < 0 else end
        line = clean(text[start : min(stop, start + width)].removesuffix("\r"))
        lines.append(line[:width] + ("…" if stop - start > width or len(line) > width else ""))
        start = stop + 1
    rest = text.count("\n", start) + 1 if start < len(text) else 0
    return lines, rest


TAB_WIDTH = 4
_PICTOGRAPHS = 0x1F000
_REGIONAL_INDICATORS = (0x1F1E6, 0x1F1FF)


@lru_cache(4096)
def measure_character(character: str) -> tuple[int, bool]:
    """Return the maximum width of a character in cells, and whether it combines with the preceding character.

    Terminals and Textual disagree on the width of spacing marks, single Hangul letters, skin tone modifiers, regional
    indicators, and letters after a joiner. A layout that uses these maximum widths fits in every terminal.
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
    """Return the indices at which to break a sanitized line so that no row is wider than *width* cells.

    A row is broken after its last space if that space is in the row's second half, and otherwise before the first
    character that does not fit. A character and its combining marks stay together if they fit in a row.
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
    """Return whether every terminal draws the text in no more cells than Textual expects."""
    return text.isascii() or sum(measure_character(character)[0] for character in text) == cell_len(text)


def render_with_blank_rows(render: Callable[[Region], list[Strip]], crop: Region, filled: int) -> list[Strip]:
    """Render the rows of *crop*; to save memory, all blank rows at the end share one strip.

    *filled* is the number of rows with content. The widget must have no border or padding at the bottom.
    """
    blank = crop.bottom - max(crop.y, filled)
    if blank < 2:
        return render(crop)
    strips = render(Region(crop.x, crop.y, crop.width, crop.height - blank + 1))
    return [*strips, *strips[-1:] * (blank - 1)]
