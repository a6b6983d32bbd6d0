"""Simplification of tool schemas, for providers that refuse the server's own.

Providers support different parts of JSON Schema: OpenAI requires an object without alternatives at the top level, and
`items` for each array; Gemini knows few keywords and no `$ref`; Anthropic refuses some property names. The simpler
schemas use only what all of them accept. Arguments are still checked against the server's own schema before a call, so
simplification permits nothing more. Does no I/O.
"""

import re
from typing import Any, cast

from mcphost.errors import MalformedMessage
from mcphost.llm.model import ToolSpec
from mcphost.serialization import Raw, encode, loads, replace

MAX_DEPTH = 12
"""Levels of a schema that are kept; anything deeper may be any value."""
MAX_NODES = 2_000
"""Maximum number of subschemas and enum values that are kept, counting repeated ones."""
MAX_TEXT = 1_000
"""Maximum length of a description, which is truncated, and of an enum value."""
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_TYPES = ("object", "array", "string", "number", "integer", "boolean")
_ALTERNATIVES = ("anyOf", "oneOf")
Json = dict[str, Any]


def simplify_tool(tool: ToolSpec) -> ToolSpec | None:
    """Return the tool with a simpler schema, or None if there is nothing to simplify."""
    try:
        own: Any = loads(tool.schema) if bytes(tool.schema) else {}
    except MalformedMessage:
        own = {}
    schema = cast("Json", own) if isinstance(own, dict) else {}
    simple = _Simplifier(schema).simplify_top()
    return None if simple == own else replace(tool, schema=Raw(encode(simple)))


class _Simplifier:
    def __init__(self, root: Json) -> None:
        self._root = root
        self._left = MAX_NODES

    def simplify_top(self) -> Json:
        """Return the root as an object schema, with the properties of its alternatives as optional ones."""
        merged = self._merge(self._root, 0)
        simple = self._simplify(merged | {"type": "object"}, 0)
        empty: Json = {"type": "object", "properties": {}}
        return empty | simple

    def _simplify(self, schema: Any, depth: int) -> Json:
        self._left -= 1
        if depth > MAX_DEPTH or self._left < 0 or not isinstance(schema, dict):
            return {}
        members = self._resolve(cast("Json", schema))
        if "allOf" in members:
            members = self._merge(members, depth)
        simple: Json = {}
        if isinstance(about := members.get("description"), str):
            simple["description"] = about[:MAX_TEXT]
        branches = [branch for key in _ALTERNATIVES for branch in _list(members.get(key)) if not _is_null(branch)]
        if branches and "type" not in members:
            kept = [one for branch in branches if (one := self._simplify(branch, depth + 1))]
            return simple | (kept[0] if len(kept) == 1 else {"anyOf": kept} if kept else {})
        kind = self._find_type(members)
        if kind:
            simple["type"] = kind
        values = [members["const"]] if "const" in members else _list(members.get("enum"))
        if (
            values
            and len(values) <= self._left
            and all(isinstance(one, str) and len(one) <= MAX_TEXT for one in values)
        ):
            self._left -= len(values)
            simple |= {"type": "string", "enum": values}
        elif kind == "array":
            simple["items"] = self._simplify(members.get("items"), depth + 1) or {"type": "string"}
        elif kind == "object":
            simple |= self._simplify_properties(members, depth)
        return simple

    def _simplify_properties(self, members: Json, depth: int) -> Json:
        properties = _dict(members.get("properties"))
        simple = {
            name: self._simplify(value, depth + 1) or {"type": "string"}
            for name, value in properties.items()
            if _NAME.fullmatch(name)
        }
        required = [name for name in _list(members.get("required")) if isinstance(name, str) and name in simple]
        return {"properties": simple} | ({"required": list(dict.fromkeys(required))} if required else {})

    def _merge(self, schema: Json, depth: int) -> Json:
        """Merge the properties of `allOf`, `anyOf` and `oneOf` into a schema.

        A property is required only if the schema itself or `allOf` requires it.
        """
        members = self._resolve(schema)
        merged: Json = {key: value for key, value in members.items() if key not in (*_ALTERNATIVES, "allOf", "not")}
        properties: Json = {}
        required: list[Any] = list(_list(members.get("required")))
        for key in ("allOf", *_ALTERNATIVES):
            for branch in _list(members.get(key)):
                self._left -= 1
                if depth > MAX_DEPTH or self._left < 0 or not isinstance(branch, dict):
                    continue
                inner = self._merge(cast("Json", branch), depth + 1)
                properties |= _dict(inner.get("properties"))
                if key == "allOf":
                    required += _list(inner.get("required"))
                    merged = {name: value for name, value in inner.items() if name != "required"} | merged
        properties |= _dict(members.get("properties"))
        found: Json = {"properties": properties, "required": required}
        return merged | {key: value for key, value in found.items() if value}

    def _resolve(self, schema: Json) -> Json:
        """Replace a local `$ref` with its target; a circular or broken reference is dropped."""
        for _ in range(MAX_DEPTH):
            reference = schema.get("$ref")
            if not isinstance(reference, str):
                return schema
            found: Any = self._root
            for word in reference.removeprefix("#/").split("/") if reference.startswith("#/") else [""]:
                found = _dict(found).get(word.replace("~1", "/").replace("~0", "~"))
            schema = _dict(found) | {key: value for key, value in schema.items() if key != "$ref"}
        return {}

    def _find_type(self, members: Json) -> str:
        kinds = [members.get("type")] if isinstance(members.get("type"), str) else _list(members.get("type"))
        known = [kind for kind in kinds if kind in _TYPES]
        implied = "object" if "properties" in members else "array" if "items" in members else ""
        return known[0] if known else implied


def _is_null(schema: Any) -> bool:
    return _dict(schema).get("type") == "null"


def _dict(value: Any) -> Json:
    return cast("Json", value) if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []
