"""Base classes for immutable values, and conversion of values to and from JSON.

Only this module and `config/schema.py` import msgspec. Its pitfalls:

- `Raw | None` does not decode objects. Use `Raw()`, and test for empty bytes.
- `UNSET` distinguishes "absent" from `null`.
- A tagged union rejects unknown tags.
- `1.0` is not an `int`, so numbers from JavaScript are `float`.
- Unknown fields are dropped, so fingerprints are computed from raw bytes.
- Subclasses must repeat `frozen=True` for type checkers.
"""

import re
import sys
from collections.abc import Callable, Iterable
from typing import Any, TypeGuard, TypeVar, cast

import msgspec
from msgspec import UNSET, Raw, UnsetType, field

from mcphost.errors import MalformedMessage
from mcphost.json_limits import MAX_STRUCT_DEPTH, SMALL_VALUE_BYTES, JsonLimitExceeded, check_depth, check_plain_value
from mcphost.sanitize import replace_surrogates

T = TypeVar("T")


__all__ = [
    "UNSET",
    "Raw",
    "Struct",
    "UnsetType",
    "WireStruct",
    "as_object",
    "convert",
    "decode",
    "decode_array",
    "decode_or_none",
    "dumps",
    "encode",
    "encode_sorted",
    "field",
    "field_values",
    "find_member",
    "is_number",
    "loads",
    "loads_or_none",
    "make_decoder",
    "nesting_depth",
    "replace",
    "select_members",
    "to_builtins",
]

INDENTED_FACTOR = 4
INDENTED_MINIMUM = 64 * 1024
"""JSON is indented if the result has at most this many bytes, or if its size at most quadruples."""
MAX_TOKENS = 400_000
"""Maximum number of brackets and quotes in JSON to be indented; computing the depth takes too long for more."""
_MAX_COMMAS_DECODED_AT_ONCE = 50_000
_MAX_SCANNED_TOKENS = 150_000
_TOKEN = re.compile(rb'"(?:[^"\\]++|\\.)*+"?|[\[\]{},]', re.DOTALL)
_REASON_LIMIT = 2_000
_BRACES_TO_BRACKETS = bytes.maketrans(b"{}", b"[]")
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_RAW_ITEMS = tuple[Raw, ...]
_SORTED = msgspec.json.Encoder(order="sorted")
_ABSENT = Raw()
_NOT_IN_FIELD_NAME = re.compile(r'["\\\x00-\x1f]')
_DECODERS: dict[Any, msgspec.json.Decoder[Any]] = {}
_PLAIN_DECODER = msgspec.json.Decoder()
_HAS_PLAIN_VALUES: dict[Any, bool] = {object: True}
_OBJECT = msgspec.inspect.CustomType(object)


class Struct(msgspec.Struct, frozen=True):
    """Base class for immutable values that are not part of MCP; fields keep their Python names in JSON."""


