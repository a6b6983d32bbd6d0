"""Parser of a server's form: the restricted schema as typed fields with bounds.

Specification: client/elicitation, requested schema. Only flat objects of texts, numbers, booleans and choices exist;
everything else is refused.
"""

from typing import Any, cast

from mcphost.errors import MalformedMessage, UsageError
from mcphost.host.questions.form_fields import Field, Option, validate_value
from mcphost.host.questions.secret_fields import looks_secret
from mcphost.serialization import Raw, is_number, loads, replace

MAX_SCHEMA = 256 * 1024
MAX_FIELDS = 100
MAX_OPTIONS = 1_000
MAX_NAME = 1_000
"""Characters in the name of a field."""
MAX_TEXT_TOTAL = 32 * 1024
"""Characters of all names, titles and descriptions of a form."""
_UNSUPPORTED_KEYWORDS = ("$ref", "allOf", "anyOf", "not", "if", "properties", "patternProperties")


def parse_form(schema: Raw) -> tuple[Field, ...]:
    """Return the fields in order. Raises MalformedMessage for a schema that is not allowed in a form."""
    if len(bytes(schema)) > MAX_SCHEMA:
        raise MalformedMessage(f"The form is larger than {MAX_SCHEMA // 1024} kB.")
    value = loads(bytes(schema) or b"{}", "form")
    if not isinstance(value, dict):
        raise MalformedMessage("The form is not a JSON Schema object.")
    form = cast("dict[str, Any]", value)
    if form.get("type", "object") != "object":
        raise MalformedMessage("The form is not of type object.")
    for keyword in ("$ref", "allOf", "anyOf", "oneOf", "not", "if"):
        if keyword in form:
            raise MalformedMessage(f"The form uses {keyword}, which is not allowed in forms.")
    properties, required = form.get("properties", {}), form.get("required", [])
    if not isinstance(properties, dict) or not isinstance(required, list):
        raise MalformedMessage("The form's properties or required fields have the wrong type.")
    property_schemas, required_names = cast("dict[str, Any]", properties), cast("list[Any]", required)
    if len(property_schemas) > MAX_FIELDS:
        raise MalformedMessage(f"The form has {len(property_schemas)} fields; at most {MAX_FIELDS} are allowed.")
    missing = next((name for name in required_names if not isinstance(name, str) or name not in property_schemas), None)
    if missing is not None:
        raise MalformedMessage(f"The form requires {str(missing)[:100]!r}, but has no such field.")
    if sum(_text_length(name, entry) for name, entry in property_schemas.items()) > MAX_TEXT_TOTAL:
        raise MalformedMessage(f"The names, titles and descriptions of the form exceed {MAX_TEXT_TOTAL:,} characters.")
    required_set = frozenset(cast("list[str]", required_names))
    return tuple(parse_field(name, entry, name in required_set) for name, entry in property_schemas.items())


def _text_length(name: str, entry: Any) -> int:
    if len(name) > MAX_NAME:
        raise MalformedMessage(f"The form's field {name[:60]!r} has a name longer than {MAX_NAME:,} characters.")
    if not isinstance(entry, dict):
        return len(name)
    schema = cast("dict[str, Any]", entry)
    return len(name) + len(_text_of_keyword(schema, "title")) + len(_text_of_keyword(schema, "description"))


# -- reading the schema
def parse_field(name: str, entry: Any, required: bool) -> Field:
    """Return one property as a field. Raises MalformedMessage for one not allowed in a form."""
    if not isinstance(entry, dict):
        raise MalformedMessage(f"The form's field {name[:60]!r} is not a schema.")
    schema = cast("dict[str, Any]", entry)
    unsupported = next((keyword for keyword in _UNSUPPORTED_KEYWORDS if keyword in schema), None)
    if unsupported:
        raise MalformedMessage(f"The form's field {name[:60]!r} uses {unsupported}, which is not allowed in forms.")
    title, description = _text_of_keyword(schema, "title"), _text_of_keyword(schema, "description")
    field = Field(
        name=name,
        kind="text",
        title=title,
        description=description,
        required=required,
    )
    field = _apply_type(field, schema)
    secret = field.kind in ("text", "number", "integer") and looks_secret(name, title, description)
    return _with_default(replace(field, secret=secret), schema.get("default"))


