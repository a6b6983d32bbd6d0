"""Tests for tool arguments that are repeated as HTTP headers because the tool's schema marks them."""

from typing import Any

import pytest

from mcphost.client.pagination import list_tools
from mcphost.client.parameter_headers import SAFE_INTEGER, parse_parameter_headers
from mcphost.client.stateless_session import MAX_TOOL_WARNINGS
from mcphost.errors import MalformedMessage, RequestRefused
from mcphost.protocol.tools import CallTool
from mcphost.serialization import Raw, encode
from tests.unit.client.fakes import RecordingObserver
from tests.unit.client.results import single_text
from tests.unit.client.scripted_http import open_http_session, stateless_server, text_answer
from tests.unit.client.scripted_server import ScriptedServer, connect_to
from tests.unit.transport.raw_http import ReceivedRequest


def header_tool(properties: dict[str, Any], **more: Any) -> Raw:
    return Raw(encode({"name": "t", "inputSchema": {"type": "object", "properties": properties, **more}}))


def headers_for(definition: Raw, arguments: dict[str, Any]) -> dict[str, str]:
    return parse_parameter_headers(definition)[1].header_values(CallTool("t", arguments))


ALL = header_tool(
    {
        "region": {"type": "string", "x-mcp-header": "Region"},
        "count": {"type": "integer", "x-mcp-header": "Count"},
        "dry": {"type": "boolean", "x-mcp-header": "Dry"},
        "deep": {"type": "object", "properties": {"id": {"type": "string", "x-mcp-header": "Deep-Id"}}},
        "x-mcp-header": {"type": "string"},
        "plain": {"type": "string", "default": {"x-mcp-header": "data, not an annotation"}},
    }
)


@pytest.mark.req("hdr.param.nested")
@pytest.mark.req("hdr.param.integer")
@pytest.mark.req("hdr.param.boolean")
@pytest.mark.req("hdr.param.prefix")
def test_annotated_arguments_become_headers_and_no_others() -> None:
    given = {"region": "eu", "count": -7, "dry": False, "deep": {"id": "x"}, "plain": "p", "x-mcp-header": "q"}
    assert headers_for(ALL, given) == {
        "Mcp-Param-Region": "eu",
        "Mcp-Param-Count": "-7",
        "Mcp-Param-Dry": "false",
        "Mcp-Param-Deep-Id": "x",
    }


@pytest.mark.req("hdr.param.omit")
@pytest.mark.req("hdr.param.empty")
def test_absent_and_null_give_no_header_and_an_empty_text_gives_an_empty_one() -> None:
    assert headers_for(ALL, {"region": None, "deep": {}}) == {}
    assert headers_for(ALL, {"region": ""}) == {"Mcp-Param-Region": ""}


@pytest.mark.req("hdr.tool.integer-range")
def test_values_that_no_header_can_hold_are_refused_before_anything_is_sent() -> None:
    assert headers_for(ALL, {"count": SAFE_INTEGER}) == {"Mcp-Param-Count": str(SAFE_INTEGER)}
    for value in (SAFE_INTEGER + 1, -SAFE_INTEGER - 1, 1.5, [1]):
        with pytest.raises(MalformedMessage, match="Mcp-Param-Count") as exc_info:
            headers_for(ALL, {"count": value})
        assert not exc_info.value.may_have_run


@pytest.mark.req("hdr.tool.reject-empty")
@pytest.mark.req("hdr.tool.reject-token")
@pytest.mark.req("hdr.tool.reject-duplicate")
@pytest.mark.req("hdr.tool.reject-type")
@pytest.mark.req("hdr.tool.reject-unreachable")
@pytest.mark.parametrize(
    "definition",
    [
        *(
            header_tool({"a": {"type": "string", "x-mcp-header": name}})
            for name in ("", "a b", "a:b", "ä", "a\n", 5, None)
        ),
        *(
            header_tool({"a": {"type": kind, "x-mcp-header": "A"}})
            for kind in ("number", "object", "array", "null", None)
        ),
        header_tool({"a": {"x-mcp-header": "A"}}),
        header_tool({"a": {"type": "string", "x-mcp-header": "A"}, "b": {"type": "string", "x-mcp-header": "a"}}),
        header_tool({"a": {"type": "array", "items": {"type": "string", "x-mcp-header": "A"}}}),
        header_tool({"a": {"anyOf": [{"type": "string", "x-mcp-header": "A"}]}}),
        header_tool({}, **{"$defs": {"d": {"type": "string", "x-mcp-header": "A"}}}),
        header_tool({}, **{"if": {"properties": {"a": {"type": "string", "x-mcp-header": "A"}}}}),
        header_tool({}, **{"x-mcp-header": "A"}),
    ],
)
def test_a_wrong_annotation_is_a_reason_that_names_the_tool(definition: Raw) -> None:
    with pytest.raises(MalformedMessage, match="The tool 't' was left out"):
        parse_parameter_headers(definition)


