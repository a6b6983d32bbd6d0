"""Tests for servers that die, crash repeatedly or come back, with real processes, sockets and a real Host."""

import asyncio
import json
import socket
import sys
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcphost.client import requests, subscriptions
from mcphost.client.connect import ClientSessionOpener
from mcphost.config.approval_digest import server_digest
from mcphost.config.schema import HostConfig, Limits, ServerConfig
from mcphost.errors import ConnectionLost, RequestNotSent, ServerError, StartupError
from mcphost.host.audit.audit_log import AuditLog, AuditSpan
from mcphost.host.bootstrap import build_host
from mcphost.host.event_bus import EventBus
from mcphost.host.events import ServerState, ToolFinished
from mcphost.host.host import Host
from mcphost.host.servers import reconnect_schedule, server_log, tool_changes
from mcphost.host.servers.server_log import ServerLogBuffer
from mcphost.protocol.tools import CallTool
from mcphost.store.accepted_tools import ToolFingerprintStore
from mcphost.store.database import Database
from mcphost.transport import http_pool, reachability
from tests.event_loop import wait_until
from tests.fakes.frontend import ScriptedFrontend
from tests.fakes.model import ScriptedModel
from tests.unit.client.scripted_http import DISCOVERY, SessionForgettingServer, stateless_server, text_answer
from tests.unit.client.scripted_server import ScriptedServer
from tests.unit.client.stdio_sessions import FAULTY_SERVER
from tests.unit.host.audit_rows import create_audit_log, read_rows
from tests.unit.host.scripted_host import open_peer_host as peered
from tests.unit.transport.raw_http import ReceivedRequest, serve
from tests.unit.transport.scripted_sse import SSE_HEAD, ScriptedSseServer, format_event

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def open_server_host(
    folder: Path, server: ServerConfig, limits: Limits | None = None, audit_log: AuditLog | None = None
) -> AsyncIterator[Host]:
    database = Database(folder / "store.db")
    limits = limits or Limits()
    host = build_host(
        HostConfig(servers=(server,), limits=limits),
        store=database,
        opener=ClientSessionOpener(limits=limits),
        model_factory=lambda _: ScriptedModel(),
        frontend=ScriptedFrontend(),
        audit=audit_log,
    )
    async with host:
        yield host
    await database.close()


def faulty_config(fault: str, note: Path | None = None, **more: object) -> ServerConfig:
    arguments = (FAULTY_SERVER, fault, str(note or ""))
    return ServerConfig(name="peer", command=sys.executable, args=arguments, source="flag", **more)  # type: ignore[arg-type]


async def test_the_tools_of_a_server_that_is_closed_as_soon_as_it_is_ready_are_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tool_changes, "SAVE_SECONDS", 3_600)
    server = faulty_config("")
    async with open_server_host(tmp_path, server) as host:
        tools = {tool.name for tool in (await host.servers.ensure_ready(server.name)).catalog.tools}
    database = Database(tmp_path / "store.db")
    assert set(await ToolFingerprintStore(database).load_all(server.name, server_digest(server))) == tools
    assert tools
    await database.close()


@pytest.mark.req("stdio.restart")
async def test_a_crash_loop_is_tried_five_times_more_and_then_left_to_the_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert reconnect_schedule.BACK_OFF == (1, 2, 4, 8, 16)
    monkeypatch.setattr(reconnect_schedule, "BACK_OFF", (0.01,) * 5)
    note = tmp_path / "seen"
    async with open_server_host(tmp_path, faulty_config("dies after its list", note, era="handshake")) as host:
        events = host.events.subscribe()
        host.start()
        await wait_until(lambda: note.exists() and note.read_text().count('"method":"initialize"') == 6)
        await wait_until(lambda: host.servers.view("peer").state == "failed")
        with anyio.move_on_after(0.3):  # and nothing more happens
            await wait_until(lambda: host.servers.view("peer").state != "failed")
        assert "exited with status 7; it last said: crashed again" in host.servers.view("peer").detail
        assert "mcphost gave up after 5 attempts." in host.servers.view("peer").detail
        failed = [one for one in events.drain() if isinstance(one, ServerState) and one.state == "failed"]
    told = [one.hint for one in failed]
    assert all(
        f"mcphost starts it again in 0.01 s (attempt {number} of 5)." in told[number - 1] for number in range(1, 6)
    )
    assert [one.retry_seconds for one in failed] == [0.01] * 5 + [0]
    assert note.read_text().count('"method":"initialize"') == 6


