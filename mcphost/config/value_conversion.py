"""Conversion of values in configuration files to the types and bounds of the configuration's structs."""

from typing import Any, cast, get_args

import msgspec

from mcphost.config.json_files import describe_type


class InvalidValue(Exception):
    """Raised for a value that does not fit its type; the message is a phrase such as "is not a number"."""


def convert_value(value: Any, kind: Any) -> Any:
    """Return *value* converted to the type *kind*, which may have bounds (`Meta`). Raises InvalidValue.

    The only conversions are from lists to tuples and from integers to floats; all other values must already fit.
    """
    try:
        return msgspec.convert(value, kind)
    except UnicodeEncodeError as error:
        raise InvalidValue("has half of a surrogate pair") from error
    except (msgspec.ValidationError, RecursionError) as error:
        raise InvalidValue(_explain(value, kind, str(error))) from error


def settable_fields(kind: type[msgspec.Struct]) -> dict[str, msgspec.structs.FieldInfo]:
    """Return the fields of a struct, keyed by their names in configuration files."""
    return {field.encode_name: field for field in msgspec.structs.fields(kind)}


def build_json_schema(kind: Any) -> dict[str, Any]:
    """Return the JSON Schema of a field's type, which must not contain a struct."""
    return msgspec.json.schema(kind)


def _explain(value: Any, kind: Any, reason: str) -> str:
    info = msgspec.inspect.type_info(kind)
    if isinstance(info, msgspec.inspect.LiteralType):
        return f"is not one of {', '.join(filter(None, get_args(kind)))}"  # msgspec would not keep the order
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
            return f"is not above {info.gt:.15g} and at most {info.le:.15g}"
        return f"is not between {info.ge:.15g} and {info.le:.15g}"
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
