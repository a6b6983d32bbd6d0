"""Tests for servers that flood a pipe: dropped messages are counted, and calls and memory use are not affected."""

import time

import anyio
import psutil
import pytest

from mcphost.config.schema import ContextConfig, Limits, ServerConfig
from mcphost.errors import ConnectionLost
from mcphost.host.events import ServerLog, ServerState, ToolProgress
from mcphost.host.host import Host
from mcphost.host.servers.tool_registry import DESCRIPTION_LIMIT
from mcphost.llm.model import ModelFacts
from tests.fakes.model import ScriptedModel, text_round
from tests.flows.conftest import OpenHost, inline_server, read_events

pytestmark = pytest.mark.anyio

FLOODS = r"""
import json, sys, time
out, read = sys.stdout, sys.stdin.readline
lists = 0
def say(**m): out.write(json.dumps({"jsonrpc": "2.0", **m}) + "\n")
def tools(cursor):
    tool = {"name": "t", "inputSchema": {"type": "object"}}
    if LISTS == "items": return {"tools": [{**tool, "name": f"t{n}"} for n in range(12_000)]}
    if LISTS == "pages": return {"tools": [], "nextCursor": str(int(cursor or 0) + 1)}
    tool["description"] = "\u00e9" * 5_000
    if LISTS == "words": return {"tools": [{**tool, "name": f"t{n}"} for n in range(150)]}
    return {"tools": [{**tool, "name": name} for name in "progress logs changes pings burst stray count".split()]}
def call(name, token):
    if name == "progress":
        for n in range(100_000): say(method="notifications/progress", params={"progressToken": token, "progress": n})
    if name == "logs":
        for n in range(50_000):
            say(method="notifications/message", params={"level": "info", "data": f"line {n} " + "x" * 200})
    if name == "stray":
        for n in range(20_000):
            say(id=n + 10**9, result={}); say(method="notifications/novel", params={}); out.write("noise\n")
    if name == "changes":
        end = time.monotonic() + 1.2
        while time.monotonic() < end: say(method="notifications/tools/list_changed"); out.flush(); time.sleep(0.0005)
    if name == "burst":
        for n in range(900): say(id=f"p{n}", method="ping")
        out.flush()
        return str(sum("result" in json.loads(read()) for n in range(900)))
    if name == "pings":
        for n in range(1_000_000): say(id=f"p{n}", method="ping")
    return str(lists)
for line in iter(read, ""):
    m = json.loads(line)
    if "method" not in m or "id" not in m: continue
    params = m.get("params", {})
    if m["method"] == "initialize":
        say(id=m["id"], result={"protocolVersion": "2025-11-25", "serverInfo": {"name": "s", "version": "1"},
            "capabilities": {"tools": {"listChanged": True}, "logging": {}}})
    elif m["method"] == "tools/list":
        lists += 1
        say(id=m["id"], result=tools(params.get("cursor")))
    elif m["method"] == "tools/call":
        text = call(params["name"], params.get("_meta", {}).get("progressToken"))
        say(id=m["id"], result={"content": [{"type": "text", "text": text}]})
    else: say(id=m["id"], error={"code": -32601, "message": "no"})
    out.flush()
"""


def flood_server(lists: str = "") -> ServerConfig:
    return inline_server("flood", f"LISTS = {lists!r}\n{FLOODS}", era="handshake")


def megabytes_since(before: int) -> float:
    """Return how much the memory use of this process has grown, in megabytes."""
    return (psutil.Process().memory_info().rss - before) / 1e6


async def call_flooding_tool(host: Host, tool: str) -> str:
    with anyio.fail_after(60):
        return (await host.tools.call("flood", tool, {})).text


@pytest.mark.req("prog.flood")
async def test_progress_floods_are_reported_at_ten_a_second(open_host: OpenHost) -> None:
    async with open_host(servers=(flood_server(),)) as host:
        await host.servers.ensure_ready("flood")
        feed, before, started_at = host.events.subscribe(), psutil.Process().memory_info().rss, time.monotonic()
        told = 0
        async with anyio.create_task_group() as group:

            async def listen() -> None:
                nonlocal told
                async for event in feed:
                    told += isinstance(event, ToolProgress)

            group.start_soon(listen)
            await call_flooding_tool(host, "progress")
            await anyio.lowlevel.checkpoint()
            group.cancel_scope.cancel()
        took = time.monotonic() - started_at
        counts = host.servers.view("flood").counts
        assert 1 <= told <= 12 * took + 3
        assert counts["progress left out"] + counts.get("messages left out in a flood", 0) > 10_000
        assert megabytes_since(before) < 60


