"""Tests for limits on HTTP event streams and redirects: sizes, content types, floods and parallel streams."""

import gzip
import json
from itertools import pairwise
from typing import Any

import anyio
import pytest

from mcphost.client.connect import ClientSessionOpener
from mcphost.client.session import WatchedChanges
from mcphost.config.schema import ServerConfig
from mcphost.errors import ConnectionLost, MalformedMessage, ServerError, StartupError
from mcphost.protocol.jsonrpc import JsonRpcNotification, JsonRpcResponse
from mcphost.protocol.notifications import ToolListChangedNotification
from mcphost.protocol.revisions import Revision
from mcphost.protocol.tools import CallTool
from mcphost.serialization import Raw
from mcphost.transport import http_exchange, streamable_http
from tests.unit.client.conftest import LEAST_WAIT
from tests.unit.client.fakes import FakeRequestHandler, RecordingObserver
from tests.unit.client.results import single_text
from tests.unit.client.scripted_http import (
    REVISIONS_WITH_SESSIONS,
    RequestHandler,
    close_stream_after,
    handshake_server,
    open_http_session,
    stateless_server,
    text_answer,
)
from tests.unit.transport.raw_http import ReceivedRequest, serve

pytestmark = pytest.mark.anyio
MEGABYTE = 1_000_000


def stream_reply(*pieces: bytes) -> RequestHandler:
    """Return a handler that answers a call with *pieces* of an event stream; %ID% stands for the id of the call."""

    async def call(request: ReceivedRequest) -> object:
        await request.stream()
        for piece in pieces:
            await request.send(piece.replace(b"%ID%", str(request.message["id"]).encode()))
        return False

    return call


def tool_reply(text: str = "ok") -> bytes:
    return b'data: {"jsonrpc":"2.0","id":%ID%,"result":' + json.dumps(text_answer(text)).encode() + b"}\n\n"


async def call_over_http(handler: RequestHandler, observer: RecordingObserver | None = None) -> str:
    async with open_http_session(stateless_server(handler), observer) as (session, _):
        with anyio.fail_after(20):
            return single_text(await session.request(CallTool("x")))


async def test_an_event_of_15_mb_is_delivered_at_default_limits() -> None:
    assert len(await call_over_http(stream_reply(tool_reply("x" * 15 * MEGABYTE)))) == 15 * MEGABYTE


@pytest.mark.req("base.utf8")
@pytest.mark.parametrize("padding", [0, 300_000])
@pytest.mark.parametrize("kind", ["application/json", "text/event-stream"])
async def test_text_over_http_that_is_not_utf8_is_replaced_before_it_is_passed_on(kind: str, padding: int) -> None:
    async def call(request: ReceivedRequest) -> object:
        text = b'{"type":"text","text":"' + b"x" * padding + b'\xff"}'
        result = b'{"resultType":"complete","content":[' + text + b'],"structuredContent":{"a":"\xfe"}}'
        message = b'{"jsonrpc":"2.0","id":%d,"result":%s}' % (request.message["id"], result)
        return await request.reply(200, message if kind == "application/json" else b"data: " + message + b"\n\n", kind)

    observer = RecordingObserver()
    async with open_http_session(stateless_server(call), observer) as (session, _):
        result = await session.request(CallTool("x"))
    assert single_text(result) == "x" * padding + "\ufffd"
    assert bytes(result.raw_content).decode().endswith('\ufffd"}]')
    assert bytes(result.structured_content).decode() == '{"a":"\ufffd"}'
    assert [warning for warning in observer.warnings if "UTF-8" in warning] == [
        "The server 'peer' sent text that is not UTF-8; the broken characters were replaced."
    ]


async def test_a_body_of_invalid_utf8_is_refused_and_reported() -> None:
    async def call(request: ReceivedRequest) -> object:
        return await request.reply(200, b'{"jsonrpc":"2.0","id":1,"result":"' + b"\xff" * MEGABYTE + b'"}')

    with pytest.raises(MalformedMessage, match="sent no response"):
        await call_over_http(call)


@pytest.mark.req("sec.size-limits")
async def test_an_event_over_16_mb_is_refused() -> None:
    with pytest.raises(MalformedMessage, match="event over 16 MB"):
        await call_over_http(stream_reply(tool_reply("x" * 17 * MEGABYTE)))


@pytest.mark.parametrize("coding", ["gzip", "deflate"])
async def test_a_bomb_in_a_compressed_stream_is_stopped_at_its_bound(coding: str) -> None:
    async def call(request: ReceivedRequest) -> object:
        bomb = gzip.compress(b"data: " + b"x" * 40 * MEGABYTE, 1)
        head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-encoding: %s\r\n\r\n" % coding.encode()
        await request.send(head + bomb)
        return False

    with pytest.raises(MalformedMessage, match="'peer' sent a response that decompresses to over 12 MB"):
        await call_over_http(call)


