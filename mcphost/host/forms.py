"""A server's form: the restricted schema as typed fields with bounds, and what makes an answer valid.

Specification: client/elicitation, requested schema. Only flat objects of texts, numbers, booleans and choices exist;
everything else is refused, never guessed at.
"""

import math
import re
from datetime import date, datetime
from typing import Any, Literal, cast
from urllib.parse import urlsplit

from mcphost.data import Data, Raw, loads, replace
from mcphost.errors import MalformedMessage, UsageError

MAX_SCHEMA = 256 * 1024
MAX_FIELDS = 100
MAX_OPTIONS = 1_000
MAX_TEXT = 100_000
_PATTERN_TEXT = 500
_ATOM = r"(?:\\[dDwWsS.\-+*?()\[\]{}|^$/\\]|\[\^?(?:\\[dDwWsS.\-+*?\[\]^/\\]|[^\[\]\\])+\]|[^\[\]\\(){}|^$*+?])"
_PLAIN = re.compile(rf"\^?(?:{_ATOM}(?:[*+?]|\{{\d{{1,3}}(?:,\d{{0,3}})?\}})?)*\$?")
"""Characters and classes in a row, each perhaps repeated: no groups, no alternatives, no references."""
_VARYING = re.compile(r"[*+?]|\{\d+,\d*\}")
FieldKind = Literal["text", "number", "integer", "boolean", "choice", "choices"]
_FOREIGN = ("$ref", "allOf", "anyOf", "not", "if", "properties", "patternProperties")
_SECRET = re.compile(
    r"pass(word|wd|phrase|code)|secret|\btoken\b|(api|private|access)[-_ ]?key"
    r"|credential|\bcvv\b|\bpin\b|card[-_ ]?num",
    re.IGNORECASE,
)
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")
_DATE_TIME = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)")
_EMAIL = re.compile(r"[^\s@<>\"(),;:\\\[\]]{1,64}@[^\s@.<>\"(),;:\\\[\]]+(\.[^\s@.<>\"(),;:\\\[\]]+)*")
_FORMATS = {
    "email": "an e-mail address",
    "uri": "an address with its scheme, like https://example.com",
    "date": "a date, like 2026-07-28",
    "date-time": "a time with its zone, like 2026-07-28T12:00:00Z",
}


class Option(Data, frozen=True):
    """One choice: `value` is sent, `title` is shown."""

    value: str
    title: str


class Field(Data, frozen=True, kw_only=True):
    """One field. `default` is None when there is none; bounds are None when there are none.

    Texts are the server's own words. `secret` says that the field looks like it asks for a secret.
    """

    name: str
    kind: FieldKind
    title: str = ""
    description: str = ""
    required: bool = False
    default: Any = None
    format: str = ""
    min_length: int | None = None
    max_length: int | None = None
    pattern: str = ""
    minimum: float | None = None
    maximum: float | None = None
    options: tuple[Option, ...] = ()
    min_items: int | None = None
    max_items: int | None = None
    secret: bool = False


def parse(schema: Raw) -> tuple[Field, ...]:
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
    missing = next((one for one in wanted if one not in named), None)
    if missing is not None:
        raise MalformedMessage(f"The form requires {str(missing)[:100]!r}, which it does not have.")
    return tuple(_field(name, entry, name in wanted) for name, entry in named.items())


def filled(fields: tuple[Field, ...], content: dict[str, Any]) -> dict[str, Any]:
    """The content to send: defaults where a field was left alone, empty optional ones left out.

    A null leaves a field empty whatever its default is. Raises UsageError that names every field that does not fit.
    """
    problems: list[str] = []
    known = {field.name for field in fields}
    problems += [f"there is no field {name[:60]!r}" for name in content if name not in known]
    made: dict[str, Any] = {}
    for field in fields:
        value = content.get(field.name, field.default)
        if _is_empty(field, value):
            if field.required:
                problems.append(f"{field.name!r} must be filled in")
            continue
        try:
            made[field.name] = checked(field, value)
        except UsageError as error:
            problems.append(f"{field.name!r} {error.message}")
    if problems:
        text = "; ".join(problems[:10])
        raise UsageError(f"The form is not filled in well: {text}.", "Correct it and answer again.")
    return made