async def test_of_fifty_thousand_log_lines_some_are_kept_and_the_rest_is_counted(open_host: OpenHost) -> None:
    async with open_host(servers=(flood_server(),)) as host:
        await host.servers.ensure_ready("flood")
        feed, before = host.events.subscribe(), psutil.Process().memory_info().rss
        await call_flooding_tool(host, "logs")
        view = host.servers.view("flood")
        assert 100 <= len(view.log) <= 1_000
        assert sum(isinstance(event, ServerLog) for event in feed.drain()) <= 1_001
        dropped = view.counts.get("messages left out in a flood", 0)
        assert view.counts["log lines left out"] + dropped + len(view.log) >= 50_000
        assert await call_flooding_tool(host, "count") == "1"
        assert megabytes_since(before) < 60


async def test_unmatched_messages_are_counted_and_reported_once(open_host: OpenHost) -> None:
    async with open_host(servers=(flood_server(),)) as host:
        await host.servers.ensure_ready("flood")
        before = psutil.Process().memory_info().rss
        await call_flooding_tool(host, "stray")
        view = host.servers.view("flood")
        assert view.counts["answers nobody waits for"] == view.counts["broken messages"] == 20_000
        assert len([line for line in view.log if line.source == "client"]) <= 2
        assert megabytes_since(before) < 30


@pytest.mark.req("tools.list-changed.legacy")
async def test_changes_without_end_cost_four_listings_a_second_at_most(open_host: OpenHost) -> None:
    async with open_host(servers=(flood_server(),)) as host:
        await host.servers.ensure_ready("flood")
        listed = int(
            await call_flooding_tool(host, "changes")
        )  # one at the start; during the flood the server lists nothing
        await anyio.sleep(0.6)
        assert listed == 1
        assert 2 <= int(await call_flooding_tool(host, "count")) <= 4


@pytest.mark.req("ping.answer")
async def test_hundreds_of_pings_at_once_are_all_answered(open_host: OpenHost) -> None:
    async with open_host(servers=(flood_server(),)) as host:
        await host.servers.ensure_ready("flood")
        assert await call_flooding_tool(host, "burst") == "900"
        assert host.servers.view("flood").counts == {"pings answered": 900}


async def test_endless_pings_stop_the_server_with_a_message(open_host: OpenHost) -> None:
    async with open_host(servers=(flood_server(),)) as host:
        await host.servers.ensure_ready("flood")
        feed, before = host.events.subscribe(), psutil.Process().memory_info().rss
        with pytest.raises(ConnectionLost, match="it was stopped"):
            await call_flooding_tool(host, "pings")
        with anyio.fail_after(60):
            await read_events(feed, lambda event: isinstance(event, ServerState) and "it was stopped" in event.detail)
        assert megabytes_since(before) < 60


@pytest.mark.req("page.loop-guard")
@pytest.mark.parametrize(("lists", "count", "text"), [("items", 10_000, "10,000"), ("pages", 0, "1,000 pages")])
async def test_endless_lists_are_truncated_and_reported(open_host: OpenHost, lists: str, count: int, text: str) -> None:
    async with open_host(servers=(flood_server(lists),)) as host:
        with anyio.fail_after(60):
            view = await host.servers.ensure_ready("flood")
        assert len(view.catalog.tools) == count
        assert [text in problem for problem in view.catalog.left_out] == [True]


async def test_the_model_gets_a_bounded_number_of_tools_and_a_bounded_part_of_each_description(
    open_host: OpenHost,
) -> None:
    model = ScriptedModel(text_round("ok"))
    everything = ContextConfig(max_tools=1_000, tool_share=1)
    model.facts = ModelFacts(context_window=10_000_000)
    async with open_host(model, servers=(flood_server("words"),), context=everything) as host:
        await host.servers.ensure_ready("flood")
        await host.conversation.send("hi")
    tools = model.requests[0].tools
    assert len(tools) == Limits().tools_to_model == 128
    assert {len(tool.description.encode()) for tool in tools} == {DESCRIPTION_LIMIT}
