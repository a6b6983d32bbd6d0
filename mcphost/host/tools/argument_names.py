"""Check for misspellings in the argument names that a user typed, based on the tool's input schema."""

from collections.abc import Iterable
from typing import Any, cast

from mcphost.errors import UsageError, join_sentences
from mcphost.serialization import Raw, as_object, loads_or_none

_OPEN_KEYWORDS = frozenset({
    "patternProperties", "unevaluatedProperties", "propertyNames", "allOf", "anyOf", "oneOf", "not", "if", "then",
    "else", "dependentSchemas", "dependencies", "extends", "$ref", "$dynamicRef", "$recursiveRef",
})  # fmt: skip
"""JSON Schema keywords that may allow further names; schemas with one of them are not checked."""
ANY_NAME_HINT = "To send any name, write all arguments as one JSON object."
ARGS_OPTION_HINT = "To send any name, give the arguments as JSON to --args."
"""Hint that tells the user how to send an argument name that this check refuses."""
_MAX_SHOWN = 10
_MAX_COMPARED = 200
_MAX_LENGTH = 60


def check_argument_names(names: Iterable[str], schema: Raw) -> None:
    """Raise UsageError if one of *names* is probably a misspelt argument name.

    If the tool's input *schema* declares properties, a name that it does not mention is probably misspelt. JSON Schema
    allows other names by default, but a user who types one has most likely made a mistake. Nothing is checked if the
    schema explicitly allows further names, or combines other schemas.
    """
    known = _declared_names(schema)
    unknown = next((name for name in names if name not in known), None) if known else None
    if unknown is not None:
        raise UsageError(
            f"There is no argument {unknown[:_MAX_LENGTH]!r}.", join_sentences(_suggest(unknown, known), ANY_NAME_HINT)
        )


def _declared_names(schema: Raw) -> tuple[str, ...]:
    """Return all argument names that *schema* mentions, or () if it may allow others.

    These are the schema's properties and all names that it requires, always or together with another argument. Required
    names are included even if they are not among the properties.
    """
    members = as_object(loads_or_none(schema))
    properties, additional = members.get("properties"), members.get("additionalProperties", False)
    if not isinstance(properties, dict) or additional is not False or not _OPEN_KEYWORDS.isdisjoint(members):
        return ()
    declared, dependent = cast("dict[str, Any]", properties), members.get("dependentRequired")
    required = [members.get("required")]
    if isinstance(dependent, dict):
        required += cast("dict[str, Any]", dependent).values()
    lists = (cast("list[Any]", names) for names in required if isinstance(names, list))
    known = (*declared, *(name for names in lists for name in names if isinstance(name, str)))
    return tuple(dict.fromkeys(known)) if declared else ()


def _suggest(name: str, known: tuple[str, ...]) -> str:
    """Return a sentence that suggests the most similar of the *known* names or, if none is similar, lists them."""
    from difflib import get_close_matches

    compared = [one for one in known if len(one) <= _MAX_LENGTH][:_MAX_COMPARED]
    by_key = {one.lower(): one for one in reversed(compared)}
    if near := get_close_matches(name[:_MAX_LENGTH].lower(), by_key, 1):
        return f"Did you mean {by_key[near[0]]!r}?"
    shown = ", ".join(repr(one) for one in compared[:_MAX_SHOWN])
    more = len(known) - min(len(compared), _MAX_SHOWN)
    return f"Its arguments: {shown}, and {more} more." if more else f"Its arguments: {shown}."
