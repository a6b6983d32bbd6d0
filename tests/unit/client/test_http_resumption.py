"""Tests for event streams that end before the response: they are resumed if the protocol revision allows it."""

import anyio
import pytest

from mcphost.errors import ConnectionLost
from mcphost.protocol.tools import CallTool
from mcphost.transport import http_exchange
from tests.unit.client.fakes import RecordingObserver
from tests.unit.client.results import single_text
from tests.unit.client.scripted_http import (
    RequestHandler,
    close_stream_after,
    handshake_server,
    open_http_session,
    stateless_server,
    text_answer,
)
from tests.unit.transport.raw_http import ReceivedRequest

pytestmark = pytest.mark.anyio


def answer_resumption(ident: str, *, retry: bytes = b"") -> tuple[RequestHandler, list[str], list[float]]:
    """Return a handler that answers the call once a stream is resumed after event *ident*.

    The two lists contain the event IDs that the client resumed after, and the times of these requests.
    """
    heard: list[str] = []
    times: list[float] = []

    async def get(request: ReceivedRequest) -> object:
        last = request.headers.get("last-event-id", "")
        if not last:
            return await request.reply(405)
        heard.append(last)
        times.append(anyio.current_time())
        await request.stream()
        if last != ident:
            await request.send(b"id: " + ident.encode() + b"\n" + retry + b"data:\n\n")
            return False
        await request.event({"id": calls[0], "result": {"content": [{"type": "text", "text": "late"}]}})
        return False

    calls: list[int] = []

    async def both(request: ReceivedRequest) -> object:
        if request.method == "GET":
            return await get(request)
        calls.append(request.message["id"])
        return await close_stream_after(b"id: first\n" + retry + b"data:\n\n")(request)

    return both, heard, times


@pytest.mark.req("http.sse.polling-reconnect")
@pytest.mark.req("http.sse.priming-event")
@pytest.mark.req("http.resume.last-event-id")
@pytest.mark.req("http.resume.post-streams")
async def test_a_stream_closed_after_an_event_with_an_id_is_resumed_by_get_until_the_answer() -> None:
    both, heard, _ = answer_resumption("second", retry=b"retry: 10\n")
    observer = RecordingObserver()
    async with open_http_session(handshake_server(both, on_get=both), observer) as (session, server):
        with anyio.fail_after(20):
            assert single_text(await session.request(CallTool("x"))) == "late"
        assert session.anomaly_counts["broken messages"] == 0
    assert observer.warnings == []
    assert heard == ["first", "second"]
    assert server.calls().count("POST tools/call") == 1
    resumed = next(message for message in server.seen if "last-event-id" in message.headers)
    assert resumed.headers["mcp-session-id"] == "s-1"
    assert resumed.headers["accept"] == "text/event-stream"


@pytest.mark.req("http.sse.retry-field")
async def test_the_servers_retry_interval_is_respected() -> None:
    both, _, times = answer_resumption("first", retry=b"retry: 1500\n")
    async with open_http_session(handshake_server(both, on_get=both)) as (session, _):
        started_at = anyio.current_time()
        with anyio.fail_after(20):
            assert single_text(await session.request(CallTool("x"))) == "late"
    assert 1.5 <= times[0] - started_at < 2.5


@pytest.mark.req("http.resume.give-up")
async def test_a_stream_without_new_events_is_abandoned_after_a_few_tries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_exchange, "MAX_RESUME_DELAY", 0.01)
    asked: list[str] = []

    async def get(request: ReceivedRequest) -> object:
        if "last-event-id" not in request.headers:
            return await request.reply(405)
        asked.append(request.headers["last-event-id"])
        return await close_stream_after(b": nothing\n\n")(request)

    async with open_http_session(handshake_server(close_stream_after(b"id: 1\nretry: 0\ndata:\n\n"), on_get=get)) as (
        session,
        _,
    ):
        with anyio.fail_after(20), pytest.raises(ConnectionLost, match="before it answered tools/call"):
            await session.request(CallTool("x"))
    assert asked == ["1"] * http_exchange.MAX_SILENT_RESUMES


@pytest.mark.req("http.sse.server-should-not-close")
async def test_a_stream_without_event_ids_is_a_broken_connection() -> None:
    async with open_http_session(
        handshake_server(close_stream_after(b'data: {"jsonrpc":"2.0","method":"notifications/message"}\n\n'))
    ) as (
        session,
        s,
    ):
        with anyio.fail_after(20), pytest.raises(ConnectionLost):
            await session.request(CallTool("x"))
        assert not [message for message in s.seen if "last-event-id" in message.headers]
        with pytest.raises(ConnectionLost):  # the session itself continues
            await session.request(CallTool("y"))


@pytest.mark.req("http.resume.removed")
async def test_a_stateless_stream_is_never_resumed() -> None:
    async def call(request: ReceivedRequest) -> object:
        if request.message["params"].get("name") == "y":
            return await request.result(text_answer())
        return await close_stream_after(b"id: 1\nretry: 1\ndata:\n\n")(request)

    async with open_http_session(stateless_server(call)) as (session, server):
        with anyio.fail_after(20), pytest.raises(ConnectionLost):
            await session.request(CallTool("x"))
        assert single_text(await session.request(CallTool("y"))) == "ok"
    assert all(message.method == "POST" for message in server.seen)


@pytest.mark.req("http.sse.disconnect-not-cancel")
async def test_cancelling_while_waiting_for_a_stream_is_reported() -> None:
    called, cancelled = anyio.Event(), anyio.Event()
    both, _, _ = answer_resumption("never", retry=b"retry: 30000\n")

    async def handler(request: ReceivedRequest) -> object:
        if request.body and request.message.get("method") == "notifications/cancelled":
            cancelled.set()
        if request.body and request.message.get("method") == "tools/call":
            called.set()
        return await handshake_server(both, on_get=both)(request)

    async with open_http_session(handler) as (session, _):
        async with anyio.create_task_group() as calls:
            calls.start_soon(session.request, CallTool("x"))
            await called.wait()
            await anyio.sleep(0.3)  # the stream ends, and is to be resumed in half a minute
            calls.cancel_scope.cancel()
        with anyio.fail_after(20):
            await cancelled.wait()
