"""Tests for the input schemas of tools as each provider gets them, with the real worker: the bytes of the request.

The limits are those of the providers' documentation and error messages; `mcphost.llm.tool_schemas` names them.
"""

import json
from typing import Any

import pytest

from mcphost.config.schema import ModelConfig
from mcphost.llm.litellm_model import LiteLlmModel
from mcphost.llm.messages import Message, ToolReturnPart
from mcphost.llm.model import ToolQuarantined, ToolSimplified, ToolSpec
from mcphost.llm.worker_client import WorkerProcess
from mcphost.serialization import Raw
from tests.fakes.model import user_message
from tests.fakes.schemas import an_object
from tests.peers.models.model_requests import API_ROUTES, KEY, ask_model, create_model
from tests.peers.models.raw_provider import Json, RawProvider, chunk, tool_definitions

pytestmark = [pytest.mark.anyio, pytest.mark.peer]
TEXT: Json = {"type": "string"}
NUMBER: Json = {"type": "number"}
EMPTY: Json = {"type": "object", "properties": {}}
GEMINI_KEYS = {"type", "format", "title", "description", "nullable", "default", "items", "minItems", "maxItems", "enum",
               "properties", "required", "minimum", "maximum", "minLength", "maxLength", "minProperties",
               "maxProperties", "pattern", "anyOf", "propertyOrdering"}  # fmt: skip
CHECKED_TOP = ("openai", "responses", "anthropic", "compatible", "ollama")


def make_tool(schema: Any) -> ToolSpec:
    return ToolSpec("s__t", "T", Raw(json.dumps(schema).encode()))


async def send_schema(route: str, schema: Any, worker: WorkerProcess, provider: tuple[RawProvider, str]) -> Any:
    """Send a request with one tool, and return the tool's schema in the request, without keys of litellm's own."""
    ours, base = provider
    ours.words, ours.pause, ours.ending = 2, 0, "complete"
    reply = await ask_model(create_model(route, base, worker), "hi", tools=(make_tool(schema),))
    assert reply.error is None, reply.error
    assert not reply.events_of(ToolQuarantined)
    assert not reply.events_of(ToolSimplified)
    (body,) = ours.bodies
    return sent_schema(body)


def sent_schema(body: Json) -> Json:
    (tool,) = tool_definitions(body)
    function = tool.get("function", tool)
    return function.get("parameters") or function.get("input_schema") or {}


EITHER = {"anyOf": [{"required": ["a"]}, {"required": ["b"]}]}
OBJECTS = [{**an_object(a=TEXT), "required": ["a"]}, an_object(b=NUMBER)]
TOP_CASES: dict[str, tuple[Json, Json]] = {
    "one of two arguments": ({**an_object(a=TEXT, b=NUMBER), **EITHER}, an_object(a=TEXT, b=NUMBER)),
    "alternative objects": ({"oneOf": OBJECTS}, an_object(a=TEXT, b=NUMBER)),
    "several objects": ({"allOf": OBJECTS}, {**an_object(a=TEXT, b=NUMBER), "required": ["a"]}),
    "what is forbidden": ({**an_object(a=TEXT), "not": {"required": ["b"]}}, an_object(a=TEXT)),
    "no type": ({"properties": {"a": TEXT}}, an_object(a=TEXT)),
    "null for lists": ({"type": "object", "properties": None, "required": None}, {**EMPTY, "required": []}),
    "a list of properties": ({"type": "object", "properties": []}, EMPTY),
}


@pytest.mark.parametrize("case", list(TOP_CASES))
@pytest.mark.parametrize("route", CHECKED_TOP)
async def test_every_provider_gets_an_object_without_combinators_at_the_top(
    route: str, case: str, worker: WorkerProcess, raw_provider: tuple[RawProvider, str]
) -> None:
    schema, expected = TOP_CASES[case]
    sent = await send_schema(route, schema, worker, raw_provider)
    assert sent | {"required": sent.get("required", [])} == expected | {"required": expected.get("required", [])}


@pytest.mark.parametrize("route", list(API_ROUTES))
async def test_a_tool_without_arguments_has_an_object_schema(
    route: str, worker: WorkerProcess, raw_provider: tuple[RawProvider, str]
) -> None:
    sent = await send_schema(route, {"type": "object"}, worker, raw_provider)
    assert sent == ({"type": "object"} if route == "gemini" else EMPTY)  # Gemini refuses an empty `properties`


