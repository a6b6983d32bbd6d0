"""Handling of tool definitions that a provider rejects although `tool_schemas` has adapted their schemas.

The rejected tools are identified with test requests. Their schemas are simplified, if possible, to keywords that all
providers accept. A simpler schema does not permit any additional calls, because arguments are still validated against
the server's own schema before a call. This module does no I/O itself.
"""

import re
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any, cast

from mcphost.errors import MalformedMessage
from mcphost.llm.argument_names import ARGUMENT_NAME, has_refused_name
from mcphost.llm.model import ToolSpec
from mcphost.llm.tool_schemas import COMBINATORS, COMMON, MAX_NODES, SUBSCHEMA_MAPS, Json, adapt_schema
from mcphost.llm.worker_protocol import CallFailure
from mcphost.serialization import Raw, Struct, encode, loads, replace

MAX_PROBES = 48
"""Maximum number of test requests; finding one refused tool among 128 takes 14, finding three takes 42."""

_DEFINITION_PATTERN = re.compile(
    r"invalid schema for function|invalid_function_parameters|function_declarations\[|tools[.\[]\d|"
    r"tools?[ ._-](?:schema|definition|parameter|name)|input_schema|parameters schema|function[ ._-](?:name|parameter)|"
    r"(?:invalid|unsupported|bad) (?:[\w-]{1,20} ){0,5}(?:schema|functions?|tools?)\b|"
    r"json schema|\$defs|\$ref|schema[^\n]{0,40}(?:invalid|not supported|unsupported|must)|function_?declaration|"
    r"request contains an invalid argument|(?:failed to parse|error parsing|invalid) grammar|jinja template",
    re.IGNORECASE,
)
"""Messages with which OpenAI, Anthropic, Google, Mistral and OpenAI-compatible servers refuse a tool definition.

Some of them may have another cause. A tool is only omitted if the provider refuses it in a test request as well.
"""

_GRAMMAR_PATTERN = re.compile(r"json schema conversion failed|(?:failed to parse|error parsing) grammar", re.IGNORECASE)
"""Messages, also with status 500, with which llama.cpp reports a schema that it cannot convert to a grammar."""

_INDEX_PATTERN = re.compile(r"(?:tools|function_declarations)(?:\[(\d{1,4})\]|\.(\d{1,4})\b)")

_SCHEMA_TYPES = frozenset({"array", "boolean", "integer", "null", "number", "object", "string"})
_DATA_KEYWORDS = frozenset({"const", "default", "enum", "examples"})


class RefusedTool(Struct, frozen=True):
    """A tool whose definition a provider rejects, and the provider's reason.

    `simple` is the same tool with a simpler schema that the provider accepts, or None if there is none.
    """

    spec: ToolSpec
    reason: str
    simple: ToolSpec | None = None


ProbeFn = Callable[[Sequence[ToolSpec]], Awaitable[str]]
"""Sends a small request with these tools; returns the provider's reason for rejecting a tool, or "" for none."""


def refuses_definition(failure: CallFailure) -> bool:
    """Return whether a request failed because the provider rejected a tool's definition."""
    if failure.status == 500:
        return _GRAMMAR_PATTERN.search(failure.message) is not None
    return failure.status in (400, 422) and _DEFINITION_PATTERN.search(failure.message) is not None


async def find_refused_tools(tools: Sequence[ToolSpec], reason: str, probe: ProbeFn) -> tuple[RefusedTool, ...]:
    """Return the tools in *tools* that the provider rejects, or () if they cannot be determined.

    *reason* is the provider's error message for a request with all *tools*. *probe* sends a test request with some of
    the tools. Tools that are named in *reason* are tested first. The other tools are then tested in groups; a rejected
    group is divided in half, and each half is tested. At most MAX_PROBES test requests are sent. Errors raised by
    *probe* propagate. Safe to cancel.
    """
    finder = _Finder(probe)
    suspects = _find_named(tools, reason)
    found = [RefusedTool(spec, why) for spec in suspects if (why := await finder.probe([spec]))]
    names = {refused.spec.name for refused in found}
    rest = [spec for spec in tools if spec.name not in names]
    is_certain = not found and len(rest) > 1  # the provider refused all of them in the request itself
    if is_certain or (rest and rest != suspects and await finder.probe(rest)):
        found += await finder.search(rest, reason)
    return tuple(found)


