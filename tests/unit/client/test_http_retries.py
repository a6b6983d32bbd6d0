"""Tests for busy and failing HTTP servers: which requests wait, which are retried, and what is reported."""

import time
from collections.abc import Callable
from email.utils import formatdate
from functools import partial
from typing import Any

import anyio
import pytest

from mcphost.client import requests
from mcphost.client.pagination import list_tools
from mcphost.config.schema import Limits
from mcphost.errors import ConnectionLost, MalformedMessage, RequestNotSent, ServerError
from mcphost.protocol.notifications import Notification, ProgressNotification
from mcphost.protocol.tools import CallTool
from mcphost.transport import http_pool
from mcphost.transport.channel import HttpStatusError
from tests.unit.client.fakes import RecordingObserver
from tests.unit.client.results import single_text
from tests.unit.client.scripted_http import (
    RequestHandler,
    handshake_server,
    open_http_session,
    stateless_server,
    text_answer,
)
from tests.unit.transport.raw_http import RawServer, ReceivedRequest

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def _no_doubt(monkeypatch: pytest.MonkeyPatch) -> None:
    """Treat every connection that closes without a response as if the server had read the request."""
    monkeypatch.setattr(http_pool, "STALE_WINDOW", 0)


TOOLS = {"resultType": "complete", "tools": [{"name": "x", "inputSchema": {"type": "object"}}], "ttlMs": 0}


def create_task(status: str) -> dict[str, Any]:
    times = {"createdAt": "2026-01-01T00:00:00Z", "lastUpdatedAt": "2026-01-01T00:00:00Z"}
    return {"taskId": "t-1", "status": status, "ttl": 60_000, "pollInterval": 10, **times}


def refuse_then_answer(*refusals: RequestHandler, then: RequestHandler) -> RequestHandler:
    """Return a handler that uses each of *refusals* for one request and *then* for all later ones."""
    left = list(refusals)

    async def handler(request: ReceivedRequest) -> object:
        return await (left.pop(0) if left else then)(request)

    return handler


def refuse_with_retry_after(status: int, after: str) -> RequestHandler:
    return lambda item: item.reply(status, b"slow down", "text/plain", retry_after=after)


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize("serving", [stateless_server, handshake_server])
async def test_a_busy_server_is_asked_again_after_the_time_it_names_with_a_countdown(
    status: int, serving: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requests, "MIN_WAIT", 0.2)
    notifications: list[Notification] = []
    observer = RecordingObserver()
    handler = refuse_then_answer(refuse_with_retry_after(status, "0"), then=lambda item: item.result(text_answer()))
    async with open_http_session(serving(handler), observer) as (session, server):
        started_at = time.monotonic()
        assert single_text(await session.request(CallTool("x"), on_notification=notifications.append)) == "ok"
        assert time.monotonic() - started_at >= 0.2
    calls = [message for message in server.seen if message.body and message.message.get("method") == "tools/call"]
    assert len(calls) == 2
    assert len({call.message["id"] for call in calls}) == 2  # sent again it is a new request
    assert [text for text in observer.warnings if f"HTTP {status}" in text]
    assert "retrying in" in next(
        str(notice.message) for notice in notifications if isinstance(notice, ProgressNotification)
    )


async def test_a_date_to_wait_for_is_understood() -> None:
    until = int(time.time()) + 2
    refused = refuse_with_retry_after(503, formatdate(until, usegmt=True))
    async with open_http_session(
        stateless_server(refuse_then_answer(refused, then=lambda item: item.result(text_answer())))
    ) as (
        session,
        _,
    ):
        assert single_text(await session.request(CallTool("x"))) == "ok"
        assert until - 0.1 <= time.time() < until + 30


@pytest.mark.parametrize("after", ["61", "3600", "99999999999999", formatdate(4e9, usegmt=True)])
async def test_a_wait_over_a_minute_is_reported_instead(after: str) -> None:
    async with open_http_session(stateless_server(refuse_with_retry_after(429, after))) as (session, server):
        started_at = time.monotonic()
        with pytest.raises(HttpStatusError, match="HTTP 429") as exc_info:
            await session.request(CallTool("x"))
        assert time.monotonic() - started_at < 20
    assert "Try again in" in exc_info.value.hint or after.startswith("9999")
    assert server.calls().count("POST tools/call") == 1


async def test_a_server_that_stays_busy_beyond_the_time_for_connecting_is_called_busy() -> None:
    handler = refuse_with_retry_after(429, "50")
    with pytest.raises(ServerError, match="HTTP 429") as exc_info:
        async with open_http_session(handler, limits=Limits(connect_timeout=2)):
            pass
    assert "Try again in 50 s" in exc_info.value.hint


async def test_waiting_for_a_busy_server_ends_when_the_user_gives_up() -> None:
    async with open_http_session(stateless_server(refuse_with_retry_after(429, "50"))) as (session, server):
        started_at = time.monotonic()
        waiting = anyio.Event()

        def told(notice: Notification) -> None:
            if "retrying in" in str(getattr(notice, "message", "")):
                waiting.set()

        async with anyio.create_task_group() as calls:
            calls.start_soon(partial(session.request, CallTool("x"), on_notification=told))
            with anyio.fail_after(20):
                await waiting.wait()
            calls.cancel_scope.cancel()
        assert time.monotonic() - started_at < 20
    assert server.calls().count("POST tools/call") == 1


