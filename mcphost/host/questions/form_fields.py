"""Form fields: their kinds and limits, and the validation of their values."""

import re
from collections.abc import Callable, Container
from datetime import date, datetime
from typing import Any, Literal, cast

from mcphost.errors import UsageError
from mcphost.pluralize import pluralize
from mcphost.serialization import Struct, is_number
from mcphost.unicode_forms import split_url

MAX_TEXT = 100_000
_MAX_PATTERN = 500
_ATOM = r"(?:\\[dDwWsS.\-+*?()\[\]{}|^$/\\]|\[\^?(?:\\[dDwWsS.\-+*?\[\]^/\\]|[^\[\]\\])+\]|[^\[\]\\(){}|^$*+?])"
_SIMPLE_PATTERN = re.compile(rf"\^?(?:{_ATOM}(?:[*+?]|\{{\d{{1,3}}(?:,\d{{0,3}})?\}})?)*\$?")
"""Matches patterns of characters and classes with optional quantifiers, without groups or alternatives."""
_QUANTIFIER = re.compile(r"[*+?]|\{\d+,\d*\}")
FieldKind = Literal["text", "number", "integer", "boolean", "choice", "choices", "texts", "json"]
"""The kinds of fields. `texts` (a list of texts) and `json` (any value) are only for tool arguments."""
_DATE_TIME = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)")
_EMAIL = re.compile(r"[^\s@<>\"(),;:\\\[\]]{1,64}@[^\s@.<>\"(),;:\\\[\]]+(\.[^\s@.<>\"(),;:\\\[\]]+)*")
_FORMATS = {
    "email": "an email address",
    "uri": "an address with its scheme, such as https://example.com",
    "date": "a date such as 2026-07-28",
    "date-time": "a date and time with its zone, such as 2026-07-28T12:00:00Z",
}


class Option(Struct, frozen=True):
    """One option of a choice field; `title` is shown to the user, and `value` is sent."""

    value: str
    title: str


UNKNOWN_ARGUMENT = "not in the tool's schema"
"""Description of a field for an argument that the tool's schema does not define."""


class Field(Struct, frozen=True, kw_only=True):
    """A field of a form; a limit or default of None means that there is none.

    - `title`, `description`: unsanitized text from the server.
    - `secret`: whether the field seems to ask for a secret.
    - `options`: the options of a choice field.
    - `min_length`, `max_length`: limits in characters.
    - `outline`: unsanitized outline of a JSON value, see `outline_schema`; "" if it is unknown.
    - `is_default_omitted`: whether the server suggested a value that is too long to be shown.
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
    outline: str = ""
    is_default_omitted: bool = False


def validate_content(
    fields: tuple[Field, ...], content: dict[str, Any], translate: Callable[[str], str] = str
) -> dict[str, Any]:
    """Validate the values of a form, keyed by field name, and return the content to send.

    A missing value is replaced with the field's default. A field is omitted if its value is null, even if it has a
    default, or if its value counts as empty (see `is_empty`). Raises a UsageError that lists the invalid values;
    *translate* translates each error in the list.
    """
    problems: list[str] = []
    known = {field.name for field in fields}
    problems += [translate(f"there is no field {name[:60]!r}") for name in content if name not in known]
    valid: dict[str, Any] = {}
    for field in fields:
        value = content.get(field.name, field.default)
        if problem := field_error(field, value):
            problems.append(f"{field.name!r} {translate(problem)}")
        elif not is_empty(field, value):
            valid[field.name] = validate_value(field, value)
    if problems:
        text = "; ".join(problems[:10])
        raise UsageError(f"The form has invalid values: {text}.", "Correct them and submit again.")
    return valid


def is_empty(field: Field, value: Any) -> bool:
    """Return whether a field with this value is omitted from the content that is sent.

    None is always omitted. Empty text and an empty list are omitted if the field does not accept them as values. Empty
    text in a required text field is not omitted, so that it is reported as invalid.
    """
    match field.kind:
        case "text":
            bound = field.min_length or field.format in _FORMATS
            return value is None or bool(value == "" and bound and not field.required)
        case "choice":
            return value is None or (value == "" and all(option.value for option in field.options))
        case "choices" | "texts":
            return value is None or (value == [] and bool(field.min_items))
        case _:
            return value is None or value == ""


def accepts_empty_text(field: Field) -> bool:
    """Return whether a field accepts empty text as a value, so that sending it differs from omitting the field."""
    return field.kind == "text" and not field.min_length and field.format not in _FORMATS


def accepts_empty_list(field: Field) -> bool:
    """Return whether a field accepts an empty list as a value, so that sending it differs from omitting the field."""
    return field.kind == "texts" and not field.min_items


def is_text_list(value: Any) -> bool:
    """Return whether *value* is a list of texts that can be edited as lines, one for each text.

    A text that is blank or contains a line break cannot be edited as a line.
    """
    items = cast("list[Any]", value) if isinstance(value, list) else [None]
    return all(isinstance(item, str) and item.strip() and item.splitlines() == [item] for item in items)


def field_error(field: Field, value: Any) -> str:
    """Return what is wrong with a value, as a phrase that follows the field's name; "" if the value is valid."""
    if is_empty(field, value):
        return "is required" if field.required else ""
    try:
        validate_value(field, value)
    except UsageError as error:
        return error.message
    return ""


