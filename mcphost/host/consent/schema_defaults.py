"""Default values that a tool's input schema declares for arguments."""

from functools import lru_cache
from typing import Any, cast

from mcphost.serialization import Raw, as_object, find_member, loads_or_none

_MAX_ALTERNATIVES = 1_000
_COMBINING_LISTS = ("allOf", "anyOf", "oneOf")


def find_defaults(definition: Raw, arguments: dict[str, Any], path: tuple[str, ...]) -> list[Any] | None:
    """Return the default values of the argument at *path*, which is missing from *arguments*; [] if there are none.

    *definition* is the tool's definition as JSON. Several defaults are returned if alternatives of the schema, such as
    those in `allOf` or `anyOf`, declare them. If an entire object is missing, its default takes precedence over the
    defaults of its members, except members that it lacks: many validators then use the member's own default. Returns
    None if the schema has too many alternatives to compare.
    """
    root = _decode_input_schema(bytes(definition))
    schemas = _find_alternatives(root, [root])
    members: Any = arguments
    values: list[Any] = []
    for at, name in enumerate(path):
        named = [as_object(as_object(schema.get("properties")).get(name)) for schema in schemas]
        schemas = _find_alternatives(root, named)
        if len(schemas) > _MAX_ALTERNATIVES:
            return None
        members = as_object(members).get(name)
        defaults = [schema["default"] for schema in schemas if schema.get("default") is not None]
        if members is None and defaults:
            values += [find_member(default, path[at + 1 :]) for default in defaults]
            if None not in values:
                return values
    return [value for value in values if value is not None]


@lru_cache(1)
def _decode_input_schema(definition: bytes) -> dict[str, Any]:
    """Return the input schema, or {} if it declares no default; cached, because a call is compared with many rules."""
    if b'"default"' not in definition and b"\\u" not in definition:
        return {}
    return as_object(find_member(loads_or_none(definition), ("inputSchema",)))


def _find_alternatives(root: dict[str, Any], schemas: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return *schemas* and the schemas that they refer to or combine; stop after more than _MAX_ALTERNATIVES.

    Only references within the same document (*root*), such as `#/$defs/Options`, are followed. A default beside a
    reference replaces the default of its target.
    """
    found: list[dict[str, Any]] = []
    seen: set[tuple[int, int]] = set()
    expanded: set[int] = set()
    pending: list[tuple[dict[str, Any], dict[str, Any]]] = [(schema, {}) for schema in reversed(schemas)]
    while pending and len(found) <= _MAX_ALTERNATIVES:
        schema, nearer = pending.pop()
        default = nearer or ({"default": schema["default"]} if "default" in schema else {})
        key = (id(schema), id(default["default"]) if default else 0)
        if not schema or key in seen:
            continue
        seen.add(key)
        # No full copy: a schema with many members can be the target of many references.
        found.append({"properties": schema.get("properties"), **nearer} if nearer else schema)
        reference = schema.get("$ref")
        if isinstance(reference, str) and reference.startswith("#/"):
            names = [name.replace("~1", "/").replace("~0", "~") for name in reference[2:].split("/")]
            pending.append((as_object(find_member(root, names)), default))
        if id(schema) in expanded:
            continue
        expanded.add(id(schema))
        for name in _COMBINING_LISTS:
            inner = schema.get(name)
            items = cast("list[Any]", inner) if isinstance(inner, list) else []
            pending.extend((as_object(item), {}) for item in items)
        pending.extend((as_object(schema.get(name)), {}) for name in ("then", "else"))
    return found
