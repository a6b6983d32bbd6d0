"""Tests for servers that forget their HTTP session: mcphost opens a new one and repeats the refused requests."""

import json
import logging
from collections.abc import Callable
from types import SimpleNamespace

import anyio
import pytest

from mcphost.client.session import Session, WatchedChanges
from mcphost.errors import ConnectionLost, ServerError
from mcphost.log import RedactingFormatter
from mcphost.protocol.notifications import ToolListChangedNotification
from mcphost.protocol.resources import Subscribe
from mcphost.protocol.revisions import Revision
from mcphost.protocol.tools import CallTool
from mcphost.transport import http_exchange
from mcphost.transport.channel import HttpStatusError
from tests.event_loop import wait_until
from tests.unit.client.fakes import RecordingObserver
from tests.unit.client.results import single_text
from tests.unit.client.scripted_http import (
    DISCOVERY,
    REVISIONS_WITH_SESSIONS,
    RequestHandler,
    SessionForgettingServer,
    handshake_server,
    open_http_session,
    stateless_server,
)
from tests.unit.transport.raw_http import ReceivedRequest

pytestmark = pytest.mark.anyio


@pytest.mark.req("http.session.404-reinit", "http.session.404-state")
@pytest.mark.parametrize("revision", REVISIONS_WITH_SESSIONS)
async def test_a_forgotten_session_is_reopened_and_the_refused_call_repeated(revision: Revision) -> None:
    server, observer = SessionForgettingServer(revision=revision.value), RecordingObserver()
    async with open_http_session(server, observer) as (session, _):
        assert single_text(await session.request(CallTool("a"))) == "session-1"
        await session.request(Subscribe("file:///x"))
        server.forget()
        assert single_text(await session.request(CallTool("b"))) == "session-2"
        assert session.facts.info.name == "server 2"
        with anyio.fail_after(20):
            async for change in session.changes(WatchedChanges()):
                assert isinstance(change, ToolListChangedNotification)  # the listing may be outdated now
                break
    assert server.ran == ["a", "b"]
    assert server.kept == [("session-1", "file:///x"), ("session-2", "file:///x")]
    assert [text for text in observer.warnings if "no longer knows the session" in text]


class ClosingServer(SessionForgettingServer):
    """A server that closes the stream of its first call after an event with an id."""

    def __init__(self) -> None:
        super().__init__()
        self.resumed: list[str] = []

    async def __call__(self, request: ReceivedRequest) -> object:
        if "last-event-id" in request.headers:
            self.resumed.append(request.headers["mcp-session-id"])
        if request.body and request.message.get("method") == "tools/call" and not self.ran:
            self.ran.append("closed")
            await request.stream()
            await request.send(b"id: 1\ndata:\n\n")
            return False
        return await super().__call__(request)