async def simplify_refused(refused: RefusedTool, probe: ProbeFn) -> RefusedTool:
    """Return the rejected tool, with `simple` set if the provider accepts a simpler schema.

    *probe* sends a test request to find out whether the provider accepts the simpler schema.
    """
    simple = simplify_tool(refused.spec)
    return refused if simple is None or await probe([simple]) else replace(refused, simple=simple)


class _Finder:
    def __init__(self, probe: ProbeFn) -> None:
        self._probe = probe
        self._left = MAX_PROBES

    async def probe(self, tools: Sequence[ToolSpec]) -> str:
        if not tools or self._left <= 0:
            return ""
        self._left -= 1
        return await self._probe(tools)

    async def search(self, tools: Sequence[ToolSpec], reason: str) -> list[RefusedTool]:
        """Return the rejected tools among *tools*; *reason* is the provider's error for a request with all of them."""
        if len(tools) <= 1:
            return [RefusedTool(spec, reason) for spec in tools]
        middle = len(tools) // 2
        found: list[RefusedTool] = []
        for half in (tools[:middle], tools[middle:]):
            if why := await self.probe(half):
                found += await self.search(half, why)
        return found


def _find_named(tools: Sequence[ToolSpec], reason: str) -> list[ToolSpec]:
    """Return the tools that an error message refers to, by index or by quoted name."""
    places = [int(first or second) for first, second in _INDEX_PATTERN.findall(reason[:2_000])]
    named = [tools[place] for place in dict.fromkeys(places) if place < len(tools)]
    return named or [spec for spec in tools if any(f"{mark}{spec.name}{mark}" in reason for mark in "'\"`")][:2]


def simplify_tool(tool: ToolSpec) -> ToolSpec | None:
    """Return the tool with a simpler schema, or None if the schema cannot be simplified.

    Arguments with unusual names are not renamed here; the worker does that.
    """
    try:
        own: Any = loads(tool.schema) if bytes(tool.schema) else {}
    except MalformedMessage:
        own = {}
    simple = adapt_schema(own, COMMON)
    if simple == own and (tool.is_simplified or not has_refused_name(simple)):
        return None
    return replace(tool, schema=Raw(encode(simple)), is_simplified=True)


def find_schema_problem(schema: Raw, provider: str) -> str:
    """Return the reason why a provider would reject a tool's input schema, or "" if none is known.

    The reason is a phrase, such as "an array without items". For a provider whose rules are unknown, the only
    requirement is an object schema. If *provider* is "", the rules of all providers apply.
    """
    try:
        root: Any = loads(schema) if bytes(schema) else {"type": "object"}
    except MalformedMessage:
        return "its input schema is not JSON"
    if not isinstance(root, dict) or cast("Json", root).get("type") != "object":
        return "its input is not an object"
    members = cast("Json", root)
    alternative = next((name for name in COMBINATORS if name in members), "")
    if alternative and provider in ("", "openai", "azure", "anthropic"):
        return f"{alternative} at the top of its schema"
    for node in _iter_nodes(members):
        if unknown := _find_unknown_type(node):
            return f"the type {unknown[:64]!r}, which JSON Schema does not have"
        if provider in ("", "openai", "azure", "gemini") and node.get("type") == "array" and "items" not in node:
            return "an array without items"
        properties = node.get("properties")
        if provider in ("", "anthropic") and isinstance(properties, dict):
            names = (str(name) for name in cast("Json", properties))
            if odd := next((name for name in names if not ARGUMENT_NAME.fullmatch(name)), None):
                return f"the property {odd[:64]!r}"
    return ""


def _find_unknown_type(node: Json) -> str:
    """Return a name in a schema's `type` that JSON Schema does not define, or "" if there is none."""
    own = node.get("type")
    names = cast("list[Any]", own) if isinstance(own, list) else [own]
    return next((name for name in names if isinstance(name, str) and name not in _SCHEMA_TYPES), "")


def _iter_nodes(root: Json) -> Iterator[Json]:
    """Yield the JSON objects in a schema, the outer ones first; at most MAX_NODES values are examined.

    The values of keywords such as `default` are left out, because they are not schemas.
    """
    waiting: list[tuple[Any, bool]] = [(root, False)]
    for _ in range(MAX_NODES):
        if not waiting:
            return
        node, is_map = waiting.pop(0)
        if isinstance(node, dict):
            members = cast("Json", node)
            yield members
            waiting += [
                (value, not is_map and name in SUBSCHEMA_MAPS)
                for name, value in members.items()
                if is_map or name not in _DATA_KEYWORDS
            ]
        elif isinstance(node, list):
            waiting += [(value, False) for value in cast("list[Any]", node)]
