"""Tests for HTTP sessions with a scripted server on loopback: eras, sessions and faults."""

import gzip
import json
import time

import anyio
import pytest

from mcphost.client import negotiation
from mcphost.client.connect import ClientSessionOpener
from mcphost.client.session import WatchedChanges
from mcphost.config.schema import ServerConfig
from mcphost.errors import (
    ConnectionLost,
    MalformedMessage,
    RequestRefused,
    RequestTimeout,
    ServerError,
    SignInRequired,
    StartupError,
    UnsupportedRevision,
)
from mcphost.protocol.notifications import Notification, ToolListChangedNotification
from mcphost.protocol.prompts import GetPrompt, ListPrompts
from mcphost.protocol.resources import ReadResource
from mcphost.protocol.revisions import Revision
from mcphost.protocol.server_requests import ListRootsResult, Root
from mcphost.protocol.tools import CallTool
from mcphost.transport import streamable_http
from mcphost.transport.channel import HttpStatusError
from tests.unit.client.fakes import FakeRequestHandler, RecordingObserver
from tests.unit.client.results import single_text
from tests.unit.client.scripted_http import (
    REVISIONS_WITH_SESSIONS,
    handshake_server,
    open_http_session,
    stateless_server,
    text_answer,
)
from tests.unit.transport.raw_http import ReceivedRequest, serve

pytestmark = pytest.mark.anyio


@pytest.mark.req("hdr.version")
@pytest.mark.req("hdr.method")
@pytest.mark.req("hdr.name")
@pytest.mark.req("hdr.name.encode")
@pytest.mark.req("http.accept")
@pytest.mark.req("http.content-type")
@pytest.mark.req("http.post-each")
@pytest.mark.req("http.mod.202-notification")
@pytest.mark.req("http.static-headers")
@pytest.mark.req("http.403-origin")
@pytest.mark.req("base.meta.client-info")
@pytest.mark.req("life.era.http-probe")
@pytest.mark.req("life.mod.no-handshake")
@pytest.mark.req("http.mod.post-only")
@pytest.mark.req("http.get.none-modern")
@pytest.mark.req("base.meta.required-per-request")
async def test_every_stateless_request_has_version_method_and_name() -> None:
    async def call(request: ReceivedRequest) -> None:
        if request.message["method"] == "resources/read":
            await request.result({"resultType": "complete", "contents": [], "ttlMs": 0, "cacheScope": "private"})
        else:
            await request.result(text_answer())

    async with open_http_session(stateless_server(call), headers={"X-Key": "k", "mcp-method": "lie"}) as (
        session,
        server,
    ):
        await session.request(CallTool("größe", {"a": 1}))
        await session.request(ReadResource("file:///a b"))
        await session.request(GetPrompt("review"))
        await session.request(ListPrompts())
        await session.notify(ToolListChangedNotification())
    methods = ["server/discover", "tools/call", "resources/read", "prompts/get", "prompts/list"]
    assert server.calls() == [f"POST {method}" for method in methods]
    for message in server.seen:
        assert message.headers["mcp-protocol-version"] == "2026-07-28"
        assert message.headers["mcp-method"] == message.message["method"]
        assert message.headers["x-key"] == "k"
        assert message.headers["accept"] == "application/json, text/event-stream"
        assert message.headers["content-type"] == "application/json"
        assert "mcp-session-id" not in message.headers
        assert "origin" not in message.headers
        meta = message.message["params"]["_meta"]
        assert meta["io.modelcontextprotocol/protocolVersion"] == "2026-07-28"
        declared = {"extensions": {"io.modelcontextprotocol/tasks": {}}}
        assert meta["io.modelcontextprotocol/clientCapabilities"] == declared
        assert meta["io.modelcontextprotocol/clientInfo"]["name"] == "mcphost"
        assert "progressToken" not in meta
    names = [None, "=?base64?Z3LDtsOfZQ==?=", "file:///a b", "review", None]
    assert [message.headers.get("mcp-name") for message in server.seen] == names


