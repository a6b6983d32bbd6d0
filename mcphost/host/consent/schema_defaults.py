"""Default values that a tool's input schema declares for arguments."""

from functools import lru_cache
from typing import Any

from mcphost.serialization import Raw, as_object, find_member, loads_or_none

_MAX_REFERENCES = 10


def find_default(definition: Raw, arguments: dict[str, Any], path: tuple[str, ...]) -> Any:
    """Return the default value of the argument at *path*, which is missing from *arguments*; None if there is none.

    *definition* is the tool's definition as JSON. If an entire object is missing, its default takes precedence over the
    defaults of its members.
    """
    root = _decode_input_schema(bytes(definition))
    schema: dict[str, Any] = root
    members: Any = arguments
    for at, name in enumerate(path):
        schema = as_object(as_object(_resolve(root, schema).get("properties")).get(name))
        members = as_object(members).get(name)
        default = schema.get("default", _resolve(root, schema).get("default"))
        if members is None and default is not None:
            return find_member(default, path[at + 1 :])
    return None


@lru_cache(1)
def _decode_input_schema(definition: bytes) -> dict[str, Any]:
    """Return the input schema, or {} if it declares no default; cached, because a call is compared with many rules."""
    if b'"default"' not in definition and b"\\u" not in definition:
        return {}
    return as_object(find_member(loads_or_none(definition), ("inputSchema",)))


def _resolve(root: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema that the `$ref` of *schema* refers to, or *schema* itself if it has no `$ref`.

    Only references within the same document (*root*), such as `#/$defs/Options`, are followed. Returns {} after too
    many references.
    """
    for _ in range(_MAX_REFERENCES):
        reference = schema.get("$ref")
        if not isinstance(reference, str) or not reference.startswith("#/"):
            return schema
        names = [name.replace("~1", "/").replace("~0", "~") for name in reference[2:].split("/")]
        schema = as_object(find_member(root, names))
    return {}
