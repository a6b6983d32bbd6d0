"""Tests for `--messages`, which prints the messages exchanged with a server, over each transport."""

import json
import re
import subprocess
from pathlib import Path

import pytest

from tests.flows.fork_server import sdk_server_command
from tests.flows.program import DEMO, MCPHOST, Program
from tests.peers import node


def printed_messages(program: Program, *command: str) -> list[tuple[str, dict[str, object]]]:
    """Run a command and return the messages that it printed, each with its arrow."""
    done = program.run(*command)
    assert done.returncode == 0, done.stderr
    lines = [line.partition(" ") for line in done.stderr.decode().splitlines() if line[:2] in ("→ ", "← ")]
    return [(arrow, json.loads(text)) for arrow, _space, text in lines]


def check_call(messages: list[tuple[str, dict[str, object]]], first: str) -> None:
    (request,) = [one for arrow, one in messages if arrow == "→" and one.get("method") == "tools/call"]
    assert ("→", first) in [(arrow, one.get("method")) for arrow, one in messages]
    (result,) = [one for arrow, one in messages if arrow == "←" and one.get("id") == request["id"]]
    assert "42" in json.dumps(result["result"])


def test_messages_of_a_local_server_are_printed_with_their_direction(program: Program) -> None:
    file = program.servers(demo=DEMO)
    check_call(
        printed_messages(program, "--mcp-config", file, "call", "demo", "add", "a=2", "b=40", "--messages"),
        "server/discover",
    )
    assert printed_messages(program, "--mcp-config", file, "call", "demo", "add", "a=2", "b=40") == []


@pytest.mark.parametrize("way", ["http", "http json"])
def test_messages_of_a_remote_server_are_printed_as_well(program: Program, way: str) -> None:
    peer = str(Path(node.__file__).with_name("sdk_server.py"))
    with subprocess.Popen(sdk_server_command(peer, *way.split()), stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout
            file = program.servers(web={"url": f"http://127.0.0.1:{int(server.stdout.readline())}/mcp"})
            command = ("--mcp-config", file, "--era", "handshake", "call", "web", "add", "a=2", "b=40", "--messages")
            check_call(printed_messages(program, *command), "initialize")
        finally:
            server.kill()


def test_http_is_printed_with_its_headers_and_without_secrets(program: Program) -> None:
    peer = str(Path(node.__file__).with_name("sdk_server.py"))
    with subprocess.Popen(sdk_server_command(peer, "http"), stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout
            secret = "hunter2hunter2"
            url = f"http://127.0.0.1:{int(server.stdout.readline())}/mcp"
            file = program.servers(web={"url": url, "headers": {"Authorization": f"Bearer {secret}", "X-Region": "eu"}})
            done = program.run(
                "--mcp-config", file, "--era", "handshake", "call", "web", "add", "a=2", "b=40", "--messages"
            )
        finally:
            server.kill()
    printed = done.stderr.decode()
    lines = printed.splitlines()
    assert done.stdout == b"42\n"
    assert any(line.startswith("⇄ POST /mcp tools/call 200, text/event-stream, ") for line in lines)
    assert any(line.startswith("⇄ GET /mcp 200, ") and line.endswith("closed by mcphost") for line in lines)
    assert any(line.startswith("⇄ DELETE /mcp 200, ") for line in lines)
    assert {"  > authorization: Bearer [secret]", "  > x-region: [secret]", "  < server: uvicorn"} <= set(lines)
    assert secret not in printed
    assert re.search(r"  < mcp-session-id: \w{8}…\n", printed)


def test_secrets_in_messages_are_not_printed(program: Program) -> None:
    file = program.servers(demo=DEMO)
    key = "sk-proj-" + "aB3dE5gH7jK9mN1pQ3sT5vX7zB9dF1hJ3lN5pR7t"
    done = program.run("--mcp-config", file, "call", "demo", "add_note", f"text={key}", "--messages")
    assert b"tools/call" in done.stderr
    assert key.encode() not in done.stderr


def test_messages_that_nobody_reads_do_not_stop_the_call(program: Program) -> None:
    file = program.servers(demo=DEMO)
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            (*MCPHOST, "--mcp-config", file, "call", "demo", "add", "a=2", "b=40", "--messages"),
            stdout=subprocess.PIPE, stderr=full, env=program.env, cwd=program.work, check=False,
        )  # fmt: skip
    assert done.stdout == b"2 + 40 = 42\n"
