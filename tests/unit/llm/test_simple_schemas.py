"""Tests for simplified tool schemas that every provider accepts, without failures or unbounded growth."""

import json
from typing import Any

import pytest

from mcphost.llm.model import ToolSpec
from mcphost.llm.simple_schemas import MAX_NODES, simplify_tool
from mcphost.serialization import Raw

Schema = dict[str, Any]


def simplify(schema: Any) -> Any:
    """Return the simplified schema, or None."""
    simple = simplify_tool(ToolSpec("t", "T", Raw(json.dumps(schema).encode())))
    return None if simple is None else json.loads(bytes(simple.schema))


def an_object(**properties: Schema) -> Schema:
    return {"type": "object", "properties": properties}


TEXT: Schema = {"type": "string"}
NUMBER: Schema = {"type": "number", "description": "How many"}
CASES: dict[str, tuple[Schema, Schema]] = {
    "other keywords go": (
        {"$schema": "x", "title": "T", "additionalProperties": False, **an_object(a={**TEXT, "pattern": "^a"})},
        an_object(a=TEXT),
    ),
    "alternatives at the top": (
        {"oneOf": [{**an_object(a=TEXT), "required": ["a"]}, an_object(b=NUMBER)]},
        an_object(a=TEXT, b=NUMBER),
    ),
    "all of several": (
        {"allOf": [{**an_object(a=TEXT), "required": ["a"]}, an_object(b=NUMBER)], "required": ["b"]},
        {**an_object(a=TEXT, b=NUMBER), "required": ["b", "a"]},
    ),
    "references": (
        {**an_object(a={"$ref": "#/$defs/N"}), "$defs": {"N": NUMBER}},
        an_object(a=NUMBER),
    ),
    "a circle of references": (
        {**an_object(a={"$ref": "#/$defs/A"}), "$defs": {"A": {"$ref": "#/$defs/A"}}},
        an_object(a=TEXT),
    ),
    "a missing type of items": (an_object(a={"type": "array"}), an_object(a={"type": "array", "items": TEXT})),
    "a nullable value": (
        an_object(a={"anyOf": [NUMBER, {"type": "null"}]}, b={"type": ["null", "string"]}),
        an_object(a=NUMBER, b=TEXT),
    ),
    "alternatives within": (
        an_object(a={"oneOf": [NUMBER, {**TEXT, "format": "uri"}], "description": "D"}),
        an_object(a={"description": "D", "anyOf": [NUMBER, TEXT]}),
    ),
    "one value": (an_object(a={"const": "x"}), an_object(a={"type": "string", "enum": ["x"]})),
    "a name that providers refuse": (
        {**an_object(**{"a/b": TEXT, "c": TEXT}), "required": ["a/b", "c"]},
        {**an_object(c=TEXT), "required": ["c"]},
    ),
    "no object": ({"type": "string"}, {"type": "object", "properties": {}}),
}


@pytest.mark.parametrize("case", list(CASES))
def test_a_schema_is_written_with_what_every_provider_takes(case: str) -> None:
    schema, simple = CASES[case]
    assert simplify(schema) == simple
    assert simplify(simple) is None, "it is not simplified twice"


@pytest.mark.parametrize("schema", [True, [], 1, None, {"properties": 3}, {"type": 1, "anyOf": {}, "enum": "x"}])
def test_what_is_no_schema_becomes_an_empty_object(schema: Any) -> None:
    assert simplify(schema) == {"type": "object", "properties": {}}


def test_references_that_multiply_are_cut() -> None:
    doubled = {f"L{level}": an_object(a={"$ref": f"#/$defs/L{level + 1}"}, b={"$ref": f"#/$defs/L{level + 1}"})
               for level in range(40)}  # fmt: skip
    simple = simplify({"$ref": "#/$defs/L0", "$defs": doubled})
    assert json.dumps(simple).count('"type"') <= 2 * MAX_NODES


def test_long_texts_that_are_repeated_are_cut() -> None:
    text: Schema = {"type": "string", "enum": ["x" * 500] * 50, "description": "d" * 5_000}
    long = an_object(**{f"p{at}": text for at in range(40)})
    schema = an_object(**{f"q{at}": {"$ref": "#/$defs/B"} for at in range(400)}) | {"$defs": {"B": long}}
    assert len(json.dumps(simplify(schema))) < 4_000_000


def test_alternatives_that_multiply_are_cut() -> None:
    doubled = {f"L{level}": {"allOf": [{"$ref": f"#/$defs/L{level + 1}"}] * 3} for level in range(40)}
    assert simplify({"$ref": "#/$defs/L0", "$defs": doubled}) == {"type": "object", "properties": {}}
