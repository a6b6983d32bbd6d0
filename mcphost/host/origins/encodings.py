"""Decoding of text hidden in arguments, such as escaped, base64, hexadecimal or compressed text."""

import base64
import binascii
import codecs
import html
import re
import zlib
from collections.abc import Iterator
from typing import NamedTuple
from urllib.parse import unquote_to_bytes

from mcphost.sanitize import replace_surrogates

MAX_DECODED = 1_000_000
"""Maximum number of characters decoded from one source text, or from all arguments of a call together."""
MAX_EXAMINED = 5_000_000
"""Maximum number of decoded bytes and characters that are examined in one search, whether or not they are text."""
_MAX_DEPTH = 6
_SHORTEST = 16
_MAX_HTML_DIGITS = 7
_JSON_ESCAPE = re.compile(r'\\(?:u([0-9A-Fa-f]{4})|x([0-9A-Fa-f]{2})|(["\\/bfnrt\']))')
_ASCII_RUN = re.compile(r"[\x00-\x7f]+|[^\x00-\x7f]+")
_HTML_NUMBER = re.compile("&#0*([0-9]+);?")
_JSON_CHARACTERS = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_COMPACT_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{22,}={0,2}")
_HEX_NOISE = str.maketrans("", "", "%\\:,;-")
_CODE_NUMBER = re.compile(r"\d+")
_WINDOW = 4096
"""Number of characters searched in one step; a thread that searches a long text in one step stops all others."""
_PIECE = 16 * 1024
_MAX_ITEMS = 1000
"""Number of items of a run, such as pairs of digits, that are matched in one step."""
_OVERLAP = 128
"""Maximum length of the shortest run of any encoding."""
_PRINTABLE_SHARE = 0.9
_UNREADABLE_ASCII = {code: None for code in range(128) if not (chr(code).isprintable() or chr(code).isspace())}


class _Runs:
    """Searcher for runs: *head*, then at least *shortest* repetitions of *item*, then *tail*.

    *head*, *item* and *tail* are regular expressions. *item* must be unambiguous, which means that it never begins with
    text that the previous item could also match. Long texts are searched piece by piece.
    """

    def __init__(self, item: str, shortest: int, *, head: str = "", tail: str = "") -> None:
        self._first = re.compile(f"{head}(?:{item}){{{shortest}}}")
        self._more = re.compile(f"(?:{item}){{1,{_MAX_ITEMS}}}")
        self._tail = re.compile(tail)

    def find(self, text: str) -> Iterator[tuple[int, int]]:
        """Yield the start and end of each run in *text*."""
        place = 0
        while place < len(text):
            limit = place + _WINDOW
            run = self._first.search(text, place, limit)
            if run is None or (run.start() > limit - _OVERLAP and limit < len(text)):
                # A run that begins near the end of the window is searched again, together with what follows it.
                place = limit - _OVERLAP
                continue
            start, place = run.start(), run.end()
            # The end of the window may have cut off the last item.
            run = self._first.match(text, start)
            while run is not None:
                place = run.end()
                run = self._more.match(text, place)
            if (end := self._tail.match(text, place)) is not None:
                place = end.end()
            yield start, place


_BASE64 = _Runs(r"[A-Za-z0-9+/_-]\s{0,4}+", 16, tail=r"(?:=\s?){0,2}")
_BASE32 = _Runs(r"[A-Z2-7]\s{0,4}+", 24, tail="=*")
_HEX = _Runs(r"(?:0x|\\x|%)?[0-9A-Fa-f]{2}[\s:,;-]{0,2}+", 16)
_DECIMAL = _Runs(r"[\s,;]{1,3}+\d{2,3}+", 15, head=r"\d{2,3}+")


class DecodedText(NamedTuple):
    """Decoded text; `start` and `end` delimit the encoded part in the argument."""

    encoding: str
    text: str
    start: int
    end: int