async def test_a_stopped_server_stays_stopped_until_the_user_starts_it(tmp_path: Path) -> None:
    note = tmp_path / "seen"
    async with open_server_host(tmp_path, faulty_config("", note, era="handshake")) as host:
        await host.servers.ensure_ready("peer")
        session = await host.servers.find("peer").session()
        host.servers.stop("peer")
        await session.wait_closed()
        with pytest.raises(ServerError, match="peer was stopped"):
            await host.servers.ensure_ready("peer")
        assert host.servers.view("peer").state == "stopped"
        assert note.read_text().count('"method":"initialize"') == 1
        host.servers.restart("peer")
        assert (await host.servers.ensure_ready("peer")).state == "ready"
    assert note.read_text().count('"method":"initialize"') == 2


async def test_a_disabled_server_stays_disabled_if_it_is_stopped(tmp_path: Path) -> None:
    async with open_server_host(tmp_path, faulty_config("", disabled=True)) as host:
        host.servers.stop("peer")
        assert host.servers.view("peer").state == "disabled"


async def test_a_server_stopped_while_it_would_be_tried_again_is_not_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reconnect_schedule, "BACK_OFF", (0.2,) * 5)
    note = tmp_path / "seen"
    async with open_server_host(tmp_path, faulty_config("dies after its list", note, era="handshake")) as host:
        host.start()
        await wait_until(lambda: "Retrying" in host.servers.view("peer").detail)
        starts = note.read_text().count('"method":"initialize"')
        host.servers.stop("peer")
        with anyio.move_on_after(0.5):
            await wait_until(lambda: host.servers.view("peer").state != "stopped")
        assert (host.servers.view("peer").state, note.read_text().count('"method":"initialize"')) == ("stopped", starts)


async def test_a_removed_server_reports_no_later_failure_and_no_hint_to_restart_it(tmp_path: Path) -> None:
    async with open_server_host(tmp_path, faulty_config("", era="handshake")) as host:
        host.start()
        await host.servers.ensure_ready("peer")
        connection = host.servers.find("peer")
        feed = host.events.subscribe()
        host.servers.remove("peer")
        with pytest.raises(ServerError) as exc_info:
            await connection.session()
        assert (exc_info.value.message, exc_info.value.hint) == ("peer was removed.", "")
        await connection.sign_out()
        states = [event for event in feed.drain() if isinstance(event, ServerState)]
        assert [(event.state, event.detail, event.hint) for event in states] == [("stopped", "peer was removed.", "")]


@pytest.mark.req("stdio.restart", "stdio.restart.retry")
async def test_a_server_that_dies_in_a_call_is_started_again_and_the_call_is_not_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reconnect_schedule, "BACK_OFF", (0.01,) * 5)
    note = tmp_path / "seen"
    async with open_server_host(tmp_path, faulty_config("", note, era="handshake")) as host:
        await host.servers.ensure_ready("peer")
        session = await host.servers.find("peer").session()
        started_at = time.monotonic()
        with pytest.raises(ConnectionLost, match="SIGKILL"):
            await session.request(CallTool("die"))
        assert time.monotonic() - started_at < 10
        with anyio.fail_after(10):
            # The call fails a moment before the connection does; the next one goes to a new server.
            assert (await host.tools.call("peer", "echo", {"text": "back"})).text == "back"
    assert note.read_text().count('"name":"die"') == 1


@pytest.mark.req("stdio.restart")
@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
@pytest.mark.parametrize("moment", ["before", "while it is recorded"])
async def test_a_call_right_after_a_server_died_goes_to_the_new_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, revision: str, moment: str
) -> None:
    monkeypatch.setattr(reconnect_schedule, "BACK_OFF", (0.01,) * 5)

    def script(peer: ScriptedServer, method: str, params: dict[str, Any]) -> dict[str, Any] | None:
        if method == "tools/list":
            return {"tools": [{"name": "tool", "inputSchema": {"type": "object"}}]}
        return {"content": []} if method == "tools/call" else {}

    first, second = ScriptedServer(script, revision), ScriptedServer(script, revision)
    starts = AuditSpan.start

    async def dying(effect: AuditSpan, **more: Any) -> None:
        await starts(effect, **more)
        first.pipe.multiplexer.connection_lost(ConnectionLost("It died."))

    async with peered(tmp_path, first, second) as host:
        await host.servers.ensure_ready("peer")
        if moment == "before":
            first.pipe.multiplexer.connection_lost(ConnectionLost("It died."))
        else:
            monkeypatch.setattr(AuditSpan, "start", dying)
        feed = host.events.subscribe()
        await host.tools.call("peer", "tool", {})
        assert [event.outcome for event in feed.drain() if isinstance(event, ToolFinished)] == ["ok"]
    assert (first.methods().count("tools/call"), second.methods().count("tools/call")) == (0, 1)


