"""Parser for the request arguments given on the command line: KEY=VALUE pairs and the JSON of --args."""

import os
import sys
from typing import Any, cast

from mcphost.errors import MalformedMessage, UsageError
from mcphost.serialization import Raw, as_object, find_member, loads, loads_or_none
from mcphost.translation import N_, _

MAX_INPUT_BYTES = 16_000_000
_JSON_TYPES = {"integer", "number", "boolean", "array", "object", "null"}


def parse_pairs(texts: list[str]) -> dict[str, str]:
    """Parse KEY=VALUE arguments into a dict.

    Raises UsageError if an argument has no key or no `=`, or repeats a key.
    """
    pairs: dict[str, str] = {}
    for text in texts:
        key, sign, value = text.partition("=")
        if not sign or not key:
            raise UsageError(f"{text[:80]!r} is not KEY=VALUE.", "For anything else use --args with JSON.")
        if key in pairs:
            raise UsageError(f"The argument {key!r} is given twice.", "For a list write KEY='[1, 2]'.")
        pairs[key] = value
    return pairs


def parse_arguments(texts: list[str], source: str | None, schema: Raw) -> dict[str, Any]:
    """Return the arguments of a tool call: the JSON object of `--args`, overridden by KEY=VALUE arguments.

    *texts* are the KEY=VALUE arguments, and *source* is the value of `--args`. The tool's input *schema* determines how
    each value is converted. Raises UsageError if an argument is malformed or cannot be converted.
    """
    arguments = _read_json_object(source) if source is not None else {}
    types = _property_types(schema)
    for key, value in parse_pairs(texts).items():
        arguments[key] = _convert_value(key, value, types.get(key))
    return arguments


def _read_json_object(source: str) -> dict[str, Any]:
    what = "--args"
    if source == "-":
        what, raw = "--args - (standard input)", sys.stdin.buffer.read(MAX_INPUT_BYTES + 1)
    elif source.startswith("@"):
        what = f"--args {source}"
        try:
            with open(os.path.expanduser(source[1:]), "rb") as file:
                raw = file.read(MAX_INPUT_BYTES + 1)
        except OSError as error:
            raise UsageError(f"{what} cannot be read: {error.strerror}.", "Check the file's name.") from error
    else:
        raw = source.encode("utf-8", "replace")
    if len(raw) > MAX_INPUT_BYTES:
        raise UsageError(f"{what} is over {MAX_INPUT_BYTES // 1_000_000} MB.")
    try:
        value = loads(raw, f"value of {what}")
    except MalformedMessage as error:
        raise UsageError(error.message, "It must be one JSON object.") from error
    if not isinstance(value, dict):
        raise UsageError(f"{what} is not a JSON object.", 'It should look like {"a": 2}.')
    return cast("dict[str, Any]", value)


def _property_types(schema: Raw) -> dict[str, set[str]]:
    """Return the JSON types that a schema allows for each property, keyed by property name.

    Properties without a declared type are left out.
    """
    types_by_name: dict[str, set[str]] = {}
    for key, rule in as_object(find_member(loads_or_none(schema), ("properties",))).items():
        types = _schema_types(rule)
        if types:
            types_by_name[key] = types
    return types_by_name


def _schema_types(rule: Any) -> set[str]:
    if not isinstance(rule, dict):
        return set()
    members = cast("dict[str, Any]", rule)
    kind = members.get("type")
    if isinstance(kind, str):
        return {kind}
    if isinstance(kind, list):
        return {one for one in cast("list[Any]", kind) if isinstance(one, str)}
    for key in ("anyOf", "oneOf"):
        choices = members.get(key)
        if isinstance(choices, list):
            types = [_schema_types(choice) for choice in cast("list[Any]", choices)[:50]]
            return set[str]().union(*types) if all(types) else set()
    choices = members.get("enum")
    if isinstance(choices, list) and choices and all(isinstance(one, str) for one in cast("list[Any]", choices)):
        return {"string"}
    return set()


_TYPE_NAMES = {
    "array": N_("a list"),
    "boolean": N_("true or false"),
    "integer": N_("a whole number"),
    "number": N_("a number"),
    "object": N_("an object"),
    "string": N_("text"),
}


_EXAMPLES = {"boolean": "true", "integer": "2", "number": "2.5"}


def _convert_value(key: str, text: str, types: set[str] | None) -> Any:
    """Convert the value of a KEY=VALUE argument to one of the JSON *types* that the schema allows; None allows all.

    If only strings are allowed, *text* is returned unchanged. Otherwise, *text* is parsed as JSON, and the value is
    returned if its type is allowed. If it is not, or parsing fails, *text* is returned if *types* includes "string".
    Raises UsageError if none of this is possible.
    """
    if types == {"string"}:
        return text
    try:
        value = loads(text)
    except MalformedMessage as error:
        if types is None or "string" in types or not types & _JSON_TYPES:
            return text
        raise _make_type_error(key, text, types) from error
    if types is None or _has_type(value, types):
        return value
    if "string" in types:
        return text
    raise _make_type_error(key, text, types)


def _make_type_error(key: str, text: str, types: set[str]) -> UsageError:
    wanted = _(" or ").join(_(_TYPE_NAMES.get(one, one)) for one in sorted(types))
    example = next((_EXAMPLES[one] for one in ("number", "integer", "boolean") if one in types), "")
    hint = _("For example: {argument}").format(argument=f"{key[:80]}={example}") if example else ""
    hint = _("Use JSON.") if "object" in types else hint
    hint = _('Use JSON, for example ["urgent", "home"].') if "array" in types else hint
    return UsageError(f"The argument {key!r} is {text[:80]!r}, but the tool expects {wanted}.", hint)


def _has_type(value: Any, types: set[str]) -> bool:
    match value:
        case None:
            return "null" in types
        case bool():
            return "boolean" in types
        case int():
            return bool(types & {"integer", "number"})
        case float():
            return "number" in types or ("integer" in types and value.is_integer())
        case str():
            return "string" in types
        case list():
            return "array" in types
        case _:
            return "object" in types
