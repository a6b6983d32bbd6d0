"""Tests for tasks that outlive mcphost: after it was killed and started again, it fetches the result."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from tests.flows.program import PipeClient, Program

FOUND = {"content": [{"type": "text", "text": "gold"}]}


class TaskHttpServer:
    """An HTTP server of 2026-07-28 that turns every call into a task, which runs until the test ends it."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.over = False
        self.more = threading.Condition()
        self.url = ""

    def answer(self, method: str) -> Any:
        with self.more:
            self.seen.append(method)
            self.more.notify_all()
        done: dict[str, Any] = {"resultType": "complete"}
        match method:
            case "server/discover":
                capabilities = {"tools": {}, "extensions": {"io.modelcontextprotocol/tasks": {}}}
                found = {"supportedVersions": ["2026-07-28"], "capabilities": capabilities}
                return done | found | {"ttlMs": 0, "cacheScope": "private"}
            case "tools/list":
                tool = {"name": "dig", "inputSchema": {"type": "object"}}
                return done | {"tools": [tool], "ttlMs": 0, "cacheScope": "private"}
            case "tools/call":
                return self.task("task")
            case "tasks/get":
                return self.task("complete") | ({"status": "completed", "result": FOUND} if self.over else {})
            case _:
                return done

    def task(self, kind: str) -> dict[str, Any]:
        times = {"createdAt": "2026-01-01T00:00:00Z", "lastUpdatedAt": "2026-01-01T00:00:00Z"}
        state = {"resultType": kind, "taskId": "t-1", "status": "working", "ttlMs": None, "pollIntervalMs": 100}
        return state | times

    def wait(self, method: str, times: int = 1) -> None:
        """Wait until *times* requests with this method have arrived."""
        with self.more:
            assert self.more.wait_for(lambda: self.seen.count(method) >= times, 10), self.seen


@contextmanager
def run_task_server() -> Iterator[TaskHttpServer]:
    server = TaskHttpServer()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            message = json.loads(self.rfile.read(int(self.headers["content-length"])))
            body = json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": server.answer(message["method"])})
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *args: Any) -> None:
            """Do not print requests to standard error."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        http.daemon_threads = True
        server.url = f"http://127.0.0.1:{http.server_port}/mcp"
        thread = threading.Thread(target=http.serve_forever, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            http.shutdown()


def start_task_call(pipe: PipeClient, server: TaskHttpServer) -> int:
    pipe.ask("connect", server="mine")
    call = pipe.send("call", server="mine", tool="dig", arguments={})
    pipe.event("progress")
    server.wait("tasks/get", 3)  # it is stored by now: storing began before the first poll
    return call


@pytest.mark.req("task.ext.persist")
def test_a_task_whose_caller_was_killed_is_resumed_by_exactly_one_next_run(program: Program) -> None:
    with run_task_server() as server:
        file = program.servers(mine={"url": server.url})
        with program.pipe("--mcp-config", file) as first:
            start_task_call(first, server)
            with program.pipe("--mcp-config", file) as other:
                other.ask("connect", server="mine")
                assert other.ask("quit")["ok"]
                assert "tool_started" not in [event["event"] for event in other.events]
            first.process.kill()
            first.process.wait()
        with program.pipe("--mcp-config", file) as second:
            second.ask("connect", server="mine")
            started = second.event("tool_started", tool="dig")
            assert (started["call"], started["by"]) == ("left-1", "earlier")
            server.over = True
            finished = second.event("tool_finished", call="left-1")
            assert (finished["outcome"], finished["text"]) == ("ok", "gold")
            assert second.ask("quit")["ok"]
            second.end()
        polls = server.seen.count("tasks/get")
        with program.pipe("--mcp-config", file) as third:
            third.ask("connect", server="mine")
            assert third.ask("quit")["ok"]
            assert "tool_started" not in [event["event"] for event in third.events]
        assert server.seen.count("tasks/get") == polls
        assert "tasks/cancel" not in server.seen


def test_a_task_that_is_followed_again_continues_when_that_run_ends_too(program: Program) -> None:
    with run_task_server() as server:
        file = program.servers(mine={"url": server.url})
        with program.pipe("--mcp-config", file) as first:
            start_task_call(first, server)
            first.process.kill()
            first.process.wait()
        assert "dig" in program.text("--mcp-config", file, "tools", "mine")  # a short command does not resume it
        for _ in range(2):
            with program.pipe("--mcp-config", file) as again:
                again.ask("connect", server="mine")
                again.event("progress", call="left-1")
                assert again.ask("quit")["ok"]
                again.end()
        assert "tasks/cancel" not in server.seen


def test_a_task_that_was_ended_with_its_run_is_forgotten(program: Program) -> None:
    with run_task_server() as server:
        file = program.servers(mine={"url": server.url})
        with program.pipe("--mcp-config", file) as first:
            start_task_call(first, server)
            assert first.ask("quit")["ok"]
            first.end()
        server.wait("tasks/cancel")
        polls = server.seen.count("tasks/get")
        with program.pipe("--mcp-config", file) as second:
            second.ask("connect", server="mine")
            assert second.ask("quit")["ok"]
        assert server.seen.count("tasks/get") == polls
