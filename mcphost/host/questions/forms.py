"""A server's form: the restricted schema as typed fields with bounds.

Specification: client/elicitation, requested schema. Only flat objects of texts, numbers, booleans and choices exist;
everything else is refused, never guessed at.
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
"""Characters of a field's name."""
MAX_TEXT_TOTAL = 32 * 1024
"""Characters of all names, titles and descriptions of a form; nobody reads more."""
_UNSUPPORTED_KEYWORDS = ("$ref", "allOf", "anyOf", "not", "if", "properties", "patternProperties")


def parse_form(schema: Raw) -> tuple[Field, ...]:
    """The fields in their order. Raises MalformedMessage for a schema the specification does not allow in a form."""
    if len(bytes(schema)) > MAX_SCHEMA:
        raise MalformedMessage(f"The form is larger than {MAX_SCHEMA // 1024} kB.")
    value = loads(bytes(schema) or b"{}", "form")
    if not isinstance(value, dict):
        raise MalformedMessage("The form is not a JSON Schema object.")
    whole = cast("dict[str, Any]", value)
    if whole.get("type", "object") != "object":
        raise MalformedMessage("The form is not of type object.")
    for word in ("$ref", "allOf", "anyOf", "oneOf", "not", "if"):
        if word in whole:
            raise MalformedMessage(f"The form uses {word}, which forms may not.")
    properties, required = whole.get("properties", {}), whole.get("required", [])
    if not isinstance(properties, dict) or not isinstance(required, list):
        raise MalformedMessage("The form's properties or required fields are not what they should be.")
    named, wanted = cast("dict[str, Any]", properties), cast("list[Any]", required)
    if len(named) > MAX_FIELDS:
        raise MalformedMessage(f"The form has {len(named)} fields; at most {MAX_FIELDS} are taken.")
    missing = next((one for one in wanted if not isinstance(one, str) or one not in named), None)
    if missing is not None:
        raise MalformedMessage(f"The form requires {str(missing)[:100]!r}, which it does not have.")
    if sum(_text_length(name, entry) for name, entry in named.items()) > MAX_TEXT_TOTAL:
        raise MalformedMessage(
            f"The names, titles and descriptions of the form have over {MAX_TEXT_TOTAL:,} characters."
        )
    asked = frozenset(cast("list[str]", wanted))
    return tuple(parse_field(name, entry, name in asked) for name, entry in named.items())


def _text_length(name: str, entry: Any) -> int:
    if len(name) > MAX_NAME:
        raise MalformedMessage(f"The form's field {name[:60]!r} has a name of over {MAX_NAME:,} characters.")
    if not isinstance(entry, dict):
        return len(name)
    schema = cast("dict[str, Any]", entry)
    return len(name) + len(_text_of_keyword(schema, "title")) + len(_text_of_keyword(schema, "description"))


# -- reading the schema
def parse_field(name: str, entry: Any, required: bool) -> Field:
    """One property as a field. Raises MalformedMessage for one that no form may have."""
    if not isinstance(entry, dict):
        raise MalformedMessage(f"The form's field {name[:60]!r} is not a schema.")
    schema = cast("dict[str, Any]", entry)
    foreign = next((word for word in _UNSUPPORTED_KEYWORDS if word in schema), None)
    if foreign:
        raise MalformedMessage(f"The form's field {name[:60]!r} uses {foreign}, which forms may not.")
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
    found = _check_choices(name, values)
    titles = cast("list[Any]", names) if isinstance(names, list) else []
    if not all(isinstance(value, str) for value in found):
        raise MalformedMessage(f"The form's field {name[:60]!r} has a choice that is not text.")
    fitting = len(titles) == len(found) and all(isinstance(title, str) for title in titles)
    return tuple(Option(value, title) for value, title in zip(found, titles if fitting else found, strict=True))


def _titled_options(name: str, entries: Any) -> tuple[Option, ...]:
    options: list[Option] = []
    for entry in _check_choices(name, entries):
        one = cast("dict[str, Any]", entry) if isinstance(entry, dict) else {}
        if not isinstance(one.get("const"), str):
            raise MalformedMessage(f"The form's field {name[:60]!r} has a choice that is not text.")
        title = one.get("title")
        options.append(Option(one["const"], title if isinstance(title, str) else one["const"]))
    return tuple(options)


def _check_choices(name: str, values: Any) -> list[Any]:
    if not isinstance(values, list) or not 0 < len(cast("list[Any]", values)) <= MAX_OPTIONS:
        raise MalformedMessage(f"The form's field {name[:60]!r} has no choices, or more than {MAX_OPTIONS}.")
    return cast("list[Any]", values)


def _with_default(field: Field, default: Any) -> Field:
    """A default that breaks the field's own rules is none."""
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
