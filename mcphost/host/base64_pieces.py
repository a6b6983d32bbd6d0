"""Search for base64 in encoded JSON that is too large to be parsed: base64 with escapes, or split into several strings.

The strings are consecutive items of a list. The result is the same as that of `replace_base64_pieces` on parsed
JSON. The text is read in short pieces, because a long regular expression match would block the event loop even if
it runs in another thread.
"""

import re
import string
from collections.abc import Callable, Iterator

from mcphost.host.base64_runs import replace_base64_pieces

_CHUNK = 256 * 1024
_ESCAPE_LENGTH = 6
_PAIR = b"\xff\xfe"
"""Temporary placeholder for an escaped backslash; these bytes never occur in UTF-8."""
_L = "[A-Za-z0-9+/_-]"
_MAX_SPACE = 65_536
_SPACE = rf"[ \t\r\n]{{0,{_MAX_SPACE}}}+"
_NEXT = rf"{_SPACE},{_SPACE}"
_LONG = rf'"(?<!\\")({_L}{{58,1024}}={{0,2}})"'
"""A string that may be a piece, or the last piece but one; a quotation mark after a backslash does not begin one."""
_OVERLAP = 2 * _MAX_SPACE + 2_048
_FIRST_TWO = re.compile(rf'{_LONG}{_NEXT}"')
_PIECES = re.compile(rf"(?:{_LONG}{_NEXT}){{1,64}}+")
_LAST = re.compile(rf'"({_L}{{2,1024}}={{0,2}})"(?!{_SPACE}:)')
_EACH = re.compile(_LONG)


def _write_escapes() -> tuple[tuple[bytes, bytes], ...]:
    pairs: set[tuple[bytes, bytes]] = set()
    for character in (string.ascii_letters + string.digits + "+/_-=").encode():
        for number in (f"{character:02x}", f"{character:02X}"):
            pairs.add((rf"\u00{number}".encode(), bytes([character])))
    return tuple(sorted(pairs))


_ESCAPES = _write_escapes()


def unescape_base64(body: bytes) -> bytes:
    r"""Return the JSON *body* without escapes such as "\/" or "\u002b" for characters that occur in base64."""
    if (b"\\/" not in body and b"\\u00" not in body) or b"\xff" in body:
        return body
    return b"".join(map(_unescape_chunk, _split_between_escapes(body)))


def _split_between_escapes(body: bytes) -> Iterator[bytes]:
    start = 0
    while start < len(body):
        end = min(start + _CHUNK, len(body))
        last = body.rfind(b"\\", max(start, end - _ESCAPE_LENGTH), end)
        if end < len(body) and last > start:
            before = body[start : last + 1]
            if (len(before) - len(before.rstrip(b"\\"))) % 2:  # else, the last one is itself escaped
                end = last
        yield body[start:end]
        start = end


def _unescape_chunk(chunk: bytes) -> bytes:
    if b"\\" not in chunk:
        return chunk
    chunk = chunk.replace(b"\\\\", _PAIR).replace(b"\\/", b"/")
    if b"\\u00" in chunk:
        for escape, character in _ESCAPES:
            chunk = chunk.replace(escape, character)
    return chunk.replace(_PAIR, b"\\\\")


def replace_pieces_in_json(body: bytes, shorten: Callable[[str], str]) -> bytes:
    """Replace base64 in consecutive strings of a list, as `replace_base64_pieces` does in parsed JSON.

    *shorten* must return ASCII text without quotation marks.
    """
    text = body.decode("latin-1")
    parts: list[str] = []
    done = 0
    for start, end, pieces in _find_pieces(text):
        shown = list(replace_base64_pieces(pieces, shorten))
        if len(shown) < len(pieces):
            parts += [text[done:start], ",".join(f'"{item}"' for item in shown)]
            done = end
    return "".join([*parts, text[done:]]).encode("latin-1") if parts else body


def _find_pieces(text: str) -> Iterator[tuple[int, int, list[str]]]:
    """Yield the start, the end and the strings of each group of consecutive list items that may be pieces of base64."""
    at = 0
    while at < len(text):
        window = at + _CHUNK + _OVERLAP
        first = _FIRST_TWO.search(text, at, window)
        if first is None or first.start() >= at + _CHUNK:
            at += _CHUNK
            continue
        start = end = first.start()
        pieces: list[str] = []
        # A value of an object is followed by a name, so two or more of these strings are items of a list.
        while found := _PIECES.match(text, end):
            pieces += _EACH.findall(text, end, found.end())
            end = found.end()
        if last := _LAST.match(text, end):
            pieces.append(last[1])
            end = last.end()
            yield start, end, pieces
        elif len(pieces) > 1:  # the text that follows is kept, with the comma before it
            tail = text.rindex('"', start, end) + 1
            yield start, tail, pieces
        at = end
