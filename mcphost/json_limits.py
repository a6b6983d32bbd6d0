"""Limits on the number of values and the nesting depth of untrusted JSON, checked before decoding."""

import re
from collections.abc import Generator
from itertools import accumulate, count, islice
from operator import sub
from typing import TypeVar, cast

from mcphost.errors import MalformedMessage

T = TypeVar("T")


class JsonLimitExceeded(MalformedMessage):
    """Raised when JSON has too many values or is nested too deeply."""


MAX_MESSAGE_VALUES = 250_000
"""Maximum number of values (containers, members and items) in a message of any size; see BYTES_PER_VALUE."""
MAX_PLAIN_VALUES = 100_000
"""Maximum number of values that are decoded to plain Python values without yielding to the event loop."""
BYTES_PER_VALUE = 32
"""A message may have one value per this number of bytes in addition to MAX_MESSAGE_VALUES."""
MAX_DEPTH = 128
"""Maximum nesting of JSON that is decoded to plain Python values: functions that walk them are recursive."""
MAX_STRUCT_DEPTH = 2 * MAX_DEPTH
"""Maximum nesting of JSON for a struct that has plain values somewhere inside it."""
SMALL_VALUE_BYTES = 2 * MAX_DEPTH
"""JSON of at most this many bytes always passes `check_plain_value`."""

_CHUNK_SIZE = 256 * 1024
_SMALL_TEXT_BYTES = 2 * MAX_PLAIN_VALUES
_STRUCTURE = b'",[]{}'
_NOT_STRUCTURE = bytes(set(range(256)) - set(_STRUCTURE))
_NOT_OPENING = bytes(set(range(256)) - set(b"[{"))
_NOT_OPENING_OR_BREAK = bytes(set(range(256)) - set(b"[{\n"))
_NOT_VALUES = bytes(set(range(256)) - set(b"[{,"))
_TOKEN = re.compile(rb'"[^"]*"?|[][{},]')  # for text without escapes; a string may go on in the next chunk
_LEVELS = {b"[": 1, b"{": 1, b"]": -1, b"}": -1}
_SCAN_BYTES = 32 * 1024
# An opening bracket has the weight 2 and a closing bracket 0, so that `sum - number of brackets` is the depth.
_WEIGHTS = bytes({0x5B: 2, 0x7B: 2}.get(byte, 0) for byte in range(256))


