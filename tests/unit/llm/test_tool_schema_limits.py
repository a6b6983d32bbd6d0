"""Tests for the work that a hostile input schema causes before it is sent to a provider."""

import time
from typing import Any

import pytest

from mcphost.llm.tool_schemas import MAX_NODES, adapt_schema, find_dialect
from mcphost.serialization import encode
from tests.fakes.schemas import an_object

PROVIDERS = ("openai", "anthropic", "bedrock", "gemini", "ollama")
NAMES = [f"p{number}" for number in range(20_000)]
REFERENCE = {"$ref": "#/$defs/shared"}
REFERENCES = [REFERENCE] * (MAX_NODES - 100)
MANY_ARGUMENTS = {f"a{number}": REFERENCE for number in range(MAX_NODES - 100)}
LINKS = {f"r{number}": {"$ref": f"#/properties/r{number + 1}"} for number in range(20)}
CASES: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"required": NAMES}, {"allOf": REFERENCES}),
    ({"properties": {name: {} for name in NAMES}}, {"allOf": REFERENCES}),
    (dict.fromkeys(NAMES, 0), {"allOf": REFERENCES}),
    ({"required": NAMES}, an_object(a={"type": "object", "anyOf": REFERENCES})),
    ({"type": "object", "required": NAMES}, {"properties": MANY_ARGUMENTS}),
    ({"type": ["string"] * 20_000}, {"properties": MANY_ARGUMENTS}),
    ({"anyOf": [{"type": "null"}] * 9_000}, {"properties": MANY_ARGUMENTS}),
    ({"enum": NAMES}, {"properties": MANY_ARGUMENTS}),
    (an_object(**{"n" * 3_000_000: {}}), {"properties": MANY_ARGUMENTS}),
    ({"$ref": f"#/$defs{'/a' * 100_000}"}, {"properties": MANY_ARGUMENTS}),
    ({**dict.fromkeys(NAMES, 0), "$ref": "#/properties/r0"}, {"properties": MANY_ARGUMENTS | LINKS}),
]


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize(("shared", "user"), CASES)
def test_references_to_a_large_schema_take_little_time(provider: str, shared: Any, user: Any) -> None:
    schema = {"type": "object", **user, "$defs": {"shared": shared}}
    start = time.thread_time()
    assert adapt_schema(schema, find_dialect(provider, ""))["type"] == "object"
    assert time.thread_time() - start < 3


@pytest.mark.parametrize("provider", ["bedrock", "gemini", "ollama"])
def test_a_long_name_behind_many_references_is_not_repeated(provider: str) -> None:
    name = "n" * 100_000
    shared = {**an_object(**{name: {"type": "string"}}), "required": [name]}
    schema = {"type": "object", "properties": MANY_ARGUMENTS, "$defs": {"shared": shared}}
    assert len(encode(adapt_schema(schema, find_dialect(provider, "")))) < 1_000_000


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_large_schema_without_repetitions_keeps_its_arguments(provider: str) -> None:
    parts = [{**an_object(**{f"a{part}_{number}": {"type": "string"} for number in range(30)})} for part in range(20)]
    adapted = adapt_schema({"allOf": parts}, find_dialect(provider, ""))
    assert len(adapted["properties"]) == 600
