"""What is said of a schema before anybody tries to check something against it."""

from pathlib import Path
from typing import Any

import pytest

from mcphost.sandbox.schema_limits import DEPTH, DIALECTS, NODES, SIZE, fault, outside, too_much
from mcphost.serialization import Raw, encode


def raw(schema: Any) -> Raw:
    return Raw(encode(schema))


def nested(levels: int) -> Raw:
    return Raw(b'{"not":' * (levels - 1) + b"{}" + b"}" * (levels - 1))


@pytest.mark.req("base.schema.bounds")
def test_a_schema_that_is_too_large_too_deep_or_of_too_many_parts_is_not_looked_into() -> None:
    assert "256 kB" in fault(raw({"description": "x" * 10_000_000}))
    assert fault(nested(DEPTH)) == ""
    assert f"{DEPTH} levels" in fault(nested(DEPTH + 1))
    assert f"{DEPTH} levels" in fault(Raw(b"[" * 100_000))
    assert f"{NODES:,} parts" in fault(raw({"enum": [0] * NODES}))
    assert too_much(raw({"description": "x" * (SIZE + 1)}))


def test_brackets_inside_of_texts_do_not_count_as_depth() -> None:
    assert fault(raw({"description": '[{"\\' * 200, "enum": ["}" * 200]})) == ""


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
    assert fault(raw({"$schema": dialect})) == ""


@pytest.mark.req("base.schema.declared-dialect")
@pytest.mark.parametrize("dialect", ["https://example.com/mine", "http://json-schema.org/draft-99/schema#", 7, ["x"]])
def test_a_dialect_that_nobody_knows_is_named(dialect: object) -> None:
    said = fault(raw({"$schema": dialect}))
    assert str(dialect) in said
    assert "2020-12" in said


@pytest.mark.parametrize("text", [b"[]", b'"x"', b"3", b"null"])
def test_only_objects_and_booleans_are_schemas(text: bytes) -> None:
    assert "neither an object" in fault(Raw(text))


def test_true_and_false_are_schemas() -> None:
    assert fault(Raw(b"true")) == fault(Raw(b"false")) == ""


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
    assert outside(raw(schema))
    escaped = bytes(raw(schema)).replace(b"$", b"\\u0024").replace(b"https:", b"ht\\u0074ps:")
    assert outside(Raw(escaped)), "however it is written"


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
def test_what_only_looks_like_such_a_reference_is_none(schema: dict[str, Any]) -> None:
    assert outside(raw(schema)) == ""


@pytest.mark.req("base.schema.dialect-docs")
def test_the_documentation_lists_every_dialect_and_limit() -> None:
    page = Path(__file__).parents[3].joinpath("docs", "schemas.md").read_text(encoding="utf-8")
    for dialect in DIALECTS:
        assert dialect in page
        name = f"{dialect}/schema" if dialect.startswith("draft") else f"draft/{dialect}/schema"
        assert fault(raw({"$schema": f"https://json-schema.org/{name}"})) == ""
    for limit in (f"{SIZE // 1024} kB", f"{DEPTH} levels", f"{NODES:,}"):
        assert limit in page