@pytest.mark.parametrize("expires", [True, False])
async def test_a_stream_is_resumed_only_in_its_own_session(expires: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    server, waits, goes_on = ClosingServer(), anyio.Event(), anyio.Event()

    async def wait(seconds: float) -> None:
        waits.set()
        await goes_on.wait()

    monkeypatch.setattr(http_exchange, "anyio", SimpleNamespace(sleep=wait))
    with anyio.fail_after(20):
        async with open_http_session(server) as (session, _), anyio.create_task_group() as calls:
            errors: list[ServerError] = []

            async def call() -> None:
                try:
                    await session.request(CallTool("a"))
                except ServerError as error:
                    errors.append(error)

            calls.start_soon(call)
            await waits.wait()
            if expires:
                server.forget()
            assert single_text(await session.request(CallTool("b"))) == ("session-2" if expires else "session-1")
            goes_on.set()
            if expires:
                await wait_until(lambda: bool(errors))
            else:
                await wait_until(lambda: bool(server.resumed))
            calls.cancel_scope.cancel()
    assert server.resumed == ([] if expires else ["session-1"])


class StubbornServer(SessionForgettingServer):
    """A server whose tool calls never end, and which answers DELETE with `status`."""

    def __init__(self, status: int | None = 202) -> None:
        super().__init__()
        self.status = status
        self.last: list[str] = []
        self.called = anyio.Event()

    async def __call__(self, request: ReceivedRequest) -> object:
        method = request.message.get("method") if request.body else request.method
        if method == "tools/call":
            self.called.set()
            await request.stream()
            await request.wait_closed()
            return False
        if method == "notifications/cancelled":
            self.last.append(f"cancelled {request.message['params']['requestId']}")
        elif method == "DELETE":
            self.last.append("DELETE")
            if self.status is None:
                await request.wait_closed()
                return False
            return await request.reply(self.status, b"", kind="")
        return await super().__call__(request)


@pytest.mark.parametrize("whole", [True, False], ids=["the call first", "all at once"])
async def test_leaving_while_a_call_runs_cancels_it_before_the_session_is_ended(whole: bool) -> None:
    server = StubbornServer()
    async with anyio.create_task_group() as outer:

        async def visit() -> None:
            async with open_http_session(server) as (session, _), anyio.create_task_group() as calls:
                calls.start_soon(session.request, CallTool("a"))
                await server.called.wait()
                (calls if whole else outer).cancel_scope.cancel()

        outer.start_soon(visit)
    *before, last = server.last
    assert last == "DELETE"
    assert before, "nothing was cancelled"
    assert all(
        item == before[0] and item.startswith("cancelled ") for item in before
    )  # a request in flight may be repeated


@pytest.mark.req("http.session.delete", "http.session.delete-405")
@pytest.mark.parametrize("status", [405, 401, 404, 500, None])
async def test_a_session_is_closed_whatever_the_server_answers_to_delete(status: int | None) -> None:
    server, observer = StubbornServer(status), RecordingObserver()
    with anyio.fail_after(20):
        async with open_http_session(server, observer) as (session, _):
            assert session.facts.info.name == "server 1"
    assert server.last == ["DELETE"]
    assert observer.warnings == []


@pytest.mark.req("http.session.400")
@pytest.mark.parametrize(
    "reason", [b"Bad Request: No valid session ID provided", b"Bad Request: Server not initialized"]
)
async def test_a_working_session_that_is_refused_with_400_is_reopened_too(reason: bytes) -> None:
    server = SessionForgettingServer()
    server.refusal, server.reason = 400, reason
    async with open_http_session(server) as (session, _):
        await session.request(CallTool("a"))
        server.forget()
        assert single_text(await session.request(CallTool("b"))) == "session-2"


class LateServer(SessionForgettingServer):
    """A server that refuses the call "late" only when its client has opened another session."""

    def __init__(self) -> None:
        super().__init__()
        self.refusal, self.reason = 400, b"Bad Request: Server not initialized"
        self.received, self.renewed = anyio.Event(), anyio.Event()

    async def __call__(self, request: ReceivedRequest) -> object:
        if b'"late"' in request.body and request.headers["mcp-session-id"] == "session-1":
            self.received.set()
            await self.renewed.wait()
        return await super().__call__(request)


@pytest.mark.req("http.session.400")
async def test_a_refusal_that_arrives_after_the_session_was_reopened_repeats_the_call() -> None:
    server, results = LateServer(), dict[str, str]()
    async with open_http_session(server) as (session, _):
        await session.request(CallTool("a"))

        async def call(name: str) -> None:
            results[name] = single_text(await session.request(CallTool(name)))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call, "late")
            with anyio.fail_after(20):
                await server.received.wait()
                server.forget()
                await call("b")
                server.renewed.set()
    assert results == {"b": "session-2", "late": "session-2"}
    assert server.opened == 2


@pytest.mark.req("http.session.400")
async def test_400_that_mentions_sessions_in_a_new_session_is_reported_and_ends_nothing() -> None:
    async def call(request: ReceivedRequest) -> object:
        return await request.reply(400, b"No valid session ID provided", "text/plain")

    async with open_http_session(handshake_server(call)) as (session, server):
        with pytest.raises(HttpStatusError, match="HTTP 400"):
            await session.request(CallTool("a"))
        with pytest.raises(HttpStatusError, match="HTTP 400"):
            await session.request(CallTool("b"))
    assert server.calls().count("POST initialize") == 1


async def test_a_flood_on_the_stream_of_a_server_is_bounded_and_reported() -> None:
    async def get(request: ReceivedRequest) -> object:
        await request.stream()
        notice = b'data: {"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}}\n\n'
        await request.send(notice * 20_000)
        await request.wait_closed()
        return False

    observer = RecordingObserver()
    async with open_http_session(handshake_server(on_get=get), observer) as (session, _):
        with anyio.fail_after(10):
            while len(observer.logged) + session.anomaly_counts["messages left out in a flood"] < 20_000:
                await session.request(CallTool("x"))
    assert len(observer.warnings) <= 1


@pytest.mark.req("http.session.404-reinit")
async def test_many_calls_that_find_the_session_gone_share_the_new_one() -> None:
    server = SessionForgettingServer()
    async with open_http_session(server) as (session, _):
        server.forget()
        received: list[str] = []

        async def call(number: int) -> None:
            received.append(single_text(await session.request(CallTool(str(number)))))

        async with anyio.create_task_group() as group:
            for number in range(20):
                group.start_soon(call, number)
    assert received == ["session-2"] * 20
    assert sorted(server.ran, key=int) == [str(number) for number in range(20)]
    assert server.opened == 2


