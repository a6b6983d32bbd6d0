"""Parts of tool definitions that providers are known to refuse, for a warning before a model is asked.

Sources: OpenAI's "Function calling" and its messages for invalid schemas, Anthropic's reference of `tools` in Messages,
and Google's `FunctionDeclaration`. A refused definition is offered with a simpler schema anyway; see `refused_tools`.
Does no I/O.
"""

import re
from collections.abc import Iterator
from typing import Any, cast

from mcphost.errors import MalformedMessage
from mcphost.serialization import Raw, loads

_MAX_NODES = 2_000
_ALTERNATIVES = ("oneOf", "anyOf", "allOf")
_CLAUDE_PROPERTY = re.compile(r"[A-Za-z0-9_.-]{1,64}")
Json = dict[str, Any]


def find_schema_problem(schema: Raw, provider: str) -> str:
    """Return why a provider would refuse a tool's input schema, or "" if nothing is known to be wrong.

    For a provider without known rules, only an input that is not an object is a problem; for "", the rules of all
    providers apply.
    """
    try:
        root: Any = loads(schema) if bytes(schema) else {"type": "object"}
    except MalformedMessage:
        return "its input schema is not JSON"
    if not isinstance(root, dict) or cast("Json", root).get("type") != "object":
        return "its input is not an object"
    members = cast("Json", root)
    alternative = next((name for name in _ALTERNATIVES if name in members), "")
    if alternative and provider in ("", "openai", "azure", "anthropic"):
        return f"{alternative} at the top of its schema"
    for node in _iter_nodes(members):
        if provider in ("", "openai", "azure", "gemini") and node.get("type") == "array" and "items" not in node:
            return "an array without items"
        properties = node.get("properties")
        if provider in ("", "anthropic") and isinstance(properties, dict):
            names = (str(name) for name in cast("Json", properties))
            if odd := next((name for name in names if not _CLAUDE_PROPERTY.fullmatch(name)), None):
                return f"the property {odd[:64]!r}"
    return ""


def _iter_nodes(root: Json) -> Iterator[Json]:
    """Yield at most _MAX_NODES objects of a schema, the outer ones first."""
    waiting: list[Any] = [root]
    for _ in range(_MAX_NODES):
        if not waiting:
            return
        node = waiting.pop(0)
        if isinstance(node, dict):
            yield cast("Json", node)
            waiting += cast("Json", node).values()
        elif isinstance(node, list):
            waiting += cast("list[Any]", node)
