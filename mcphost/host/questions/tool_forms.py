"""Tool arguments as form fields, as far as a form can show the inputSchema."""

from typing import Any, cast

from mcphost.errors import MalformedMessage
from mcphost.host.questions.form_fields import MAX_TEXT, Field, accepts_empty_text, field_error
from mcphost.host.questions.forms import MAX_FIELDS, MAX_SCHEMA, parse_field
from mcphost.serialization import Raw, dumps, loads, replace

UNKNOWN_ARGUMENT = "not in the tool's schema"
_MAX_REFERENCES = 8


def argument_fields(schema: Raw | bytes, arguments: dict[str, Any]) -> tuple[Field, ...]:
    """Return a field for each property, then for each further argument. Never raises.

    A property of any other shape is a field of kind `json`, and so is a field whose argument does not have the
    property's type, so that it can be shown and corrected. No field has a default: omitted arguments stay omitted. The
    result is empty if the schema has nothing that a form can show, or too much; the arguments are then edited as JSON.
    """
    root = _object(schema)
    properties, required = _object_member(root, "properties"), root.get("required")
    required_names = cast("list[Any]", required) if isinstance(required, list) else []
    names = [*properties, *(name for name in arguments if name not in properties)]
    if not names or len(names) > MAX_FIELDS:
        return ()
    fields: list[Field] = []
    for name in names:
        if name in properties:
            field = _property_field(name, _simplify_schema(properties[name], root), name in required_names)
        else:
            kind = "text" if isinstance(arguments[name], str) else "json"
            field = Field(name=name, kind=kind, description=UNKNOWN_ARGUMENT)
        fields.append(field if name not in arguments or _can_show(field, arguments[name]) else _to_json_field(field))
    return tuple(fields)


def _object(schema: Raw | bytes) -> dict[str, Any]:
    if len(bytes(schema)) > MAX_SCHEMA:
        return {}
    try:
        value = loads(bytes(schema) or b"{}", "schema")
    except MalformedMessage:
        return {}
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _object_member(value: Any, name: str) -> dict[str, Any]:
    member = cast("dict[str, Any]", value).get(name) if isinstance(value, dict) else None
    return cast("dict[str, Any]", member) if isinstance(member, dict) else {}


def _simplify_schema(entry: Any, root: dict[str, Any]) -> Any:
    """Return the property's schema with references resolved and "or null" removed.

    Many libraries declare an optional argument as nullable; omitting it has the same meaning.
    """
    for _ in range(_MAX_REFERENCES):
        if not isinstance(entry, dict):
            break
        keywords = cast("dict[str, Any]", entry)
        target = _inner_schema(keywords, root)
        if target is None:
            break
        entry = {**target, **{key: value for key, value in keywords.items() if key in _KEPT_KEYWORDS}}
    return cast("Any", entry)


_KEPT_KEYWORDS = ("title", "description", "default")


def _inner_schema(keywords: dict[str, Any], root: dict[str, Any]) -> dict[str, Any] | None:
    reference, kind = keywords.get("$ref"), keywords.get("type")
    if isinstance(reference, str):
        _, _, pointer = reference.partition("#/")
        section, _, name = pointer.partition("/")
        target = _object_member(root, section).get(name) if section in ("$defs", "definitions") else None
        return cast("dict[str, Any]", target) if isinstance(target, dict) else None
    if isinstance(kind, list):
        kinds = [item for item in cast("list[Any]", kind) if item != "null"]
        return {**keywords, "type": kinds[0]} if len(kinds) == 1 else None
    for keyword in ("anyOf", "oneOf"):
        variants = keywords.get(keyword)
        if isinstance(variants, list):
            non_null = [item for item in cast("list[Any]", variants) if item != {"type": "null"}]
            return cast("dict[str, Any]", non_null[0]) if len(non_null) == 1 and isinstance(non_null[0], dict) else None
    return None


def _property_field(name: str, schema: Any, required: bool) -> Field:
    keywords = cast("dict[str, Any]", schema) if isinstance(schema, dict) else {}
    try:
        field = parse_field(name, schema, required)
    except MalformedMessage:
        title, description = (str(keywords.get(key, ""))[:10_000] for key in ("title", "description"))
        field = Field(name=name, kind="json", title=title, description=description, required=required)
    description = field.description
    if keywords.get("default") is not None:
        description = f"{description} (default: {dumps(keywords['default'])[:200]})".strip()
    # The user reviews a call of the model; the server does not ask the user for these values.
    return replace(field, default=None, secret=False, description=description)


def _to_json_field(field: Field) -> Field:
    return replace(field, kind="json", options=())


def _can_show(field: Field, value: Any) -> bool:
    """Return whether the field's kind can show this value, valid or not."""
    match field.kind:
        case "text":
            return isinstance(value, str) and len(value) <= MAX_TEXT and bool(value or accepts_empty_text(field))
        case "number" | "integer":
            return isinstance(value, int | float) and not isinstance(value, bool)
        case "json":
            return True
        case _:
            return value is not None and not field_error(field, value)