@pytest.mark.parametrize("route", ["openai", "responses", "compatible", "anthropic"])
async def test_nested_schemas_are_sent_as_the_server_wrote_them(
    route: str, worker: WorkerProcess, raw_provider: tuple[RawProvider, str]
) -> None:
    kept = an_object(a={"anyOf": [TEXT, {"const": 5}], "default": None}, b={"$ref": "#/$defs/N"}, c=True)
    schema = {**kept, "$defs": {"N": {"type": ["integer", "null"], "exclusiveMinimum": 0}}, "required": ["a"]}
    assert await send_schema(route, schema, worker, raw_provider) == schema


@pytest.mark.parametrize("route", ["openai", "responses", "compatible", "anthropic"])
async def test_forms_of_older_drafts_are_sent_as_in_the_newest(
    route: str, worker: WorkerProcess, raw_provider: tuple[RawProvider, str]
) -> None:
    old = an_object(
        pair={"type": "array", "items": [TEXT, NUMBER], "additionalItems": False},
        any={"type": "array"},
        items={"type": "integer", "minimum": 0, "exclusiveMinimum": True, "maximum": 9, "exclusiveMaximum": False},
        none=None,
    )
    assert await send_schema(route, old, worker, raw_provider) == an_object(
        pair={"type": "array", "prefixItems": [TEXT, NUMBER], "items": False},
        any={"type": "array", "items": {}},
        items={"type": "integer", "exclusiveMinimum": 0, "maximum": 9},
        none={},
    )


async def test_claude_gets_arguments_with_names_that_it_accepts(
    worker: WorkerProcess, raw_provider: tuple[RawProvider, str]
) -> None:
    odd = {"filter[id]": {**TEXT, "description": "D"}, "filter_id": TEXT, "x" * 65: TEXT, "日本": True, "a.b-c_1": TEXT,
           "deep": an_object(**{"$top": TEXT})}  # fmt: skip
    sent = await send_schema(
        "anthropic", {**an_object(**odd), "required": ["filter[id]", "deep"]}, worker, raw_provider
    )
    renamed = {
        "filter_id_2": {**TEXT, "description": 'The argument "filter[id]". D'},
        "filter_id": TEXT,
        "x" * 48: {**TEXT, "description": f'The argument "{"x" * 65}".'},
        "argument": True,
    }
    kept = {name: odd[name] for name in ("a.b-c_1", "deep")}
    assert sent == {**an_object(**renamed, **kept), "required": ["filter_id_2", "deep"]}


def claude_call(*pieces: str) -> list[Json]:
    """Return the events with which Claude calls the tool of `make_tool`; its arguments arrive in pieces."""
    usage = {"input_tokens": 1, "output_tokens": 0}
    message: Json = {"id": "m", "type": "message", "role": "assistant", "content": [], "model": "x", "usage": usage}
    block: Json = {"type": "tool_use", "id": "t_1", "name": "s__t", "input": {}}
    return [
        {"type": "message_start", "message": {**message, "stop_reason": None}},
        {"type": "content_block_start", "index": 0, "content_block": block},
        *(
            {"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": piece}}
            for piece in pieces
        ),
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 5}},
        {"type": "message_stop"},
    ]


async def test_a_call_has_the_servers_names_of_its_arguments_and_is_sent_again_with_claudes(
    worker: WorkerProcess, raw_provider: tuple[RawProvider, str]
) -> None:
    ours, base = raw_provider
    model, tools = create_model("anthropic", base, worker), (make_tool(an_object(**{"filter[id]": TEXT, "b": TEXT})),)
    ours.script = claude_call('{"filter', '_id": "fil', 'ter_id", "b": "1"}')
    asked = user_message("hi")
    (use,) = (await ask_model(model, asked, tools=tools)).uses
    assert use.arguments == {"filter[id]": "filter_id", "b": "1"}
    answered = Message(role="user", parts=(ToolReturnPart(use.id, "s__t", "42"),))
    await ask_model(model, asked, Message(role="assistant", parts=(use,)), answered, tools=tools)
    parts = [part for message in ours.bodies[-1]["messages"] for part in message["content"]]
    assert [part["input"] for part in parts if "input" in part] == [{"filter_id": "filter_id", "b": "1"}]


@pytest.mark.parametrize("arguments", ["[1]", '{"filter_id": '])
async def test_arguments_that_are_no_object_stay_as_the_model_wrote_them(
    arguments: str, worker: WorkerProcess, raw_provider: tuple[RawProvider, str]
) -> None:
    ours, base = raw_provider
    ours.script = claude_call(arguments)
    model, tools = create_model("anthropic", base, worker), (make_tool(an_object(**{"filter[id]": TEXT})),)
    (use,) = (await ask_model(model, "hi", tools=tools)).uses
    assert use.raw == arguments