def _apply_type(field: Field, schema: dict[str, Any]) -> Field:
    match schema.get("type"):
        case "string" if "enum" in schema:
            return replace(
                field, kind="choice", options=_enum_options(field.name, schema["enum"], schema.get("enumNames"))
            )
        case "string" if "oneOf" in schema:
            return replace(field, kind="choice", options=_titled_options(field.name, schema["oneOf"]))
        case "string":
            pattern = schema.get("pattern")
            return replace(
                field,
                format=_text_of_keyword(schema, "format"),
                min_length=_integer_bound(schema, "minLength"),
                max_length=_integer_bound(schema, "maxLength"),
                pattern=pattern if isinstance(pattern, str) and len(pattern) <= 2_000 else "",
            )
        case "number" | "integer" as kind:
            return replace(field, kind=kind, minimum=_bound(schema, "minimum"), maximum=_bound(schema, "maximum"))
        case "boolean":
            return replace(field, kind="boolean")
        case "array":
            return replace(
                field,
                kind="choices",
                options=_item_options(field.name, schema.get("items")),
                min_items=_integer_bound(schema, "minItems"),
                max_items=_integer_bound(schema, "maxItems"),
            )
        case other:
            raise MalformedMessage(f"The form's field {field.name[:60]!r} has the type {str(other)[:60]!r}; forms have "
                                   "only texts, numbers, booleans and choices.")  # fmt: skip


def _item_options(name: str, items: Any) -> tuple[Option, ...]:
    if isinstance(items, dict):
        schema = cast("dict[str, Any]", items)
        for word in ("anyOf", "oneOf"):
            if word in schema:
                return _titled_options(name, schema[word])
        if "enum" in schema and schema.get("type", "string") == "string":
            return _enum_options(name, schema["enum"], schema.get("enumNames"))
    raise MalformedMessage(f"The form's field {name[:60]!r} is a list of something other than choices.")


def _enum_options(name: str, values: Any, names: Any) -> tuple[Option, ...]:
    choices = _check_choices(name, values)
    titles = cast("list[Any]", names) if isinstance(names, list) else []
    if not all(isinstance(value, str) for value in choices):
        raise MalformedMessage(f"The form's field {name[:60]!r} has a choice that is not text.")
    has_titles = len(titles) == len(choices) and all(isinstance(title, str) for title in titles)
    return tuple(Option(value, title) for value, title in zip(choices, titles if has_titles else choices, strict=True))


def _titled_options(name: str, entries: Any) -> tuple[Option, ...]:
    options: list[Option] = []
    for entry in _check_choices(name, entries):
        option = cast("dict[str, Any]", entry) if isinstance(entry, dict) else {}
        if not isinstance(option.get("const"), str):
            raise MalformedMessage(f"The form's field {name[:60]!r} has a choice that is not text.")
        title = option.get("title")
        options.append(Option(option["const"], title if isinstance(title, str) else option["const"]))
    return tuple(options)


def _check_choices(name: str, values: Any) -> list[Any]:
    if not isinstance(values, list) or not 0 < len(cast("list[Any]", values)) <= MAX_OPTIONS:
        raise MalformedMessage(f"The form's field {name[:60]!r} has no choices, or more than {MAX_OPTIONS}.")
    return cast("list[Any]", values)


def _with_default(field: Field, default: Any) -> Field:
    """Set the default, unless the field's own rules reject it."""
    if default is None:
        return field
    try:
        return replace(field, default=validate_value(field, default))
    except UsageError:
        return field


def _text_of_keyword(schema: dict[str, Any], key: str) -> str:
    value = schema.get(key)
    return value[:10_000] if isinstance(value, str) else ""


def _integer_bound(schema: dict[str, Any], key: str) -> int | None:
    value = _bound(schema, key)
    return int(value) if value is not None and 0 <= value < 1e12 else None


def _bound(schema: dict[str, Any], key: str) -> float | None:
    value = schema.get(key)
    return value if is_number(value) else None
