"""Tool parameters with an `x-mcp-header` annotation, whose arguments are also sent as HTTP headers.

Specification 2026-07-28, basic/transports/streamable-http#custom-headers-from-tool-parameters.
"""

import re
from collections.abc import Mapping
from typing import Any, cast

from mcphost.errors import MalformedMessage
from mcphost.protocol.tools import CallTool
from mcphost.serialization import Raw, Struct, WireStruct, decode_or_none, loads

ANNOTATION = "x-mcp-header"
PREFIX = "Mcp-Param-"
SAFE_INTEGER = 2**53 - 1
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,200}")
_TYPES = frozenset({"string", "integer", "boolean"})
_DATA_KEYWORDS = frozenset({"default", "const", "enum", "examples"})
_MAX_NODES = 10_000
_MAX_DEPTH = 64

ArgumentPath = tuple[str, ...]


class ParameterHeaders(Struct, frozen=True):
    """The parameter headers of a tool: pairs of an argument path and a header name without `Mcp-Param-`."""

    headers: tuple[tuple[ArgumentPath, str], ...] = ()

    def header_values(self, call: CallTool) -> dict[str, str]:
        """Return the values of the parameter headers for a tool call, keyed by header name with `Mcp-Param-`.

        The values are not encoded yet. Missing and null arguments are omitted. Raises MalformedMessage if an
        argument cannot be sent in a header.
        """
        if not self.headers:
            return {}
        arguments = call.arguments if isinstance(call.arguments, dict) else loads(call.arguments)
        values = ((name, _argument_at(arguments, path)) for path, name in self.headers)
        return {PREFIX + name: _format_value(value, name) for name, value in values if value is not None}


class _Definition(WireStruct, frozen=True):
    name: str = ""
    input_schema: Raw = Raw()


def parse_parameter_headers(definition: Raw) -> tuple[str, ParameterHeaders]:
    """Return the name and the parameter headers of a tool, given its JSON *definition*.

    Raises MalformedMessage with the name of the tool if an annotation is invalid. A definition that cannot be decoded
    is treated as having no headers; the code that lists tools reports the problem.
    """
    tool = decode_or_none(definition, _Definition)
    if tool is None:
        return "", ParameterHeaders()
    if ANNOTATION.encode() not in bytes(tool.input_schema):
        return tool.name, ParameterHeaders()
    walk = _AnnotationFinder()
    try:
        walk.visit(loads(tool.input_schema), (), reachable=True)
    except MalformedMessage as error:
        raise MalformedMessage(f"The tool {tool.name[:200]!r} was left out: {error.message}.") from error
    return tool.name, ParameterHeaders(tuple(walk.headers.items()))


class _AnnotationFinder:
    """Collector of the `x-mcp-header` annotations in a schema; an invalid one raises MalformedMessage."""

    def __init__(self) -> None:
        self.headers: dict[ArgumentPath, str] = {}
        self._used_names: set[str] = set()
        self._nodes = 0

    def visit(self, node: Any, path: ArgumentPath, *, reachable: bool, depth: int = 0) -> None:
        self._nodes += 1
        if self._nodes > _MAX_NODES or depth > _MAX_DEPTH:
            raise MalformedMessage("its schema is too large to look for annotations")
        if isinstance(node, list):
            for item in cast("list[Any]", node):
                self.visit(item, path, reachable=False, depth=depth + 1)
            return
        if not isinstance(node, dict):
            return
        schema = cast("dict[str, Any]", node)
        if ANNOTATION in schema:
            self._add_header(schema, path, reachable)
        for key, value in schema.items():
            if key in _DATA_KEYWORDS or key == ANNOTATION:
                continue
            if key == "properties" and isinstance(value, dict):
                for name, inner in cast("dict[str, Any]", value).items():
                    self.visit(inner, (*path, name), reachable=reachable, depth=depth + 1)
            else:
                self.visit(value, path, reachable=False, depth=depth + 1)

    def _add_header(self, schema: dict[str, Any], path: ArgumentPath, reachable: bool) -> None:
        name = schema[ANNOTATION]
        if not isinstance(name, str) or not _TOKEN.fullmatch(name):
            raise MalformedMessage(f"{ANNOTATION} {str(name)[:60]!r} is not a header name")
        if not reachable or not path:
            raise MalformedMessage(f"{ANNOTATION} {name!r} is at a place that does not identify a single argument")
        if schema.get("type") not in _TYPES:
            raise MalformedMessage(f"{ANNOTATION} {name!r} is on a value that is not a string, integer or boolean")
        if name.lower() in self._used_names:
            raise MalformedMessage(f"{ANNOTATION} {name!r} is used twice")
        self._used_names.add(name.lower())
        self.headers[path] = name


def _argument_at(arguments: Mapping[str, Any], path: ArgumentPath) -> Any:
    value: Any = arguments
    for name in path:
        if not isinstance(value, dict):
            return None
        value = cast("dict[str, Any]", value).get(name)
    return value


def _format_value(value: Any, name: str) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case int() if abs(value) <= SAFE_INTEGER:
            return str(value)
        case float() if value.is_integer() and abs(value) <= SAFE_INTEGER:
            return str(int(value))
        case str():
            return value
        case _:
            error = MalformedMessage(f"The argument for the header {PREFIX}{name} cannot be sent in a header.")
            error.may_have_run = False
            raise error
