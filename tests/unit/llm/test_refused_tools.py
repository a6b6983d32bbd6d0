"""Tests for tool definitions that a provider refuses: finding them, and simplifying their schemas."""

import json
from collections.abc import Sequence
from typing import Any

import pytest

from mcphost.llm.model import ToolSpec
from mcphost.llm.refused_tools import MAX_PROBES, find_refused_tools, refuses_definition, simplify_tool
from mcphost.llm.tool_schemas import MAX_NODES, MAX_TEXT
from mcphost.llm.worker_protocol import CallFailure
from mcphost.serialization import Raw
from tests.fakes.schemas import an_object

pytestmark = pytest.mark.anyio


def make_tools(count: int) -> list[ToolSpec]:
    return [ToolSpec(f"s__t{number}", "", Raw(b"{}")) for number in range(count)]


class Provider:
    """A provider that refuses requests with certain tools, always with the same message, and counts the requests."""

    def __init__(self, *bad: int) -> None:
        self.bad = {f"s__t{number}" for number in bad}
        self.requests = 0

    async def probe(self, tools: Sequence[ToolSpec]) -> str:
        self.requests += 1
        return "bad schema" if any(spec.name in self.bad for spec in tools) else ""


@pytest.mark.parametrize("bad", [(0,), (127,), (64,), (3, 4), (0, 127), (5, 50, 100)])
async def test_refused_tools_are_found_by_halves(bad: tuple[int, ...]) -> None:
    provider = Provider(*bad)
    found = await find_refused_tools(make_tools(128), "bad schema", provider.probe)
    assert {refused.spec.name for refused in found} == provider.bad
    assert provider.requests <= MAX_PROBES


async def test_a_named_tool_is_tried_first() -> None:
    for reason in ("tools.77.custom.input_schema: invalid", "Invalid schema for function 's__t77'", "tools[77]: bad"):
        provider = Provider(77)
        (refused,) = await find_refused_tools(make_tools(128), reason, provider.probe)
        assert (refused.spec.name, refused.reason, provider.requests) == ("s__t77", "bad schema", 2)


async def test_a_misleading_name_does_not_quarantine_a_good_tool() -> None:
    provider = Provider(5)
    (refused,) = await find_refused_tools(make_tools(8), "tools[3]: bad", provider.probe)
    assert refused.spec.name == "s__t5"


async def test_nothing_is_quarantined_if_no_tool_is_refused_alone() -> None:
    provider = Provider()
    assert await find_refused_tools(make_tools(16), "JSON schema", provider.probe) == ()


async def test_the_only_tool_is_not_quarantined_if_it_is_accepted_alone() -> None:
    provider = Provider()
    assert await find_refused_tools(make_tools(1), "JSON schema", provider.probe) == ()
    assert provider.requests == 1


async def test_the_number_of_requests_is_bounded_if_everything_is_refused() -> None:
    provider = Provider(*range(128))
    await find_refused_tools(make_tools(128), "bad schema", provider.probe)
    assert provider.requests == MAX_PROBES


@pytest.mark.parametrize(
    ("status", "message", "refuses"),
    [
        (400, "Invalid schema for function 'a__b': None is not of type 'object'", True),
        (400, "tools.3.custom.input_schema: JSON schema is invalid. It must match JSON Schema draft 2020-12", True),
        (
            400,
            "* GenerateContentRequest.tools[0].function_declarations[2].parameters: should be non-empty",
            True,
        ),
        (422, "Unsupported tool schema", True),
        (400, "Failed to initialize samplers: failed to parse grammar", True),
        (500, "JSON schema conversion failed:\nUnrecognized schema: {}", True),
        (
            400,
            "Unable to submit request because `web__get` functionDeclaration `parameters.url` schema specified other "
            "fields alongside any_of. When using any_of, it must be the only field set.",
            True,
        ),
        (400, "Request contains an invalid argument.", True),
        (400, "Invalid schema in one of your functions.", True),
        (400, "Bad Request: unsupported tool", True),
        (400, 'Error rendering prompt with jinja template: "Cannot apply filter upper to type: NullValue"', True),
        (400, "Unknown parameter: foo", False),
        (400, "messages.1: all messages must have non-empty content", False),
        (500, "Invalid schema for function", False),
        (401, "tools[0]", False),
    ],
)
def test_a_refused_definition_is_distinguished_from_other_refusals(status: int, message: str, refuses: bool) -> None:
    assert refuses_definition(CallFailure(status=status, message=message)) is refuses


Schema = dict[str, Any]


def simplify(schema: Any) -> Any:
    """Return the schema as simplified for providers, or None if the tool has no schema."""
    simple = simplify_tool(ToolSpec("t", "T", Raw(json.dumps(schema).encode())))
    return None if simple is None else json.loads(bytes(simple.schema))


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
        an_object(a={**an_object(**{"a/b": TEXT, "c": TEXT}), "required": ["a/b", "c"]}),
        an_object(a={**an_object(c=TEXT), "required": ["c"], "description": 'It also has "a/b" (string, required).'}),
    ),
    "refused names beside a description": (
        an_object(a={**an_object(**{"a/b": True, "c[]": {}}), "description": "d" * MAX_TEXT}),
        an_object(a={**an_object(), "description": f'{"d" * (MAX_TEXT - 26)} It also has "a/b", "c[]".'}),
    ),
    "no object": ({"type": "string"}, {"type": "object", "properties": {}}),
}


@pytest.mark.parametrize("case", list(CASES))
def test_a_schema_is_written_with_what_every_provider_takes(case: str) -> None:
    schema, simple = CASES[case]
    assert simplify(schema) == simple
    assert simplify(simple) is None, "it is not simplified twice"


def test_an_argument_whose_name_providers_refuse_is_kept_for_the_worker_to_rename() -> None:
    schema = Raw(json.dumps(an_object(**{"a/b": TEXT})).encode())
    simple = simplify_tool(ToolSpec("t", "T", schema))
    assert simple is not None
    assert json.loads(bytes(simple.schema)) == json.loads(bytes(schema))
    assert (simple.is_simplified, simplify_tool(simple)) == (True, None)


@pytest.mark.parametrize("schema", [True, [], 1, None, {"properties": 3}, {"type": 1, "anyOf": {}, "enum": "x"}])
def test_what_is_no_schema_becomes_an_empty_object(schema: Any) -> None:
    assert simplify(schema) == {"type": "object", "properties": {}}


def test_of_many_or_long_refused_names_only_some_are_reported() -> None:
    names = ["x/" * 300, *(f"name/{at}" for at in range(200))]
    described = simplify(an_object(a=an_object(**dict.fromkeys(names, TEXT))))["properties"]["a"]["description"]
    assert described.startswith('It also has "name/0" (string), "name/1" (string), ')
    assert described.endswith(" more.")
    assert len(described) <= MAX_TEXT


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