def _is_empty(field: Field, value: Any) -> bool:
    match field.kind:
        case "choice":
            return value is None or (value == "" and all(option.value for option in field.options))
        case "choices":
            return value is None or (value == [] and bool(field.min_items))
        case _:
            return value is None or value == ""


def checked(field: Field, value: Any) -> Any:
    """The value as it is sent. Raises UsageError whose message continues "NAME …"."""
    match field.kind:
        case "text":
            return _text(field, value)
        case "number" | "integer":
            return _number(field, value)
        case "boolean":
            if not isinstance(value, bool):
                raise UsageError("must be true or false")
            return value
        case "choice":
            return _choice(field, value)
        case "choices":
            return _choices(field, value)


def _text(field: Field, value: Any) -> str:
    if not isinstance(value, str):
        raise UsageError("must be text")
    if field.min_length is not None and len(value) < field.min_length:
        raise UsageError(f"must have at least {field.min_length} characters")
    if len(value) > (most := MAX_TEXT if field.max_length is None else min(field.max_length, MAX_TEXT)):
        raise UsageError(f"must have at most {most} characters")
    if field.format in _FORMATS and not _is(field.format, value):
        raise UsageError(f"must be {_FORMATS[field.format]}")
    if field.pattern and not _fits(field.pattern, value):
        raise UsageError(f"must fit the pattern {field.pattern[:200]}")
    return value


def _is(kind: str, value: str) -> bool:
    try:
        match kind:
            case "email":
                return len(value) <= 254 and _EMAIL.fullmatch(value) is not None
            case "uri":
                parts = urlsplit(value)
                return bool(parts.scheme and (parts.netloc or parts.path)) and not re.search(r'[\s<>"{}|\\^`]', value)
            case "date":
                return len(value) == 10 and date.fromisoformat(value).isoformat() == value
            case _:
                return _DATE_TIME.fullmatch(value) is not None and bool(datetime.fromisoformat(value.upper()))
    except ValueError:
        return False


def _fits(pattern: str, value: str) -> bool:
    """Only patterns that cannot take long are looked at: a server's pattern must not freeze anything.

    No revision's schema has `pattern` for forms, and the server checks for itself; so every other one binds nobody.
    """
    if len(value) > _PATTERN_TEXT or len(pattern) > _PATTERN_TEXT or not _PLAIN.fullmatch(pattern):
        return True
    if len(_VARYING.findall(re.sub(r"\\.|\[(?:\\.|[^\\\]])*\]", "x", pattern))) > (2 if pattern[:1] == "^" else 1):
        return True
    end = pattern.removesuffix("$") + r"\Z" if pattern.endswith("$") and not pattern.endswith(r"\$") else pattern
    try:
        return re.search(end, value, re.ASCII) is not None
    except re.error:
        return True


def _number(field: Field, value: Any) -> int | float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise UsageError("must be a number")
    if field.kind == "integer":
        if value != int(value):
            raise UsageError("must be a whole number")
        value = int(value)
    if field.minimum is not None and value < field.minimum:
        raise UsageError(f"must be at least {field.minimum:g}")
    if field.maximum is not None and value > field.maximum:
        raise UsageError(f"must be at most {field.maximum:g}")
    return value


def _choice(field: Field, value: Any) -> str:
    if not any(option.value == value for option in field.options):
        shown = ", ".join(repr(option.value) for option in field.options[:20])
        raise UsageError(f"must be one of {shown}")
    return str(value)


def _choices(field: Field, value: Any) -> list[str]:
    if not isinstance(value, list | tuple):
        raise UsageError("must be a list")
    chosen = [_choice(field, one) for one in cast("list[Any]", value)]
    if len(set(chosen)) != len(chosen):
        raise UsageError("must not name a choice twice")
    if field.min_items is not None and len(chosen) < field.min_items:
        raise UsageError(f"must have at least {field.min_items} choices")
    if field.max_items is not None and len(chosen) > field.max_items:
        raise UsageError(f"must have at most {field.max_items} choices")
    return chosen


