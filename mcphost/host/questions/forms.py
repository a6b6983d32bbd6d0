"""Conversion of a server's form schema, or of a tool's input schema, to typed form fields.

A form schema is a flat object of text, numbers, booleans and choices (client/elicitation, requested schema); any other
schema is rejected.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator
from typing import Any, cast

from mcphost.errors import MalformedMessage, UsageError
from mcphost.host.questions.form_fields import (
    MAX_TEXT,
    UNKNOWN_ARGUMENT,
    Field,
    Option,
    accepts_empty_list,
    accepts_empty_text,
    field_error,
    is_text_list,
    validate_value,
)
from mcphost.host.questions.schema_outline import outline_schema, resolve_reference
from mcphost.sanitize import sanitize, strip_unsafe
from mcphost.serialization import Raw, as_object, dumps, is_number, loads, loads_or_none, replace
from mcphost.unicode_forms import ascii_skeleton, normalize

_SECRET = re.compile(
    r"pass[-_ ]?(word|wd|phrase|code)|secret|\btoken\b|(api|private|access|recovery|ssh)[-_ ]?keys?\b"
    r"|credential|\b(cvv|cvc|pin|otp|totp|2fa|mfa|iban|ssn)\b|card[-_ ]?num|credit[-_ ]?card"
    r"|(one[-_ ]?time|verification|security|sms|recovery|backup)[-_ ]?codes?\b|seed[-_ ]?phrase|mnemonic"
    # Without accents: German, French, Spanish, Portuguese, Italian, Dutch, the Nordic languages.
    r"|passwort|kennwort|geheim(nis|zahl|code)|zugangsdaten|mot[-_ ]de[-_ ]passe|\bmdp\b|contrasen[ay]a?|contrasinal"
    r"|\bclave[-_ ](de[-_ ]acceso|secreta|privada)|codigo[-_ ]secreto|\bsenha\b|palavra[-_ ]passe"
    r"|\bparola\b|segreto|wachtwoord|losenord|adgangskode|kodeord|passord|salasana"
    # Polish, Czech and Slovak, Slovenian, Hungarian, Estonian, Turkish, Vietnamese, Indonesian.
    r"|\bhas[lł]o\b|\bheslo\b|\bgeslo\b|jelszo|parool|\bsifre\b|mat[-_ ]khau|kata[-_ ]sandi"
)
"""Words for secrets in casefolded text: `re.IGNORECASE` would take five times as long."""
# Words in other alphabets: Russian and Ukrainian, Bulgarian and Serbian, Greek, Hebrew, Arabic,
# Persian, Hindi, Thai, Chinese, Japanese, Korean.
_SECRET_OTHER_SCRIPTS = re.compile(
    "пароль|парола|лозинка|секрет|κωδικ[όο]σ πρ[όο]σβασησ|συνθηματικ[όο]|ססמה|סיסמה|סיסמא|كلمة (ال)?(مرور|سر)|رمز عبور"
    "|पासवर्ड|รหัสผ่าน|密码|密碼|口令|密钥|密鑰|パスワード|暗証番号|秘密|비밀번호|암호|패스워드"
)
_NEGATION = re.compile(r"\b(not|never|no|without)\b|n't\b")
_WORD_BOUNDARY = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Za-z])_(?=[A-Za-z])")
_LONG_LIGATURES = str.maketrans("\ufdfa\ufdfb", "  ")
"""Arabic ligatures without secrets in them, which NFKC would replace with 18 and 8 characters."""
_DIGITS_AS_LETTERS = str.maketrans("013457@$!", "oieastasi")
MAX_SCHEMA = 256 * 1024
MAX_FIELDS = 100
MAX_OPTIONS = 1_000
MAX_NAME = 1_000
"""Maximum number of characters in the name of a field."""
MAX_DEFAULT = 4_000
"""Maximum number of characters of a default that the server suggests for a field; a longer one is ignored."""
MAX_DEFAULTS = 16_000
"""Maximum number of characters of all defaults of a form together; those that exceed it are ignored."""
MAX_TEXT_TOTAL = 32 * 1024
"""Maximum number of characters in all names, titles and descriptions of a form together."""
_UNSUPPORTED_KEYWORDS = ("$ref", "allOf", "anyOf", "not", "if", "properties", "patternProperties")
_MAX_REFERENCES = 8
_KEPT_KEYWORDS = ("title", "description", "default")
_READ_KEYWORDS = (
    "type", "enum", "enumNames", "oneOf", "format", "minLength", "maxLength", "pattern", "minimum", "maximum", "items",
    "minItems", "maxItems", *_KEPT_KEYWORDS, *_UNSUPPORTED_KEYWORDS,
)  # fmt: skip
"""Keywords that are copied from a referenced schema, which a hundred fields may refer to."""


def parse_form(schema: Raw) -> tuple[Field, ...]:
    """Return the fields of a form, in order. Raises MalformedMessage for a schema not allowed in forms."""
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
        raise MalformedMessage(f"The form requires {str(missing)[:100]!r}, but has no field of that name.")
    if sum(_text_length(name, entry) for name, entry in property_schemas.items()) > MAX_TEXT_TOTAL:
        raise MalformedMessage(f"The names, titles and descriptions of the form exceed {MAX_TEXT_TOTAL:,} characters.")
    required_set = frozenset(cast("list[str]", required_names))
    return _without_long_defaults(
        parse_field(name, entry, name in required_set) for name, entry in property_schemas.items()
    )


def _without_long_defaults(fields: Iterable[Field]) -> tuple[Field, ...]:
    """Remove defaults that are too long to be shown, because everything that is sent must be shown."""
    kept: list[Field] = []
    left = MAX_DEFAULTS
    for field in fields:
        length = _shown_length(field)
        if length > min(MAX_DEFAULT, left):
            kept.append(replace(field, default=None, is_default_omitted=True))
        else:
            left -= length
            kept.append(field)
    return tuple(kept)


def _shown_length(field: Field) -> int:
    """Return the number of characters that a field's default occupies on the screen.

    A hidden character counts as the visible characters that are displayed in its place.
    """
    if field.kind == "choices" and field.default is not None:
        titles = {option.value: option.title for option in field.options}
        return sum(len(titles[value]) + 2 for value in cast("list[str]", field.default))
    return len(sanitize(field.default)) if isinstance(field.default, str) else 0


def _text_length(name: str, entry: Any) -> int:
    if len(name) > MAX_NAME:
        raise MalformedMessage(f"The form's field {name[:60]!r} has a name longer than {MAX_NAME:,} characters.")
    if not isinstance(entry, dict):
        return len(name)
    schema = cast("dict[str, Any]", entry)
    return len(name) + len(_text_of_keyword(schema, "title")) + len(_text_of_keyword(schema, "description"))


# -- reading the schema
def parse_field(name: str, entry: Any, required: bool) -> Field:
    """Convert a property of a form schema to a field. Raises MalformedMessage if it is not allowed in forms."""
    field = _parse_property(name, entry, required)
    secret = field.kind in ("text", "number", "integer") and looks_secret(name, field.title, field.description)
    return _with_default(replace(field, secret=secret), cast("dict[str, Any]", entry).get("default"))


def _parse_property(name: str, entry: Any, required: bool) -> Field:
    """Convert a property to a field without a default value.

    This function does not check whether the field asks for a secret.
    """
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
    return _apply_type(field, schema)


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
        option = as_object(entry)
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
    """Return the field with this default value, or without one if the value is not valid."""
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


def argument_fields(schema: Raw | bytes, arguments: dict[str, Any]) -> tuple[Field, ...]:
    """Return form fields for editing the arguments of a tool call.

    Fields for the properties of the schema come first, followed by fields for arguments that are not in the schema.

    A field has kind `json` if its property is not text, a number, a boolean, a choice or a list of texts, or if the
    current argument has a different type. In this way, every argument can be shown and corrected. Fields have no
    defaults: an omitted argument stays omitted.

    Returns an empty tuple if there would be no fields or more than 100; the arguments must then be edited as JSON.
    Never raises.
    """
    root = _object(schema)
    properties, required = as_object(root.get("properties")), root.get("required")
    required_names = cast("list[Any]", required) if isinstance(required, list) else []
    names = [*properties, *(name for name in arguments if name not in properties)]
    if not names or len(names) > MAX_FIELDS:
        return ()
    fields: list[Field] = []
    for name in names:
        if name in properties:
            schema_of_name = _simplify_schema(properties[name], root)
            field = _property_field(name, schema_of_name, name in required_names)
            if field.kind == "json" and _is_list_of_texts(schema_of_name, root):
                low, high = (_integer_bound(schema_of_name, bound) for bound in ("minItems", "maxItems"))
                field = replace(field, kind="texts", min_items=low, max_items=high)
            elif field.kind == "json":
                field = replace(field, outline=outline_schema(properties[name], root))
        else:
            kind = "text" if isinstance(arguments[name], str) else "json"
            field = Field(name=name, kind=kind, description=UNKNOWN_ARGUMENT)
        fields.append(field if name not in arguments or _can_show(field, arguments[name]) else _to_json_field(field))
    return tuple(fields)


def has_arguments(schema: Raw | bytes) -> bool:
    """Return whether a tool accepts arguments, according to its input schema. Never raises."""
    root = _object(schema)
    is_closed = root.get("additionalProperties") is False or set(root) <= {"$schema", "type", "title", "description"}
    is_empty = not as_object(root.get("properties"))
    return not (is_empty and (is_closed or "properties" in root))


def requires_arguments(schema: Raw | bytes) -> bool:
    """Return whether a tool cannot be called without arguments, according to its input schema. Never raises."""
    required = _object(schema).get("required")
    return isinstance(required, list) and required != []


def _object(schema: Raw | bytes) -> dict[str, Any]:
    return as_object(loads_or_none(schema)) if len(bytes(schema)) <= MAX_SCHEMA else {}


def _simplify_schema(entry: Any, root: dict[str, Any]) -> Any:
    """Return a property's schema with each `$ref` resolved and the alternative `null` removed.

    Many libraries declare optional arguments as nullable; for these, null means the same as omitting the argument.
    """
    for _ in range(_MAX_REFERENCES):
        if not isinstance(entry, dict):
            break
        keywords = cast("dict[str, Any]", entry)
        target = _inner_schema(keywords, root)
        if target is None:
            break
        entry = {key: target[key] for key in _READ_KEYWORDS if key in target}
        if "$ref" in keywords:
            entry.pop("title", None)  # the name of the type, which other properties may have as well
        entry |= {key: keywords[key] for key in _KEPT_KEYWORDS if key in keywords}
    return cast("Any", entry)


def _inner_schema(keywords: dict[str, Any], root: dict[str, Any]) -> dict[str, Any] | None:
    reference, kind = keywords.get("$ref"), keywords.get("type")
    if isinstance(reference, str):
        return resolve_reference(reference, root)
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
    keywords = as_object(schema)
    try:
        # The server does not ask for these values: the user edits the model's call, so no field is marked secret.
        field = _parse_property(name, schema, required)
    except MalformedMessage:
        title, description = (_text_of_keyword(keywords, key) for key in ("title", "description"))
        field = Field(name=name, kind="json", title=title, description=description, required=required)
    description = field.description
    if keywords.get("default") is not None:
        description = f"{description} (default: {dumps(keywords['default'])[:200]})".strip()
    return replace(field, description=description)


def _is_list_of_texts(schema: Any, root: dict[str, Any]) -> bool:
    """Return whether a simplified schema allows any list of texts, as Python's `list[str]` does."""
    if not isinstance(schema, dict):
        return False
    keywords = cast("dict[str, Any]", schema)
    items = keywords.get("items")
    if isinstance(items, dict) and "$ref" in items:
        items = _inner_schema(cast("dict[str, Any]", items), root)
    is_text = isinstance(items, dict) and cast("dict[str, Any]", items).get("type") == "string" and "enum" not in items
    return is_text and keywords.get("type") == "array" and not any(one in keywords for one in _UNSUPPORTED_KEYWORDS)


