"""Tests that server requests during a single command are refused, with a message about where they can be answered."""

import json
import sys
from typing import Any

import pytest

from tests.flows.program import Program

ASKING = """
import json, sys
def send(**message): print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)
modern = "modern" in sys.argv
ask = {"method": sys.argv[1], "params": {"message": "?", "requestedSchema": {"type": "object"}}}
known = {"capabilities": {"tools": {}}}
for line in sys.stdin:
    message = json.loads(line)
    method, ident = message.get("method"), message.get("id")
    tools = [{"name": "ask", "inputSchema": {"type": "object"}}]
    if method == "initialize":
        send(id=ident, result={"protocolVersion": "2025-11-25", **known, "serverInfo": {"name": "x", "version": "1"}})
    elif method == "server/discover" and modern:
        send(id=ident, result={"resultType": "complete", "supportedVersions": ["2026-07-28"], **known})
    elif method == "tools/list":
        send(id=ident, result={"tools": tools, "resultType": "complete"})
    elif method == "tools/call" and modern:
        send(id=ident, result={"resultType": "input_required", "inputRequests": {"a": ask}})
    elif method == "tools/call":
        call = ident
        send(id="q", **ask)
    elif method is None and ident == "q":
        send(id=call, result={"content": [{"type": "text", "text": json.dumps(message.get("error"))}]})
    elif ident is not None:
        send(id=ident, error={"code": -32601, "message": "no"})
"""


def add_asking_server(program: Program, method: str, *more: str) -> str:
    entry: dict[str, Any] = {"command": sys.executable, "args": ["-c", ASKING, method, *more]}
    return program.servers(asker=entry)


@pytest.mark.parametrize("method", ["elicitation/create", "sampling/createMessage", "roots/list"])
def test_a_command_refuses_server_requests_and_points_to_the_pipe(program: Program, method: str) -> None:
    done = program.run("--mcp-config", add_asking_server(program, method), "call", "asker", "ask", "--json")
    assert done.returncode == 0
    assert "-32601" in json.loads(done.stdout)["text"]
    error_text = done.stderr.decode()
    assert method in error_text
    assert "mcphost pipe" in error_text

    error_text = program.error(
        "--mcp-config", add_asking_server(program, method, "modern"), "call", "asker", "ask", code=4
    )
    assert method in error_text
    assert "mcphost pipe" in error_text


def test_run_declares_only_what_it_can_answer(program: Program) -> None:
    file = add_asking_server(program, "elicitation/create")
    done = program.run(
        "--mcp-config", file, "--model", "demo", "run", "call ask", "--allow", "asker", "--output", "json"
    )
    assert done.returncode == 0, done.stderr
    (call,) = json.loads(done.stdout)["calls"]
    assert "-32601" in call["text"]


@pytest.mark.parametrize("era", [(), ("modern",)])
def test_run_names_the_request_that_it_refused_and_where_it_can_be_answered(
    program: Program, era: tuple[str, ...]
) -> None:
    file = add_asking_server(program, "elicitation/create", *era)
    done = program.run("--mcp-config", file, "--model", "demo", "run", "call ask", "--allow", "asker")
    error_text = done.stderr.decode()
    assert "'elicitation/create', which mcphost does not offer" in error_text
    assert error_text.count("This command cannot ask you. Use the chat") == 1
