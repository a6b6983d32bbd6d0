"""Sanitization of untrusted text: control, bidirectional and hidden characters become visible marks.

All output (terminal, log view, dialogs) passes through `sanitize`, which is based on character properties instead of a
list of known attacks: each character that can move the cursor, or reorder, hide or fake text, is replaced with a mark
that can be seen and copied.
"""

import re
import unicodedata
from collections.abc import Iterator
from functools import cache, lru_cache
from itertools import islice

# Inclusive ranges of code points that are drawn as nothing or as a blank.
DEFAULT_IGNORABLE = (
    (0x00AD, 0x00AD), (0x034F, 0x034F), (0x061C, 0x061C), (0x115F, 0x1160), (0x17B4, 0x17B5), (0x180B, 0x180F),
    (0x200B, 0x200F), (0x202A, 0x202E), (0x2060, 0x206F), (0x3164, 0x3164), (0xFE00, 0xFE0F), (0xFEFF, 0xFEFF),
    (0xFFA0, 0xFFA0), (0xFFF0, 0xFFF8), (0x1BCA0, 0x1BCA3), (0x1D173, 0x1D17A), (0xE0000, 0xE0FFF),
)  # fmt: skip
"""Default_Ignorable_Code_Point of Unicode 17.0 (DerivedCoreProperties.txt, 4174 code points)."""
FORMAT_CHARACTERS = ((0xFFF9, 0xFFFB), (0x13430, 0x1343F))
"""Other characters of general category Cf of Unicode 17.0, without PREPENDED_MARKS."""
PREPENDED_MARKS = ((0x0600, 0x0605), (0x06DD, 0x06DD), (0x070F, 0x070F), (0x0890, 0x0891), (0x08E2, 0x08E2),
             (0x110BD, 0x110BD), (0x110CD, 0x110CD))  # fmt: skip
"""Prepended_Concatenation_Mark of Unicode 17.0 (PropList.txt): also category Cf, but visible."""
BLANK_CHARACTERS = ((0x2800, 0x2800), (0x13441, 0x13442), (0x16FE4, 0x16FE4), (0x1D159, 0x1D159))
"""Characters that are blank by design: Braille pattern blank, Egyptian blanks, Khitan filler, null notehead."""
IMAGE_PLACEHOLDERS = ((0x10EEEE, 0x10EEEE),)
"""The private use character that stands for a part of an image in Kitty's graphics protocol."""

UNUSUAL_SPACES = ((0xA0, 0xA0), (0x1680, 0x1680), (0x2000, 0x200A), (0x202F, 0x202F), (0x205F, 0x205F))
"""Category Zs of Unicode 17.0 without U+0020, and without the ideographic space, which CJK text uses."""
PRIVATE_USE = ((0xE000, 0xF8FF), (0xF0000, 0xFFFFD), (0x100000, 0x10FFFD))
"""Category Co, whose appearance depends on the font and may be blank."""


_MAX_MIME_LENGTH = 100
_MIME_TYPE = re.compile(r"[A-Za-z0-9!#$&^_.+-]+/[A-Za-z0-9!#$&^_.+-]+")


def _character_class(*ranges: tuple[int, int]) -> str:
    return "".join(f"\\U{first:08x}-\\U{last:08x}" for first, last in ranges)


# Characters that move the cursor or end a line: C0 without TAB and LF, DEL, C1, the separators; and surrogates.
_CONTROL = ((0x00, 0x08), (0x0B, 0x1F), (0x7F, 0x9F), (0x2028, 0x2029), (0xD800, 0xDFFF))
_UNSAFE = re.compile(
    f"[{_character_class(*_CONTROL, *DEFAULT_IGNORABLE, *FORMAT_CHARACTERS, *BLANK_CHARACTERS, *IMAGE_PLACEHOLDERS)}]"
)
_ASCII_CONTROLS = bytes((*range(0x09), 0x0B, 0x0C, *range(0x0E, 0x20), 0x7F))
_JOINERS = "\u200c\u200d"
_PRESENTATION_SELECTORS = "\ufe0e\ufe0f"


_CONTINUATION = re.compile("[\udc00-\udfff\u20e3\ufe00-\ufe0f\U000e0100-\U000e01ef]")

