"""Tests for checking a JSON schema itself, before any value is validated with it."""

from pathlib import Path
from typing import Any

import pytest

from mcphost.sandbox.schema_limits import (
    DIALECTS,
    MAX_SCHEMA_DEPTH,
    MAX_SCHEMA_NODES,
    MAX_SCHEMA_SIZE,
    find_external_reference,
    find_schema_problem,
    find_size_problem,
)
from mcphost.serialization import Raw
from tests.unit.sandbox.schemas import encode_schema


def nested_schema(levels: int) -> Raw:
    return Raw(b'{"not":' * (levels - 1) + b"{}" + b"}" * (levels - 1))


@pytest.mark.req("base.schema.bounds")
def test_a_schema_that_is_too_large_too_deep_or_of_too_many_parts_is_not_looked_into() -> None:
    assert "256 kB" in find_schema_problem(encode_schema({"description": "x" * 10_000_000}))
    assert find_schema_problem(nested_schema(MAX_SCHEMA_DEPTH)) == ""
    assert f"{MAX_SCHEMA_DEPTH} levels" in find_schema_problem(nested_schema(MAX_SCHEMA_DEPTH + 1))
    assert f"{MAX_SCHEMA_DEPTH} levels" in find_schema_problem(Raw(b"[" * 100_000))
    assert f"{MAX_SCHEMA_NODES:,} parts" in find_schema_problem(encode_schema({"enum": [0] * MAX_SCHEMA_NODES}))
    assert find_size_problem(encode_schema({"description": "x" * (MAX_SCHEMA_SIZE + 1)}))


def test_brackets_inside_of_texts_do_not_count_as_depth() -> None:
    assert find_schema_problem(encode_schema({"description": '[{"\\' * 200, "enum": ["}" * 200]})) == ""


@pytest.mark.req("base.schema.default-dialect", "base.schema.declared-dialect", "base.schema.dialect-before")
@pytest.mark.parametrize(
    "dialect",
    [
        "https://json-schema.org/draft/2020-12/schema",
        "https://json-schema.org/draft/2019-09/schema#",
        "http://json-schema.org/draft-07/schema#",
        "http://json-schema.org/draft-06/schema",
        "http://json-schema.org/draft-04/schema#",
    ],
)
def test_a_dialect_that_is_known_is_fine(dialect: str) -> None:
    assert find_schema_problem(encode_schema({"$schema": dialect})) == ""


@pytest.mark.req("base.schema.declared-dialect")
@pytest.mark.parametrize("dialect", ["https://example.com/mine", "http://json-schema.org/draft-99/schema#", 7, ["x"]])
def test_an_unknown_schema_dialect_is_named(dialect: object) -> None:
    said = find_schema_problem(encode_schema({"$schema": dialect}))
    assert str(dialect) in said
    assert "2020-12" in said


@pytest.mark.parametrize("text", [b"[]", b'"x"', b"3", b"null"])
def test_only_objects_and_booleans_are_schemas(text: bytes) -> None:
    assert "neither an object" in find_schema_problem(Raw(text))


def test_true_and_false_are_schemas() -> None:
    assert find_schema_problem(Raw(b"true")) == find_schema_problem(Raw(b"false")) == ""


@pytest.mark.req("base.schema.no-network-ref", "base.schema.unresolved-ref")
@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "https://evil.example/x.json"},
        {"properties": {"a": {"$ref": "http://127.0.0.1:9/x#/$defs/a"}}},
        {"allOf": [{"$dynamicRef": "file:///etc/passwd"}]},
        {"$defs": {"$ref": {"items": {"$ref": "urn:elsewhere"}}}},
    ],
)
def test_a_reference_that_needs_a_download_is_found(schema: dict[str, Any]) -> None:
    assert find_external_reference(encode_schema(schema))
    escaped = bytes(encode_schema(schema)).replace(b"$", b"\\u0024").replace(b"https:", b"ht\\u0074ps:")
    assert find_external_reference(Raw(escaped)), "however it is written"


@pytest.mark.req("base.schema.preserve-keywords")
@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#/$defs/a", "$defs": {"a": {"type": "string"}}},
        {"properties": {"$ref": {"type": "string", "const": "https://x.example/"}}},
        {"default": {"$ref": "https://x.example/"}},
        {"$id": "https://x.example/root", "properties": {"a": {"$ref": "https://x.example/root#/$defs/b"}}},
        {"$defs": {"m": {"$ref": "https://json-schema.org/draft/2020-12/schema"}}},
        {"properties": {"a": {"$ref": "#anchor"}, "b": {"$anchor": "anchor"}}},
    ],
)
def test_text_that_only_resembles_a_reference_is_none(schema: dict[str, Any]) -> None:
    assert find_external_reference(encode_schema(schema)) == ""


@pytest.mark.req("base.schema.dialect-docs")
def test_the_documentation_lists_every_dialect_and_limit() -> None:
    page = Path(__file__).parents[3].joinpath("docs", "servers.md").read_text(encoding="utf-8")
    for dialect in DIALECTS:
        assert dialect in page
        name = f"{dialect}/schema" if dialect.startswith("draft") else f"draft/{dialect}/schema"
        assert find_schema_problem(encode_schema({"$schema": f"https://json-schema.org/{name}"})) == ""
    for limit in (f"{MAX_SCHEMA_SIZE // 1024} kB", f"{MAX_SCHEMA_DEPTH} levels", f"{MAX_SCHEMA_NODES:,}"):
        assert limit in page