def check_message(raw: bytes) -> Generator[None]:
    """Check that a JSON message does not have too many values for its size. Raises JsonLimitExceeded.

    The check is a generator that must be run to its end; it yields every few milliseconds to let other tasks run.
    """
    return _check_limits(raw, MAX_MESSAGE_VALUES + len(raw) // BYTES_PER_VALUE, 0)


def check_value_count(raw: bytes, limit: int) -> Generator[None]:
    """Check that JSON has at most *limit* values. Raises JsonLimitExceeded.

    The check is a generator that must be run to its end; it yields every few milliseconds to let other tasks run.
    """
    return _check_limits(raw, limit, 0)


def check_plain_value(raw: bytes) -> None:
    """Check that JSON has at most MAX_PLAIN_VALUES values and MAX_DEPTH levels of nesting. Raises JsonLimitExceeded.

    Call this before decoding the JSON to plain Python values.
    """
    if is_small_value(raw):
        return  # a generator would cost more than this check
    run_steps(_check_limits(raw, MAX_PLAIN_VALUES, MAX_DEPTH))


def check_depth(raw: bytes, limit: int = MAX_DEPTH) -> None:
    """Check that the values in JSON are nested at most *limit* levels deep. Raises JsonLimitExceeded.

    Call this before decoding the JSON. Otherwise, the limit would depend on the Python version: the decoders accept
    1,000 levels in Python 3.11, and 100,000 in 3.14.
    """
    run_steps(_check_limits(raw, len(raw) + 1, limit))


def is_small_value(raw: bytes) -> bool:
    """Return whether JSON certainly passes `check_plain_value`, according to a quick check.

    If the result is False, the JSON may be within the limits or not, so `check_plain_value` must be called.
    """
    return len(raw) <= _SMALL_TEXT_BYTES and len(raw.translate(None, _NOT_OPENING)) <= MAX_DEPTH


def has_only_small_values(lines: bytes, count: int) -> bool:
    """Return whether *count* JSON values, one per line, certainly pass `check_plain_value`.

    This is a quick check. If the result is False, `check_plain_value` must be called for each value.
    """
    if len(lines) > _SMALL_TEXT_BYTES:
        return False
    brackets = lines.translate(None, _NOT_OPENING_OR_BREAK).split(b"\n")
    return len(brackets) == count and max(map(len, brackets)) <= MAX_DEPTH


def count_objects(raw: bytes) -> int:
    """Return the number of objects in JSON, ignoring braces in strings; the JSON may be truncated."""
    return sum(outside.count(b"{") for outside in _iter_structure(raw))


def find_item_end(raw: bytes, items: int) -> Generator[None, None, int]:
    """Return the offset of the comma after the first *items* items of a JSON array, or -1 if it has no more items.

    The items are not decoded. If *raw* is invalid or not an array, the offset may be meaningless. The generator yields
    every few milliseconds to let other tasks run.
    """
    start = level = seen = 0
    inside = False
    for piece in iter_chunks(raw):
        bare = piece.replace(b"\\\\", b"  ").replace(b'\\"', b"  ") if b"\\" in piece else piece  # the same length
        for at in range(0, len(bare), _SCAN_BYTES):
            text = bare[at : at + _SCAN_BYTES]
            skipped = text.find(b'"') + 1 if inside else 0
            if not inside or skipped:
                tokens = _TOKEN.findall(text, skipped)
                inside = bool(tokens) and tokens[-1][:1] == b'"' and (tokens[-1][-1:] != b'"' or tokens[-1] == b'"')
                for number, token in enumerate(tokens):
                    if token == b",":
                        seen += level == 1
                        if seen == items:
                            matches = _TOKEN.finditer(text, skipped)
                            return start + at + next(islice(matches, number, None)).start()
                    else:
                        level += _LEVELS.get(token, 0)
                        if not level:
                            return -1
            yield
        start += len(piece)
    return -1


def _check_limits(raw: bytes, max_values: int, max_depth: int) -> Generator[None]:
    """Check that JSON has at most *max_values* values and *max_depth* levels of nesting, yielding after each chunk.

    If *max_depth* is 0, any depth is allowed. Raises JsonLimitExceeded.
    """
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
            raise JsonLimitExceeded(f"It has more than {max_values:,} JSON values.")
        if max_depth:
            brackets = outside.translate(_WEIGHTS, b",")
            if level + max(map(sub, accumulate(brackets), count(1)), default=0) > max_depth:
                raise JsonLimitExceeded(f"It is nested deeper than {max_depth} levels.")
            level += sum(brackets) - len(brackets)
        yield


def _value_count_bound(raw: bytes) -> int:
    # For bytes as frequent as these, one pass takes half the time of three counts.
    return len(raw.translate(None, _NOT_VALUES)) + 1


def _iter_structure(raw: bytes) -> Generator[bytes]:
    """Yield the commas and brackets of JSON, chunk by chunk, excluding those inside strings."""
    inside = False
    for piece in iter_chunks(raw):
        bare = piece.replace(b"\\\\", b"").replace(b'\\"', b"") if b"\\" in piece else piece
        parts = bare.translate(None, _NOT_STRUCTURE).split(b'"')
        yield b"".join(parts[1::2] if inside else parts[::2])
        inside ^= len(parts) % 2 == 0


def iter_chunks(raw: bytes) -> Generator[bytes]:
    """Split JSON into chunks of up to 256 KB, never between a backslash and the character that it escapes."""
    at = 0
    while at < len(raw):
        piece = raw[at : at + _CHUNK_SIZE]
        backslashes = len(piece) - len(piece.rstrip(b"\\"))
        if backslashes % 2 and at + len(piece) < len(raw):
            piece = piece[:-1]
        at += len(piece)
        yield piece


def run_steps(steps: Generator[None, None, T]) -> T:
    """Run a generator to its end without pausing, and return its result."""
    while True:
        try:
            next(steps)
        except StopIteration as done:
            return cast("T", done.value)