def _to_json_field(field: Field) -> Field:
    return replace(field, kind="json", options=())


def _can_show(field: Field, value: Any) -> bool:
    """Return whether a field of this kind can show the value, even if the value is not valid."""
    match field.kind:
        case "text":
            return isinstance(value, str) and len(value) <= MAX_TEXT and bool(value or accepts_empty_text(field))
        case "number" | "integer":
            return isinstance(value, int | float) and not isinstance(value, bool)
        case "texts":
            return is_text_list(value) and bool(value or accepts_empty_list(field))
        case "json":
            return True
        case _:
            return value is not None and not field_error(field, value)


def looks_secret(name: str, title: str = "", description: str = "") -> bool:
    """Return whether a field seems to ask for a secret, which must not be entered in a form.

    The name and the texts are searched for words such as "password" in many languages. In the description, a word after
    a negation is ignored ("do not give us your PIN").
    """
    if any(_find_secret_word(variant) for word in {name, title} for variant in _variants(word)):
        return True
    for variant in _variants(description):
        match = _find_secret_word(variant)
        if match is not None and not _NEGATION.search(variant[: match.start()]):
            return True
    return False


def _find_secret_word(text: str) -> "re.Match[str] | None":
    return _SECRET.search(text) or (None if text.isascii() else _SECRET_OTHER_SCRIPTS.search(text))


def _variants(text: str) -> Iterator[str]:
    """Yield the forms of *text* in which to search for words, casefolded and without repetitions.

    These are the normalized text, the text without accents, and that text with digits replaced by similar letters.
    """
    plain = normalize("NFKC", strip_unsafe(text).translate(_LONG_LIGATURES))
    yield (folded := plain.casefold())
    unaccented = _WORD_BOUNDARY.sub(" ", plain)
    if not unaccented.isascii():
        decomposed = normalize("NFD", ascii_skeleton(unaccented))
        unaccented = "".join(char for char in decomposed if not unicodedata.combining(char))
    if (spelled := unaccented.casefold()) != folded:
        yield spelled
    if (lettered := spelled.translate(_DIGITS_AS_LETTERS)) != spelled:
        yield lettered
