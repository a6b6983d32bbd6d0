"""Tests that calls and results are checked against the tool's schemas, in a whole host, in each relevant revision."""

import socket
import time
from pathlib import Path
from typing import Any

import pytest

from mcphost.host.events import ToolFinished
from mcphost.host.questions.questions import AllowOnce, ApproveTool
from mcphost.llm.messages import ToolReturnPart
from mcphost.serialization import loads
from tests.fakes.frontend import ScriptedFrontend
from tests.fakes.model import ScriptedModel, text_round, tool_return, tool_round
from tests.unit.host.scripted_host import (
    InProcessServer,
    create_peer,
    open_host_with,
    text_result,
    tool_definition,
    tools_result,
)

pytestmark = pytest.mark.anyio
STRUCTURED = ("2025-06-18", "2025-11-25", "2026-07-28")
WEATHER = {"type": "object", "properties": {"degrees": {"type": "number"}}, "required": ["degrees"]}


def create_weather_peer(result: dict[str, Any], revision: str = "2026-07-28", schema: Any = WEATHER) -> InProcessServer:
    return create_peer(
        revision,
        tools__list=tools_result(tool_definition("weather", outputSchema=schema)),
        tools__call=lambda _: result,
    )


@pytest.mark.req("tools.output-schema.validate")
@pytest.mark.parametrize("revision", STRUCTURED)
async def test_a_result_that_keeps_its_tools_promise_is_a_result(tmp_path: Path, revision: str) -> None:
    peer = create_weather_peer(text_result('{"degrees": 7}', structuredContent={"degrees": 7}), revision)
    async with open_host_with(tmp_path, peer) as host:
        called = await host.tools.call("peer", "weather", {})
    assert called.validation.outcome == "fits"
    assert called.text == '{"degrees": 7}'


@pytest.mark.req("tools.output-schema.validate")
@pytest.mark.parametrize("revision", STRUCTURED)
async def test_a_schema_violation_is_reported_with_its_location_to_user_and_model(
    tmp_path: Path, revision: str
) -> None:
    peer = create_weather_peer(text_result("warm", structuredContent={"degrees": "warm"}), revision)
    model = ScriptedModel(tool_round(("peer__weather", {})), text_round("ok"))
    async with open_host_with(tmp_path, peer, model, ScriptedFrontend(AllowOnce())) as host:
        called = await host.tools.call("peer", "weather", {})
        feed = host.events.subscribe()
        await host.conversation.send("weather?")
        events = feed.drain()
    assert called.validation.outcome == "misfit"
    assert '/degrees: "warm" is not of type "number"' in called.validation.text
    assert called.text.startswith("warm")
    assert tool_return(model).is_error
    assert "/degrees" in tool_return(model).text
    (shown,) = [event for event in events if isinstance(event, ToolFinished)]
    assert shown.outcome == "error"
    assert "/degrees" in shown.text.splitlines()[0]


@pytest.mark.req("tools.output-schema.validate")
async def test_a_promised_structure_that_is_missing_is_the_servers_fault(tmp_path: Path) -> None:
    async with open_host_with(tmp_path, create_weather_peer(text_result("7 degrees"))) as host:
        called = await host.tools.call("peer", "weather", {})
    assert called.validation.outcome == "misfit"
    assert "no structured content" in called.validation.text
    assert "7 degrees" in called.text


@pytest.mark.req("tools.output-schema.validate")
async def test_an_error_promises_no_structure(tmp_path: Path) -> None:
    async with open_host_with(tmp_path, create_weather_peer(text_result("no such city", isError=True))) as host:
        called = await host.tools.call("peer", "weather", {})
    assert called.validation.outcome == "none"
    assert called.text == "no such city"


async def test_before_2025_06_18_there_are_no_promises(tmp_path: Path) -> None:
    async with open_host_with(tmp_path, create_weather_peer(text_result("7"), "2025-03-26")) as host:
        assert (await host.tools.call("peer", "weather", {})).validation.outcome == "none"


