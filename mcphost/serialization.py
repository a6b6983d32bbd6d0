"""The one base for every value type and its JSON; nothing else imports msgspec.

Traps, all measured: `Raw | None` does not decode objects (use `Raw()` and test for empty bytes);
`UNSET` tells "absent" from `null`; a tagged union refuses an unknown tag; `1.0` is not an `int`,
so numbers that come from JavaScript are `float`; unknown fields vanish, so fingerprints are taken
from raw bytes; subclasses repeat `frozen=True` for the type checkers.
"""

import re
import sys
from collections.abc import Callable
from typing import Any, TypeGuard, TypeVar, cast

import msgspec
from msgspec import UNSET, Raw, UnsetType, field

from mcphost.errors import MalformedMessage
from mcphost.json_limits import SMALL_VALUE_BYTES, check_plain_value
from mcphost.sanitize import replace_surrogates

__all__ = [
    "UNSET",
    "Raw",
    "Struct",
    "UnsetType",
    "WireStruct",
    "convert",
    "decode",
    "decode_array",
    "decode_or_none",
    "dumps",
    "encode",
    "encode_sorted",
    "field",
    "field_values",
    "is_number",
    "loads",
    "make_decoder",
    "nesting_depth",
    "replace",
    "to_builtins",
]

INDENTED_FACTOR = 4
INDENTED_MINIMUM = 64 * 1024
"""JSON is indented only while that makes at most four times its bytes of it, or 64 kB."""
MAX_TOKENS = 400_000
"""Nor is it when it has more brackets and quotes than these: looking how deep it is would take too long."""
_MAX_COMMAS_DECODED_AT_ONCE = 50_000
_MAX_SCANNED_TOKENS = 150_000
_TOKEN = re.compile(rb'"(?:[^"\\]++|\\.)*+"?|[\[\]{},]', re.DOTALL)
_REASON_LIMIT = 2_000
_BRACES_TO_BRACKETS = bytes.maketrans(b"{}", b"[]")
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
T = TypeVar("T")
_RAW_ITEMS = tuple[Raw, ...]
_SORTED = msgspec.json.Encoder(order="sorted")
_DECODERS: dict[Any, msgspec.json.Decoder[Any]] = {}


class Struct(msgspec.Struct, frozen=True):
    """A frozen value of our own; fields keep their Python names in JSON."""


