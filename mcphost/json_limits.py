"""Limits on JSON text, checked on its bytes before any object is created.

A value costs up to 124 bytes and 130 ns as a Python object, but only two bytes of text. The checks use `count`,
`translate` and `split`, which scan a megabyte in a few milliseconds.
"""

from collections.abc import Generator
from itertools import accumulate, count
from operator import sub
from typing import TypeVar, cast

from mcphost.errors import MalformedMessage

T = TypeVar("T")


class JsonLimitExceeded(MalformedMessage):
    """JSON exceeds the allowed number or depth of values."""


MAX_MESSAGE_VALUES = 250_000
"""Maximum number of values in a message that may become objects: containers, members and items."""
MAX_PLAIN_VALUES = 100_000
"""Maximum number of values that are decoded to plain Python values without yielding to the event loop."""
BYTES_PER_VALUE = 32
"""A message may have one more value for each of these bytes; raw values are not decoded."""
MAX_DEPTH = 128
SMALL_VALUE_BYTES = 2 * MAX_DEPTH
"""A text of at most this many bytes is within the limits."""

_CHUNK_SIZE = 256 * 1024
_SMALL_TEXT_BYTES = 2 * MAX_PLAIN_VALUES
_STRUCTURE = b'",[]{}'
_NOT_STRUCTURE = bytes(set(range(256)) - set(_STRUCTURE))
_NOT_OPENING = bytes(set(range(256)) - set(b"[{"))
_NOT_OPENING_OR_BREAK = bytes(set(range(256)) - set(b"[{\n"))
_NOT_VALUES = bytes(set(range(256)) - set(b"[{,"))
# An opening bracket counts two and a closing one nothing, so that `sum - number of brackets` is the depth.
_WEIGHTS = bytes({0x5B: 2, 0x7B: 2}.get(byte, 0) for byte in range(256))


def check_message(raw: bytes) -> Generator[None]:
    """Check the number of values of a message, in steps of a few milliseconds. Raises JsonLimitExceeded."""
    return _check_limits(raw, MAX_MESSAGE_VALUES + len(raw) // BYTES_PER_VALUE, 0)


def check_value_count(raw: bytes, limit: int) -> Generator[None]:
    """Check in steps that JSON has at most *limit* values. Raises JsonLimitExceeded."""
    return _check_limits(raw, limit, 0)


def check_plain_value(raw: bytes) -> None:
    """Check number and depth of values before decoding to plain Python values. Raises JsonLimitExceeded."""
    if is_small_value(raw):
        return  # the steps of a generator cost more than this
    run_steps(_check_limits(raw, MAX_PLAIN_VALUES, MAX_DEPTH))


def is_small_value(raw: bytes) -> bool:
    """Return whether a quick check shows that a value is within the limits, as nearly all are."""
    return len(raw) <= _SMALL_TEXT_BYTES and len(raw.translate(None, _NOT_OPENING)) <= MAX_DEPTH


def has_only_small_values(lines: bytes, count: int) -> bool:
    """Return whether a quick check shows that *count* values, one a line, are within the limits."""
    if len(lines) > _SMALL_TEXT_BYTES:
        return False
    brackets = lines.translate(None, _NOT_OPENING_OR_BREAK).split(b"\n")
    return len(brackets) == count and max(map(len, brackets)) <= MAX_DEPTH


def count_objects(raw: bytes) -> int:
    """Return the number of objects in a JSON text, ignoring strings; the text may be truncated."""
    return sum(outside.count(b"{") for outside in _iter_structure(raw))


def _check_limits(raw: bytes, max_values: int, max_depth: int) -> Generator[None]:
    """Check the limits; *max_depth* 0 disables the limit on depth."""
    many = len(raw) > _SMALL_TEXT_BYTES and _value_count_bound(raw) > max_values
    deep = max_depth > 0 and len(raw) > 2 * max_depth and raw.count(b"[") + raw.count(b"{") > max_depth
    if not many and not deep:
        return
    yield
    # Commas and brackets inside strings were counted as well; count again without them.
    values, level = 1, 0
    for outside in _iter_structure(raw):
        values += outside.count(b",") + outside.count(b"[") + outside.count(b"{")
        if values > max_values:
            raise JsonLimitExceeded(f"It holds more than {max_values:,} JSON values.")
        if max_depth:
            brackets = outside.translate(_WEIGHTS, b",")
            if level + max(map(sub, accumulate(brackets), count(1)), default=0) > max_depth:
                raise JsonLimitExceeded(f"It is nested deeper than {max_depth} levels.")
            level += sum(brackets) - len(brackets)
        yield


def _value_count_bound(raw: bytes) -> int:
    # One pass takes half the time of three counts of bytes this frequent.
    return len(raw.translate(None, _NOT_VALUES)) + 1


def _iter_structure(raw: bytes) -> Generator[bytes]:
    """Iterate over commas and brackets outside of strings, in steps."""
    inside = False
    for piece in iter_chunks(raw):
        bare = piece.replace(b"\\\\", b"").replace(b'\\"', b"") if b"\\" in piece else piece
        parts = bare.translate(None, _NOT_STRUCTURE).split(b'"')
        yield b"".join(parts[1::2] if inside else parts[::2])
        inside ^= len(parts) % 2 == 0


def iter_chunks(raw: bytes) -> Generator[bytes]:
    """Split JSON into pieces of 256 KB, never between a backslash and the character it escapes."""
    at = 0
    while at < len(raw):
        piece = raw[at : at + _CHUNK_SIZE]
        backslashes = len(piece) - len(piece.rstrip(b"\\"))
        if backslashes % 2 and at + len(piece) < len(raw):
            piece = piece[:-1]
        at += len(piece)
        yield piece


def run_steps(steps: Generator[None, None, T]) -> T:
    """Run all steps at once, and return the generator's return value."""
    while True:
        try:
            next(steps)
        except StopIteration as done:
            return cast("T", done.value)
