"""Conversion of JSON and TOML values to the types of settings, with an error that users can act on."""

from typing import Any, cast, get_args

import msgspec
from msgspec import Meta

from mcphost.config.json_files import describe_type

__all__ = ["InvalidValue", "Meta", "convert_value", "settable_fields"]


class InvalidValue(Exception):
    """A value does not have its type; the message continues a sentence that begins with the setting's name."""


def convert_value(value: Any, kind: Any) -> Any:
    """Return *value* as *kind*, a type that may carry `Meta` with bounds. Raises InvalidValue.

    Nothing is coerced, apart from an integer to a float.
    """
    try:
        return msgspec.convert(value, kind)
    except (msgspec.ValidationError, RecursionError) as error:
        raise InvalidValue(_explain(value, kind, str(error))) from error


def settable_fields(kind: type[msgspec.Struct]) -> dict[str, msgspec.structs.FieldInfo]:
    """Return the fields of a struct by the key under which a file has them."""
    return {field.encode_name: field for field in msgspec.structs.fields(kind)}


def _explain(value: Any, kind: Any, reason: str) -> str:
    info = msgspec.inspect.type_info(kind)
    if isinstance(info, msgspec.inspect.LiteralType):
        return f"is not one of {', '.join(filter(None, get_args(kind)))}"  # msgspec would sort them
    if isinstance(info, msgspec.inspect.UnionType):  # an optional value: null needs no explanation
        info = next(member for member in info.types if not isinstance(member, msgspec.inspect.NoneType))
    if ", got " in reason:
        if isinstance(info, msgspec.inspect.VarTupleType) and isinstance(value, list):
            place = int(reason.rpartition("$[")[2].partition("]")[0])
            item = cast("list[Any]", value)[place]
            return f"number {place + 1} is {describe_type(item)}, not {_describe(info.item_type)}"
        return f"is {describe_type(value)}, not {_describe(info)}"
    if isinstance(info, msgspec.inspect.StrType):
        return f"is over {info.max_length} characters"
    if isinstance(info, msgspec.inspect.IntType | msgspec.inspect.FloatType):
        if info.gt is not None:
            return f"is not above {info.gt:g} and at most {info.le:g}"
        return f"is not between {info.ge:g} and {info.le:g}"
    return "is not valid"


def _describe(info: msgspec.inspect.Type) -> str:
    match info:
        case msgspec.inspect.BoolType():
            return "true or false"
        case msgspec.inspect.StrType():
            return "text in quotes"
        case msgspec.inspect.IntType():
            return "a whole number"
        case msgspec.inspect.FloatType():
            return "a number"
        case msgspec.inspect.VarTupleType():
            return "a list of text"
        case _:
            return "an object"