@pytest.mark.req("hdr.legacy-none")
@pytest.mark.req("cancel.only-own-active")
@pytest.mark.req("life.era.http-fallback")
@pytest.mark.req("life.init.initialized")
@pytest.mark.req("life.shutdown.http")
@pytest.mark.req("http.session.echo")
@pytest.mark.req("http.session.delete")
@pytest.mark.req("http.version-header.legacy")
@pytest.mark.parametrize("refusal", [200, 400, 404, 405])
async def test_a_legacy_server_gets_the_handshake_and_its_session_ends_with_delete(refusal: int) -> None:
    async with open_http_session(handshake_server(refusal=refusal)) as (session, server):
        assert session.facts.revision is Revision.V2025_11_25
        assert single_text(await session.request(CallTool("x"))) == "ok"
    posts = [message for message in server.seen if message.method == "POST"]
    assert [post.message["method"] for post in posts] == [
        "server/discover",
        "initialize",
        "notifications/initialized",
        "tools/call",
    ]
    assert "mcp-protocol-version" not in posts[1].headers
    assert "mcp-session-id" not in posts[1].headers
    assert "_meta" not in posts[3].message["params"]
    for message in server.seen[2:]:
        assert message.headers["mcp-session-id"] == "s-1"
        assert message.headers["mcp-protocol-version"] == "2025-11-25"
        assert "mcp-method" not in message.headers
    assert server.seen[-1].method == "DELETE"


@pytest.mark.req("http.session.none")
@pytest.mark.req("http.version-header.none-2025-03")
@pytest.mark.parametrize("revision", REVISIONS_WITH_SESSIONS)
async def test_without_a_session_id_none_is_sent_and_nothing_deleted(revision: Revision) -> None:
    async with open_http_session(handshake_server(session="", revision=revision.value)) as (session, server):
        await session.request(CallTool("x"))
    assert all("mcp-session-id" not in message.headers for message in server.seen)
    version = revision.value if revision.has_version_header else None
    assert all(message.headers.get("mcp-protocol-version") == version for message in server.seen[2:])
    assert "DELETE" not in server.calls()


@pytest.mark.req("http.get.accept")
@pytest.mark.req("http.get.405")
@pytest.mark.parametrize("revision", REVISIONS_WITH_SESSIONS)
async def test_a_get_stream_that_is_not_offered_is_asked_for_once(
    revision: Revision, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streamable_http, "MAX_RECONNECT_DELAY", 0.0)  # resumed, it would arrive at once
    asked = anyio.Event()

    async def get(request: ReceivedRequest) -> None:
        asked.set()
        await request.reply(405)

    async with open_http_session(handshake_server(on_get=get, revision=revision.value)) as (session, server):
        with anyio.fail_after(20):
            await asked.wait()
        for _ in range(5):
            await session.request(CallTool("x"))
    assert server.calls().count("GET") == 1
    (request,) = [message for message in server.seen if message.method == "GET"]
    assert request.headers["accept"] == "text/event-stream"
    assert request.headers["mcp-session-id"] == "s-1"


@pytest.mark.req("http.get.optional")
@pytest.mark.req("roots.list.legacy")
@pytest.mark.req("http.get.messages")
@pytest.mark.parametrize("revision", REVISIONS_WITH_SESSIONS)
async def test_questions_and_changes_on_the_get_stream_are_handled(revision: Revision) -> None:
    async def get(request: ReceivedRequest) -> object:
        await request.stream()
        await request.event({"id": "q", "method": "roots/list"})
        await request.event({"method": "notifications/tools/list_changed"})
        await request.wait_closed()
        return False

    answers = FakeRequestHandler({"roots/list": ListRootsResult((Root("file:///a"),))})
    async with open_http_session(handshake_server(on_get=get, revision=revision.value), answers=answers) as (
        session,
        server,
    ):
        with anyio.fail_after(20):
            async for change in session.changes(WatchedChanges(tools=True)):
                assert isinstance(change, ToolListChangedNotification)
                break
            while "POST answer" not in server.calls():
                await session.request(CallTool("x"))
    (reply,) = [message for message in server.seen if message.method == "POST" and "result" in message.message]
    assert reply.message == {"jsonrpc": "2.0", "id": "q", "result": {"roots": [{"uri": "file:///a"}]}}


