"""Outline of the JSON values that a schema allows, such as `[{"sku": string, "notes"?: string}]`."""

from collections.abc import Iterator, Sequence
from typing import Any, cast

from mcphost.serialization import as_object, dumps

MAX_OUTLINE = 300
"""Maximum length of an outline in characters; a longer one is cut off."""
_MAX_DEPTH = 4
_MAX_NODES = 60
_MAX_PARTS = 20
"""Maximum number of members of an object and of alternatives in an outline."""
_MAX_NAME = 40
_MAX_REQUIRED = 100
_SIMPLE_TYPES = ("string", "number", "integer", "boolean", "null")
_UNKNOWN = frozenset({"any", "object", "array", "[any]", "{…}"})
"""Outlines that tell the user no more than that the value is JSON."""


def outline_schema(schema: object, root: dict[str, Any]) -> str:
    """Return a short description of the JSON values that *schema* allows, or "" if little is known about them.

    Types have the names of JSON Schema, and "?" marks an optional member. *root* contains the definitions to which each
    `$ref` in *schema* points. Names and constants in the outline are unsanitized text from the server. The time is
    limited, whatever the schema contains.
    """
    outline = _Outliner(root).describe(schema, 0)
    if outline in _UNKNOWN:
        return ""
    return outline if len(outline) <= MAX_OUTLINE else f"{outline[:MAX_OUTLINE]}…"


def resolve_reference(reference: object, root: dict[str, Any]) -> dict[str, Any] | None:
    """Return the definition in *root* that the value of a `$ref` names, or None if there is no such definition."""
    if not isinstance(reference, str):
        return None
    _, _, pointer = reference.partition("#/")
    section, _, name = pointer.partition("/")
    target = as_object(root.get(section)).get(name) if section in ("$defs", "definitions") else None
    return cast("dict[str, Any]", target) if isinstance(target, dict) else None


class _Outliner:
    """Outlines the parts of one schema until the limit on their number is reached."""

    def __init__(self, root: dict[str, Any]) -> None:
        self._root = root
        self._nodes = 0

    def describe(self, schema: object, depth: int, kind: object = None) -> str:
        """Return the outline of *schema*, which is nested *depth* levels deep.

        If *schema* allows several types, *kind* limits the outline to one of them; None means no limit.
        """
        self._nodes += 1
        keywords = as_object(schema)
        if self._nodes > _MAX_NODES or depth > _MAX_DEPTH:
            return "…"
        if "$ref" in keywords:
            return self.describe(resolve_reference(keywords["$ref"], self._root), depth + 1)
        if "const" in keywords:
            return _describe_constant(keywords["const"])
        for keyword in ("enum", "anyOf", "oneOf"):
            if isinstance(choices := keywords.get(keyword), list):
                return self._describe_choices(cast("list[Any]", choices), keyword, depth)
        kind = keywords.get("type") if kind is None else kind
        if isinstance(kind, list):
            kinds = cast("list[Any]", kind)[:_MAX_PARTS]
            return " | ".join(dict.fromkeys(self.describe(keywords, depth + 1, one) for one in kinds)) or "any"
        if kind == "array":
            return f"[{self.describe(keywords.get('items'), depth + 1)}]"
        if kind == "object" or "properties" in keywords:
            return self._describe_object(keywords, depth)
        return kind if kind in _SIMPLE_TYPES else "any"

    def _describe_choices(self, choices: Sequence[Any], keyword: str, depth: int) -> str:
        parts = [
            _describe_constant(one) if keyword == "enum" else self.describe(one, depth + 1)
            for one in choices[:_MAX_PARTS]
        ]
        return " | ".join(dict.fromkeys([*parts, *(["…"] if len(choices) > _MAX_PARTS else [])])) or "any"

    def _describe_object(self, keywords: dict[str, Any], depth: int) -> str:
        properties = as_object(keywords.get("properties"))
        if properties:
            return f"{{{', '.join(self._describe_members(properties, keywords.get('required'), depth))}}}"
        others = as_object(keywords.get("additionalProperties"))
        return f"{{string: {self.describe(others, depth + 1)}}}" if others else "object"

    def _describe_members(self, properties: dict[str, Any], required: object, depth: int) -> Iterator[str]:
        names = cast("list[Any]", required)[:_MAX_REQUIRED] if isinstance(required, list) else []
        for number, (name, schema) in enumerate(properties.items()):
            if number == _MAX_PARTS or self._nodes >= _MAX_NODES:
                yield "…"
                return
            mark = "" if name in names else "?"
            yield f"{dumps(name[:_MAX_NAME])}{mark}: {self.describe(schema, depth + 1)}"


def _describe_constant(value: Any) -> str:
    if isinstance(value, str):
        return dumps(value[:_MAX_NAME])
    return "{…}" if isinstance(value, dict) else "[…]" if isinstance(value, list) else dumps(value)[:_MAX_NAME]
