"""Redaction of secrets in JSON data, which also considers the names of members."""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, cast

from mcphost.redact import MIN_SECRET_LENGTH, PLACEHOLDER, PLAIN_WORDS, is_probable_secret, redact

# Names of members whose value is secret even if it is a number, a list or an object. Other words in a name say what
# else it is: the number of tokens, the address of a token endpoint, the name of a secret.
_NAME_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[0-9]+")
_SECRET_WORDS = re.compile(
    r"(?:token|secret|passw(?:or)?d|passphrase|pass_phrase|passcode|api_?key|authorization|credential"
    r"|(?:private|access|account)_?key)s?(?=_|\Z)"
)
_OTHER_WORD = re.compile(
    r"(?:allowed|available|budget|class|cost|count|counts|details|enabled|endpoint|endpoints|estimate|exp"
    r"|expiration|expires|expiry|field|fields|file|files|format|has|id|ids|index|is|kind|len|length|level"
    r"|limit|limits|line|logprobs|max|maximum|metadata|method|methods|min|minimum|mode|name|names|num"
    r"|number|offset|page|path|per|policies|policy|position|prefix|price|progress|public|rate|required"
    r"|rules|schema|scope|scopes|servers|size|store|suffix|supported|threshold|timeout|total|ttl|type"
    r"|types|uri|url|usage|used|version|window)"
)
_SHORT_SECRET_NAMES = frozenset({"pass", "pwd", "pin", "otp", "totp", "cvv", "cvc"})
# Tuples, because `list | tuple` makes a new type each time; and tested before `Mapping`, which is slow.
_SCALARS = (str, int, float)
_LISTS = (list, tuple)
_MIN_PIN = 1_000
"""Smaller numbers under the name "pin" are pins of a chip, not personal identification numbers."""
_SCHEMA_PARENTS = frozenset(
    {"properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies"}
)
_SCHEMA_KEYS = frozenset(
    {
        "type", "$ref", "anyOf", "oneOf", "allOf", "not", "if", "enum", "const", "description", "title", "minLength",
        "maxLength", "pattern", "readOnly", "writeOnly", "properties", "additionalProperties",
    }
)  # fmt: skip
_NAMES_OF_PROPERTIES = "dependentRequired"
"""Member of a JSON schema that is an object; its own members are lists of property names."""
_SCHEMA_VALUES = frozenset({"default", "const", "examples"})
_PROTOCOL_MEMBERS = frozenset({"progressToken"})
"""Members of MCP messages that are not secrets, although their names suggest it."""


def redact_values(value: Any, redact_text: Callable[[str], str] = redact) -> Any:
    """Redact secrets in JSON data, including values that are probably secrets according to their keys.

    The keys themselves are not changed. See `is_probable_secret` for what counts as probable, and `mask_members` for
    values that are not strings. *redact_text* redacts each text.
    """
    return _redact_texts(mask_members(value), redact_text)


def mask_members(value: Any, parent: str = "") -> Any:
    """Mask the values of members whose names suggest a secret in JSON data, such as `{"password": ["x"]}`.

    - All numbers and strings inside such a value are masked, except references such as `${env:NAME}`, and numbers that
      count something, as in `max_tokens`.
    - If the value itself is a string, it is usually left to `redact`.
    - In a JSON schema, only the default value and the examples of a secret are masked.

    *parent* is the name of the member that contains *value*.
    """
    if value is None or isinstance(value, _SCALARS):  # most values, and much faster than the checks below
        return value
    if isinstance(value, _LISTS):
        return [mask_members(inner) for inner in cast("Sequence[Any]", value)]
    if isinstance(value, Mapping):
        members = cast("Mapping[Any, Any]", value)
        return {name: _mask_member(str(name)[:200], inner, parent) for name, inner in members.items()}
    return value


def may_have_secret_members(text: str) -> bool:
    """Return whether `mask_members` might change the JSON *text*; this check is much faster than `mask_members`."""
    return _MEMBER_HINT.search(text) is not None


_MEMBER_HINT = re.compile(r"(?i)token|secret|pass|key|authorization|credential|pwd|pin|otp|cv[vc]")


