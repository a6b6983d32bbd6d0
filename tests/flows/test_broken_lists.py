"""Tests that invalid entries are dropped from a server's lists without affecting other entries, calls or the chat."""

import json
import re
import sys
from pathlib import Path

import anyio
import pytest

from mcphost.host.events import ServerLog
from tests.flows.conftest import OpenHost, inline_server
from tests.flows.program import Program

pytestmark = pytest.mark.anyio

LISTS = """
import json, os, sys, threading, time
def put(m): sys.stdout.write(json.dumps({"jsonrpc": "2.0", **m}) + "\\n"); sys.stdout.flush()
def reply(i, r): put({"id": i, "result": r})
lists = json.loads(os.environ.get("LISTS") or open(os.environ["LISTS_FILE"]).read())
for line in sys.stdin:
    m = json.loads(line)
    if "id" not in m: continue
    i, method = m["id"], m["method"]
    if method == "initialize":
        r = {"protocolVersion": "2025-11-25", "serverInfo": {"name": "s", "version": ""},
             "capabilities": {"tools": {"listChanged": True}, "prompts": {}, "resources": {}}}
    elif method in lists:
        r = lists[method]
        if r is None:
            put({"id": i, "error": {"code": -32000, "message": "out of order"}}); continue
    elif method == "tools/call":
        if m["params"]["name"] == "slow":
            lists["tools/list"] = None
            put({"method": "notifications/tools/list_changed"})
            threading.Timer(1.0, reply, [i, {"content": [{"type": "text", "text": "done"}]}]).start(); continue
        r = {"content": [{"type": "text", "text": "ran"}]}
    else:
        put({"id": i, "error": {"code": -32601, "message": "no"}}); continue
    reply(i, r)
"""
TOOL = {"name": "t", "inputSchema": {"type": "object"}}


def list_results(**more: object) -> str:
    usual = {"tools/list": {"tools": [TOOL]}, "prompts/list": {"prompts": []}, "resources/list": {"resources": []}}
    return json.dumps({**usual, **more})


@pytest.mark.parametrize("broken", [None, 5, {"prompts": 5}], ids=["refused", "no object", "no list"])
async def test_a_list_of_prompts_that_cannot_be_read_does_not_cost_the_tools(
    open_host: OpenHost, broken: object
) -> None:
    server = inline_server("s", LISTS, env={"LISTS": list_results(**{"prompts/list": broken})})
    async with open_host(None, servers=(server,)) as host:
        assert (await host.tools.call("s", "t", {})).text == "ran"
        assert "list of prompts was left out" in host.servers.view("s").catalog.left_out[0]


async def test_a_tool_whose_schema_no_model_accepts_is_left_out_and_named(open_host: OpenHost, tmp_path: Path) -> None:
    deep: object = {}
    for _ in range(500):
        deep = {"x": deep}
    tools = [TOOL, {"name": "deep", "inputSchema": deep}, {"name": "big", "inputSchema": {"x": "y" * 300_000}}]
    file = tmp_path / "lists.json"  # one environment variable holds 128 kB at most
    file.write_text(list_results(**{"tools/list": {"tools": tools}}))
    server = inline_server("s", LISTS, env={"LISTS_FILE": str(file)})
    async with open_host(None, servers=(server,)) as host:
        view = await host.servers.ensure_ready("s")
    assert [tool.name for tool in view.catalog.tools] == ["t"]
    assert ["'deep'" in text for text in view.catalog.left_out] == [True, False]
    assert "over 256 kB" in view.catalog.left_out[1]


def test_servers_check_warns_of_tools_that_were_left_out(program: Program) -> None:
    tools = [TOOL, *({"name": f"wrong{n}", "inputSchema": {"type": "object", "x": "y" * 300_000}} for n in range(5))]
    lists = program.home / "lists.json"
    lists.write_text(list_results(**{"tools/list": {"tools": tools}}))
    server = {"command": sys.executable, "args": ["-c", LISTS], "env": {"LISTS_FILE": str(lists)}}
    row = program.text("--mcp-config", program.servers(s=server), "servers", "check")
    assert re.match(r"s +warning ", row)
    assert "The tool 'wrong0' was left out: its inputSchema cannot be used: it is over 256 kB." in row
    assert "'wrong2'" in row
    assert "'wrong3'" not in row
    assert "2 more entries were left out." in row
    assert "1 tool" in row


async def test_a_changed_list_that_is_refused_does_not_cost_the_running_call(open_host: OpenHost) -> None:
    slow = {**TOOL, "name": "slow"}
    server = inline_server("s", LISTS, env={"LISTS": list_results(**{"tools/list": {"tools": [slow]}})})
    async with open_host(None, servers=(server,)) as host:
        feed = host.events.subscribe()
        with anyio.fail_after(10):
            assert (await host.tools.call("s", "slow", {})).text == "done"
        assert any(isinstance(event, ServerLog) and "could not be read" in event.text for event in feed.drain())
        assert host.servers.view("s").state == "ready"