@pytest.mark.anyio
@pytest.mark.req("hdr.tool.reject")
@pytest.mark.req("hdr.tool.warn")
@pytest.mark.req("hdr.param.support")
@pytest.mark.req("hdr.param.base64")
@pytest.mark.req("hdr.param.injection")
@pytest.mark.req("hdr.param.prefix")
async def test_over_http_headers_are_sent_and_invalid_tools_are_left_out_alone() -> None:
    async def call(request: ReceivedRequest) -> object:
        if request.message["method"] == "tools/list":
            tools = [
                {"name": "good", "inputSchema": {"properties": {"a": {"type": "string", "x-mcp-header": "A"}}}},
                {"name": "bad", "inputSchema": {"properties": {"a": {"type": "number", "x-mcp-header": "A"}}}},
                {"name": "other", "inputSchema": {"properties": {"b": {"type": "string", "x-mcp-header": "Method"}}}},
            ]
            return await request.result({"resultType": "complete", "tools": tools, "ttlMs": 0, "cacheScope": "private"})
        return await request.result(text_answer())

    observer = RecordingObserver()
    async with open_http_session(stateless_server(call), observer) as (session, server):
        assert [tool.name for tool in (await list_tools(session)).values] == ["good", "other"]
        await session.request(CallTool("good", {"a": "eu west"}))
        assert server.seen[-1].headers["mcp-param-a"] == "eu west"
        await session.request(CallTool("good", {"a": " padded "}))
        assert server.seen[-1].headers["mcp-param-a"] == "=?base64?IHBhZGRlZCA=?="
        await session.request(CallTool("good", {"a": "x\r\nMcp-Method: lie"}))
        assert server.seen[-1].headers["mcp-param-a"].startswith("=?base64?")
        await session.request(CallTool("other", {"b": "lie"}))
        assert server.seen[-1].headers["mcp-param-method"] == "lie"
    assert "bad" in observer.warnings[0]
    assert {message.headers["mcp-method"] for message in server.seen[2:]} == {"tools/call"}


@pytest.mark.anyio
async def test_the_first_of_many_invalid_tools_are_named() -> None:
    bad = {"properties": {"a": {"type": "number", "x-mcp-header": "A"}}}

    async def call(request: ReceivedRequest) -> object:
        tools = [{"name": f"bad{number}", "inputSchema": bad} for number in range(1_000)]
        return await request.result({"resultType": "complete", "tools": tools, "ttlMs": 0, "cacheScope": "private"})

    observer = RecordingObserver()
    async with open_http_session(stateless_server(call), observer) as (session, _):
        assert (await list_tools(session)).values == ()
    assert len(observer.warnings) == MAX_TOOL_WARNINGS + 1
    assert observer.warnings[-1] == "980 more tools of 'peer' were left out."


@pytest.mark.anyio
@pytest.mark.req("hdr.tool.stdio-ignore")
async def test_on_a_pipe_annotations_mean_nothing_and_every_tool_stays() -> None:
    wrong = {"name": "bad", "inputSchema": {"properties": {"a": {"type": "number", "x-mcp-header": "A"}}}}

    def script(peer: ScriptedServer, method: str, params: dict[str, Any]) -> Any:
        return {"resultType": "complete", "tools": [wrong], "ttlMs": 0, "cacheScope": "private"}

    peer = ScriptedServer(script, revision="2026-07-28")
    async with connect_to(peer, era="stateless") as session:
        assert [tool.name for tool in (await list_tools(session)).values] == ["bad"]
    assert peer.observer.warnings == []


@pytest.mark.anyio
@pytest.mark.req("hdr.mismatch-refresh")
async def test_a_header_mismatch_lists_the_tools_again_and_tries_again() -> None:
    refusals = 0

    async def call(request: ReceivedRequest) -> object:
        nonlocal refusals
        if request.message["method"] == "tools/list":
            tools = [{"name": "t", "inputSchema": {"properties": {"a": {"type": "string", "x-mcp-header": "A"}}}}]
            return await request.result({"resultType": "complete", "tools": tools, "ttlMs": 0, "cacheScope": "private"})
        if request.headers.get("mcp-param-a") != "x":
            refusals += 1
            return await request.error(400, -32020)
        return await request.result(text_answer())

    async with open_http_session(stateless_server(call)) as (session, _):
        assert single_text(await session.request(CallTool("t", {"a": "x"}))) == "ok"
        assert refusals == 1
        with pytest.raises(RequestRefused):
            await session.request(CallTool("t", {}))
        assert refusals == 3


@pytest.mark.anyio
@pytest.mark.req("life.mod.version-retry")
@pytest.mark.req("life.mod.version-retry-once")
async def test_a_version_refused_and_offered_at_once_is_tried_only_once_more() -> None:
    asked = 0

    async def handler(request: ReceivedRequest) -> object:
        nonlocal asked
        if request.message["method"] == "server/discover":
            asked += 1
            if asked == 1 or stubborn:
                return await request.error(400, -32022, {"supported": ["2026-07-28"], "requested": "2026-07-28"})
        return await stateless_server(lambda item: item.result(text_answer()))(request)

    stubborn = False
    async with open_http_session(handler) as (session, _):
        assert single_text(await session.request(CallTool("x"))) == "ok"
    stubborn, asked = True, 0
    with pytest.raises(Exception, match="2026-07-28"):
        async with open_http_session(handler):
            pass
    assert asked == 2