@pytest.mark.req("stdio.restart")
async def test_a_call_to_a_dead_server_reports_that_it_was_not_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reconnect_schedule, "BACK_OFF", ())
    tools = {"tools": [{"name": "tool", "inputSchema": {"type": "object"}}]}
    first = ScriptedServer(lambda peer, method, params: tools if method == "tools/list" else {})
    async with peered(tmp_path, first) as host:
        await host.servers.ensure_ready("peer")
        first.pipe.multiplexer.connection_lost(ConnectionLost("It died."))
        with pytest.raises(ServerError, match="It died") as exc_info:
            await host.tools.call("peer", "tool", {})
        assert "may have run" not in str(exc_info.value)


@pytest.mark.req("stdio.restart")
async def test_a_server_that_worked_is_tried_again_while_it_cannot_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reconnect_schedule, "BACK_OFF", (0.01,) * 5)
    note = tmp_path / "seen"
    async with open_server_host(tmp_path, faulty_config("missing for a while", note, era="handshake")) as host:
        await host.servers.ensure_ready("peer")
        (tmp_path / "seen.gone").touch()
        session = await host.servers.find("peer").session()
        with pytest.raises(ConnectionLost):
            await session.request(CallTool("die"))
        await wait_until(lambda: not (tmp_path / "seen.gone").exists())
        with anyio.fail_after(10):
            await host.servers.ensure_ready("peer")
        assert note.read_text().count('"method":"initialize"') == 2


async def test_a_server_that_never_worked_is_not_retried_automatically(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reconnect_schedule, "BACK_OFF", (0.01,) * 5)
    async with open_server_host(tmp_path, faulty_config("dies at start", era="stateless")) as host:
        with pytest.raises(ServerError):
            await host.servers.ensure_ready("peer")
        with anyio.move_on_after(0.3) as scope:
            await wait_until(lambda: host.servers.view("peer").state != "failed")
        assert scope.cancelled_caught


@pytest.mark.req("http.session.404-state")
async def test_lists_are_fetched_again_after_a_forgotten_session(tmp_path: Path) -> None:
    server = SessionForgettingServer()

    async def handler(request: ReceivedRequest) -> object:
        ours = server.known and request.headers.get("mcp-session-id") == server.known
        if ours and request.body and request.message.get("method") == "tools/list":
            tools = [{"name": name, "inputSchema": {"type": "object"}} for name in ("tool", f"tool-{server.opened}")]
            return await request.result({"tools": tools})
        if ours and request.body and request.message.get("method", "").startswith("resources/"):
            return await request.result({"resources": [], "resourceTemplates": []})
        return await server(request)

    def names() -> list[str]:
        return [tool.name for tool in host.servers.view("peer").catalog.tools]

    async with (
        serve(handler) as http,
        open_server_host(tmp_path, ServerConfig(name="peer", url=http.url, source="flag")) as host,
    ):
        await host.servers.ensure_ready("peer")
        assert names() == ["tool", "tool-1"]
        server.forget()
        assert (await host.tools.call("peer", "tool", {})).text == "session-2"
        await wait_until(lambda: names() == ["tool", "tool-2"])
        assert host.servers.view("peer").state == "ready"


async def answer_list_and_call(request: ReceivedRequest) -> object:
    """Answer as a 2026-07-28 server with one tool and no list changes."""
    match request.message["method"]:
        case "tools/list":
            tools = [{"name": "tool", "inputSchema": {"type": "object"}}]
            return await request.result({"resultType": "complete", "tools": tools, "ttlMs": 0, "cacheScope": "private"})
        case "tools/call":
            return await request.result(text_answer())
        case _:
            return await request.error(404, -32601)


