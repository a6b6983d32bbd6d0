"""Tools whose definitions a provider refuses: detection, and a search with test requests."""

import re
from collections.abc import Awaitable, Callable, Sequence

from mcphost.llm.model import ToolSpec
from mcphost.llm.simple_schemas import simplify_tool
from mcphost.llm.worker_protocol import CallFailure
from mcphost.serialization import Struct, replace

MAX_PROBES = 48
"""Maximum number of test requests; to find one refused tool among 128 takes 14, to find three takes 42."""

_DEFINITION_PATTERN = re.compile(
    r"invalid schema for function|invalid_function_parameters|function_declarations\[|tools[.\[]\d|"
    r"tools?[ ._-](?:schema|definition|parameter|name)|input_schema|parameters schema|function[ ._-](?:name|parameter)|"
    r"json schema|\$defs|\$ref|schema[^\n]{0,40}(?:invalid|not supported|unsupported|must)",
    re.IGNORECASE,
)
"""How OpenAI, Anthropic, Google, Mistral and OpenAI-compatible servers describe a tool definition that they refuse."""

_INDEX_PATTERN = re.compile(r"(?:tools|function_declarations)(?:\[(\d{1,4})\]|\.(\d{1,4})\b)")


class RefusedTool(Struct, frozen=True):
    """A tool whose definition a provider refuses, with the provider's reason.

    `simple` is the tool with a simpler schema that the provider accepts, or None if there is none.
    """

    spec: ToolSpec
    reason: str
    simple: ToolSpec | None = None


ProbeFn = Callable[[Sequence[ToolSpec]], Awaitable[str]]
"""Sends a small request with tools; returns the provider's reason for refusing one, or "" if it accepts them all."""


def refuses_definition(failure: CallFailure) -> bool:
    """Return whether a provider refused a request because of a tool's definition."""
    return failure.status in (400, 422) and _DEFINITION_PATTERN.search(failure.message) is not None


async def find_refused_tools(tools: Sequence[ToolSpec], reason: str, probe: ProbeFn) -> tuple[RefusedTool, ...]:
    """Return the tools that the provider refuses; *reason* is its message about all *tools*.

    Tools named in the message are tested first, then halves of the list, with at most MAX_PROBES requests. The result
    is empty if the refusal cannot be narrowed down. May be cancelled; raises what *probe* raises.
    """
    finder = _Finder(probe)
    suspects = _find_named(tools, reason)
    found = [RefusedTool(spec, why) for spec in suspects if (why := await finder.probe([spec]))]
    names = {refused.spec.name for refused in found}
    rest = [spec for spec in tools if spec.name not in names]
    if not found or (rest and await finder.probe(rest)):
        found += await finder.search(rest, reason)
    return tuple(found)


async def simplify_refused(refused: RefusedTool, probe: ProbeFn) -> RefusedTool:
    """Test a simpler schema for a refused tool with one request, and add it if the provider accepts it."""
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
        """Return the refused tools among *tools*; a request with all of them was refused for *reason*."""
        if len(tools) <= 1:
            return [RefusedTool(spec, reason) for spec in tools]
        middle = len(tools) // 2
        found: list[RefusedTool] = []
        for half in (tools[:middle], tools[middle:]):
            if why := await self.probe(half):
                found += await self.search(half, why)
        return found


def _find_named(tools: Sequence[ToolSpec], reason: str) -> list[ToolSpec]:
    """Return the tools that an error message names, by index or in quotes."""
    places = [int(first or second) for first, second in _INDEX_PATTERN.findall(reason[:2_000])]
    named = [tools[place] for place in dict.fromkeys(places) if place < len(tools)]
    return named or [spec for spec in tools if any(f"{mark}{spec.name}{mark}" in reason for mark in "'\"`")][:2]