async def test_a_large_honest_answer_that_shrinks_well_is_read() -> None:
    async def call(request: ReceivedRequest) -> object:
        event = tool_reply("a line of text\n" * 600_000).replace(b"%ID%", str(request.message["id"]).encode())
        packed = gzip.compress(event, 1)
        head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-encoding: gzip\r\n\r\n"
        await request.send(head + packed)
        return False

    assert len(await call_over_http(call)) == 9_000_000


@pytest.mark.parametrize("coding", ["br", "zstd", "gzip, gzip"])
async def test_an_unrequested_encoding_is_named(coding: str) -> None:
    with pytest.raises(MalformedMessage, match=f"encoding '{coding}'"):
        await call_over_http(lambda item: item.reply(200, b"{}", content_encoding=coding))


@pytest.mark.req("http.sse.parse")
@pytest.mark.parametrize("end", [b"\n", b"\r", b"\r\n"])
async def test_events_of_other_kinds_and_fields_we_do_not_know_are_ignored(end: bytes) -> None:
    observer = RecordingObserver()
    stream = (
        b"\xef\xbb\xbf: hello\n\nevent: ping\ndata: 2026-01-01\n\nevent: error\ndata: {}\n\nfoo: bar\ndatax: 1\n\n"
        b"id: 1\0\nevent: message\n" + tool_reply()
    )
    assert await call_over_http(stream_reply(stream.replace(b"\n", end)), observer) == "ok"
    assert observer.warnings == []


@pytest.mark.req("http.response.both-types")
async def test_a_content_type_with_parameters_is_understood() -> None:
    async def call(request: ReceivedRequest) -> object:
        await request.send(b"HTTP/1.1 200 OK\r\ncontent-type: Text/Event-Stream; charset=utf-8\r\n\r\n")
        await request.send(tool_reply().replace(b"%ID%", str(request.message["id"]).encode()))
        return False

    assert await call_over_http(call) == "ok"


@pytest.mark.req("http.resume.give-up")
async def test_no_retry_value_causes_a_busy_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_exchange, "MIN_RESUME_DELAY", LEAST_WAIT)
    asked: list[float] = []

    async def get(request: ReceivedRequest) -> object:
        if "last-event-id" not in request.headers:
            return await request.reply(405)
        asked.append(anyio.current_time())
        return await close_stream_after(b"id: %d\nretry: 0\ndata:\n\n" % len(asked))(request)

    async with open_http_session(handshake_server(close_stream_after(b"id: 0\nretry: 0\ndata:\n\n"), on_get=get)) as (
        session,
        _,
    ):
        with pytest.raises(ServerError):
            await session.request(CallTool("x"), deadline=2.5)
    assert 1 <= len(asked) <= 3
    assert all(after - before >= 0.99 for before, after in pairwise(asked))
    assert LEAST_WAIT == 1.0


@pytest.mark.req("http.get.server-closes")
async def test_a_stream_that_ends_without_a_message_is_opened_five_times_and_then_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(streamable_http, "MAX_RECONNECT_DELAY", 0.01)
    observer = RecordingObserver()

    async def get(request: ReceivedRequest) -> object:
        await request.stream()
        await request.send(b"retry: 0\n\n: only a comment\n\n")
        return False

    async with open_http_session(handshake_server(on_get=get), observer) as (session, server):
        with anyio.fail_after(10):
            while not observer.warnings:
                await session.request(CallTool("x"))
    assert server.calls().count("GET") == 5
    assert "keeps closing its event stream" in observer.warnings[0]


@pytest.mark.req("http.get.server-closes", "http.sse.retry-field", "http.resume.per-stream")
async def test_the_get_stream_is_opened_again_after_the_servers_time_with_its_own_last_id() -> None:
    times: list[float] = []
    again = anyio.Event()

    async def get(request: ReceivedRequest) -> object:
        times.append(anyio.current_time())
        await request.stream()
        if len(times) == 1:
            await request.send(b"id: get-7\nretry: 1300\n")
            await request.event({"method": "notifications/tools/list_changed"})
            return False
        again.set()
        await request.wait_closed()
        return False

    async def call(request: ReceivedRequest) -> object:
        await request.stream()
        await request.send(b"id: post-1\ndata:\n\n")
        await request.event({"id": request.message["id"], "result": {"content": []}})
        return False

    async with open_http_session(handshake_server(call, on_get=get)) as (session, server):
        with anyio.fail_after(20):
            async for change in session.changes(WatchedChanges(tools=True)):
                assert isinstance(change, ToolListChangedNotification)
                break
            await session.request(CallTool("x"))
            await again.wait()
    assert 1.3 <= times[1] - times[0] < 3
    gets = [message for message in server.seen if message.method == "GET"]
    assert [request.headers.get("last-event-id") for request in gets] == [None, "get-7"]


