"""Checks that an untrusted JSON schema must pass before it is used: size, depth, number of values, and dialect.

This module also finds references to other documents.
"""

import re
from collections.abc import Iterator
from typing import Any, cast

from mcphost.errors import MalformedMessage
from mcphost.serialization import Raw, loads, nesting_depth

MAX_SCHEMA_SIZE = 256 * 1024
MAX_SCHEMA_DEPTH = 64
MAX_SCHEMA_NODES = 10_000
# A plain reference to another document, or any escape sequence, which may spell one.
_EXTERNAL_REFERENCE = re.compile(rb'\\|"\$(?:ref|dynamicRef|recursiveRef)"\s*:\s*"[^#"]')
_REFERENCE_END = b'ef"'
"""Bytes that every schema with a reference keyword contains, unless the keyword is written with an escape sequence."""
_REFERENCE_KEYWORDS = ("$ref", "$dynamicRef", "$recursiveRef")
# The values of these keywords are data and not schemas.
_DATA_KEYWORDS = frozenset({"const", "default", "enum", "examples"})
# The values of these keywords map names to schemas: there, a member called `$ref` is a property and not a reference.
_SUBSCHEMA_MAP_KEYWORDS = frozenset(
    {"properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies"}
)
_CONTAINER_TYPES = frozenset({dict, list})
DIALECTS = ("2020-12", "2019-09", "draft-07", "draft-06", "draft-04")
_DIALECT = re.compile(
    r"https?://json-schema\.org/(?:draft/(?P<new>2020-12|2019-09)|(?P<old>draft-0[467]))/schema#?", re.ASCII
)


def find_size_problem(schema: bytes | Raw) -> str:
    """Return the reason why a schema is too large or too deeply nested, or "" if it is neither.

    The reason is a phrase, such as "it is over 256 kB". The schema is not decoded.
    """
    raw = bytes(schema)
    if len(raw) > MAX_SCHEMA_SIZE:
        return f"it is over {MAX_SCHEMA_SIZE // 1024} kB"
    # Most schemas have fewer brackets than the allowed depth; counting brackets is fifty times faster.
    deep = (
        raw.count(b"{") + raw.count(b"[") > MAX_SCHEMA_DEPTH and nesting_depth(raw, MAX_SCHEMA_DEPTH) > MAX_SCHEMA_DEPTH
    )
    return f"it is nested over {MAX_SCHEMA_DEPTH} levels" if deep else ""


def find_schema_problem(schema: bytes | Raw) -> str:
    """Return the reason why a schema cannot be used, or "" if it can be used.

    The reason is a phrase, such as "it is not valid JSON". The default dialect is JSON Schema 2020-12
    (specification 2025-11-25, basic#json-schema-usage). Unknown dialects are rejected. References to other
    documents are rejected later, by the worker process, so that nothing is ever downloaded.
    """
    problem = find_size_problem(schema)
    if problem:
        return problem
    try:
        value = loads(schema, "schema")
    except MalformedMessage:
        return "it is not valid JSON"
    if not isinstance(value, dict | bool):
        return "it is neither an object nor true or false"
    if isinstance(value, bool):
        return ""
    dialect = cast("dict[str, Any]", value).get("$schema")
    if dialect is not None and (not isinstance(dialect, str) or not _DIALECT.fullmatch(dialect)):
        return f"its dialect {str(dialect)[:200]!r} is not one of {', '.join(DIALECTS)}"
    nodes = 0
    for nodes, _ in enumerate(_iter_values(value), 1):
        if nodes > MAX_SCHEMA_NODES:
            return f"it has over {MAX_SCHEMA_NODES:,} parts"
    return ""


def find_external_reference(schema: bytes | Raw) -> str:
    """Return the first reference to another document, or "" if there is none or the schema is invalid."""
    raw = bytes(schema)
    if _REFERENCE_END not in raw and b"\\" not in raw:
        return ""  # as in most schemas; searching for the pattern takes ten times as long
    if not _EXTERNAL_REFERENCE.search(raw) or find_size_problem(raw):
        return ""
    try:
        value = loads(schema, "schema")
    except MalformedMessage:
        return ""
    known_ids: set[str] = set()
    wanted: list[str] = []
    for part in _iter_subschemas(value):
        own = part.get("$id")
        if isinstance(own, str):
            known_ids.add(own.rstrip("#"))
        wanted += [ref for name in _REFERENCE_KEYWORDS if isinstance(ref := part.get(name), str)]
    for reference in wanted:
        address = reference.partition("#")[0]
        # The validator includes the meta-schemas of the dialects.
        if re.match(r"[A-Za-z][A-Za-z0-9+.-]*:", address) and address not in known_ids and not _DIALECT.match(address):
            return reference
    return ""


def _iter_values(value: Any) -> Iterator[Any]:
    """Yield *value* and all values nested in it, without recursion."""
    stack = [value]
    while stack:
        item = stack.pop()
        yield item
        if isinstance(item, dict):
            stack.extend(cast("dict[str, Any]", item).values())
        elif isinstance(item, list):
            stack.extend(cast("list[Any]", item))


def _iter_subschemas(value: Any) -> Iterator[dict[str, Any]]:
    """Yield *value*, if it is an object, and all objects nested in it that are schemas."""
    waiting: list[tuple[Any, bool]] = [(value, False)]
    while waiting:
        one, names = waiting.pop()
        if isinstance(one, list):
            waiting.extend((item, False) for item in cast("list[Any]", one) if type(item) in _CONTAINER_TYPES)
        elif isinstance(one, dict):
            members = cast("dict[str, Any]", one)
            if not names:
                yield members
            waiting.extend(
                (member, not names and name in _SUBSCHEMA_MAP_KEYWORDS)
                for name, member in members.items()
                if type(member) in _CONTAINER_TYPES and (names or name not in _DATA_KEYWORDS)
            )