async def test_a_session_forgotten_twice_in_a_row_ends_the_connection_and_is_reported() -> None:
    server, observer = SessionForgettingServer(lasting=False), RecordingObserver()
    async with open_http_session(server, observer) as (session, _):
        server.forget()
        with (
            anyio.fail_after(20),
            pytest.raises(ConnectionLost, match="no longer knows the session, and a new one did not last") as failed,
        ):
            await session.request(CallTool("x"))
        assert not failed.value.may_have_run  # both sessions answered with status 404
        assert "did not run" in failed.value.hint
        with anyio.fail_after(20):
            await session.wait_closed()
    assert server.ran == []
    assert server.opened == 2
    assert [text for text in observer.warnings if "did not last" in text]


async def test_a_call_that_finds_the_session_gone_did_not_run_even_if_the_new_handshake_fails() -> None:
    server = SessionForgettingServer()

    async def fail_the_second_handshake(request: ReceivedRequest) -> object:
        is_second = request.body and request.message.get("method") == "initialize" and server.opened
        return await (request.reply(500, b"oops", "text/plain") if is_second else server(request))

    async with open_http_session(fail_the_second_handshake) as (session, _):
        server.forget()
        with anyio.fail_after(20), pytest.raises(ConnectionLost, match="HTTP 500") as failed:
            await session.request(CallTool("x"))
    assert not failed.value.may_have_run
    assert "did not run" in failed.value.hint
    assert server.ran == []


@pytest.mark.req("http.session.404-reinit")
async def test_a_notification_that_finds_the_session_gone_leaves_reopening_to_the_next_call() -> None:
    running, cancelled = anyio.Event(), anyio.Event()
    server = SessionForgettingServer()

    async def handler(request: ReceivedRequest) -> object:
        if request.body and request.message["method"] == "notifications/cancelled":
            await server(request)
            cancelled.set()
            return True
        if request.body and request.message.get("params", {}).get("name") == "slow":
            running.set()
            await request.wait_closed()
            return False
        return await server(request)

    async with open_http_session(handler) as (session, _):
        async with anyio.create_task_group() as group:
            group.start_soon(session.request, CallTool("slow"))
            await running.wait()
            server.forget()
            group.cancel_scope.cancel()
        with anyio.fail_after(20):
            await cancelled.wait()
        await anyio.wait_all_tasks_blocked()
        assert single_text(await session.request(CallTool("b"))) == "session-2"
    assert server.opened == 2


@pytest.mark.req("http.session.404-reinit")
async def test_a_new_session_whose_opening_was_broken_off_is_opened_again_before_the_next_call() -> None:
    server, held = SessionForgettingServer(), anyio.Event()
    ready: set[str] = set()

    async def handler(request: ReceivedRequest) -> object:
        session = request.headers.get("mcp-session-id", "")
        if request.body and request.message["method"] == "notifications/initialized":
            if session == "session-2":
                held.set()
                await request.wait_closed()
                return False
            ready.add(session)
        if (
            request.body
            and request.message["method"] == "tools/call"
            and session == server.known
            and session not in ready
        ):
            return await request.error(400, -32602)  # messages of servers before the end of the handshake
        return await server(request)

    async with open_http_session(handler) as (session, _):
        server.forget()
        async with anyio.create_task_group() as group:
            group.start_soon(session.request, CallTool("a"))
            await held.wait()
            group.cancel_scope.cancel()
        assert single_text(await session.request(CallTool("b"))) == "session-3"
    assert server.ran == ["b"]


@pytest.mark.req("http.get.server-closes")
@pytest.mark.parametrize("refusal", [404, 400])
async def test_a_stream_that_finds_the_session_gone_reopens_it_without_a_call(refusal: int) -> None:
    server = SessionForgettingServer()
    server.refusal = refusal
    async with open_http_session(server) as (session, _):
        with anyio.fail_after(20):
            await server.streamed.wait()
            server.forget()
            server.streamed = anyio.Event()
            server.streams[0].writer.close()
            await server.streamed.wait()
        assert single_text(await session.request(CallTool("a"))) == "session-2"
    assert [stream.headers["mcp-session-id"] for stream in server.streams] == ["session-1", "session-2"]