@asynccontextmanager
async def open_http_host(folder: Path) -> AsyncIterator[tuple[Host, AsyncExitStack, int]]:
    """Connect a host to a server over HTTP; the server stops when the yielded stack is closed."""
    async with AsyncExitStack() as running:
        http = await running.enter_async_context(serve(stateless_server(answer_list_and_call)))
        async with open_server_host(folder, ServerConfig(name="peer", url=http.url, source="flag")) as host:
            await host.servers.ensure_ready("peer")
            yield host, running, http.port


async def test_an_http_server_that_went_away_is_unreachable_until_a_call_succeeds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reachability, "FIRST_DELAY", 3_600)
    async with open_http_host(tmp_path) as (host, running, port):
        await running.aclose()
        with pytest.raises(ServerError, match="cannot be reached"):
            await host.tools.call("peer", "tool", {})
        view = host.servers.view("peer")
        assert (view.state, "cannot be reached" in view.detail) == ("unreachable", True)
        async with serve(stateless_server(answer_list_and_call), port=port):
            assert (await host.tools.call("peer", "tool", {})).text == "ok"
            assert (host.servers.view("peer").state, host.servers.view("peer").detail) == ("ready", "")


async def test_an_http_server_whose_event_stream_cannot_be_reopened_is_unreachable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subscriptions, "FIRST_DELAY", 0.01)
    monkeypatch.setattr(reachability, "FIRST_DELAY", 0.01)

    async def handler(request: ReceivedRequest) -> object:
        match request.message["method"]:
            case "server/discover":
                return await request.result({**DISCOVERY, "capabilities": {"tools": {"listChanged": True}}})
            case "subscriptions/listen":
                await request.stream()
                return await request.wait_closed()
            case _:
                return await answer_list_and_call(request)

    async with AsyncExitStack() as running:
        http = await running.enter_async_context(serve(handler))
        async with open_server_host(tmp_path, ServerConfig(name="peer", url=http.url, source="flag")) as host:
            await host.servers.ensure_ready("peer")
            await wait_until(lambda: "POST subscriptions/listen" in http.calls())
            await running.aclose()
            await wait_until(lambda: host.servers.view("peer").state == "unreachable")
            async with serve(handler, port=http.port):
                await wait_until(lambda: host.servers.view("peer").state == "ready")


async def test_an_http_server_that_came_back_is_ready_again_without_a_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reachability, "FIRST_DELAY", 0.01)
    monkeypatch.setattr(reachability, "MAX_DELAY", 0.01)
    async with open_http_host(tmp_path) as (host, running, port):
        await running.aclose()
        with pytest.raises(ServerError, match="cannot be reached"):
            await host.tools.call("peer", "tool", {})
        assert host.servers.view("peer").state == "unreachable"
        async with serve(stateless_server(answer_list_and_call), port=port) as again:
            await wait_until(lambda: host.servers.view("peer").state == "ready")
            assert again.calls() == []


async def test_an_http_server_that_is_not_up_when_the_chat_starts_is_unreachable_until_it_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (reconnect_schedule.FIRST_UNREACHABLE_DELAY, reconnect_schedule.MAX_UNREACHABLE_DELAY) == (2, 60)
    monkeypatch.setattr(reconnect_schedule, "FIRST_UNREACHABLE_DELAY", 0.01)
    monkeypatch.setattr(reconnect_schedule, "MAX_UNREACHABLE_DELAY", 0.01)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    config = ServerConfig(name="peer", url=f"http://127.0.0.1:{port}/mcp", source="flag")
    async with open_server_host(tmp_path, config) as host:
        feed = host.events.subscribe()
        host.start(retry_unreachable=True)
        await wait_until(lambda: host.servers.view("peer").state == "unreachable")
        view = host.servers.view("peer")
        assert "cannot be reached: Connection refused" in view.detail
        assert view.hint.endswith("mcphost tries again every 0.01 s.")
        with anyio.fail_after(1), pytest.raises(ServerError, match="Connection refused"):
            await host.servers.ensure_ready("peer")
        async with serve(stateless_server(answer_list_and_call), port=port):
            await wait_until(lambda: host.servers.view("peer").state == "ready")
            assert (await host.tools.call("peer", "tool", {})).text == "ok"
        states = [event.state for event in feed.drain() if isinstance(event, ServerState)]
    assert states[: states.index("ready")].count("unreachable") == 1