@pytest.mark.req("tools.output-schema.any-root")
@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        ({"type": "array", "items": {"type": "integer"}}, [1, 2], ["x"]),
        ({"oneOf": [{"type": "string"}, {"type": "null"}]}, None, 3),
        ({"$ref": "#/$defs/n", "$defs": {"n": {"type": "number"}}}, 1.5, "x"),
        (True, False, None),
    ],
)
async def test_a_promise_of_2026_07_28_may_have_any_root(tmp_path: Path, schema: Any, good: Any, bad: Any) -> None:
    peer = create_weather_peer({"content": [], "structuredContent": good}, schema=schema)
    async with open_host_with(tmp_path, peer) as host:
        assert (await host.tools.call("peer", "weather", {})).validation.outcome == "fits"
        peer.answers["tools/call"] = {"content": [], "structuredContent": bad}
        if schema is not True:
            assert (await host.tools.call("peer", "weather", {})).validation.outcome == "misfit"


@pytest.mark.req("tools.structured.any-json")
@pytest.mark.parametrize("value", ["[1,2]", '"text"', "3.5", "true", "null"])
async def test_structured_content_of_2026_07_28_may_be_any_json_and_null_is_not_nothing(
    tmp_path: Path, value: str
) -> None:
    peer = create_peer(
        tools__list=tools_result(tool_definition("any")),
        tools__call=b'{"content":[],"structuredContent":%s}' % value.encode(),
    )
    async with open_host_with(tmp_path, peer) as host:
        called = await host.tools.call("peer", "any", {})
        assert (called.text.replace("\n", "").replace(" ", ""), called.validation.outcome) == (value, "none")
        peer.answers["tools/call"] = {"content": []}
        assert (await host.tools.call("peer", "any", {})).text == "(the tool returned nothing)"


@pytest.mark.req("tools.structured.object")
@pytest.mark.parametrize("revision", ["2025-06-18", "2025-11-25"])
async def test_structured_content_before_that_is_an_object_beside_the_content(tmp_path: Path, revision: str) -> None:
    peer = create_peer(
        revision,
        tools__list=tools_result(tool_definition("any")),
        tools__call=text_result("see below", structuredContent={"a": 1}),
    )
    async with open_host_with(tmp_path, peer) as host:
        called = await host.tools.call("peer", "any", {})
        assert called.validation.outcome == "none"
        assert "see below" in called.text
        assert '"a": 1' in called.text
        peer.answers["tools/call"] = text_result("see below", structuredContent=[1])
        wrong = await host.tools.call("peer", "any", {})
        assert wrong.validation.outcome == "misfit"
        assert "not an object" in wrong.validation.text
        peer.answers["tools/call"] = text_result("only text", structuredContent=None)
        assert (await host.tools.call("peer", "any", {})).text == "only text"


DOUBLING = {
    "$ref": "#/$defs/a0",
    "$defs": {
        **{f"a{n}": {"anyOf": [{"$ref": f"#/$defs/a{n + 1}"}] * 2} for n in range(40)},
        "a40": {"type": "integer"},
    },
}


@pytest.mark.req("base.schema.bounds")
@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        (DOUBLING, "took over 1 s"),
        ({"$ref": "http://127.0.0.1:9/schema.json"}, "downloads no schemas"),
        ({"$schema": "https://example.com/mine"}, "example.com/mine"),
        ({"type": "objct"}, "its schema is invalid"),
        ({"description": "x" * 900_000}, "256 kB"),
        ({"enum": list(range(20_000))}, "10,000 parts"),
    ],
    ids=["endless", "network", "dialect", "broken", "huge", "many"],
)
async def test_an_unverifiable_output_schema_marks_the_result_and_loses_nothing(
    tmp_path: Path, schema: Any, reason: str
) -> None:
    peer = create_weather_peer(text_result("7", structuredContent={"degrees": "x"}), schema=schema)
    async with open_host_with(tmp_path, peer) as host:
        started_at = time.monotonic()
        called = await host.tools.call("peer", "weather", {})
        assert time.monotonic() - started_at < 20
    assert called.validation.outcome == "unchecked"
    assert reason in called.validation.text
    assert "not checked" in called.validation.text
    assert "7" in called.text


COUNT = {
    "type": "object",
    "properties": {"n": {"type": "integer", "minimum": 1}, "to": {"$ref": "#/$defs/to"}},
    "$defs": {"to": {"enum": ["a", "b"]}},
    "if": {"required": ["to"]},
    "then": {"required": ["n"]},
}