class SlowlyOpeningServer(SessionForgettingServer):
    """A server that accepts the end of its second handshake when a stream is requested, or after two seconds."""

    async def __call__(self, request: ReceivedRequest) -> object:
        if b"notifications/initialized" in request.body and self.opened == 2:
            with anyio.move_on_after(2):
                await self.streamed.wait()
        return await super().__call__(request)


async def test_the_stream_of_the_old_session_is_not_reopened_in_the_new_one() -> None:
    server = SlowlyOpeningServer()
    async with open_http_session(server) as (session, _):
        with anyio.fail_after(20):
            await server.streamed.wait()
            server.streamed = anyio.Event()
            server.streams[0].writer.close()  # reopened after a second
            server.forget()
            assert single_text(await session.request(CallTool("a"))) == "session-2"
            await server.streamed.wait()
    assert [stream.headers["mcp-session-id"] for stream in server.streams] == ["session-1", "session-2"]


@pytest.mark.req("http.get.405")
async def test_a_server_that_answers_404_instead_of_405_for_the_stream_keeps_its_session() -> None:
    asked = anyio.Event()

    async def get(request: ReceivedRequest) -> None:
        asked.set()
        await request.reply(404, b"no such page", "text/html")

    async with open_http_session(handshake_server(on_get=get)) as (session, server):
        with anyio.fail_after(20):
            await asked.wait()
        for _ in range(3):
            await session.request(CallTool("x"))
    assert server.calls().count("POST initialize") == 1
    assert server.calls().count("GET") == 1


async def test_a_stream_that_requires_an_account_is_reopened_after_a_successful_call() -> None:
    requests: list[ReceivedRequest] = []

    async def get(request: ReceivedRequest) -> object:
        requests.append(request)
        if len(requests) == 1:
            return await request.reply(401, b"", www_authenticate="Bearer")
        await request.stream()
        await request.event({"method": "notifications/tools/list_changed"})
        await request.wait_closed()
        return False

    async with open_http_session(handshake_server(on_get=get)) as (session, _):
        await session.request(CallTool("x"))
        with anyio.fail_after(20):
            assert isinstance(await anext(session.changes(WatchedChanges(tools=True))), ToolListChangedNotification)
        await session.request(CallTool("x"))
    assert len(requests) == 2


@pytest.mark.req("http.get.409")
@pytest.mark.parametrize("status", [409, 406, 413, 415])
async def test_another_refusal_of_the_stream_is_reported_with_its_status_and_the_session_continues(status: int) -> None:
    observer = RecordingObserver()
    async with open_http_session(
        handshake_server(on_get=lambda item: item.reply(status, b"one stream only", "text/plain")), observer
    ) as (
        session,
        _,
    ):
        with anyio.fail_after(20):
            while not observer.warnings:
                await session.request(CallTool("x"))
    assert f"HTTP {status} (text/plain): one stream only" in observer.warnings[0]


@pytest.mark.req("http.session.charset")
async def test_a_session_id_that_cannot_be_a_header_is_not_sent_back_and_reported() -> None:
    observer = RecordingObserver()
    async with open_http_session(handshake_server(session="a\tb"), observer) as (session, server):
        await session.request(CallTool("x"))
    assert all("mcp-session-id" not in message.headers for message in server.seen)
    assert "not visible ASCII" in observer.warnings[0]


@pytest.mark.req("http.session.ignored-modern")
async def test_a_session_id_of_a_stateless_server_is_ignored() -> None:
    async def handler(request: ReceivedRequest) -> object:
        if request.message["method"] == "server/discover":
            discovery = json.dumps(
                {
                    "jsonrpc": "2.0",
                    "id": request.message["id"],
                    "result": {
                        "resultType": "complete",
                        "supportedVersions": ["2026-07-28"],
                        "capabilities": {"tools": {}},
                    },
                }
            ).encode()
            return await request.reply(200, discovery, mcp_session_id="sticky")
        return await request.result({"resultType": "complete", "content": [{"type": "text", "text": "ok"}]})

    async with open_http_session(handler) as (session, server):
        assert single_text(await session.request(CallTool("x"))) == "ok"
    assert all("mcp-session-id" not in message.headers and message.method == "POST" for message in server.seen)


@pytest.mark.req("http.session.secret")
async def test_a_session_id_is_sent_only_to_its_server_and_ends_with_the_session() -> None:
    async def call_both(first: Session, second: Session) -> None:
        await first.request(CallTool("x"))
        await second.request(CallTool("x"))

    async with (
        open_http_session(handshake_server(session="secret-one")) as (one, server_one),
        open_http_session(handshake_server(session="secret-two")) as (
            two,
            server_two,
        ),
    ):
        await call_both(one, two)
    for server, own in ((server_one, "secret-one"), (server_two, "secret-two")):
        assert {seen.headers.get("mcp-session-id", own) for seen in server.seen} == {own}
    async with open_http_session(handshake_server(session="secret-one")) as (_, server):
        assert "mcp-session-id" not in server.seen[1].headers  # initialize starts without the previous session id