@pytest.mark.req("http.resume.per-stream", "http.streams.many")
@pytest.mark.parametrize("revision", REVISIONS_WITH_SESSIONS)
async def test_each_of_several_streams_is_resumed_with_its_own_id_and_gets_its_own_answer(revision: Revision) -> None:
    calls: dict[str, int] = {}

    async def handler(request: ReceivedRequest) -> object:
        if request.method == "GET":
            last = request.headers.get("last-event-id", "")
            if not last:
                return await request.reply(405)
            await request.stream()
            name = last.removeprefix("id of ")
            await request.event({"id": calls[name], "result": {"content": [{"type": "text", "text": name}]}})
            return False
        name = request.message["params"]["name"]
        calls[name] = request.message["id"]
        return await close_stream_after(f"id: id of {name}\nretry: 500\ndata:\n\n".encode())(request)

    received: dict[str, str] = {}
    server = handshake_server(handler, on_get=handler, revision=revision.value)
    async with open_http_session(server) as (session, _), anyio.create_task_group() as group:

        async def one_call(name: str) -> None:
            received[name] = single_text(await session.request(CallTool(name), deadline=5))

        for name in ("a", "b", "c"):
            group.start_soon(one_call, name)
    assert received == {"a": "a", "b": "b", "c": "c"}


@pytest.mark.req("http.body-single", "http.202", "http.post-each")
@pytest.mark.parametrize("status", [202, 200, 204])
async def test_every_post_is_one_message_and_any_2xx_accepts_a_notification(status: int) -> None:
    async def handler(request: ReceivedRequest) -> object:
        if request.body and "id" not in request.message:
            return await request.reply(status, kind="")
        return await handshake_server()(request)

    observer = RecordingObserver()
    async with open_http_session(handler, observer) as (session, server):
        await session.request(CallTool("x"))
        await session.request(CallTool("y"))
    posts = [message.message for message in server.seen if message.method == "POST"]
    assert all(isinstance(message, dict) and message["jsonrpc"] == "2.0" for message in posts)
    assert len({message.path for message in server.seen}) == 1
    assert observer.warnings == []


@pytest.mark.req("http.202")
@pytest.mark.parametrize("with_body", [True, False])
async def test_a_refused_notice_is_reported(with_body: bool) -> None:
    async def handler(request: ReceivedRequest) -> object:
        if request.body and request.message.get("method") == "notifications/initialized":
            body = b'{"jsonrpc":"2.0","error":{"code":-32600,"message":"not so"}}' if with_body else b""
            return await request.reply(400, body)
        return await handshake_server()(request)

    with pytest.raises(StartupError, match="notifications/initialized with HTTP 400") as exc_info:
        async with open_http_session(handler):
            pass
    assert ("not so" in exc_info.value.message) == with_body
    assert "HTTP+SSE" not in exc_info.value.message  # it did answer `initialize`


@pytest.mark.req("http.mod.post-only", "http.mod.202-notification")
async def test_a_stateless_channel_posts_neither_notifications_nor_answers() -> None:
    async with (
        serve(lambda item: item.reply(202, kind="")) as server,
        streamable_http.HttpConnector("peer", server.url, {}, warn=RecordingObserver().warn).connect() as channel,
    ):
        channel.set_revision(Revision.V2026_07_28)
        await channel.send(JsonRpcNotification("notifications/roots/list_changed"))
        await channel.send(JsonRpcResponse(1, Raw(b"{}")))
    assert server.seen == []


@pytest.mark.req("http.redirects")
@pytest.mark.parametrize("status", [301, 302, 307, 308])
async def test_a_redirect_inside_the_origin_keeps_method_body_and_headers_up_to_five_times(status: int) -> None:
    async def handler(request: ReceivedRequest) -> object:
        step = int(request.path.rpartition("/")[2]) if request.path != "/mcp" else 0
        if step < 5:
            return await request.reply(status, location=f"/step/{step + 1}")
        return await stateless_server(lambda item: item.result(text_answer()))(request)

    async with open_http_session(handler, headers={"X-Key": "k"}) as (session, server):
        assert single_text(await session.request(CallTool("x"))) == "ok"
    last = server.seen[-1]
    assert (last.method, last.path, last.headers["x-key"]) == ("POST", "/step/5", "k")
    assert last.message["method"] == last.headers["mcp-method"] == "tools/call"