@pytest.mark.req("tools.call.validate-input", "tools.input-schema.provider-subset")
@pytest.mark.parametrize(
    ("wrong", "place"),
    [({"n": 0}, "/n"), ({"n": "1"}, "/n"), ({"to": "a"}, '"n" is a required'), ({"n": 1, "to": "c"}, "/to")],
)
async def test_invalid_arguments_are_returned_to_the_model_before_any_question(
    tmp_path: Path, wrong: dict[str, Any], place: str
) -> None:
    peer = create_peer(
        tools__list=tools_result(tool_definition("count", inputSchema=COUNT)), tools__call=text_result("counted")
    )
    model = ScriptedModel(tool_round(("peer__count", wrong)), tool_round(("peer__count", {"n": 1})), text_round("done"))
    frontend = ScriptedFrontend(AllowOnce())
    async with open_host_with(tmp_path, peer, model, frontend) as host:
        feed = host.events.subscribe()
        await host.conversation.send("count")
        shown = [event for event in feed.drain() if isinstance(event, ToolFinished)]
    first = model.requests[1].messages[-1].parts[0]
    assert isinstance(first, ToolReturnPart)
    assert first.is_error
    assert place in first.text
    assert place in shown[0].text
    assert len(frontend.asked) == 1
    assert [params["arguments"] for params in peer.asked("tools/call")] == [{"n": 1}]


async def test_uncheckable_arguments_are_asked_about_and_sent(tmp_path: Path) -> None:
    schema = {"type": "object", "properties": {"n": {"pattern": "("}}}
    peer = create_peer(
        tools__list=tools_result(tool_definition("odd", inputSchema=schema)), tools__call=text_result("fine")
    )
    model = ScriptedModel(tool_round(("peer__odd", {"n": "x"})), text_round("done"))
    async with open_host_with(tmp_path, peer, model, ScriptedFrontend(AllowOnce())) as host:
        await host.conversation.send("go")
        log = [line.text for line in host.servers.view("peer").log]
    assert tool_return(model).text == "fine"
    assert any("not checked" in line and "'odd'" in line for line in log)


async def test_the_users_own_call_is_validated_by_the_server(tmp_path: Path) -> None:
    peer = create_peer(
        tools__list=tools_result(tool_definition("count", inputSchema=COUNT)),
        tools__call=text_result("refused", isError=True),
    )
    async with open_host_with(tmp_path, peer) as host:
        assert (await host.tools.call("peer", "count", {"n": 0})).text == "refused"


@pytest.mark.req("tools.input-schema.root-object", "tools.list.one-bad-tool", "base.schema.unresolved-ref")
async def test_a_tool_with_an_unusable_input_schema_is_left_out_alone_and_named(tmp_path: Path) -> None:
    nested: dict[str, Any] = {}
    for _ in range(70):
        nested = {"not": nested}
    broken: dict[str, Any] = {
        "null": None,
        "list": [],
        "text": "object",
        "array": {"type": "array"},
        "union": {"type": ["object", "null"]},
        "untyped": {"properties": {}},
        "network": {"type": "object", "properties": {"a": {"$ref": "https://x.example/s.json"}}},
        "huge": {"type": "object", "description": "x" * 300_000},
        "deep": {"type": "object", "not": nested},
    }
    listed = [tool_definition(name, inputSchema=schema) for name, schema in broken.items()]
    peer = create_peer(
        tools__list=tools_result(
            *listed, tool_definition("good"), {"inputSchema": {"type": "object"}}, tool_definition("")
        )
    )
    async with open_host_with(tmp_path, peer) as host:
        catalog = host.servers.view("peer").catalog
    assert [tool.name for tool in catalog.tools] == ["good"]
    for name in broken:
        assert any(f"'{name}'" in said for said in catalog.left_out), name
    assert any("https://x.example/s.json" in said for said in catalog.left_out)
    assert len(catalog.left_out) == len(broken) + 2


