"""Tests for paginated lists, `input_required` results and change notifications, with a scripted server on a pipe."""

from typing import Any

import pytest

from mcphost.client import pagination
from mcphost.client.pagination import list_prompts, list_resource_templates, list_resources, list_tools
from mcphost.client.result_cache import ChangeNotifications
from mcphost.client.session import ServerRequestContext, WatchedChanges
from mcphost.errors import ConsentDenied, MalformedMessage, ServerError, TooManyInputRounds
from mcphost.protocol.jsonrpc import ErrorData
from mcphost.protocol.lifecycle import ServerCapabilities
from mcphost.protocol.notifications import ResourceUpdatedNotification, ToolListChangedNotification
from mcphost.protocol.prompts import MAX_ARGUMENTS, GetPrompt
from mcphost.protocol.resources import ReadResource
from mcphost.protocol.revisions import Revision
from mcphost.protocol.server_requests import (
    ClientResult,
    ElicitResult,
    ListRootsResult,
    Root,
    ServerRequest,
    ServerRequestRejection,
)
from mcphost.protocol.tools import CallTool, ListTools
from tests.unit.client.fakes import FakeRequestHandler
from tests.unit.client.scripted_session import open_scripted_session

pytestmark = pytest.mark.anyio


def listed_tool(name: str) -> dict[str, Any]:
    return {"name": name, "inputSchema": {"type": "object"}}


# -- lists
@pytest.mark.req("page.no-fixed-size", "page.next", "page.empty-string", "page.end", "page.opaque", "page.no-persist")
@pytest.mark.parametrize("revision", list(Revision))
async def test_every_page_is_read_with_its_cursor_unchanged_and_from_the_first_in_each_session(
    revision: Revision,
) -> None:
    pages = {None: ([listed_tool("a")], ""), "": ([], " ü =/\n"), " ü =/\n": ([listed_tool("b")], None)}

    def server(method: str, params: dict[str, Any]) -> Any:
        tools, cursor = pages[params.get("cursor")]
        return {"tools": tools, "nextCursor": cursor, "ttlMs": 5, "cacheScope": "x", "resultType": "complete"}

    for _ in range(2):
        async with open_scripted_session(server, revision) as (session, requests, _):
            found = await list_tools(session)
        assert [tool.name for tool in found.values] == ["a", "b"]
        assert found.problems == ()
        assert found.ttl_ms == 5
        assert ["cursor" in message["params"] for message in requests] == [False, True, True]


@pytest.mark.req("page.loop-guard")
async def test_a_repeated_cursor_ends_the_list_with_a_warning() -> None:
    async with open_scripted_session(lambda method, params: {"tools": [listed_tool("a")], "nextCursor": "again"}) as (
        session,
        requests,
        _,
    ):
        found = await list_tools(session)
    assert len(requests) == 2
    assert "repeats its cursor" in found.problems[0]


@pytest.mark.req("page.loop-guard")
async def test_pages_and_items_without_end_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pagination, "MAX_PAGES", 7)
    count = 0

    def server(method: str, params: dict[str, Any]) -> Any:
        nonlocal count
        count += 1
        return {"tools": [listed_tool(f"t{count}")], "nextCursor": str(count)}

    async with open_scripted_session(server) as (session, _, _):
        found = await list_tools(session)
        assert (len(found.entries), len(found.problems)) == (7, 1)
        monkeypatch.setattr(pagination, "MAX_ITEMS", 3)
        found = await list_tools(session)
    assert (len(found.entries), len(found.problems)) == (3, 1)


@pytest.mark.req("tools.list.one-bad-tool")
async def test_a_broken_entry_is_left_out_and_named() -> None:
    broken = [{"name": "bad", "description": 5}, "text", {"title": "no name"}, None]
    async with open_scripted_session(
        lambda method, params: {"tools": [listed_tool("a"), *broken, listed_tool("b")]}
    ) as (
        session,
        _,
        _,
    ):
        found = await list_tools(session)
    assert [tool.name for tool in found.values] == ["a", "b"]
    assert len(found.problems) == 4
    assert "'bad'" in found.problems[0]
    assert bytes(found.entries[1].raw) == b'{"name":"b","inputSchema":{"type":"object"}}'