PIECE_LENGTH = 256 * 1024
"""Number of characters of a long text that are sanitized in one step; a step takes at most about 20 ms."""

_MARK_CACHE_SIZE = 4_096
_MARK_CACHE: dict[str, str] = {}
"""Cache of marks for characters that are always replaced; creating a mark takes three times as long."""


# Compiled on demand, because the first screen has no such text.
@cache
def _joiner_scripts() -> re.Pattern[str]:
    """Return a pattern for letters of scripts that use the joiners U+200C and U+200D.

    The scripts are Arabic and related ones, the scripts of India, Tibetan, Myanmar, Khmer, Mongolian, the blocks from
    Balinese to Batak, Javanese, the Indic scripts of the first supplementary plane, and Adlam.
    """
    return re.compile(
        "[\u0600-\u085f\u0870-\u109f\u1780-\u18af\u1b00-\u1bff\u1cd0-\u1cff\ua800-\ua82f\ua840-\ua8ff\ua980-\ua9ff"
        "\uaa60-\uaa7f\uaae0-\uaaff\uabc0-\uabff\ufb50-\ufdff\ufe70-\ufefc\U00010f30-\U00010f6f\U00011000-\U00011fff"
        "\U0001e900-\U0001e95f]"
    )


@cache
def _pictograph_pattern() -> re.Pattern[str]:
    """Return a pattern for characters that occur in emoji sequences.

    These are the blocks that contain Extended_Pictographic characters, and the skin tones.
    """
    return re.compile(
        "[©®‼⁉™ℹⓂ〰〽㊗㊙\u2194-\u21aa\u231a-\u23ff\u25aa-\u27bf\u2934\u2935\u2b05-\u2b55\U0001f000-\U0001faff]"
    )


@cache
def _hidden_text_pattern() -> re.Pattern[str]:
    """Return a pattern for control characters, tag characters and variation selectors.

    Tags and selectors can spell hidden text. A selector is not matched if it has a visible effect:

    - after an ideograph, where it selects a variant of the glyph
    - VS15 or VS16 after a symbol that has an emoji form (see `_pictograph_pattern`), or within a keycap sequence

    The pattern begins with a single character class, so that `re` quickly skips all other characters.
    """
    return re.compile(
        "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ufe00-\ufe0f\U000e0000-\U000e0fff]"
        "(?<![\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff][\ufe00-\ufe02\U000e0100-\U000e01ef])"
        "(?<![©®‼⁉™ℹⓂ〰〽㊗㊙\u2194-\u21aa\u231a-\u23ff\u25aa-\u27bf\u2934\u2935\u2b05-\u2b55\U0001f000-\U0001faff]"
        "[\ufe0e\ufe0f])(?!(?<=[0-9#*][\ufe0e\ufe0f])\u20e3)"
    )


def sanitize(text: str, *, keep_newlines: bool = True) -> str:
    """Replace all characters that could deceive a reader or a terminal with visible marks.

    LF and TAB are kept, and CR LF becomes LF; with `keep_newlines=False`, the result is one line. C0 controls
    become their pictures (ESC is `␛`); other characters are replaced with their codes, such as `‹U+202E›`. Joiners
    are kept in scripts that use them and in emoji sequences, and one presentation selector is kept after a symbol.
    Never raises; takes time linear in the length of *text*.
    """
    if "\r" in text:
        text = text.replace("\r\n", "\n")
    if _UNSAFE.search(text):
        text = _UNSAFE.sub(_mark, text)
    if not keep_newlines and ("\n" in text or "\t" in text):
        text = text.replace("\n", "⏎").replace("\t", " ")
    return text


def sanitize_line(text: str, limit: int) -> str:
    """Return the first *limit* characters of *text*, sanitized and on one line."""
    return sanitize(text[:limit], keep_newlines=False)


def quote_text(text: str, limit: int = 200) -> str:
    """Return the first *limit* characters of *text*, sanitized, in quotes and on one line."""
    return repr(sanitize_line(text, limit))


def is_sanitized(text: str) -> bool:
    """Return whether `sanitize` would leave *text* unchanged."""
    return all(_mark(match) == match.group() for match in _UNSAFE.finditer(text))


