"""The one base for every value type and its JSON; nothing else imports msgspec.

Traps, all measured: `Raw | None` does not decode objects (use `Raw()` and test for empty bytes);
`UNSET` tells "absent" from `null`; a tagged union refuses an unknown tag; `1.0` is not an `int`,
so numbers that come from JavaScript are `float`; unknown fields vanish, so fingerprints are taken
from raw bytes; subclasses repeat `frozen=True` for the type checkers.
"""

import sys
from typing import Any, TypeGuard, TypeVar, cast

import msgspec
from msgspec import UNSET, Raw, UnsetType, field

from mcphost.clean import whole
from mcphost.errors import MalformedMessage

__all__ = [
    "UNSET",
    "Data",
    "Raw",
    "UnsetType",
    "Wire",
    "convert",
    "decode",
    "dumps",
    "encode",
    "field",
    "is_number",
    "loads",
    "replace",
    "to_plain",
]

T = TypeVar("T")
_DECODERS: dict[Any, msgspec.json.Decoder[Any]] = {}


class Data(msgspec.Struct, frozen=True):
    """A frozen value of our own; fields keep their Python names in JSON."""


class Wire(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
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
        raise MalformedMessage(f"The {what} is not valid: {error or type(error).__name__}") from error


def convert(value: Any, kind: type[T], what: str = "value") -> T:
    """Turn plain JSON data into `kind`. Raises MalformedMessage."""
    try:
        return msgspec.convert(value, kind)
    except (msgspec.ValidationError, RecursionError) as error:
        raise MalformedMessage(f"The {what} is not valid: {error or type(error).__name__}") from error


def loads(raw: bytes | Raw | str, what: str = "message") -> Any:
    """Decode JSON to plain Python values. Raises MalformedMessage."""
    return decode(raw, object, what)


def encode(value: Any) -> bytes:
    """JSON as UTF-8 on one line; structs, Raw and plain values alike. Never fails for what a text holds.

    Lone surrogates (names of files and arguments that are not UTF-8 are read with them, PEP 383) become U+FFFD.
    """
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return msgspec.json.encode(_whole(msgspec.to_builtins(value, enc_hook=loads)))


def dumps(value: Any, *, indent: int = 0) -> str:
    """JSON as text, for people and for standard output."""
    raw = encode(value)
    return (msgspec.json.format(raw, indent=indent) if indent else raw).decode()


def is_number(value: object) -> TypeGuard[int | float]:
    """Whether it is a number that a float can hold: not true or false, not infinite, no integer of 400 digits.

    JSON from outside may hold all of them, and `math.isfinite` raises OverflowError for the last.
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return -sys.float_info.max <= value <= sys.float_info.max


def to_plain(value: Any) -> Any:
    """Structs to dicts and lists, ready for any JSON library."""
    return msgspec.to_builtins(value)


def replace(value: T, **changes: Any) -> T:
    """A copy of a frozen struct with some fields changed."""
    return cast("T", msgspec.structs.replace(cast("Any", value), **changes))


def _whole(value: Any) -> Any:
    match value:
        case str():
            return whole(value)
        case dict():
            members = cast("dict[Any, Any]", value)
            return {_whole(key): _whole(member) for key, member in members.items()}
        case list() | tuple():
            return [_whole(member) for member in cast("list[Any]", value)]
        case _:
            return value