def _mask_member(name: str, value: Any, parent: str) -> Any:
    if value is None or isinstance(value, bool) or name in _PROTOCOL_MEMBERS or parent == _NAMES_OF_PROPERTIES:
        return value
    if not may_have_secret_members(name):
        return mask_members(value, name)
    short = name.lower()
    if short in _SHORT_SECRET_NAMES:
        return _mask_short(short, value)
    word = _find_secret_word(name)
    if not word or isinstance(value, str):
        return mask_members(value, name)
    is_plural = word.endswith("s")
    if isinstance(value, int | float):
        return value if is_plural else PLACEHOLDER
    schema: Mapping[Any, Any] = {}
    if parent in _SCHEMA_PARENTS and isinstance(value, Mapping):
        schema = cast("Mapping[Any, Any]", value)
    if not _SCHEMA_KEYS.isdisjoint(schema):
        return {
            key: _mask_leaves(inner) if key in _SCHEMA_VALUES else mask_members(inner, str(key))
            for key, inner in schema.items()
        }
    # the tokens of a text, and counts of them, are called "tokens" like those of a sign-in
    return _mask_leaves(value, are_tokens=word == "tokens")


@lru_cache(1_000)  # many objects have members of the same names
def _find_secret_word(name: str) -> str:
    """Return the word in a member's name that suggests a secret, such as "password", or "" if there is none."""
    words = [word.lower() for word in _NAME_WORD.findall(name)]
    found = _SECRET_WORDS.search("_".join(words))
    return "" if found is None or _counts_or_describes(words) else found[0]


def _counts_or_describes(words: list[str]) -> bool:
    """Return whether a name with these words counts or describes secrets, such as `max_tokens`."""
    is_design = "design" in words and not {"token", "tokens"}.isdisjoint(words)
    return is_design or any(map(_OTHER_WORD.fullmatch, words))


def _mask_short(name: str, value: Any) -> Any:
    """Mask the value of a member with a short name such as `pin` or `pass`, if it is likely to be a secret.

    A count, a path and the number of a chip's pin are not masked.
    """
    if isinstance(value, Mapping | list | tuple):
        return mask_members(value, name)
    if isinstance(value, str):
        is_pin = name != "pin" or (value.isdecimal() and len(value) >= len(str(_MIN_PIN)))
        is_plain = len(value) < len(str(_MIN_PIN)) or value.lower() in PLAIN_WORDS or "/" in value
        return PLACEHOLDER if is_pin and not is_plain else value
    is_count = name in ("pass", "pwd") or (name == "pin" and value < _MIN_PIN)
    return value if is_count else PLACEHOLDER


def _mask_leaves(value: Any, name: str = "", *, are_tokens: bool = False) -> Any:
    if isinstance(value, _LISTS):
        return [_mask_leaves(inner, name, are_tokens=are_tokens) for inner in cast("Sequence[Any]", value)]
    if isinstance(value, Mapping):
        members = cast("Mapping[Any, Any]", value).items()
        return {key: _mask_leaves(inner, str(key)[:200], are_tokens=are_tokens) for key, inner in members}
    if isinstance(value, str):
        is_short = len(value) < (MIN_SECRET_LENGTH if are_tokens else 1)
        return value if is_short or (value.startswith("${") and value.endswith("}")) else PLACEHOLDER
    if value is None or isinstance(value, bool) or are_tokens:
        return value
    words = [word.lower() for word in _NAME_WORD.findall(name)]
    return value if _counts_or_describes(words) else PLACEHOLDER


def _redact_texts(value: Any, redact_text: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return redact_text(value)
    if value is None or isinstance(value, _SCALARS):
        return value
    if isinstance(value, _LISTS):
        return [_redact_texts(inner, redact_text) for inner in cast("Sequence[Any]", value)]
    if isinstance(value, Mapping):
        members = cast("Mapping[Any, Any]", value).items()
        return {name: _redact_member(str(name), inner, redact_text) for name, inner in members}
    return value


def _redact_member(name: str, value: Any, redact_text: Callable[[str], str]) -> Any:
    is_secret = isinstance(value, str) and is_probable_secret(name, value)
    return PLACEHOLDER if is_secret else _redact_texts(value, redact_text)