class WireStruct(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A frozen value of the MCP wire; camelCase in JSON, unknown fields ignored, defaults left out."""


def decode(raw: bytes | Raw | bytearray | memoryview | str, kind: type[T], what: str = "message") -> T:
    """Decode JSON to `kind`. Raises MalformedMessage, whatever the input does (syntax, type, UTF-8, depth)."""
    decoder = _DECODERS.get(kind)
    if decoder is None:
        # Made once for each kind: looking a type up anew costs as much as decoding something small.
        decoder = _DECODERS[kind] = msgspec.json.Decoder(kind)
    try:
        return decoder.decode(raw)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise _malformed_message(what, error) from error


def make_decoder(kind: type[T], what: str) -> Callable[[bytes | Raw], T]:
    """Return a function that decodes as `decode` does, for a union or a tuple of types.

    Looking one of those up for each call, as `decode` does, costs more than decoding a small value.
    """
    decoding = msgspec.json.Decoder(kind)

    def read(raw: bytes | Raw) -> T:
        try:
            return decoding.decode(raw)
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            raise _malformed_message(what, error) from error

    return read


def decode_or_none(raw: bytes | Raw, kind: type[T]) -> T | None:
    """Decode JSON to `kind`, or return None: a flood of broken values costs four times as much with their errors."""
    known = _DECODERS.get(kind)
    if known is None:
        known = _DECODERS[kind] = msgspec.json.Decoder(kind)
    try:
        return known.decode(raw)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None


def decode_array(raw: bytes | Raw, limit: int, what: str = "list") -> tuple[tuple[Raw, ...], int]:
    """Return the first `most` items of a JSON array, still raw, and how many there are at least besides.

    No object is made of the others: four megabytes may hold two million. Raises MalformedMessage.
    """
    body = bytes(raw)
    if len(body) <= limit:  # each item takes a byte
        return decode(body, _RAW_ITEMS, what), 0
    if body.count(b",") <= _MAX_COMMAS_DECODED_AT_ONCE:
        items = decode(body, _RAW_ITEMS, what)
        return items[:limit], max(0, len(items) - limit)
    level = count = end = 0
    for step, match in enumerate(_TOKEN.finditer(body)):
        char = body[match.start()]
        if char in b"[{":
            level += 1
        elif char in b"]}":
            level -= 1
        elif char == ord(",") and level == 1:
            count, end = count + 1, match.start()
        if count == limit or step > _MAX_SCANNED_TOKENS:
            return decode(body[: end or 1] + b"]", _RAW_ITEMS, what), 1
    return decode(body, _RAW_ITEMS, what), 0


def convert(value: Any, kind: type[T], what: str = "value") -> T:
    """Turn plain JSON data into `kind`. Raises MalformedMessage."""
    try:
        return msgspec.convert(value, kind)
    except (msgspec.ValidationError, RecursionError) as error:
        raise _malformed_message(what, error) from error


def loads(raw: bytes | Raw | str, what: str = "message") -> Any:
    """Decode JSON to plain Python values, within bounds of number and depth. Raises MalformedMessage."""
    if len(raw) > SMALL_VALUE_BYTES:
        try:
            check_plain_value(raw.encode(errors="replace") if isinstance(raw, str) else bytes(raw))
        except MalformedMessage as error:
            raise MalformedMessage(f"The {what} is not valid: {error.message}") from error
    return decode(raw, object, what)


def encode(value: Any) -> bytes:
    """JSON as UTF-8 on one line; structs, Raw and plain values alike. Never fails for what a text holds.

    Lone surrogates (names of files and arguments that are not UTF-8 are read with them, PEP 383) become U+FFFD.
    """
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return msgspec.json.encode(_replace_surrogates_in(msgspec.to_builtins(value, enc_hook=loads)))


def encode_sorted(value: Any) -> bytes:
    """JSON as UTF-8 on one line, the members of each object in the order of their names. Raises UnicodeEncodeError."""
    return _SORTED.encode(value)


def dumps(value: Any, *, indent: int = 0) -> str:
    """Return `value` as JSON text for people and standard output.

    It stays on one line where indenting would multiply it: a megabyte nested 900 levels deep would become one of 800.
    """
    raw = encode(value)
    if indent and _is_indentable(raw, indent):
        raw = msgspec.json.format(raw, indent=indent)
    return raw.decode()


def nesting_depth(json: bytes, limit: int = 1_000) -> int:
    """Return how many levels of objects and lists valid JSON has; `most` + 1 stands for any deeper one."""
    if b"\\" in json:
        json = json.replace(b"\\\\", b"").replace(b'\\"', b"")
    left = b"".join(json.split(b'"')[::2]).translate(_BRACES_TO_BRACKETS, _NO_BRACKETS)
    levels = 0
    while left and levels <= limit:
        left = left.replace(b"[]", b"")
        levels += 1
    return levels


def _is_indentable(raw: bytes, indent: int) -> bool:
    """Whether `raw` stays within the bound when it is indented, going by the most bytes that it could have then."""
    opened = raw.count(b"{") + raw.count(b"[")
    lines = raw.count(b",") + 2 * opened
    room = max(INDENTED_MINIMUM, INDENTED_FACTOR * len(raw)) - len(raw) - raw.count(b":") - lines
    deepest = room // (indent * lines) if lines else opened
    if opened <= deepest:
        return True
    return deepest > 0 and opened + raw.count(b'"') <= MAX_TOKENS and nesting_depth(raw, deepest) <= deepest


def is_number(value: object) -> TypeGuard[int | float]:
    """Whether it is a number that a float can hold: not true or false, not infinite, no integer of 400 digits.

    JSON from outside may hold all of them, and `math.isfinite` raises OverflowError for the last.
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return -sys.float_info.max <= value <= sys.float_info.max


def to_builtins(value: Any) -> Any:
    """Structs to dicts and lists, ready for any JSON library."""
    return msgspec.to_builtins(value)


def field_values(value: Any) -> tuple[Any, ...]:
    """Return the values of a struct's fields."""
    return msgspec.structs.astuple(value)


def replace(value: T, **changes: Any) -> T:
    """A copy of a frozen struct with some fields changed."""
    return cast("T", msgspec.structs.replace(cast("Any", value), **changes))


def _malformed_message(what: str, error: Exception) -> MalformedMessage:
    """Say what is wrong; the library quotes the value, which may be megabytes long."""
    return MalformedMessage(f"The {what} is not valid: {str(error)[:_REASON_LIMIT] or type(error).__name__}")


def _replace_surrogates_in(value: Any) -> Any:
    match value:
        case str():
            return replace_surrogates(value)
        case dict():
            members = cast("dict[Any, Any]", value)
            return {_replace_surrogates_in(key): _replace_surrogates_in(member) for key, member in members.items()}
        case list() | tuple():
            return [_replace_surrogates_in(member) for member in cast("list[Any]", value)]
        case _:
            return value