@pytest.mark.req("base.schema.no-network-ref")
async def test_nothing_a_definition_points_at_is_ever_fetched(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"http://127.0.0.1:{listener.getsockname()[1]}/x"
        peer = create_peer(
            tools__list=tools_result(
                tool_definition("in", inputSchema={"type": "object", "$ref": address}),
                tool_definition("meta", inputSchema={"type": "object", "$schema": address}),
                tool_definition("out", outputSchema={"$ref": address}),
            ),
            tools__call=text_result("x", structuredContent={}),
        )
        async with open_host_with(tmp_path, peer) as host:
            for tool in host.servers.view("peer").catalog.tools:
                await host.tools.call("peer", tool.name, {})
        listener.setblocking(False)
        with pytest.raises(BlockingIOError):
            listener.accept()


@pytest.mark.req("tools.input-schema.no-params")
@pytest.mark.parametrize("schema", [{"type": "object"}, {"type": "object", "additionalProperties": False}, ...])
async def test_a_tool_without_parameters_is_offered_and_called(tmp_path: Path, schema: Any) -> None:
    definition = {"name": "now"} if schema is ... else tool_definition("now", inputSchema=schema)
    peer = create_peer(tools__list=tools_result(definition), tools__call=text_result("12:00"))
    model = ScriptedModel(tool_round(("peer__now", {})), text_round("noon"))
    async with open_host_with(tmp_path, peer, model, ScriptedFrontend(AllowOnce())) as host:
        await host.conversation.send("time?")
    assert tool_return(model).text == "12:00"
    assert b'"type"' in bytes(model.requests[0].tools[0].schema)
    assert peer.asked("tools/call")[0]["arguments"] == {}


@pytest.mark.req("base.schema.preserve-keywords", revisions=("2025-11-25", "2026-07-28"))
@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_a_schema_reaches_the_model_and_programs_unchanged(tmp_path: Path, revision: str) -> None:
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object",
        "$defs": {"a": {"$anchor": "a", "type": "string", "x-own": 1}},
        "properties": {"b": {"$ref": "#a"}}, "additionalProperties": False,
        "allOf": [{"anyOf": [{"oneOf": [{"not": {}}]}]}], "if": True, "then": {"minProperties": 1}, "else": False,
    }  # fmt: skip
    model = ScriptedModel(text_round("hm"))
    peer = create_peer(revision, tools__list=tools_result(tool_definition("all", inputSchema=schema)))
    async with open_host_with(tmp_path, peer, model) as host:
        await host.conversation.send("look")
        assert bytes(host.servers.view("peer").catalog.tools[0].input_schema) == bytes(
            model.requests[0].tools[0].schema
        )
    assert loads(model.requests[0].tools[0].schema) == schema


async def test_edited_arguments_that_do_not_fit_are_not_sent_but_asked_about_again(tmp_path: Path) -> None:
    sent: list[Any] = []

    def called(params: Any) -> dict[str, Any]:
        sent.append(params["arguments"])
        return text_result("done")

    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    peer = create_peer(
        "2026-07-28", tools__list=tools_result(tool_definition("count", inputSchema=schema)), tools__call=called
    )
    model = ScriptedModel(tool_round(("peer__count", {"n": 1})), text_round("ok"))
    frontend = ScriptedFrontend(AllowOnce({"n": "two"}), AllowOnce({"n": 2}))
    async with open_host_with(tmp_path, peer, model, frontend) as host:
        await host.conversation.send("count")
        assert await host.tools.validate("peer", "count", {"n": "two"})
        assert not await host.tools.validate("peer", "count", {"n": 2})
    assert sent == [{"n": 2}]
    again = frontend.asked[-1]
    assert isinstance(again, ApproveTool)
    assert again.arguments == {"n": "two"}
    assert '/n: "two" is not of type "integer"' in again.arguments_error
    assert tool_return(model).text == 'The user changed the arguments before the call ran. It ran with: {"n":2}\n\ndone'


async def test_edited_arguments_that_do_not_fit_are_not_sent_when_they_are_allowed_again(tmp_path: Path) -> None:
    peer = create_peer(
        tools__list=tools_result(tool_definition("count", inputSchema=COUNT)), tools__call=text_result("counted")
    )
    model = ScriptedModel(tool_round(("peer__count", {"n": 1})), text_round("done"))
    frontend = ScriptedFrontend(AllowOnce({"n": "two"}), AllowOnce())
    async with open_host_with(tmp_path, peer, model, frontend) as host:
        await host.conversation.send("count")
    assert peer.asked("tools/call") == []
    assert "do not match" in tool_return(model).text
    assert len(frontend.asked) == 2