@pytest.mark.req("http.sse.mixed-messages")
@pytest.mark.parametrize("revision", REVISIONS_WITH_SESSIONS)
async def test_a_question_inside_an_answer_stream_is_answered_by_a_separate_post(revision: Revision) -> None:
    answered = anyio.Event()

    async def call(request: ReceivedRequest) -> object:
        await request.stream()
        await request.event({"id": 5, "method": "roots/list"})
        await answered.wait()
        await request.event({"id": request.message["id"], "result": {"content": []}})
        return False

    async def handler(request: ReceivedRequest) -> object:
        if request.body and "result" in request.message:
            answered.set()
        return await handshake_server(call, revision=revision.value)(request)

    answers = FakeRequestHandler({"roots/list": ListRootsResult(())})
    async with open_http_session(handler, answers=answers) as (session, _):
        assert (await session.request(CallTool("deploy"), deadline=3)).content == ()
    assert answers.asked[0][1].target == "deploy"


@pytest.mark.req("cancel.send.legacy")
@pytest.mark.req("life.timeout.cancel")
@pytest.mark.req("http.sse.disconnect-not-cancel")
async def test_giving_up_in_the_handshake_era_posts_a_cancel_notice() -> None:
    told = anyio.Event()

    async def call(request: ReceivedRequest) -> object:
        await request.wait_closed()
        return False

    async def handler(request: ReceivedRequest) -> object:
        if request.body and request.message.get("method") == "notifications/cancelled":
            told.set()
        return await handshake_server(call)(request)

    async with open_http_session(handler) as (session, server):
        with pytest.raises(RequestTimeout):
            await session.request(CallTool("x"), deadline=0.5)
        with anyio.fail_after(20):
            await told.wait()
    (notice,) = [
        message
        for message in server.seen
        if message.body and message.message.get("method") == "notifications/cancelled"
    ]
    (asked,) = [message for message in server.seen if message.body and message.message.get("method") == "tools/call"]
    assert notice.message["params"]["requestId"] == asked.message["id"]


@pytest.mark.req("cancel.send.http")
@pytest.mark.req("life.timeout.cancel")
@pytest.mark.parametrize("headers_first", [True, False])
async def test_cancelling_in_the_stateless_era_closes_the_stream_and_posts_nothing(headers_first: bool) -> None:
    closed = anyio.Event()

    async def call(request: ReceivedRequest) -> object:
        if headers_first:
            await request.stream()
        await request.wait_closed()
        closed.set()
        return False

    async with open_http_session(stateless_server(call)) as (session, server):
        with pytest.raises(RequestTimeout):
            await session.request(CallTool("x"), deadline=0.5)
        with anyio.fail_after(20):
            await closed.wait()
        assert server.calls() == ["POST server/discover", "POST tools/call"]


@pytest.mark.req("http.response.both-types")
@pytest.mark.req("http.sse.keepalive-comments")
@pytest.mark.req("base.parse.bad-json")
@pytest.mark.req("base.id.unknown-response")
@pytest.mark.req("http.mod.request-stream")
async def test_notices_on_the_answer_stream_reach_the_caller() -> None:
    async def call(request: ReceivedRequest) -> object:
        token = request.message["params"]["_meta"]["progressToken"]
        await request.stream()
        await request.send(b": keep-alive\n\ndata: not json\n\nid: 1\ndata:\n\n")
        await request.event({"method": "notifications/progress", "params": {"progressToken": token, "progress": 1}})
        await request.event({"method": "notifications/message", "params": {"level": "info", "data": "x"}})
        await request.event({"id": "someone else's", "result": {}})
        await request.event({"id": request.message["id"], "result": text_answer("streamed")})
        return False

    notifications: list[Notification] = []
    observer = RecordingObserver()
    async with open_http_session(stateless_server(call), observer) as (session, _):
        assert single_text(await session.request(CallTool("x"), on_notification=notifications.append)) == "streamed"
    assert [type(notice).__name__ for notice in notifications] == ["ProgressNotification", "LoggingMessageNotification"]
    assert len(observer.warnings) == 1