def unescape(text: str) -> str:
    """Return *text* with JSON, HTML and URL escapes decoded."""
    if "\\" in text:
        text = _JSON_ESCAPE.sub(_unescape_json, text)
    if "&" in text and ";" in text:
        text = html.unescape(_HTML_NUMBER.sub(_shorten_html_number, text))
    if "%" in text:
        text = _unquote(text)
    return replace_surrogates(text)


def _unquote(text: str) -> str:
    """Return *text* with URL escapes decoded like `urllib.parse.unquote`.

    The text is processed in pieces, because `unquote_to_bytes` blocks all other threads while it joins its parts.
    """
    parts: list[str] = []
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    start = 0
    while start < len(text):
        end = start + _PIECE
        if end < len(text) and (escape := text.rfind("%", end - 2, end)) >= 0:
            end = escape  # do not split an escape
        for run in _ASCII_RUN.finditer(text, start, end):
            if run[0].isascii():
                parts.append(decoder.decode(unquote_to_bytes(run[0])))
            else:
                # Escapes before and after other characters are decoded separately.
                parts += decoder.decode(b"", final=True), run[0]
        start = end
    parts.append(decoder.decode(b"", final=True))
    return "".join(parts)


def _unescape_json(match: re.Match[str]) -> str:
    code = match[1] or match[2]
    return chr(int(code, 16)) if code else _JSON_CHARACTERS.get(match[3], match[3])


def _shorten_html_number(match: re.Match[str]) -> str:
    # Python refuses to convert numbers of more than 4,300 digits.
    return f"&#{match[1]};" if len(match[1]) <= _MAX_HTML_DIGITS else "\ufffd"


def decoded_source_texts(text: str, budget: "DecodeBudget") -> Iterator[str]:
    """Yield the decoded forms of escaped and base64 parts of text from a server or file, within *budget*."""
    plain = unescape(text)
    if plain != text:
        yield plain
    for run in _COMPACT_BASE64.finditer(text):
        for data in _decode_base64(run[0]):
            if found := _to_text(data, budget)[1]:
                yield found


class DecodeBudget:
    """Limit on the characters decoded in one search; a few bytes can decompress to gigabytes."""

    def __init__(self, room: int = MAX_DECODED) -> None:
        self.room = room
        self.examinable = MAX_EXAMINED
        self.is_used_up = False
        """Whether the limit was reached, so that encoded text was not decoded, or only in part."""


def decoded_texts(text: str, budget: DecodeBudget) -> Iterator[DecodedText]:
    """Decode the encoded parts of *text*, including nested ones, and yield the results.

    Decoding stops when *budget* is used up, or after six nested layers. `budget.is_used_up` is then set if something
    may have remained encoded.
    """
    waiting = [(DecodedText("", text, 0, len(text)), 0)]
    known = {text}
    while waiting:
        outer, depth = waiting.pop()
        for inner in _decode_once(outer, budget):
            if depth == _MAX_DEPTH:
                budget.is_used_up |= len(inner.text) >= _SHORTEST
                continue
            yield inner
            if len(inner.text) >= _SHORTEST and inner.text not in known:
                known.add(inner.text)
                waiting.append((inner, depth + 1))


def _decode_once(outer: DecodedText, budget: DecodeBudget) -> Iterator[DecodedText]:
    text, is_nested = outer.text, bool(outer.encoding)
    prefix = f"{outer.encoding}, " if is_nested else ""
    plain = unescape(text)
    if plain != text and len(plain) <= budget.room:
        budget.room -= len(plain)
        yield DecodedText(f"{prefix}escaped", plain, outer.start, outer.end)
    budget.is_used_up |= len(plain) > budget.room and plain != text
    for encoding, runs, decode in (
        ("base64", _BASE64, _decode_base64),
        ("base32", _BASE32, _decode_base32),
        ("hexadecimal", _HEX, _decode_hex),
        ("character codes", _DECIMAL, _decode_decimal),
    ):
        for first, last in runs.find(text):
            for data in decode(text[first:last]):
                how, found = _to_text(data, budget)
                if found:
                    start, end = (outer.start, outer.end) if is_nested else (first, last)
                    yield DecodedText(f"{prefix}{encoding}{how}", found, start, end)