_IDEOGRAPHIC = "[\u3001-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff\uff01-\uff9f\U00020000-\U0003ffff]"


@cache
def _unusual_space_pattern() -> re.Pattern[str]:
    """Return a pattern for the characters that `mark_unusual_spaces` marks.

    Prose uses spaces of several widths, such as U+00A0 before a colon in French, so `sanitize` does not mark them. In a
    name, a path or an argument, however, they can be mistaken for an ordinary space. The ideographic space is not
    marked between two CJK characters, where it is common.
    """
    return re.compile(
        f"[{_character_class(*UNUSUAL_SPACES, *PRIVATE_USE)}]|(?<!{_IDEOGRAPHIC})\u3000|\u3000(?!{_IDEOGRAPHIC})"
    )


def mark_unusual_spaces(text: str) -> str:
    """Replace unusual spaces and private use characters in a name or value with visible marks."""
    return text if text.isascii() else _unusual_space_pattern().sub(lambda match: _code_mark(match.group()), text)


_LITERAL_MARK = re.compile("[\u2400-\u2421\u23ce]|\u2039(?=U\\+[0-9A-F])")


def mark_literal_marks(text: str) -> str:
    """Replace `⏎`, and characters that look like the marks of this module, with their codes.

    Use this before `sanitize`. Each mark in the result of `sanitize` then stands for a character that was replaced,
    such as `␛` for an escape character, and never for a mark that was already in *text*.
    """
    return text if text.isascii() else _LITERAL_MARK.sub(lambda match: _code_mark(match.group()), text)


# Shared by all places of a character: a million separate marks would take 80 MB until they are joined.
@lru_cache(2 * _MARK_CACHE_SIZE)
def _code_mark(char: str) -> str:
    return f"‹U+{ord(char):04X}›"


def has_only_plain_spaces(text: str) -> bool:
    """Return whether `mark_unusual_spaces` would leave *text* unchanged."""
    return text.isascii() or _unusual_space_pattern().search(text) is None


def count_unsafe(text: str, limit: int) -> int:
    """Count the characters that `sanitize` might replace, stopping at *limit*."""
    return sum(1 for _ in islice(_UNSAFE.finditer(text), limit))


def measure_beginning(text: str, limit: int) -> int:
    """Return the length of the longest prefix of *text* with at most *limit* characters when sanitized.

    CR LF counts as two characters. Whether a joiner at the end of the prefix is kept depends on the next character in
    *text*.
    """
    room = limit
    for match in _UNSAFE.finditer(text, 0, limit):
        left = room - len(_mark(match)) + 1
        if match.end() > left:
            return min(match.start(), room)
        room = left
    return min(len(text), room)


def is_shown_within(text: str, limit: int) -> bool:
    """Return whether *text* has at most *limit* characters when sanitized.

    A mark that replaces a single character can have up to ten characters.
    """
    return len(text) <= limit and (text.isascii() or measure_beginning(text, limit) == len(text))


def strip_unsafe(text: str) -> str:
    """Remove the characters that `sanitize` might replace, so that strings can be compared by appearance."""
    return _UNSAFE.sub("", text)


def _mark(match: re.Match[str]) -> str:
    char = match.group()
    if mark := _MARK_CACHE.get(char):
        return mark
    mark = _make_mark(char, match)
    if char not in _JOINERS and char not in _PRESENTATION_SELECTORS and len(_MARK_CACHE) < _MARK_CACHE_SIZE:
        _MARK_CACHE[char] = mark
    return mark


def _make_mark(char: str, match: re.Match[str]) -> str:
    code = ord(char)
    if code < 0x20:
        return chr(0x2400 + code)
    if code == 0x7F:
        return "␡"
    if 0xD800 <= code <= 0xDFFF:
        return "\ufffd"
    if char in _JOINERS and _is_valid_joiner(match):
        return char
    if char in _PRESENTATION_SELECTORS and _is_valid_selector(match):
        return char
    return f"‹U+{code:04X}›"