async def test_a_permanently_busy_server_is_reported_after_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "MIN_WAIT", 0.05)
    monkeypatch.setattr(requests, "MAX_TOTAL_WAIT", 0.2)
    async with open_http_session(stateless_server(refuse_with_retry_after(429, "0"))) as (session, server):
        with anyio.fail_after(20), pytest.raises(HttpStatusError):
            await session.request(CallTool("x"))
    assert server.calls().count("POST tools/call") == 5


async def cut_response(request: ReceivedRequest) -> bool:
    await request.send(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{")
    return False


async def close_without_response(request: ReceivedRequest) -> bool:
    return False


@pytest.mark.parametrize(
    "fault", [cut_response, close_without_response, lambda item: item.reply(502, b"bad gateway", "text/html")]
)
async def test_a_list_is_asked_for_three_times(fault: RequestHandler, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "FIRST_DELAY", 0.01)
    async with open_http_session(
        stateless_server(refuse_then_answer(fault, fault, then=lambda item: item.result(TOOLS)))
    ) as (
        session,
        _,
    ):
        assert [tool.name for tool in (await list_tools(session)).values] == ["x"]
    async with open_http_session(stateless_server(fault)) as (session, server):
        with pytest.raises(ServerError):
            await list_tools(session)
    assert server.calls().count("POST tools/list") == 3


async def test_a_list_that_is_refused_for_good_is_asked_for_once() -> None:
    async with open_http_session(stateless_server(lambda item: item.reply(404, b"no", "text/plain"))) as (
        session,
        server,
    ):
        with pytest.raises(HttpStatusError):
            await list_tools(session)
    assert server.calls().count("POST tools/list") == 1


async def send_garbage(request: ReceivedRequest) -> bool:
    await request.send(b"\x00\x01 this is not HTTP\r\n\r\n")
    return False


async def ended_stream(request: ReceivedRequest) -> bool:
    await request.stream()
    return False


async def answer_slowly(request: ReceivedRequest) -> bool:
    await request.stream()
    for _ in range(100):
        await request.send(b": still here\n\n")
        await anyio.sleep(0.05)
    return False


@pytest.mark.req("http.resume.removed-side-effects")
@pytest.mark.parametrize("serving", [stateless_server, handshake_server])
@pytest.mark.parametrize("fault", [cut_response, close_without_response, send_garbage, ended_stream, answer_slowly])
async def test_a_call_that_breaks_off_is_never_repeated_and_may_have_run(fault: RequestHandler, serving: type) -> None:
    async with open_http_session(serving(fault)) as (session, server):
        with anyio.fail_after(20), pytest.raises(ServerError) as exc_info:
            await session.request(CallTool("x"), deadline=1)
    assert exc_info.value.may_have_run
    assert server.calls().count("POST tools/call") == 1


@pytest.mark.parametrize(("status", "ran"), [(400, False), (413, False), (503, False), (500, True), (502, True)])
async def test_a_refusal_reports_whether_the_tool_may_have_run(status: int, ran: bool) -> None:
    async with open_http_session(stateless_server(lambda item: item.reply(status, b"x", "text/plain"))) as (
        session,
        server,
    ):
        with pytest.raises(HttpStatusError) as exc_info:
            await session.request(CallTool("x"))
    assert exc_info.value.may_have_run == ran
    assert ("may have had effects" in str(exc_info.value)) == ran
    assert server.calls().count("POST tools/call") == 1


async def test_a_call_that_could_not_be_sent_did_not_run() -> None:
    leaving = stateless_server(close_without_response)
    async with open_http_session(leaving) as (session, server):
        server.listener.close()
        with pytest.raises(ConnectionLost) as exc_info:
            await session.request(CallTool("x"))  # over the kept connection, which the server closes
        assert not isinstance(exc_info.value, MalformedMessage)
        with pytest.raises(RequestNotSent, match="cannot be reached") as unsent:
            await session.request(CallTool("y"))
    assert not unsent.value.may_have_run


@pytest.mark.usefixtures("fast_task_polling")
@pytest.mark.parametrize(
    ("serving", "answer"),
    [
        (handshake_server, {"task": create_task("completed")}),
        (handshake_server, {"task": create_task("working")}),
        (stateless_server, create_task("working") | {"resultType": "task", "ttlMs": 60_000, "pollIntervalMs": 10}),
        (stateless_server, {"resultType": "input_required", "requestState": "s"}),
    ],
)
async def test_a_call_that_was_answered_may_have_run_even_if_its_next_request_was_not_sent(
    serving: Callable[[RequestHandler], RequestHandler], answer: dict[str, Any]
) -> None:
    servers: list[RawServer] = []

    async def answer_and_leave(request: ReceivedRequest) -> bool:
        if request.message["method"] == "tools/list":
            await request.result(
                {"tools": [{"name": "x", "inputSchema": {}, "execution": {"taskSupport": "required"}}]}
            )
        elif servers[0].listener.is_serving():
            servers[0].listener.close()
            await request.result(answer)
        return False

    declared = {"tools": {}, "tasks": {"requests": {"tools": {"call": {}}}}}
    handler = serving(answer_and_leave)

    async def handler_with_tasks(request: ReceivedRequest) -> object:
        if request.body and request.message.get("method") == "initialize":
            return await request.result({"protocolVersion": "2025-11-25", "capabilities": declared, "serverInfo": {}})
        return await handler(request)

    async with open_http_session(handler_with_tasks) as (session, server):
        servers.append(server)
        if serving is handshake_server:
            await list_tools(session)
        with pytest.raises(ConnectionLost, match="cannot be reached") as lost:
            await session.request(CallTool("x"))
    assert server.calls().count("POST tools/call") == 1
    assert lost.value.may_have_run
    assert not isinstance(lost.value, RequestNotSent)