async def test_a_prompt_with_more_arguments_than_a_form_can_show_is_left_out_and_reported() -> None:
    def prompt(name: str, count: int) -> dict[str, Any]:
        return {"name": name, "arguments": [{"name": f"a{number}"} for number in range(count)]}

    listed = [prompt("most", MAX_ARGUMENTS), prompt("more", MAX_ARGUMENTS + 1)]
    async with open_scripted_session(lambda method, params: {"prompts": listed}) as (session, _, _):
        found = await list_prompts(session)
    assert [one.name for one in found.values] == ["most"]
    (problem,) = found.problems
    assert "'more'" in problem
    assert "more than 100 arguments" in problem


LISTS = [
    (list_tools, "tools"),
    (list_resources, "resources"),
    (list_resource_templates, "resourceTemplates"),
    (list_prompts, "prompts"),
]


@pytest.mark.req("tools.list", "res.list", "res.templates", "prompts.list")
@pytest.mark.parametrize(("read", "member"), LISTS)
@pytest.mark.parametrize("revision", list(Revision))
async def test_every_list_is_read_to_its_last_page(read: Any, member: str, revision: Revision) -> None:
    def server(method: str, params: dict[str, Any]) -> Any:
        number = int(params.get("cursor", 0))
        more = {"nextCursor": str(number + 1)} if number < 2 else {}
        entry = {**listed_tool(f"n{number}"), "uri": f"a://{number}", "uriTemplate": "a://{x}"}
        return {member: [entry], "resultType": "complete", **more}

    async with open_scripted_session(server, revision) as (session, _, _):
        found = await read(session)
    assert [item.name for item in found.values] == ["n0", "n1", "n2"]


@pytest.mark.req("life.op.respect-must")
@pytest.mark.req("tools.list", "res.list", "res.templates", "prompts.list")
@pytest.mark.parametrize("read", [read for read, _ in LISTS])
@pytest.mark.parametrize("revision", list(Revision))
async def test_undeclared_features_are_not_requested(read: Any, revision: Revision) -> None:
    async with open_scripted_session(lambda *_: {}, revision, capabilities=ServerCapabilities()) as (
        session,
        requests,
        _,
    ):
        assert (await read(session)).entries == ()
    assert requests == []


@pytest.mark.req("base.error.method-not-found")
@pytest.mark.req("res.templates")
async def test_unknown_templates_are_none() -> None:
    async with open_scripted_session(lambda *_: ErrorData(-32601, "no")) as (session, _, _):
        assert (await list_resource_templates(session)).entries == ()


# -- input rounds
ELICIT = {"method": "elicitation/create", "params": {"message": "?", "requestedSchema": {"type": "object"}}}