@pytest.mark.req("http.session.secret")
async def test_a_session_id_is_never_shown_or_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")

    async def call(request: ReceivedRequest) -> object:
        return await request.reply(int(request.message["params"]["name"]), b"no", "text/plain")

    observer, said = RecordingObserver(), [""]
    async with open_http_session(handshake_server(call, session="secret-one"), observer) as (session, server):
        for name in ("400", "500", "404"):  # the last one means that the session is gone, also in the new one
            with pytest.raises(ServerError) as exc_info:
                await session.request(CallTool(name))
            said += [exc_info.value.message, exc_info.value.hint]
        said.append((await session.wait_closed()).message)
    assert server.calls().count("POST initialize") == 2
    assert "no longer knows the session" in said[-1]
    assert "secret-one" not in "\n".join([*said, *observer.warnings, *observer.lines, caplog.text])


@pytest.mark.req("http.session.400", "http.version-header.400")
@pytest.mark.parametrize("body", [b"Bad Request: Mcp-Session-Id header is required", b"Unsupported protocol version"])
async def test_a_refusal_of_our_header_is_reported_with_its_value(body: bytes) -> None:
    async with open_http_session(handshake_server(lambda item: item.reply(400, body, "text/plain"), session="")) as (
        session,
        _,
    ):
        with pytest.raises(Exception, match=r"HTTP 400 .*" + body.decode()) as exc_info:
            await session.request(CallTool("x"))
    if b"version" in body:
        assert "2025-11-25" in str(exc_info.value)
    else:
        assert "session" in str(exc_info.value).lower()


@pytest.mark.req("http.mod.no-server-requests")
async def test_a_question_in_the_stream_of_a_stateless_answer_is_reported_and_not_answered() -> None:
    async def call(request: ReceivedRequest) -> object:
        await request.stream()
        await request.event({"id": "q", "method": "roots/list"})
        await request.event({"id": request.message["id"], "result": {"resultType": "complete", "content": []}})
        return False

    observer = RecordingObserver()
    async with open_http_session(stateless_server(call), observer) as (session, server):
        await session.request(CallTool("x"))
    assert server.calls() == ["POST server/discover", "POST tools/call"]
    assert "roots/list" in observer.warnings[0]


@pytest.mark.req("http.mod.post-only")
async def test_a_ping_on_the_stream_of_a_discovery_is_answered_by_no_post() -> None:
    async def handler(request: ReceivedRequest) -> object:
        if request.message["method"] != "server/discover":
            return await request.result({"resultType": "complete", "content": []})
        await request.stream()
        await request.event({"id": "p", "method": "ping"})
        await request.event({"id": request.message["id"], "result": DISCOVERY})
        return False

    async with open_http_session(handler) as (session, server):
        await session.request(CallTool("x"))
    assert server.calls() == ["POST server/discover", "POST tools/call"]


@pytest.mark.parametrize("serving", [stateless_server, handshake_server])
async def test_a_call_on_a_kept_connection_that_the_server_closes_at_once_is_not_sent_again(
    serving: Callable[[RequestHandler], RequestHandler],
) -> None:
    async def crash(request: ReceivedRequest) -> bool:
        return False

    async with open_http_session(serving(crash)) as (session, server):
        with anyio.fail_after(20), pytest.raises(ConnectionLost, match="may have had effects") as exc_info:
            await session.request(CallTool("x"))
    assert exc_info.value.may_have_run
    assert server.calls().count("POST tools/call") == 1


async def test_a_session_id_that_the_server_repeats_in_an_error_is_not_logged() -> None:
    session_id = "1868a90c-4b6e-4d3f-9f0a-77b2c0de1234"

    async def refuse(request: ReceivedRequest) -> object:
        return await request.reply(500, f"session {request.headers['mcp-session-id']} is broken".encode())

    async with open_http_session(handshake_server(refuse, session=session_id)) as (session, _):
        with pytest.raises(ServerError) as caught:
            await session.request(CallTool("a"))
    assert "is broken" in str(caught.value)
    record = logging.LogRecord("mcphost", logging.WARNING, "", 1, "a call failed: %s", (caught.value,), None)
    line = RedactingFormatter("%(message)s").format(record)
    assert "is broken" in line
    assert session_id not in line