def _is_valid_joiner(match: re.Match[str]) -> bool:
    """Return whether a matched joiner is used correctly.

    A correct joiner is between letters of a script that uses joiners, or in an emoji sequence.
    """
    text, at = match.string, match.start()
    before, after = text[at - 1 : at], text[at + 1 : at + 2]
    if _can_touch_joiner(before) and _can_touch_joiner(after):
        return True
    drawn = _pictograph_pattern().match(before) or (
        before == "\ufe0f" and _pictograph_pattern().match(text[at - 2 : at - 1])
    )
    return match.group() == "\u200d" and drawn is not None and _pictograph_pattern().match(after) is not None


def _can_touch_joiner(char: str) -> bool:
    """Return whether a character is a letter or combining mark in a script that uses joiners."""
    return bool(_joiner_scripts().match(char)) and unicodedata.category(char)[0] in "LM" and not _UNSAFE.match(char)


def _is_valid_selector(match: re.Match[str]) -> bool:
    """Return whether a matched variation selector (VS15, VS16) is used correctly.

    A correct selector follows a symbol that has an emoji form, or is part of a keycap sequence.
    """
    text, at = match.string, match.start()
    before = text[at - 1 : at]
    keycap = before in set("0123456789#*") and text[at + 1 : at + 2] == "\u20e3"
    return keycap or _pictograph_pattern().match(before) is not None


def replace_surrogates(text: str) -> str:
    """Replace lone surrogates in *text* with U+FFFD, so that it can be encoded."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return "".join(map(_replace_surrogates_in, _split(text)))
    return text


def _replace_surrogates_in(piece: str) -> str:
    try:
        piece.encode()
    except UnicodeEncodeError:
        return piece.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return piece


def strip_hidden_text(text: str) -> str:
    """Remove control characters, tags and variation selectors from text that is sent to a model.

    Tags and selectors can spell words that are invisible to the user. Selectors with a meaning are kept: after an
    ideograph, after a symbol that has an emoji form, and in a keycap.
    """
    if len(text) > PIECE_LENGTH:
        return "".join(map(strip_hidden_text, _split(text)))
    if text.isascii():
        return text.encode().translate(None, _ASCII_CONTROLS).decode()
    return _hidden_text_pattern().sub("", text)


def _split(text: str) -> Iterator[str]:
    """Split a long string into pieces without breaking surrogate pairs or variation sequences."""
    start = 0
    while start < len(text):
        end = start + PIECE_LENGTH - 2  # the loop below may add two, and no piece may be longer
        for _ in range(2):  # a keycap has a selector and a mark after its digit
            if _CONTINUATION.match(text, end):
                end += 1  # it belongs to the character before
        yield text[start:end]
        start = end


def escape_formula(text: str) -> str:
    """Prefix *text* with an apostrophe if a spreadsheet could run it as a formula.

    Other text is returned unchanged. Leading whitespace is ignored when *text* is checked.
    """
    return f"'{text}" if text.lstrip()[:1] in tuple("=+-@＝＋－＠|%") else text


def escape_unsafe_json(json_text: str) -> str:
    """Escape the characters in JSON text that `sanitize` might replace, for safe display in a terminal."""
    return _UNSAFE.sub(_escape, json_text) if _UNSAFE.search(json_text) else json_text


def escape_line_separators(json: bytes) -> bytes:
    """Escape U+0085, U+2028 and U+2029 in JSON, at which `str.splitlines` and some other programs end a line."""
    if json.isascii():
        return json
    return (
        json.replace(b"\xc2\x85", b"\\u0085").replace(b"\xe2\x80\xa8", b"\\u2028").replace(b"\xe2\x80\xa9", b"\\u2029")
    )


def _escape(match: re.Match[str]) -> str:
    return _json_escape(match.group())


@lru_cache(4_096)
def _json_escape(char: str) -> str:
    code = ord(char)
    if code <= 0xFFFF:
        return f"\\u{code:04x}"
    code -= 0x10000
    return f"\\u{0xD800 + (code >> 10):04x}\\u{0xDC00 + (code & 0x3FF):04x}"


def short_mime_type(text: str) -> str:
    """Return the type and subtype of a MIME type, without its parameters.

    Returns "unknown type" if *text* is not a MIME type. The text comes from a server, and the result is shown to
    the user and sent to models.
    """
    essence = text.partition(";")[0].strip()
    return essence if len(essence) <= _MAX_MIME_LENGTH and _MIME_TYPE.fullmatch(essence) else "unknown type"