async def test_an_argument_is_renamed_for_a_provider_that_refuses_its_name(
    worker: WorkerProcess, raw_provider: tuple[RawProvider, str]
) -> None:
    ours, base = raw_provider
    ours.bad_tools, ours.bad_keyword = {"s__t": "Invalid schema for function '{name}'"}, '"filter[id]":'
    pieces = [{"index": 0, "id": "c_1", "type": "function", "function": {"name": "s__t", "arguments": '{"filter_i'}}]
    rest = [{"index": 0, "function": {"arguments": 'd": 1}'}}]
    ours.script = [chunk({"tool_calls": pieces}), chunk({"tool_calls": rest}), chunk({}, "tool_calls")]
    model = create_model("compatible", base, worker)
    reply = await ask_model(model, "hi", tools=(make_tool(an_object(**{"filter[id]": NUMBER})),))
    assert reply.error is None, reply.error
    assert reply.events_of(ToolSimplified)
    assert list(sent_schema(ours.bodies[-1])["properties"]) == ["filter_id"]
    assert "renames_arguments" not in json.dumps(ours.bodies)
    assert [use.arguments for use in reply.uses] == [{"filter[id]": 1}]


NULLABLE = {**TEXT, "nullable": True}
ANY = {"anyOf": [{"type": kind} for kind in ("string", "number", "boolean", "object")]}
GEMINI_CASES: dict[str, tuple[Any, Any]] = {
    "one value": ({"const": "x"}, {**TEXT, "enum": ["x"]}),
    "one number": ({"const": 5}, {"type": "integer", "description": "One of: 5."}),
    "values without a type": ({"enum": ["x", "y", None]}, {**NULLABLE, "enum": ["x", "y"]}),
    "an empty value": ({**TEXT, "enum": ["", "y"]}, {**TEXT, "enum": ["y"]}),
    "numbers": ({"type": "integer", "enum": [1, 2]}, {"type": "integer", "description": "One of: 1, 2."}),
    "alternatives": ({"oneOf": [TEXT, {"type": "integer"}]}, {"anyOf": [TEXT, {"type": "integer"}]}),
    "alternatives or null": (
        {"anyOf": [TEXT, NUMBER, {"type": "null"}]},
        {"anyOf": [NULLABLE, {**NUMBER, "nullable": True}]},
    ),
    "types": ({"type": ["number", "string"]}, {"anyOf": [TEXT, NUMBER]}),
    "a type or null": ({"type": ["string", "null"], "minLength": 1}, {**NULLABLE, "minLength": 1}),
    "a reference in allOf": ({"allOf": [{"$ref": "#/$defs/N"}], "description": "D"}, {**NUMBER, "description": "D"}),
    "a described reference": ({"$ref": "#/$defs/N", "description": "D"}, {**NUMBER, "description": "D"}),
    "a reference to a property": ({"$ref": "#/properties/name"}, TEXT),
    "a circular reference": (
        {"$ref": "#/$defs/T"},
        an_object(up={"type": "object"}, all={"type": "array", "items": {"type": "object"}}),
    ),
    "any value": (True, ANY),
    "any described value": (
        {"description": "D"},
        {"anyOf": [{**branch, "description": "D"} for branch in ANY["anyOf"]]},
    ),
    "a tuple": (
        {"type": "array", "items": [TEXT, NUMBER]},
        {"type": "array", "items": {"anyOf": [TEXT, NUMBER]}},
    ),
    "one of two members": ({**an_object(a=TEXT, b=TEXT), **EITHER}, an_object(a=TEXT, b=TEXT)),
    "an unknown member": ({**an_object(a=TEXT), "required": ["a", "b"]}, {**an_object(a=TEXT), "required": ["a"]}),
    "limits": (
        {"type": "integer", "minimum": 1, "maximum": 9, "exclusiveMinimum": 0, "multipleOf": 2, "pattern": "x"},
        {"type": "integer", "minimum": 1, "maximum": 9},
    ),
}  # fmt: skip
DEFINITIONS: Json = {
    "N": NUMBER,
    "T": an_object(up={"$ref": "#/$defs/T"}, all={"type": "array", "items": {"$ref": "#/$defs/T"}}),
}


@pytest.mark.parametrize("case", list(GEMINI_CASES))
async def test_gemini_gets_the_fields_that_it_knows(
    case: str, worker: WorkerProcess, raw_provider: tuple[RawProvider, str]
) -> None:
    schema, expected = GEMINI_CASES[case]
    whole = {**an_object(name=TEXT, value=schema), "$defs": DEFINITIONS}
    sent = await send_schema("gemini", whole, worker, raw_provider)
    assert sent == an_object(name=TEXT, value=expected)
    assert_gemini_takes(sent)