@pytest.mark.req("mrtr.fulfil", "base.core-support")
@pytest.mark.req("roots.list.modern")
@pytest.mark.req("mrtr.keys")
@pytest.mark.req("mrtr.retry.same-params")
@pytest.mark.req("mrtr.retry.new-id")
@pytest.mark.req("mrtr.state.echo")
@pytest.mark.req("mrtr.state.absent")
async def test_every_input_is_answered_and_the_state_is_returned_only_if_it_was_given() -> None:
    replies: list[Any] = [
        {
            "resultType": "input_required",
            "inputRequests": {"a": ELICIT, "b": {"method": "roots/list"}},
            "requestState": ' \u00e9 \\ "x"\n',
        },
        {"resultType": "input_required", "inputRequests": {"c": ELICIT}},
        {"resultType": "complete", "content": []},
    ]
    answers = FakeRequestHandler(
        {
            "elicitation/create": ElicitResult("accept", {"x": 1}),
            "roots/list": ListRootsResult((Root("file:///r"),)),
        }
    )
    async with open_scripted_session(lambda *_: replies.pop(0), answers=answers) as (session, requests, _):
        await session.request(CallTool("t", {"k": "v"}))
    first, second, third = (message["params"] for message in requests)
    assert second["inputResponses"] == {
        "a": {"action": "accept", "content": {"x": 1}},
        "b": {"roots": [{"uri": "file:///r"}]},
    }
    assert second["requestState"] == ' é \\ "x"\n'
    assert "requestState" not in third
    assert list(third["inputResponses"]) == ["c"]
    for params in (second, third):
        assert {name: params[name] for name in ("name", "arguments", "_meta")} == {
            name: first[name] for name in ("name", "arguments", "_meta")
        }
    assert len({message["id"] for message in requests}) == 3


@pytest.mark.req("mrtr.state-only")
async def test_a_round_with_a_state_alone_waits_and_continues() -> None:
    replies: list[Any] = [
        {"resultType": "input_required", "requestState": "s", "inputRequests": {}},
        {"resultType": "complete"},
    ]
    async with open_scripted_session(lambda *_: replies.pop(0)) as (session, requests, _):
        await session.request(CallTool("t"))
    assert requests[1]["params"]["requestState"] == "s"
    assert "inputResponses" not in requests[1]["params"]


@pytest.mark.req("mrtr.rounds")
async def test_endless_rounds_are_abandoned() -> None:
    answers = FakeRequestHandler({"elicitation/create": ElicitResult("decline")})
    endless = {"resultType": "input_required", "inputRequests": {"a": ELICIT}}
    async with open_scripted_session(lambda *_: endless, answers=answers) as (session, requests, _):
        with pytest.raises(TooManyInputRounds) as exc_info:
            await session.request(CallTool("t"))
    assert exc_info.value.server == "peer"
    assert len(requests) == 11


@pytest.mark.req("mrtr.decline")
@pytest.mark.req("samp.reject.modern")
async def test_a_declined_input_ends_the_call_here() -> None:
    answers = FakeRequestHandler(
        {"roots/list": ServerRequestRejection("not now"), "elicitation/create": ElicitResult("accept", {})}
    )
    question = {"resultType": "input_required", "inputRequests": {"a": ELICIT, "b": {"method": "roots/list"}}}
    async with open_scripted_session(lambda *_: question, answers=answers) as (session, requests, _):
        with pytest.raises(ConsentDenied, match="not now"):
            await session.request(CallTool("t"))
    assert len(requests) == 1


async def test_an_internal_error_in_an_answer_ends_its_call_with_a_clear_message() -> None:
    class FailingHandler(FakeRequestHandler):
        async def answer(self, request: ServerRequest, context: ServerRequestContext) -> ClientResult:
            raise KeyError("a mistake")

    question = {"method": "roots/list"}
    asked = {"resultType": "input_required", "inputRequests": {"a": question, "b": question}}
    async with open_scripted_session(lambda *_: asked, answers=FailingHandler({"roots/list": ListRootsResult(())})) as (
        session,
        _,
        _,
    ):
        with pytest.raises(ServerError, match="could not be answered"):
            await session.request(CallTool("t"))


@pytest.mark.req("mrtr.neither")
@pytest.mark.req("mrtr.undeclared")
@pytest.mark.req("mrtr.where")
@pytest.mark.parametrize(
    "question",
    [
        {},
        {"inputRequests": {}},
        {"requestState": None},
        {"inputRequests": {"a": {"method": "x/y"}}},
        {"inputRequests": {"a": 5}},
        {"inputRequests": {str(n): ELICIT for n in range(200)}},
    ],
)
async def test_a_round_that_makes_no_sense_is_an_invalid_answer(question: dict[str, Any]) -> None:
    answers = FakeRequestHandler({"elicitation/create": ElicitResult("cancel")})
    result = {"resultType": "input_required", **question}
    async with open_scripted_session(lambda *_: result, answers=answers) as (session, requests, _):
        with pytest.raises(MalformedMessage):
            await session.request(CallTool("t"))
        with pytest.raises(MalformedMessage, match="input_required"):
            await session.request(ListTools())
    assert len(requests) == 2