@pytest.mark.req("http.mod.stream-end-without-response")
@pytest.mark.parametrize("how", ["close", "cut", "garbage"])
async def test_a_stream_that_breaks_off_fails_its_call_alone(how: str) -> None:
    async def call(request: ReceivedRequest) -> object:
        if request.message["params"]["name"] == "fine":
            return await request.result(text_answer())
        if how == "garbage":
            await request.send(b"\x00\x01 this is not HTTP\r\n\r\n")
        elif how == "cut":
            await request.send(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{")
        else:
            await request.stream()
        return False

    async with open_http_session(stateless_server(call)) as (session, _):
        with pytest.raises(MalformedMessage if how == "garbage" else ConnectionLost, match="peer"):
            await session.request(CallTool("x"))
        assert single_text(await session.request(CallTool("fine"))) == "ok"


@pytest.mark.req("http.response.other-type")
@pytest.mark.req("http.403-origin")
@pytest.mark.parametrize(
    ("status", "kind", "body", "shown"),
    [
        (500, "text/html", b"<h1>\n Internal   error</h1>" + b"x" * 5000, "HTTP 500 (text/html): <h1> Internal error"),
        (200, "text/plain", b"hello", "HTTP 200 (text/plain): hello"),
        (202, "", b"", "HTTP 202 (no content type): an empty"),
        (502, "application/json", b'{"error": "x"}', 'HTTP 502 (application/json): {"error": "x"}'),
        (403, "text/plain", b"Invalid Origin", "HTTP 403 (text/plain): Invalid Origin"),
    ],
)
async def test_an_invalid_response_is_reported_with_status_type_and_its_first_characters(
    status: int, kind: str, body: bytes, shown: str
) -> None:
    async def call(request: ReceivedRequest) -> object:
        if request.message["params"]["name"] == "fine":
            return await request.result(text_answer())
        return await request.reply(status, body, kind)

    async with open_http_session(stateless_server(call)) as (session, _):
        with pytest.raises(HttpStatusError) as exc_info:
            await session.request(CallTool("x"))
        assert shown in exc_info.value.message
        assert exc_info.value.status == status
        assert len(exc_info.value.message) < 300
        assert single_text(await session.request(CallTool("fine"))) == "ok"


@pytest.mark.req("life.era.http-404-modern")
@pytest.mark.req("http.mod.400-bodies")
@pytest.mark.req("http.mod.404-method")
@pytest.mark.parametrize(("status", "code"), [(400, -32602), (404, -32601)])
async def test_an_error_body_of_a_refusal_is_delivered_as_that_error(status: int, code: int) -> None:
    async with open_http_session(stateless_server(lambda item: item.error(status, code, {"a": 1}))) as (session, _):
        with pytest.raises(RequestRefused) as exc_info:
            await session.request(CallTool("x"))
    assert (exc_info.value.code, exc_info.value.data) == (code, {"a": 1})
    assert not isinstance(exc_info.value, HttpStatusError)


@pytest.mark.parametrize("status", [401, 403])
async def test_a_server_that_requires_an_account_is_reported(status: int) -> None:
    async def handler(request: ReceivedRequest) -> None:
        await request.reply(status, b"who are you?", "text/plain", www_authenticate="Bearer")

    with pytest.raises(SignInRequired, match=f"HTTP {status}.*who are you"):
        async with open_http_session(handler):
            pass


async def test_a_server_silent_on_the_probe_gets_the_handshake(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(negotiation, "PROBE_TIMEOUT", 0.2)

    async def handler(request: ReceivedRequest) -> object:
        if request.body and request.message.get("method") == "server/discover":
            await request.wait_closed()
            return False
        return await handshake_server()(request)

    async with open_http_session(handler) as (session, _):
        assert single_text(await session.request(CallTool("x"))) == "ok"


async def test_an_unknown_protocol_is_reported_with_all_attempts() -> None:
    async with serve(lambda item: item.reply(404, b"no such page", "text/html")) as server:
        with pytest.raises(StartupError) as exc_info:
            async with ClientSessionOpener().open(
                ServerConfig(name="peer", url=server.url), FakeRequestHandler(), RecordingObserver()
            ):
                pass
    assert exc_info.value.message == (
        "Could not connect to the server 'peer'. Tried server/discover and initialize: The server 'peer' answered "
        "initialize with HTTP 404 (text/html): no such page; HTTP+SSE: the same."
    )
    assert exc_info.value.hint == "Check the address. Its path may be wrong; it is often /mcp."
    assert server.calls() == ["POST server/discover", "POST initialize", "GET"]


async def test_an_address_that_closes_each_connection_is_not_said_to_have_run_a_tool() -> None:
    async def close(_request: ReceivedRequest) -> bool:
        return False

    async with serve(close) as server:
        with pytest.raises(StartupError) as exc_info:
            async with ClientSessionOpener().open(
                ServerConfig(name="peer", url=server.url), FakeRequestHandler(), RecordingObserver()
            ):
                pass
    assert exc_info.value.message.endswith("closed the connection before it responded.")
    assert exc_info.value.hint == "Check the address: it may not be that of an MCP server."


async def test_an_unreachable_address_is_reported_before_the_connect_limit() -> None:
    async with serve(handshake_server()) as server:
        url = server.url
    started_at = time.monotonic()
    with pytest.raises(StartupError, match=url):
        async with ClientSessionOpener().open(
            ServerConfig(name="peer", url=url), FakeRequestHandler(), RecordingObserver()
        ):
            pass
    assert time.monotonic() - started_at < 15


@pytest.mark.parametrize("url", ["ftp://x/", "http://", "not a url"])
async def test_an_invalid_url_is_named(url: str) -> None:
    with pytest.raises(StartupError, match="address"):
        async with ClientSessionOpener().open(
            ServerConfig(name="peer", url=url), FakeRequestHandler(), RecordingObserver()
        ):
            pass


async def test_a_configured_header_with_a_line_break_starts_nothing() -> None:
    with pytest.raises(StartupError, match="line break"):
        async with open_http_session(handshake_server(), headers={"X": "a\r\nY: b"}):
            pass


@pytest.mark.req("http.redirects")
@pytest.mark.parametrize("status", [301, 307, 308])
async def test_redirects_inside_the_origin_keep_method_and_body(status: int) -> None:
    async def handler(request: ReceivedRequest) -> object:
        if request.path == "/mcp":
            return await request.reply(status, location="/other/mcp")
        return await stateless_server(lambda item: item.result(text_answer()))(request)

    async with open_http_session(handler) as (session, server):
        assert single_text(await session.request(CallTool("x"))) == "ok"
    assert {message.method for message in server.seen} == {"POST"}


@pytest.mark.req("http.redirects")
@pytest.mark.parametrize("target", ["http://127.0.0.1:1/mcp", "https://127.0.0.1/mcp", "//evil.example/x", "/mcp"])
async def test_redirects_elsewhere_or_without_end_are_refused(target: str) -> None:
    async def handler(request: ReceivedRequest) -> None:
        await request.reply(307, location=target)

    async with serve(handler) as server:
        config = ServerConfig(name="peer", url=server.url, era="stateless", headers={"Authorization": "secret"})
        with pytest.raises(ServerError):
            async with ClientSessionOpener().open(config, FakeRequestHandler(), RecordingObserver()):
                pass
        assert len(server.seen) <= 6


@pytest.mark.req("sec.size-limits")
@pytest.mark.parametrize("form", ["json", "gzip", "endless stream", "long header"])
async def test_answers_over_the_limit_are_stopped(form: str) -> None:
    async def call(request: ReceivedRequest) -> object:
        if request.message["params"]["name"] == "fine":
            return await request.result(text_answer())
        if form == "gzip":
            await request.reply(200, gzip.compress(b" " * 60_000_000, 1), content_encoding="gzip")
            return True
        if form == "long header":
            await request.send(b"HTTP/1.1 200 OK\r\nx: " + b"y" * 200_000 + b"\r\n\r\n")
            return False
        if form == "json":
            await request.send(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 99000000\r\n\r\n")
        else:
            await request.stream()
        try:
            for _ in range(99):
                await request.send(b"x" * 1_000_000)
        except ConnectionError:
            pass
        return False

    async with open_http_session(stateless_server(call)) as (session, _):
        with pytest.raises(ServerError, match=r"MB|64 KB|broke off"):
            await session.request(CallTool("x"))
        assert single_text(await session.request(CallTool("fine"))) == "ok"


async def test_a_compressed_answer_is_read() -> None:
    async def call(request: ReceivedRequest) -> None:
        body = json.dumps({"jsonrpc": "2.0", "id": request.message["id"], "result": text_answer("small")}).encode()
        await request.reply(200, gzip.compress(body), content_encoding="gzip")

    async with open_http_session(stateless_server(call)) as (session, server):
        assert single_text(await session.request(CallTool("x"))) == "small"
    assert server.seen[0].headers["accept-encoding"] == "identity"


@pytest.mark.req("life.era.http-inspect-400")
@pytest.mark.req("life.mod.version-legacy-in-supported")
async def test_a_dual_server_that_lists_only_older_versions_gets_the_handshake() -> None:
    async def handler(request: ReceivedRequest) -> object:
        if request.body and request.message.get("method") == "server/discover":
            return await request.error(400, -32022, {"supported": ["2025-06-18"], "requested": "2026-07-28"})
        return await handshake_server(revision="2025-06-18")(request)

    async with open_http_session(handler) as (session, _):
        assert session.facts.revision is Revision.V2025_06_18


@pytest.mark.req("life.mod.version-retry")
async def test_unknown_versions_are_named_with_the_supported_ones() -> None:
    async with serve(lambda item: item.error(400, -32022, {"supported": ["2031-01-01"]})) as server:
        config = ServerConfig(name="peer", url=server.url)
        with pytest.raises(UnsupportedRevision, match=r"2031-01-01.*2026-07-28"):
            async with ClientSessionOpener().open(config, FakeRequestHandler(), RecordingObserver()):
                pass
    assert server.calls() == ["POST server/discover"]


@pytest.mark.req("base.batch.receive")
@pytest.mark.req("base.batch.tolerate-elsewhere")
async def test_a_batch_answer_is_read_at_2025_03_26() -> None:
    async def call(request: ReceivedRequest) -> None:
        answer = {"jsonrpc": "2.0", "id": request.message["id"], "result": {"content": []}}
        await request.reply(200, json.dumps([{"jsonrpc": "2.0", "method": "notifications/x"}, answer]).encode())

    async with open_http_session(handshake_server(call, revision="2025-03-26")) as (session, _):
        assert (await session.request(CallTool("x"))).content == ()
    async with open_http_session(handshake_server(call)) as (session, _):
        with pytest.raises(MalformedMessage):
            await session.request(CallTool("x"))


@pytest.mark.req("http.session.delete-405")
async def test_a_server_that_is_slow_to_close_does_not_delay_leaving_until_the_deadline() -> None:
    async def handler(request: ReceivedRequest) -> object:
        if request.method == "DELETE":
            await request.wait_closed()
            return False
        return await handshake_server()(request)

    async with open_http_session(handler) as (session, _):
        await session.request(CallTool("x"))
        started_at = time.monotonic()
    assert time.monotonic() - started_at < 15
