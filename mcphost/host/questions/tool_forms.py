"""The arguments of a tool as fields of a form: what its inputSchema says, as far as a form can show it."""

from typing import Any, cast

from mcphost.errors import MalformedMessage
from mcphost.host.questions.form_fields import MAX_TEXT, Field, accepts_empty_text, field_error
from mcphost.host.questions.forms import MAX_FIELDS, MAX_SCHEMA, parse_field
from mcphost.serialization import Raw, dumps, loads, replace

UNKNOWN_ARGUMENT = "not in the tool's schema"


_MAX_REFERENCES = 8


def argument_fields(schema: Raw | bytes, arguments: dict[str, Any]) -> tuple[Field, ...]:
    """One field for each property and for each argument beyond them, properties first. Raises nothing.

    A property of any other shape is a field of kind `json`. A field whose value in `arguments` is of another type than
    its property says is one of the value's own kind, so that what is there can be shown and corrected. None has a
    default: what is left out stays left out. Empty when the schema says nothing that a form could show, or too much:
    then JSON is what is left.
    """
    whole = _object(schema)
    properties, required = _object_member(whole, "properties"), whole.get("required")
    must = cast("list[Any]", required) if isinstance(required, list) else []
    names = [*properties, *(name for name in arguments if name not in properties)]
    if not names or len(names) > MAX_FIELDS:
        return ()
    made: list[Field] = []
    for name in names:
        if name in properties:
            field = _property_field(name, _simplify_schema(properties[name], whole), name in must)
        else:
            kind = "text" if isinstance(arguments[name], str) else "json"
            field = Field(name=name, kind=kind, description=UNKNOWN_ARGUMENT)
        made.append(field if name not in arguments or _can_show(field, arguments[name]) else _to_json_field(field))
    return tuple(made)


def _object(schema: Raw | bytes) -> dict[str, Any]:
    if len(bytes(schema)) > MAX_SCHEMA:
        return {}
    try:
        value = loads(bytes(schema) or b"{}", "schema")
    except MalformedMessage:
        return {}
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _object_member(value: Any, name: str) -> dict[str, Any]:
    found = cast("dict[str, Any]", value).get(name) if isinstance(value, dict) else None
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}


def _simplify_schema(entry: Any, whole: dict[str, Any]) -> Any:
    """What a property comes down to: a reference within the schema is followed, "or null" is left away.

    An optional argument of many libraries is one that may be null; leaving it out says the same.
    """
    for _ in range(_MAX_REFERENCES):
        if not isinstance(entry, dict):
            break
        words = cast("dict[str, Any]", entry)
        inner = _inner_schema(words, whole)
        if inner is None:
            break
        entry = {**inner, **{key: value for key, value in words.items() if key in _KEPT_KEYWORDS}}
    return cast("Any", entry)


_KEPT_KEYWORDS = ("title", "description", "default")


def _inner_schema(words: dict[str, Any], whole: dict[str, Any]) -> dict[str, Any] | None:
    reference, kind = words.get("$ref"), words.get("type")
    if isinstance(reference, str):
        _, _, way = reference.partition("#/")
        room, _, name = way.partition("/")
        found = _object_member(whole, room).get(name) if room in ("$defs", "definitions") else None
        return cast("dict[str, Any]", found) if isinstance(found, dict) else None
    if isinstance(kind, list):
        kinds = [one for one in cast("list[Any]", kind) if one != "null"]
        return {**words, "type": kinds[0]} if len(kinds) == 1 else None
    for word in ("anyOf", "oneOf"):
        ways = words.get(word)
        if isinstance(ways, list):
            some = [one for one in cast("list[Any]", ways) if one != {"type": "null"}]
            return cast("dict[str, Any]", some[0]) if len(some) == 1 and isinstance(some[0], dict) else None
    return None


def _property_field(name: str, schema: Any, required: bool) -> Field:
    words = cast("dict[str, Any]", schema) if isinstance(schema, dict) else {}
    try:
        field = parse_field(name, schema, required)
    except MalformedMessage:
        title, about = (str(words.get(key, ""))[:10_000] for key in ("title", "description"))
        field = Field(name=name, kind="json", title=title, description=about, required=required)
    about = field.description
    if words.get("default") is not None:
        about = f"{about} (left out, it says, means {dumps(words['default'])[:200]})".strip()
    # The user decides about a call of the model; nothing here is asked of the user.
    return replace(field, default=None, secret=False, description=about)


def _to_json_field(field: Field) -> Field:
    return replace(field, kind="json", options=())


def _can_show(field: Field, value: Any) -> bool:
    """Whether the field's kind can show that value, be it right or wrong."""
    match field.kind:
        case "text":
            return isinstance(value, str) and len(value) <= MAX_TEXT and bool(value or accepts_empty_text(field))
        case "number" | "integer":
            return isinstance(value, int | float) and not isinstance(value, bool)
        case "json":
            return True
        case _:
            return value is not None and not field_error(field, value)