def _compact(text: str) -> str:
    return "".join(text.split()).replace("=", "")


def _decode_base64(text: str) -> Iterator[bytes]:
    letters = _compact(text).replace("-", "+").replace("_", "/")
    # The match may begin with letters that are not part of the encoded text.
    letters = letters[: len(letters) - (len(letters) % 4 == 1)]
    try:
        yield base64.b64decode(letters + "=" * (-len(letters) % 4))
    except (binascii.Error, ValueError):
        return


def _decode_base32(text: str) -> Iterator[bytes]:
    letters = _compact(text)
    try:
        yield base64.b32decode(letters + "=" * (-len(letters) % 8))
    except (binascii.Error, ValueError):
        return


def _decode_hex(text: str) -> Iterator[bytes]:
    digits = "".join(text.replace("0x", "").replace("\\x", "").split()).translate(_HEX_NOISE)
    yield bytes.fromhex(digits[: len(digits) // 2 * 2])


def _decode_decimal(text: str) -> Iterator[bytes]:
    codes = bytearray()
    for number in _CODE_NUMBER.finditer(text):
        code = int(number[0])
        if code > 255:
            return
        codes.append(code)
    yield bytes(codes)


def _to_text(data: bytes, budget: DecodeBudget) -> tuple[str, str]:
    """Decode *data* as text, after decompressing it if necessary; return (note, text).

    The note is ", compressed" if *data* was compressed, otherwise "". The text is "" if *data* is not text. It is
    truncated if it exceeds *budget*.
    """
    how, room, is_cut = "", budget.room, False
    if budget.examinable <= 0:
        budget.is_used_up = True
        return "", ""
    if data[:2] == b"\x1f\x8b" or (data[:1] == b"\x78" and len(data) > _SHORTEST // 2):
        unpacker = zlib.decompressobj(wbits=47)
        try:
            data = unpacker.decompress(data, max(1, room))
            how, is_cut = ", compressed", bool(unpacker.unconsumed_tail)
            budget.examinable -= len(data)
        except zlib.error:
            pass
    # Judged by its beginning, so that text beyond the limit costs little.
    text = _decode(data[: 4 * max(room, _SHORTEST)], "utf-16-le" if data[1:2] == b"\0" else "utf-8")
    text, is_cut = text[: max(room, _SHORTEST)], is_cut or len(text) > room
    budget.examinable -= len(text)
    readable = _count_readable(text) - text.count("\ufffd")
    if not text or readable < _PRINTABLE_SHARE * len(text):
        return "", ""
    text = text[: max(0, room)]
    budget.room -= len(text)
    budget.is_used_up |= is_cut
    return how, text


def _count_readable(text: str) -> int:
    """Return the number of printable characters and white space."""
    if text.isprintable():
        return len(text)
    if text.isascii():
        return len(text.translate(_UNREADABLE_ASCII))
    return sum(char.isprintable() or char.isspace() for char in text)


def _decode(data: bytes, encoding: str) -> str:
    """Decode *data* in pieces, because the decoder blocks all other threads while it replaces invalid bytes."""
    decoder = codecs.getincrementaldecoder(encoding)("replace")
    pieces = (data[at : at + _PIECE] for at in range(0, len(data), _PIECE))
    return "".join([*map(decoder.decode, pieces), decoder.decode(b"", final=True)])


def rotate_13(letters: str) -> str:
    """Return *letters* with ROT13 applied.

    The text is processed in pieces, because all other threads are blocked while a piece is processed.
    """
    pieces = (letters[at : at + _PIECE] for at in range(0, len(letters), _PIECE))
    return "".join(codecs.encode(piece, "rot13") for piece in pieces)