# -- reading the schema
def _field(name: str, entry: Any, required: bool) -> Field:
    if not isinstance(entry, dict):
        raise MalformedMessage(f"The form's field {name[:60]!r} is not a schema.")
    schema = cast("dict[str, Any]", entry)
    foreign = next((word for word in _FOREIGN if word in schema), None)
    if foreign:
        raise MalformedMessage(f"The form's field {name[:60]!r} uses {foreign}, which forms may not.")
    title, description = _words(schema, "title"), _words(schema, "description")
    field = Field(
        name=name,
        kind="text",
        title=title,
        description=description,
        required=required,
        secret=_SECRET.search(f"{_CAMEL.sub(' ', name)} {title}") is not None,
    )
    return _with_default(_kinds(field, schema), schema.get("default"))


def _kinds(field: Field, schema: dict[str, Any]) -> Field:
    match schema.get("type"):
        case "string" if "enum" in schema:
            return replace(field, kind="choice", options=_enum(field.name, schema["enum"], schema.get("enumNames")))
        case "string" if "oneOf" in schema:
            return replace(field, kind="choice", options=_titled(field.name, schema["oneOf"]))
        case "string":
            pattern = schema.get("pattern")
            return replace(
                field,
                format=_words(schema, "format"),
                min_length=_count(schema, "minLength"),
                max_length=_count(schema, "maxLength"),
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
                options=_items(field.name, schema.get("items")),
                min_items=_count(schema, "minItems"),
                max_items=_count(schema, "maxItems"),
            )
        case other:
            raise MalformedMessage(f"The form's field {field.name[:60]!r} has the type {str(other)[:60]!r}; forms have "
                                   "only texts, numbers, booleans and choices.")  # fmt: skip


def _items(name: str, items: Any) -> tuple[Option, ...]:
    if isinstance(items, dict):
        schema = cast("dict[str, Any]", items)
        for word in ("anyOf", "oneOf"):
            if word in schema:
                return _titled(name, schema[word])
        if "enum" in schema and schema.get("type", "string") == "string":
            return _enum(name, schema["enum"], schema.get("enumNames"))
    raise MalformedMessage(f"The form's field {name[:60]!r} is a list of something else than choices.")


def _enum(name: str, values: Any, names: Any) -> tuple[Option, ...]:
    found = _some(name, values)
    titles = cast("list[Any]", names) if isinstance(names, list) else []
    if not all(isinstance(value, str) for value in found):
        raise MalformedMessage(f"The form's field {name[:60]!r} has a choice that is not text.")
    fitting = len(titles) == len(found) and all(isinstance(title, str) for title in titles)
    return tuple(Option(value, title) for value, title in zip(found, titles if fitting else found, strict=True))


def _titled(name: str, entries: Any) -> tuple[Option, ...]:
    options: list[Option] = []
    for entry in _some(name, entries):
        one = cast("dict[str, Any]", entry) if isinstance(entry, dict) else {}
        if not isinstance(one.get("const"), str):
            raise MalformedMessage(f"The form's field {name[:60]!r} has a choice that is not text.")
        title = one.get("title")
        options.append(Option(one["const"], title if isinstance(title, str) else one["const"]))
    return tuple(options)


def _some(name: str, values: Any) -> list[Any]:
    if not isinstance(values, list) or not 0 < len(cast("list[Any]", values)) <= MAX_OPTIONS:
        raise MalformedMessage(f"The form's field {name[:60]!r} has no choices, or more than {MAX_OPTIONS}.")
    return cast("list[Any]", values)


def _with_default(field: Field, default: Any) -> Field:
    """A default that breaks the field's own rules is none."""
    if default is None:
        return field
    try:
        return replace(field, default=checked(field, default))
    except UsageError:
        return field


def _words(schema: dict[str, Any], key: str) -> str:
    value = schema.get(key)
    return value[:10_000] if isinstance(value, str) else ""


def _count(schema: dict[str, Any], key: str) -> int | None:
    value = _bound(schema, key)
    return int(value) if value is not None and 0 <= value < 1e12 else None


def _bound(schema: dict[str, Any], key: str) -> float | None:
    value = schema.get(key)
    return value if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) else None