class WireStruct(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Base class for immutable values in MCP messages.

    In JSON, names are in camelCase, unknown fields are ignored, and fields with their default value are omitted.
    """


def decode(raw: bytes | Raw | bytearray | memoryview | str, kind: type[T], what: str = "message") -> T:
    """Decode JSON to a value of type *kind*.

    Raises MalformedMessage for any invalid input (syntax, type, UTF-8, depth). *what* names the data in the error
    message.
    """
    decoder = _DECODERS.get(kind)
    if decoder is None:
        # Cached by type: creating a decoder costs as much as decoding a small value.
        decoder = _DECODERS[kind] = msgspec.json.Decoder(kind)
    try:
        if len(raw) > SMALL_VALUE_BYTES:
            _check_depth(raw, kind)
        return decoder.decode(raw)
    except (msgspec.DecodeError, UnicodeError, RecursionError, JsonLimitExceeded) as error:
        raise _malformed_message(what, error) from error


def make_decoder(kind: type[T], what: str) -> Callable[[bytes | Raw], T]:
    """Return a function that decodes JSON to *kind*, which may be a union or a tuple of types.

    The returned function works like `decode`, but looks up the type only once. For a union or tuple, the lookup
    takes longer than decoding a small value. *what* names the data in error messages.
    """
    decoding = msgspec.json.Decoder(kind)

    def read(raw: bytes | Raw) -> T:
        try:
            if len(raw) > SMALL_VALUE_BYTES:
                _check_depth(raw, kind)
            return decoding.decode(raw)
        except (msgspec.DecodeError, UnicodeError, RecursionError, JsonLimitExceeded) as error:
            raise _malformed_message(what, error) from error

    return read


def decode_or_none(raw: bytes | Raw | str, kind: type[T]) -> T | None:
    """Decode JSON to a value of type *kind*, or return None if the JSON is invalid.

    If many values are invalid, this is four times as fast as catching the exceptions of `decode`.
    """
    known = _DECODERS.get(kind)
    if known is None:
        known = _DECODERS[kind] = msgspec.json.Decoder(kind)
    try:
        if len(raw) > SMALL_VALUE_BYTES:
            _check_depth(raw, kind)
        return known.decode(raw)
    except (msgspec.DecodeError, UnicodeError, RecursionError, JsonLimitExceeded):
        return None


def decode_array(raw: bytes | Raw, limit: int, what: str = "list") -> tuple[tuple[Raw, ...], int]:
    """Return the first *limit* items of a JSON array as raw JSON, and the number of remaining items.

    Four megabytes can contain two million items. In a very long array, the items after the first *limit* are therefore
    neither decoded nor counted; the returned number is 1 if there are any. If finding even the first *limit* items
    would take too long, fewer are returned. Raises MalformedMessage; *what* names the data in its message.
    """
    body = bytes(raw)
    if len(body) <= limit:  # each item takes at least a byte
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


def select_members(raw: bytes | Raw, names: Iterable[str]) -> dict[str, Raw]:
    """Return the members of a JSON object with the given *names*, as raw JSON; absent members are omitted.

    Raises MalformedMessage if the JSON is invalid; the message calls the data a "file". If a name is repeated, the last
    member with this name is used. Skipping the other members takes time, but no memory.
    """
    wanted = tuple(names)
    if any(_NOT_IN_FIELD_NAME.search(name) for name in wanted):  # msgspec refuses these names
        check_plain_value(bytes(raw))
        members = decode(raw, dict[str, object], "file")
        return {name: Raw(encode(members[name])) for name in wanted if name in members}
    fields = [(f"member_{at}", Raw, field(default=_ABSENT, name=name)) for at, name in enumerate(wanted)]
    try:
        selected = msgspec.json.decode(raw, type=msgspec.defstruct("Selected", fields))
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise _malformed_message("file", error) from error
    pairs = zip(wanted, field_values(selected), strict=True)
    return {name: cast("Raw", member) for name, member in pairs if member is not _ABSENT}


def as_object(value: object) -> dict[str, Any]:
    """Return *value*, which is decoded JSON, if it is a dict, otherwise an empty dict."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def find_member(value: object, path: Iterable[str]) -> Any:
    """Return the member at *path* of decoded JSON, or None if there is none; an empty path names *value* itself."""
    for key in path:
        value = as_object(value).get(key)
    return value


def convert(value: Any, kind: type[T], what: str = "value") -> T:
    """Convert plain JSON data to a value of type *kind*.

    Raises MalformedMessage if the data does not fit the type; *what* names the data in the message.
    """
    try:
        return msgspec.convert(value, kind)
    except (msgspec.ValidationError, RecursionError, UnicodeEncodeError) as error:
        raise _malformed_message(what, error) from error


def loads(raw: bytes | Raw | str, what: str = "message") -> Any:
    """Decode JSON to plain Python values.

    Raises MalformedMessage if the JSON is invalid, or if it has too many or too deeply nested values; *what*
    names the data in the message.
    """
    if len(raw) > SMALL_VALUE_BYTES:
        try:
            check_plain_value(raw.encode(errors="replace") if isinstance(raw, str) else bytes(raw))
        except MalformedMessage as error:
            raise MalformedMessage(f"The {what} is not valid: {error.message}") from error
    try:
        return _PLAIN_DECODER.decode(raw)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise _malformed_message(what, error) from error


def loads_or_none(raw: bytes | Raw | str) -> Any:
    """Decode JSON to plain Python values, or return None if `loads` would raise an error."""
    try:
        return loads(raw)
    except MalformedMessage:
        return None


def encode(value: Any) -> bytes:
    """Encode structs, Raw and plain values as one line of UTF-8 JSON. Raises TypeError for other values.

    Lone surrogates, which represent file names and arguments that are not UTF-8 (PEP 383), become U+FFFD.
    """
    try:
        return msgspec.json.encode(value, enc_hook=_to_builtin)
    except UnicodeEncodeError:
        return msgspec.json.encode(_replace_surrogates_in(msgspec.to_builtins(value, enc_hook=_to_builtin)))


def _to_builtin(value: object) -> Any:
    """Convert a value of a type that msgspec does not encode. Raises TypeError."""
    if isinstance(value, Raw):
        return loads(value)
    if isinstance(value, str):  # of a subclass
        return str(value)
    raise TypeError(f"Encoding objects of type {type(value).__name__} is unsupported")


def encode_sorted(value: Any) -> bytes:
    """Encode a value as one line of UTF-8 JSON with sorted keys.

    Raises UnicodeEncodeError for lone surrogates.
    """
    return _SORTED.encode(value)


def dumps(value: Any, *, indent: int = 0) -> str:
    """Return *value* as JSON text for display and standard output.

    The text is not indented if that would make it much larger: a megabyte nested 900 levels deep would become 800 MB.
    """
    raw = encode(value)
    if indent and _is_indentable(raw, indent):
        raw = msgspec.json.format(raw, indent=indent)
    return raw.decode()


def nesting_depth(json: bytes, limit: int = 1_000) -> int:
    """Return the nesting depth of valid JSON, or *limit* + 1 if it is deeper than *limit*."""
    if b"\\" in json:
        json = json.replace(b"\\\\", b"").replace(b'\\"', b"")
    left = b"".join(json.split(b'"')[::2]).translate(_BRACES_TO_BRACKETS, _NO_BRACKETS)
    levels = 0
    while left and levels <= limit:
        left = left.replace(b"[]", b"")
        levels += 1
    return levels


def _is_indentable(raw: bytes, indent: int) -> bool:
    """Return whether *raw* is certain to stay below the size limit when it is indented."""
    opened = raw.count(b"{") + raw.count(b"[")
    lines = raw.count(b",") + 2 * opened
    room = max(INDENTED_MINIMUM, INDENTED_FACTOR * len(raw)) - len(raw) - raw.count(b":") - lines
    deepest = room // (indent * lines) if lines else opened
    if opened <= deepest:
        return True
    return deepest > 0 and opened + raw.count(b'"') <= MAX_TOKENS and nesting_depth(raw, deepest) <= deepest


def is_number(value: object) -> TypeGuard[int | float]:
    """Return whether *value* is a number that a float can represent: not a bool, infinity or huge integer.

    JSON may contain all of these, and `math.isfinite` raises OverflowError for huge integers.
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return -sys.float_info.max <= value <= sys.float_info.max


def to_builtins(value: Any) -> Any:
    """Convert structs to dicts and lists, which any JSON library can encode."""
    return msgspec.to_builtins(value)


def field_values(value: Any) -> tuple[Any, ...]:
    """Return the values of a struct's fields, in the order of definition."""
    return msgspec.structs.astuple(value)


def replace(value: T, **changes: Any) -> T:
    """Return a copy of an immutable struct with some fields changed."""
    return cast("T", msgspec.structs.replace(cast("Any", value), **changes))


def _malformed_message(what: str, error: Exception) -> MalformedMessage:
    """Return the error for invalid data; msgspec's message is truncated because it can quote megabytes."""
    reason = (
        error.message if isinstance(error, MalformedMessage) else str(error)[:_REASON_LIMIT] or type(error).__name__
    )
    return MalformedMessage(f"The {what} is not valid: {reason}")


def _check_depth(raw: bytes | Raw | bytearray | memoryview | str, kind: Any) -> None:
    """Check the nesting of JSON if parts of *kind* are decoded to plain Python values. Raises JsonLimitExceeded.

    Since Python 3.12, the decoder accepts values that are nested too deeply for recursive functions to process.
    """
    has_plain_values = _HAS_PLAIN_VALUES.get(kind)
    if has_plain_values is None:
        has_plain_values = _HAS_PLAIN_VALUES[kind] = _contains_any(msgspec.inspect.type_info(kind), set())
    if has_plain_values:
        check_depth(raw.encode(errors="replace") if isinstance(raw, str) else bytes(raw), MAX_STRUCT_DEPTH)


def _contains_any(info: object, seen: set[int]) -> bool:
    """Return whether a type contains `Any` or `object`, at any level."""
    if isinstance(info, msgspec.inspect.AnyType) or info == _OBJECT:
        return True
    if id(info) in seen:
        return False
    seen.add(id(info))
    if isinstance(info, tuple):
        return any(_contains_any(item, seen) for item in cast("tuple[object, ...]", info))
    if not isinstance(info, msgspec.inspect.Type | msgspec.inspect.Field):
        return False
    if isinstance(info, msgspec.inspect.Field):
        return _contains_any(info.type, seen)
    return any(_contains_any(member, seen) for member in field_values(info))


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
