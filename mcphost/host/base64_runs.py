"""Search for long base64, with or without line breaks, in text and in encoded JSON.

A regular expression match cannot be interrupted, and blocks the event loop even if it runs in another thread.
Each pattern here is therefore matched at a single position and reads only a short piece of text. Positions are
tried at fixed intervals, so most of a long text is never read.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any, NamedTuple

BASE64_LENGTH = 1024
"""Minimum length of base64 that is found, in characters; shorter text may be a key, digest or token."""
MIN_LINES = 64
"""Minimum number of lines of base64 with line breaks that is found; a certificate or key in a PEM file has fewer."""
_HALF = BASE64_LENGTH // 2
"""Distance between the positions that are searched; each run covers a block of this length at one of them."""
_STEP = 1024
"""Distance between the positions that are searched for lines; 64 lines are longer than this."""
_REACH = 152
"""Number of characters after a searched position within which a run of lines begins its next line."""
_ENOUGH = MIN_LINES * 80
"""Maximum length, in characters, of the shortest run of lines."""
_L = "[A-Za-z0-9+/_-]"
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/_-"
_BLOCK = re.compile(f"{_L}{{{_HALF}}}")
_REST = re.compile(f"{_L}{{0,65536}}+")
_PIECE = re.compile(f"{_L}{{2,1024}}={{0,2}}")
_LONG_PIECE = 200
"""Minimum length of the pieces of base64 in a list, if there are few of them."""
_LINE_LENGTHS = (76, 72, 64, 60)
"""Lengths of lines of base64; many pieces of another length may be keys that a later call needs."""
_PADDING = re.compile("={0,2}")
_LAST_LINE = f"(?:{_L}{{4}}){{0,18}}(?:{_L}{{4}}|{_L}{{3}}=|{_L}{{2}}==)"


class _Format(NamedTuple):
    """How line breaks are written in a text, and patterns that match lines of base64 in it.

    The lines have 76, 72, 64 or 60 characters.
    """

    line_break: str
    has_escapes: bool
    line: re.Pattern[str]
    """The end of a line, and a line of base64."""
    start: re.Pattern[str]
    lines: re.Pattern[str]
    last_line: re.Pattern[str]


class _PatternTexts(NamedTuple):
    line: str
    start: str
    lines: str
    last_line: str


def _write_patterns(line_break: str, carriage_return: str, start: str, end: str) -> _PatternTexts:
    """Return the patterns for a format in which lines end with *line_break*, optionally after *carriage_return*.

    *start* is a pattern for the position before the first line of base64, and *end* is a pattern for the end of the
    text. This function returns text, because the patterns must be compiled at module level, where a test finds
    them to measure their speed.
    """
    new_line = f"(?:{re.escape(carriage_return)})?{re.escape(line_break)}"
    lines = [f"{_L}{{{width}}}" for width in _LINE_LENGTHS]
    return _PatternTexts(
        line=f"[^{re.escape(line_break[0])}]{{0,77}}+{new_line}(?:{'|'.join(lines)}){new_line}",
        start=f"{start}(?={_L}{{60}})",
        lines="|".join(f"(?:{line}{new_line}){{1,1000}}+" for line in lines),
        last_line=f"{_LAST_LINE}(?={new_line}|{end})",
    )


_IN_TEXT = _write_patterns("\n", "\r", rf"(?<!{_L})", r"\Z")
# In JSON, the escapes of a line break are two characters each, of which the second could be base64.
_IN_JSON = _write_patterns(r"\n", r"\r", r"(?:(?<=\\n)|(?<![\\A-Za-z0-9+/_-]))", '"')
_TEXT = _Format(
    line_break="\n",
    has_escapes=False,
    line=re.compile(_IN_TEXT.line),
    start=re.compile(_IN_TEXT.start),
    lines=re.compile(_IN_TEXT.lines),
    last_line=re.compile(_IN_TEXT.last_line),
)
_JSON = _Format(
    line_break=r"\n",
    has_escapes=True,
    line=re.compile(_IN_JSON.line),
    start=re.compile(_IN_JSON.start),
    lines=re.compile(_IN_JSON.lines),
    last_line=re.compile(_IN_JSON.last_line),
)


def replace_base64(text: str, shorten: Callable[[str], str]) -> str:
    """Return *text* with each long run of base64 replaced by the result of *shorten*.

    *shorten* is called with the run without its line breaks. If the result has BASE64_LENGTH or more characters,
    the run is not replaced.
    """
    return _replace(text, _TEXT, lambda run: shorten(run.replace("\r", "").replace("\n", "")))


def replace_base64_in_json(body: bytes, shorten: Callable[[str], str]) -> bytes:
    """Replace long runs of base64 in the strings of encoded JSON, as `replace_base64` does in text.

    *shorten* must return ASCII text without quotation marks.
    """
    # Every byte is a character, so that nothing is lost and no character takes more than a byte.
    text = body.decode("latin-1")
    return _replace(text, _JSON, lambda run: shorten(run.replace(r"\r", "").replace(r"\n", ""))).encode("latin-1")


def replace_base64_pieces(items: Iterable[Any], shorten: Callable[[str], str]) -> Iterator[Any]:
    """Yield the items of a list, with consecutive pieces of long base64 replaced by the result of *shorten*.

    *shorten* receives the joined pieces. If its result has BASE64_LENGTH or more characters, the pieces are not
    replaced.

    All pieces must have the same length, a multiple of four, except that the last one may be shorter. Only the last
    one may end with padding. Short strings are pieces only if their length is usual for lines of base64 and there are
    more than MIN_LINES of them. A few short strings may be keys, digests or signatures, so they are never joined.
    """
    for is_piece, group in groupby(items, _is_piece):
        if not is_piece:
            yield from group
            continue
        pieces: list[str] = []
        for item in group:
            ends = bool(pieces) and (len(pieces[-1]) != len(pieces[0]) or pieces[-1].endswith("="))
            if ends or (pieces and len(item) > len(pieces[0])):
                yield from _shorten_pieces(pieces, shorten)
                pieces = []
            pieces.append(item)
        yield from _shorten_pieces(pieces, shorten)


def _is_piece(item: Any) -> bool:
    return isinstance(item, str) and len(item) < BASE64_LENGTH and len(item) % 4 == 0 and bool(_PIECE.fullmatch(item))


def _shorten_pieces(pieces: Sequence[str], shorten: Callable[[str], str]) -> Sequence[str]:
    is_long = len(pieces[0]) >= _LONG_PIECE or (len(pieces[0]) in _LINE_LENGTHS and len(pieces) > MIN_LINES)
    if not is_long or sum(map(len, pieces)) < BASE64_LENGTH:
        return pieces
    shown = shorten("".join(pieces))
    return [shown] if len(shown) < BASE64_LENGTH else pieces


def _replace(text: str, form: _Format, shorten: Callable[[str], str]) -> str:
    for find in (_find_runs, _find_lines):
        parts: list[str] = []
        done = 0
        for start, end in find(text, form):
            shown = shorten(text[start:end])
            if len(shown) < BASE64_LENGTH:
                parts += [text[done:start], shown]
                done = end
        if parts:
            text = "".join([*parts, text[done:]])
    return text


def _find_runs(text: str, form: _Format) -> Iterator[tuple[int, int]]:
    """Yield the start and end of each run of base64 without line breaks."""
    end = 0
    for at in range(0, len(text), _HALF):
        if at < end or not _BLOCK.match(text, at):
            continue
        head = text[max(end, at - _HALF) : at]
        start = at - len(head) + len(head.rstrip(_LETTERS))
        if form.has_escapes:
            start += _escape_length(text, start)
        end = at + _HALF
        while (more := _REST.match(text, end)) and more.end() > end:
            end = more.end()
        if end - start >= BASE64_LENGTH:
            padding = _PADDING.match(text, end)
            yield start, padding.end() if padding else end


def _escape_length(text: str, start: int) -> int:
    """Return the number of characters at *start* that still belong to an escape sequence begun before *start*."""
    before = text[max(0, start - _HALF) : start]
    if (len(before) - len(before.rstrip("\\"))) % 2 == 0:
        return 0
    return 5 if text[start] == "u" else 1


def _find_lines(text: str, form: _Format) -> Iterator[tuple[int, int]]:
    """Yield the start and end of each run of base64 with line breaks; the last line break is excluded."""
    end = 0
    for at in range(0, len(text), _STEP):
        if at < end or not form.line.match(text, at):
            continue
        for first in form.start.finditer(text, max(end, at - _STEP), at + _REACH):
            if first.start() < end:
                continue
            start = end = first.start()
            while lines := form.lines.match(text, end):
                end = lines.end()
            if text.count(form.line_break, start, min(end, start + _ENOUGH)) >= MIN_LINES:
                last = form.last_line.match(text, end)
                yield start, last.end() if last else end - len(form.line_break)
                break