@pytest.mark.req("http.redirects")
async def test_303_is_reported_and_not_followed_because_it_would_drop_the_body() -> None:
    async with serve(lambda item: item.reply(303, location="/other")) as server:
        with pytest.raises(StartupError, match="HTTP 303"):
            async with ClientSessionOpener().open(
                ServerConfig(name="peer", url=server.url), FakeRequestHandler(), RecordingObserver()
            ):
                pass
    assert {message.path for message in server.seen} == {"/mcp"}


@pytest.mark.parametrize("location", ["http://[", "http://x:99999999/", "ftp://127.0.0.1/"])
async def test_a_redirect_to_no_address_is_reported(location: str) -> None:
    async with serve(lambda item: item.reply(307, location=location)) as server:
        config = ServerConfig(name="peer", url=server.url, era="handshake")
        with pytest.raises(MalformedMessage, match="redirects"):
            async with ClientSessionOpener().open(config, FakeRequestHandler(), RecordingObserver()):
                pass


async def test_bytes_after_a_response_close_the_connection_and_are_discarded() -> None:
    async def call(request: ReceivedRequest) -> object:
        if request.message["params"]["name"] == "fine":
            return await request.result(text_answer("second"))
        body = json.dumps({"jsonrpc": "2.0", "id": request.message["id"], "result": text_answer("first")}).encode()
        forged = json.dumps(
            {"jsonrpc": "2.0", "id": request.message["id"] + 1, "result": text_answer("forged")}
        ).encode()
        head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
        await request.send(head % len(body) + body + head % len(forged) + forged)
        return True

    async with open_http_session(stateless_server(call)) as (session, server):
        assert single_text(await session.request(CallTool("x"))) == "first"
        assert single_text(await session.request(CallTool("fine"))) == "second"
    assert len({id(message.writer) for message in server.seen[1:]}) == 2


@pytest.mark.req("hdr.case", "http.session.echo")
async def test_names_of_headers_mean_the_same_in_any_case_and_values_do_not() -> None:
    async def handler(request: ReceivedRequest) -> object:
        if request.body and request.message.get("method") == "initialize":
            result: dict[str, Any] = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {}}
            body = json.dumps({"jsonrpc": "2.0", "id": request.message["id"], "result": result}).encode()
            head = b"HTTP/1.1 200 OK\r\nCONTENT-TYPE: application/json\r\nMCP-SESSION-ID: AbC\r\nContent-LENGTH: %d\r\n"
            return await request.send(head % len(body) + b"\r\n" + body)
        return await handshake_server()(request)

    async with open_http_session(handler) as (session, server):
        await session.request(CallTool("x"))
    assert server.seen[-1].headers["mcp-session-id"] == "AbC"


@pytest.mark.req("sse.detect.codes-narrow", "sse.detect")
@pytest.mark.parametrize(
    ("status", "tried"),
    [(400, True), (404, True), (405, True), (401, False), (403, False), (406, False), (410, False), (500, False)],
)
async def test_only_some_refusals_of_initialize_lead_on_to_the_old_transport(status: int, tried: bool) -> None:
    async with serve(lambda item: item.reply(status, b"no", "text/plain")) as server:
        with pytest.raises(ServerError):
            async with ClientSessionOpener().open(
                ServerConfig(name="peer", url=server.url), FakeRequestHandler(), RecordingObserver()
            ):
                pass
    assert ("GET" in server.calls()) == tried


@pytest.mark.req("sse.detect.codes-narrow")
async def test_an_error_of_the_newest_revision_never_leads_to_the_old_transport() -> None:
    async with serve(lambda item: item.error(400, -32021, {"requiredCapabilities": {}})) as server:
        with pytest.raises(ServerError):
            async with ClientSessionOpener().open(
                ServerConfig(name="peer", url=server.url), FakeRequestHandler(), RecordingObserver()
            ):
                pass
    assert "GET" not in server.calls()


async def test_a_server_lost_during_a_call_is_reported_and_later_reached_again() -> None:
    async def call(request: ReceivedRequest) -> object:
        if request.message["params"]["name"] == "fine":
            return await request.result(text_answer())
        request.writer.transport.abort()  # a reset, not an end
        return False

    async with open_http_session(stateless_server(call)) as (session, _):
        with pytest.raises(ConnectionLost) as exc_info:
            await session.request(CallTool("x"))
        assert exc_info.value.may_have_run
        assert single_text(await session.request(CallTool("fine"))) == "ok"
