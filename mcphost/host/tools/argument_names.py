"""Check of the argument names that a user typed one by one, against the tool's input schema."""

from collections.abc import Iterable
from typing import Any, cast

from mcphost.errors import MalformedMessage, UsageError
from mcphost.serialization import Raw, loads

_OPEN_KEYWORDS = frozenset({
    "patternProperties", "unevaluatedProperties", "propertyNames", "allOf", "anyOf", "oneOf", "not", "if", "then",
    "else", "dependentSchemas", "dependencies", "$ref", "$dynamicRef", "$recursiveRef",
})  # fmt: skip
"""JSON Schema keywords that may allow further names; schemas with one of them are not checked."""
_MAX_SHOWN = 10
_MAX_COMPARED = 200
_MAX_LENGTH = 60


def check_argument_names(names: Iterable[str], schema: Raw) -> None:
    """Raise UsageError if a tool's input *schema* declares properties, and one of *names* is not among them.

    Without `additionalProperties`, JSON Schema allows any name, but a name that a user typed is then most likely
    misspelt. Schemas that allow further names explicitly, or that combine other schemas, allow any name.
    """
    properties = _declared_names(schema)
    unknown = next((name for name in names if name not in properties), None) if properties else None
    if properties and unknown is not None:
        raise UsageError(
            f"There is no argument {unknown[:_MAX_LENGTH]!r}.",
            f"{_suggest(unknown, properties)} To send any name, write all arguments as one JSON object.",
        )


def _declared_names(schema: Raw) -> tuple[str, ...]:
    """Return the only names that *schema* allows, or () if it may allow others."""
    try:
        whole = loads(schema)
    except MalformedMessage:
        return ()
    if not isinstance(whole, dict):
        return ()
    members = cast("dict[str, Any]", whole)
    properties, additional = members.get("properties"), members.get("additionalProperties", False)
    if not isinstance(properties, dict) or additional is not False or not _OPEN_KEYWORDS.isdisjoint(members):
        return ()
    return tuple(cast("dict[str, Any]", properties))


def _suggest(name: str, known: tuple[str, ...]) -> str:
    """Return a sentence with the most similar of the *known* names, or with all if none is similar."""
    from difflib import get_close_matches

    compared = [one for one in known if len(one) <= _MAX_LENGTH][:_MAX_COMPARED]
    by_key = {one.lower(): one for one in reversed(compared)}
    if near := get_close_matches(name[:_MAX_LENGTH].lower(), by_key, 1):
        return f"Did you mean {by_key[near[0]]!r}?"
    shown = ", ".join(repr(one) for one in compared[:_MAX_SHOWN])
    more = len(known) - min(len(compared), _MAX_SHOWN)
    return f"Its arguments: {shown}, and {more} more." if more else f"Its arguments: {shown}."