# -- changes
async def test_a_flood_of_the_same_change_is_reported_as_one_change() -> None:
    changes = ChangeNotifications()
    changes.wanted = WatchedChanges(tools=True, uris=("a:1", "a:2"))
    for _ in range(10_000):
        changes.put(ToolListChangedNotification())
        changes.put(ResourceUpdatedNotification("a:1"))
        changes.put(ResourceUpdatedNotification("a:2"))
        assert not changes.put(ResourceUpdatedNotification("a:3"))
    changes.close()
    assert [change async for change in changes] == [
        ToolListChangedNotification(),
        ResourceUpdatedNotification("a:1"),
        ResourceUpdatedNotification("a:2"),
    ]


# -- bounds
async def test_a_cursor_of_a_megabyte_ends_the_list_with_a_warning() -> None:
    def server(method: str, params: dict[str, Any]) -> Any:
        return {"tools": [listed_tool("a")], "nextCursor": str(len(requests)) + "c" * 1_000_000}

    async with open_scripted_session(server) as (session, requests, _):
        found = await list_tools(session)
    assert len(requests) == 1
    assert found.problems == ("A cursor in the list of tools has 1,000,001 characters; the rest was left out.",)


async def test_a_list_is_bounded_in_bytes_over_all_its_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pagination, "MAX_BYTES", 5 * 1024**2)

    def server(method: str, params: dict[str, Any]) -> Any:
        many = [listed_tool(f"t{len(requests)}") | {"description": "d" * 1024**2} for _ in range(2)]
        return {"tools": many, "nextCursor": str(len(requests))}

    async with open_scripted_session(server) as (session, requests, _):
        found = await list_tools(session)
    assert (len(requests), len(found.entries)) == (3, 4)
    assert found.problems == ("The list of tools has over 5 MB; the rest was left out.",)


async def test_a_tool_nested_too_deep_is_left_out_and_named() -> None:
    schema: dict[str, Any] = {}
    for _ in range(200):
        schema = {"properties": schema}
    async with open_scripted_session(
        lambda method, params: {"tools": [listed_tool("a"), listed_tool("deep") | {"x": schema}]}
    ) as (
        session,
        _,
        _,
    ):
        found = await list_tools(session)
    assert [item.name for item in found.values] == ["a"]
    assert found.problems == ("The tool 'deep' was left out: It is nested deeper than 128 levels.",)


async def test_prompts_and_resources_of_very_many_parts_are_refused() -> None:
    parts = {"prompts/get": {"messages": [{"role": "user", "content": {}}] * 10_001}}
    parts["resources/read"] = {"contents": [{"uri": "a:b"}] * 10_001}
    async with open_scripted_session(lambda method, params: parts[method]) as (session, _, _):
        with pytest.raises(MalformedMessage, match="a prompt of more than 10,000 messages"):
            await session.request(GetPrompt("x"))
        with pytest.raises(MalformedMessage, match="a resource of more than 10,000 entries"):
            await session.request(ReadResource("a:b"))


async def test_input_of_very_many_values_is_refused_before_it_is_decoded() -> None:
    many = {str(number): {"method": "roots/list"} for number in range(30_000)}
    async with open_scripted_session(lambda *_: {"resultType": "input_required", "inputRequests": many}) as (
        session,
        _,
        _,
    ):
        with pytest.raises(MalformedMessage, match="input with more than 50,000 values"):
            await session.request(CallTool("t"))