async def test_gemini_gets_arguments_with_the_names_of_keywords(
    worker: WorkerProcess, raw_provider: tuple[RawProvider, str]
) -> None:
    names = ("type", "items", "anyOf", "enum", "required", "format", "strict", "additionalProperties", "properties")
    properties: Json = dict.fromkeys(names, TEXT)
    schema = {**an_object(**properties), "required": [*names]}
    more = {**schema, "properties": {"$ref": TEXT, **properties}}
    told = {"description": 'It also has "$ref" (string).'}  # the model learns of the name that Gemini refuses
    assert await send_schema("gemini", more, worker, raw_provider) == {**schema, **told}


def assert_gemini_takes(schema: Json) -> None:
    """Check a schema as Gemini does; see the error messages in `mcphost.llm.tool_schemas`."""
    assert set(schema) <= GEMINI_KEYS
    assert schema.get("type", "object") in ("object", "array", "string", "number", "integer", "boolean")
    assert ("type" in schema) != ("anyOf" in schema)
    assert all(isinstance(value, str) and value for value in schema.get("enum", ()))
    assert "enum" not in schema or schema["type"] == "string"
    assert set(schema.get("required", ())) <= set(schema.get("properties", ()))
    assert (schema.get("type") == "array") == ("items" in schema)
    for inner in (*schema.get("properties", {}).values(), *schema.get("anyOf", ())):
        assert_gemini_takes(inner)
    if "items" in schema:
        assert_gemini_takes(schema["items"])


@pytest.mark.parametrize("case", ["one value", "alternatives", "a described reference", "a circular reference"])
async def test_ollama_gets_the_fields_that_reach_the_model(
    case: str, worker: WorkerProcess, raw_provider: tuple[RawProvider, str]
) -> None:
    schema, expected = GEMINI_CASES[case]
    whole = {**an_object(value=schema, any=True, number={"enum": [1, 2]}), "$defs": DEFINITIONS}
    sent = await send_schema("ollama", whole, worker, raw_provider)
    first = json.loads(json.dumps(sent["properties"]["value"]).replace(', "properties": {}', ""))
    assert first == expected
    assert sent["properties"]["any"] == {}
    assert sent["properties"]["number"] == {"type": "integer", "enum": [1, 2]}


@pytest.mark.parametrize("key", ["$defs", "definitions"])
@pytest.mark.parametrize("route", ["gemini", "anthropic", "ollama", "openai"])
async def test_references_that_multiply_are_not_expanded_without_a_limit(
    route: str, key: str, worker: WorkerProcess, raw_provider: tuple[RawProvider, str]
) -> None:
    doubled = {f"L{at}": an_object(**{name: {"$ref": f"#/{key}/L{at + 1}"} for name in "ab"}) for at in range(20)}
    schema = {**an_object(a={"$ref": f"#/{key}/L0"}), key: doubled | {"L20": TEXT}}
    sent = await send_schema(route, schema, worker, raw_provider)
    assert "a" in sent["properties"]
    assert len(json.dumps(sent)) < 200_000


@pytest.mark.parametrize("name", ["openrouter/anthropic/claude-sonnet-4.5", "azure_ai/claude-sonnet-4-5"])
async def test_claude_at_other_providers_gets_the_same_schema(
    name: str, worker: WorkerProcess, raw_provider: tuple[RawProvider, str]
) -> None:
    ours, base = raw_provider
    ours.words, ours.pause = 2, 0
    model = LiteLlmModel(ModelConfig(name=name, api_base=base, api_key_env="K"), worker, environ={"K": KEY})
    await ask_model(model, "hi", tools=(make_tool({**an_object(**{"a": TEXT, "b[]": TEXT}), **EITHER}),))
    sent = sent_schema(ours.bodies[0])
    assert (sent["properties"].pop("b")["type"], sent["properties"]) == ("string", {"a": TEXT})


async def test_a_server_with_vllm_gets_an_argument_called_strict(
    worker: WorkerProcess, raw_provider: tuple[RawProvider, str]
) -> None:
    ours, base = raw_provider
    ours.words, ours.pause = 2, 0
    model = LiteLlmModel(ModelConfig(name="hosted_vllm/m", api_base=f"{base}/v1"), worker, environ={})
    schema = {**an_object(strict={"type": "boolean"}), "required": ["strict"]}
    await ask_model(model, "hi", tools=(make_tool(schema),))
    assert sent_schema(ours.bodies[0]) == schema