class AttemptCounter:
    """A count of the attempts to reach servers that failed, and will be repeated."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        next_retry = reconnect_schedule.ReconnectSchedule.next_retry

        def count(schedule: reconnect_schedule.ReconnectSchedule, error: Any, ready_at: float) -> Any:
            self.count += 1
            return next_retry(schedule, error, ready_at)

        monkeypatch.setattr(reconnect_schedule.ReconnectSchedule, "next_retry", count)
        monkeypatch.setattr(reconnect_schedule, "FIRST_UNREACHABLE_DELAY", 0.01)
        monkeypatch.setattr(reconnect_schedule, "MAX_UNREACHABLE_DELAY", 0.01)

    async def wait_for(self, count: int) -> None:
        await wait_until(lambda: self.count >= count)


async def read_connection_rows(host: Host) -> list[tuple[str, str, str]]:
    return [(row.event, row.decision, row.detail) for row in await read_rows(host.audit, "connection")]


async def test_the_audit_log_has_one_row_for_each_change_of_an_unreachable_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempts = AttemptCounter(monkeypatch)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    config = ServerConfig(name="peer", url=f"http://127.0.0.1:{port}/mcp", source="flag")
    log = create_audit_log(tmp_path)
    async with open_server_host(tmp_path, config, audit_log=log) as host:
        host.start(retry_unreachable=True)
        await attempts.wait_for(6)
        assert await read_connection_rows(host) == [("started", "", ""), ("ended", "failed", ""), ("started", "", "")]
        async with serve(stateless_server(answer_list_and_call), port=port):
            await wait_until(lambda: host.servers.view("peer").state == "ready")
            *_, retried, again = await read_connection_rows(host)
            assert retried[:2] == ("ended", "connected")
            assert json.loads(retried[2])["attempts"] >= 6
            assert again == ("started", "", "")
    assert (await read_rows(log, "connection"))[-1].event == "ended"
    assert len(await read_rows(log, "connection")) == 6


async def test_attempts_to_reach_a_server_are_counted_when_the_user_restarts_it_or_the_program_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempts = AttemptCounter(monkeypatch)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    config = ServerConfig(name="peer", url=f"http://127.0.0.1:{port}/mcp", source="flag")
    log = create_audit_log(tmp_path)
    async with open_server_host(tmp_path, config, audit_log=log) as host:
        host.start(retry_unreachable=True)
        await attempts.wait_for(4)
        host.servers.restart("peer")
        seen = attempts.count
        await attempts.wait_for(seen + 4)
    rows = [(row.event, row.decision) for row in await read_rows(log, "connection")]
    assert rows == [("started", ""), ("ended", "failed")] * 4
    counted = [json.loads(row.detail)["attempts"] for row in await read_rows(log, "connection") if row.detail]
    assert len(counted) == 2
    assert min(counted) >= 2


@pytest.mark.parametrize("fault", ["one-shot", "tls", "status"])
async def test_an_http_server_that_is_up_but_unusable_or_needed_at_once_fails_at_once(
    fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reconnect_schedule, "FIRST_UNREACHABLE_DELAY", 0.01)

    async def refuse(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(refuse, "127.0.0.1", 0) as listening:
        port = listening.sockets[0].getsockname()[1] if fault != "one-shot" else 9
        url = f"{'https' if fault == 'tls' else 'http'}://127.0.0.1:{port}/mcp"
        async with open_server_host(tmp_path, ServerConfig(name="peer", url=url, source="flag")) as host:
            host.start(retry_unreachable=fault != "one-shot")
            await wait_until(lambda: host.servers.view("peer").state in ("failed", "unreachable"))
            assert host.servers.view("peer").state == "failed"


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://example.com/mcp", [2, 4, 8, 16, 32, *[60] * 35]),
        ("http://127.0.0.1:3000/mcp", [2] * 40),
        ("http://[::1]:3000/mcp", [2] * 40),
        ("http://localhost:3000/mcp", [2] * 40),
        ("http://127.0.0.1.example.com/mcp", [2, 4, 8, 16, 32, *[60] * 35]),
    ],
)
def test_the_pauses_of_an_unreachable_server_grow_to_60_seconds_unless_it_is_on_this_machine(
    url: str, expected: list[float]
) -> None:
    schedule = reconnect_schedule.ReconnectSchedule(url)
    schedule.retry_unreachable = True
    error = StartupError("The server cannot be reached.")
    error.__cause__ = RequestNotSent("Connection refused")
    error.__cause__.__cause__ = ConnectionRefusedError()
    pauses = [retry.seconds for _ in range(40) if (retry := schedule.next_retry(error, 0)) is not None]
    assert pauses == expected


@pytest.mark.req("sse.stream-lost")
async def test_a_lost_event_stream_is_opened_again_with_a_new_handshake(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reconnect_schedule, "BACK_OFF", (0.01,) * 5)

    def answers(message: dict[str, object]) -> bytes:
        if message.get("method") == "initialize":
            result = {"protocolVersion": "2024-11-05", "capabilities": {}, "serverInfo": {"name": "old"}}
            return format_event(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}))
        return b""

    server = ScriptedSseServer(SSE_HEAD + format_event("/m", "endpoint"), answers)
    async with await asyncio.start_server(server.serve, "127.0.0.1", 0) as listening:
        url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/sse"
        config = ServerConfig(name="peer", url=url, transport="sse", source="flag")
        async with open_server_host(tmp_path, config) as host:
            await host.servers.ensure_ready("peer")
            server.drop()
            await wait_until(lambda: [message["method"] for message in server.posted].count("initialize") == 2)
            await host.servers.ensure_ready("peer")
            warnings = [line.text for line in host.servers.view("peer").log if "deprecated" in line.text]
    assert len(warnings) == 1  # reported once, however often it connects


async def test_a_list_that_breaks_off_keeps_the_old_list_and_the_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requests, "FIRST_DELAY", 0.01)
    fine = True
    tools = {"resultType": "complete", "tools": [{"name": "x", "inputSchema": {"type": "object"}}], "ttlMs": 1}

    async def call(request: ReceivedRequest) -> object:
        if request.message["method"] == "tools/list" and fine:
            return await request.result(tools)
        if request.message["method"] == "tools/call":
            return await request.result({"resultType": "complete", "content": [{"type": "text", "text": "ran"}]})
        return await request.reply(500)

    async with (
        serve(stateless_server(call)) as http,
        open_server_host(tmp_path, ServerConfig(name="peer", url=http.url, source="flag")) as host,
    ):
        await host.servers.ensure_ready("peer")
        fine = False
        assert (await host.tools.call("peer", "x", {})).text == "ran"
        assert host.servers.view("peer").state == "ready"


@pytest.mark.parametrize(
    ("fault", "ran"),
    [("cut", True), ("reset", True), ("garbage", True), ("slow", True), ("502", True), ("503", False), ("413", False)],
)
async def test_a_failed_call_reports_whether_its_tool_may_have_run(
    fault: str, ran: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_pool, "STALE_WINDOW", 0)
    tools = {"resultType": "complete", "tools": [{"name": "x", "inputSchema": {"type": "object"}}], "ttlMs": 60_000}

    async def call(request: ReceivedRequest) -> object:
        if request.message["method"] != "tools/call":
            return await request.result(tools)
        if fault.isdigit():
            return await request.reply(int(fault), b"no", "text/plain")
        if fault == "cut":
            await request.send(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 9\r\n\r\n{")
        elif fault == "garbage":
            await request.send(b"\0\0 not HTTP\r\n\r\n")
        elif fault == "slow":
            await request.wait_closed()
        else:
            request.writer.transport.abort()
        return False

    limits = Limits(request_timeout=0.5, request_timeout_max=0.5)
    async with (
        serve(stateless_server(call)) as http,
        open_server_host(tmp_path, ServerConfig(name="peer", url=http.url, source="flag"), limits) as host,
    ):
        await host.servers.ensure_ready("peer")
        feed = host.events.subscribe()
        with pytest.raises(ServerError) as exc_info:
            await host.tools.call("peer", "x", {})
        (finished,) = [event for event in feed.drain() if isinstance(event, ToolFinished)]
    assert ("The tool may have run." in finished.text) == ran
    assert ("may have" in str(exc_info.value)) == ran


def test_the_log_of_a_server_is_limited_to_a_megabyte_and_deduplicated() -> None:
    log = ServerLogBuffer("peer", EventBus())
    for number in range(1_000):
        log.add("info", f"{number} " + "x" * 5_000, "client")
    kept = log.lines()
    assert sum(len(line.text) for line in kept) <= server_log.MAX_TOTAL_CHARS
    assert kept[-1].text.startswith("999 ")
    assert log.dropped == 1_000 - len(kept)
    for _ in range(3):
        log.warn_once("odd")
    assert [line.text for line in log.lines()].count("odd") == 1