def validate_value(field: Field, value: Any) -> Any:
    """Validate a field's value and return the value to send; in an integer field, 3.0 becomes 3.

    Raises UsageError with a message that follows the field's name, such as "must be text".
    """
    match field.kind:
        case "text":
            return _validate_text(field, value)
        case "number" | "integer":
            return _validate_number(field, value)
        case "boolean":
            if not isinstance(value, bool):
                raise UsageError("must be true or false")
            return value
        case "choice":
            return _validate_choice(field, value, [option.value for option in field.options])
        case "choices":
            return _validate_choices(field, value)
        case "texts":
            return _validate_texts(field, value)
        case "json":
            return value


def _validate_text(field: Field, value: Any) -> str:
    if not isinstance(value, str):
        raise UsageError("must be text")
    if field.min_length is not None and len(value) < field.min_length:
        raise UsageError(f"must have at least {pluralize(field.min_length, 'character')}")
    if len(value) > (limit := MAX_TEXT if field.max_length is None else min(field.max_length, MAX_TEXT)):
        raise UsageError(f"must have at most {pluralize(limit, 'character')}")
    if field.format in _FORMATS and not _matches_format(field.format, value):
        raise UsageError(f"must be {_FORMATS[field.format]}")
    if field.pattern and not _matches_pattern(field.pattern, value):
        raise UsageError(f"must match the pattern {field.pattern[:200]}")
    return value


def _validate_texts(field: Field, value: Any) -> list[str]:
    if not is_text_list(value):
        raise UsageError("must be a list of texts")
    texts = cast("list[str]", value)
    if field.min_items is not None and len(texts) < field.min_items:
        raise UsageError(f"must have at least {pluralize(field.min_items, 'line')}")
    if field.max_items is not None and len(texts) > field.max_items:
        raise UsageError(f"must have at most {pluralize(field.max_items, 'line')}")
    return texts


def _matches_format(format_name: str, value: str) -> bool:
    try:
        match format_name:
            case "email":
                return len(value) <= 254 and _EMAIL.fullmatch(value) is not None
            case "uri":
                parts = split_url(value)
                return bool(parts.scheme and (parts.netloc or parts.path)) and not re.search(r'[\s<>"{}|\\^`]', value)
            case "date":
                return len(value) == 10 and date.fromisoformat(value).isoformat() == value
            case _:
                return _DATE_TIME.fullmatch(value) is not None and bool(datetime.fromisoformat(value.upper()))
    except ValueError:
        return False


def _matches_pattern(pattern: str, value: str) -> bool:
    """Return whether the value matches a simple pattern; a complex pattern matches every value.

    Complex patterns are ignored, because a server could choose one that takes very long to match. No protocol revision
    defines `pattern` for forms, and the server validates the values again.
    """
    if len(value) > _MAX_PATTERN or len(pattern) > _MAX_PATTERN or not _SIMPLE_PATTERN.fullmatch(pattern):
        return True
    if len(_QUANTIFIER.findall(re.sub(r"\\.|\[(?:\\.|[^\\\]])*+\]?", "x", pattern))) > (2 if pattern[:1] == "^" else 1):
        return True
    end = pattern.removesuffix("$") + r"\Z" if pattern.endswith("$") and not pattern.endswith(r"\$") else pattern
    try:
        return re.search(end, value, re.ASCII) is not None
    except re.error:
        return True


def _validate_number(field: Field, value: Any) -> int | float:
    if not is_number(value):
        is_whole = field.kind == "integer" and type(value) is not int
        raise UsageError("must be a whole number" if is_whole else "must be a number")
    if field.kind == "integer":
        if value != int(value):
            raise UsageError("must be a whole number")
        value = int(value)
    if field.minimum is not None and value < field.minimum:
        raise UsageError(f"must be at least {field.minimum:g}")
    if field.maximum is not None and value > field.maximum:
        raise UsageError(f"must be at most {field.maximum:g}")
    return value


def _validate_choice(field: Field, value: Any, offered: Container[str]) -> str:
    if not isinstance(value, str) or value not in offered:
        shown = ", ".join(repr(option.value) for option in field.options[:20])
        raise UsageError(f"must be one of {shown}")
    return str(value)


def _validate_choices(field: Field, value: Any) -> list[str]:
    if not isinstance(value, list | tuple):
        raise UsageError("must be a list")
    values = cast("list[Any]", value)
    if len(values) > len(field.options):
        raise UsageError("must have only offered choices, each at most once")  # before the choices are looked up
    offered = frozenset(option.value for option in field.options)
    chosen = [_validate_choice(field, value, offered) for value in values]
    if len(set(chosen)) != len(chosen):
        raise UsageError("must not repeat a choice")
    if field.min_items is not None and len(chosen) < field.min_items:
        raise UsageError(f"must have at least {pluralize(field.min_items, 'choice')}")
    if field.max_items is not None and len(chosen) > field.max_items:
        raise UsageError(f"must have at most {pluralize(field.max_items, 'choice')}")
    return chosen
