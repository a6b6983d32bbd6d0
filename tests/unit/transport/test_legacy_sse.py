"""Tests for the HTTP+SSE transport of 2024-11-05 over real sockets, with servers that have one fault each."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import unquote

import anyio
import anyio.lowlevel
import pytest

from mcphost.errors import ConnectionLost, ServerError, StartupError
from mcphost.message_log import MessageLog
from mcphost.protocol.jsonrpc import JsonRpcMessage, JsonRpcNotification, JsonRpcRequest, JsonRpcResponse
from mcphost.redact import redact
from mcphost.serialization import Raw
from mcphost.transport import legacy_sse, reachability
from mcphost.transport.channel import Channel, HttpStatusError
from mcphost.transport.legacy_sse import SseConnector
from tests.event_loop import wait_until
from tests.unit.transport.scripted_sse import SSE_HEAD, ScriptedSseServer, format_event

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def open_channel(
    server: ScriptedSseServer, notes: list[str] | None = None, message_log: MessageLog | None = None
) -> AsyncIterator[Channel]:
    listener = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    server.port = listener.sockets[0].getsockname()[1]
    server.start = server.start.replace(b"PORT", str(server.port).encode())
    async with listener:
        dialer = SseConnector(
            "old",
            f"http://127.0.0.1:{server.port}/sse",
            {"X-Key": "k"},
            warn=(notes if notes is not None else []).append,
        )
        dialer.message_log = message_log
        async with dialer.connect() as channel:
            yield channel


async def test_messages_are_logged_in_both_directions() -> None:
    log = MessageLog()
    server = ScriptedSseServer(SSE_HEAD + format_event("/message", "endpoint"), sse_reply)
    async with open_channel(server, message_log=log) as channel:
        await ping(channel, 7)
    logged = [(one.direction, json.loads(one.data)) for one in log.messages()]
    assert [(direction, message["id"]) for direction, message in logged] == [("sent", 7), ("received", 7)]


async def test_the_http_exchanges_are_logged_without_the_session_in_the_address() -> None:
    log = MessageLog()
    server = ScriptedSseServer(SSE_HEAD + format_event("/message?session_id=0123456789abcdef", "endpoint"), sse_reply)
    async with open_channel(server, message_log=log) as channel:
        await ping(channel, 7)
    stream, post = log.exchanges()
    assert (stream.verb, stream.target, stream.status, stream.outcome) == ("GET", "/sse", 200, "closed")
    assert (post.verb, post.target, post.status) == ("POST", "/message?session_id=01234…", 202)
    assert (post.rpc_method, stream.is_event_stream) == ("ping", True)
    assert dict(post.request_headers)["x-key"] == "[secret]"


async def test_a_server_that_refused_one_message_is_reachable_again_without_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reachability, "FIRST_DELAY", 0.01)
    server = ScriptedSseServer(SSE_HEAD + format_event("/message", "endpoint"))
    listener = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    port = listener.sockets[0].getsockname()[1]
    reported: list[ServerError | None] = []
    connector = SseConnector("old", f"http://127.0.0.1:{port}/sse", {}, warn=list[str]().append)
    connector.on_reachability_changed = reported.append
    async with connector.connect() as channel:
        listener.close()
        with pytest.raises(ServerError, match="cannot be reached"):
            await ping(channel, 1)
        assert len(reported) == 1
        async with await asyncio.start_server(server.serve, "127.0.0.1", port):
            await wait_until(lambda: reported[1:] == [None])


def sse_reply(message: dict[str, Any]) -> bytes:
    return format_event(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": {}})) if "id" in message else b""


async def ping(channel: Channel, ident: int) -> JsonRpcMessage:
    async with channel.exchange(JsonRpcRequest(ident, "ping")) as messages:
        async for message in messages:
            return message
    raise AssertionError("no answer")


async def test_a_call_on_a_kept_connection_that_the_server_closes_is_not_posted_again() -> None:
    def answers(message: dict[str, Any]) -> bytes | None:
        if message["method"] == "tools/call":
            raise ConnectionError  # closes the connection
        return sse_reply(message)

    server = ScriptedSseServer(SSE_HEAD + format_event("/message", "endpoint"), answers)
    async with open_channel(server) as channel:
        await ping(channel, 1)
        with anyio.fail_after(20), pytest.raises(ConnectionLost) as exc_info:
            async with channel.exchange(JsonRpcRequest(2, "tools/call")) as messages:
                await anext(messages)
    assert exc_info.value.may_have_run
    assert [message["method"] for message in server.posted] == ["ping", "tools/call"]


@pytest.mark.req("sse.open", "sse.endpoint-uri", "sse.messages")
@pytest.mark.parametrize("endpoint", ["/message?s=1", "message?s=1", "http://127.0.0.1:PORT/message?s=1"])
async def test_messages_go_to_the_url_the_server_names_and_answers_arrive_as_events(endpoint: str) -> None:
    server = ScriptedSseServer(SSE_HEAD + format_event(endpoint, "endpoint"), sse_reply)
    async with open_channel(server) as channel:
        answers = [await ping(channel, ident) for ident in (1, 2)]
        await channel.send(JsonRpcNotification("notifications/initialized"))
        assert isinstance(await ping(channel, 3), JsonRpcResponse)
    assert all(isinstance(answer, JsonRpcResponse) for answer in answers)
    assert [message["method"] for message in server.posted] == ["ping", "ping", "notifications/initialized", "ping"]
    assert server.heads[0].startswith("GET /sse ")
    assert server.heads[1].startswith("POST /message?s=1 ")
    assert all("x-key: k" in head.lower() for head in server.heads)


@pytest.mark.parametrize(
    "session_id", ["1868a90c4b6e4d3f9f0a77b2c0de1234", "bG9uZ+Jzc2lvbiBpZA9=", "bG9uZ%2BJzc2lvbiBpZA8"]
)
async def test_the_session_in_the_address_for_messages_is_a_secret(session_id: str) -> None:
    server = ScriptedSseServer(SSE_HEAD + format_event(f"/message?sessionId={session_id}", "endpoint"), sse_reply)
    async with open_channel(server) as channel:
        await ping(channel, 1)
    assert redact(f"session {session_id} is broken") == "session [secret] is broken"
    assert redact(f"session {unquote(session_id)} is broken") == "session [secret] is broken"


@pytest.mark.req("sse.open")
async def test_nothing_is_sent_before_the_event_that_names_the_address() -> None:
    early = b": hello\r\n\r\n" + format_event("/other", "ping") + format_event("{}")
    server = ScriptedSseServer(SSE_HEAD + early + format_event("/m", "endpoint"), sse_reply)
    async with open_channel(server) as channel:
        assert isinstance(await ping(channel, 1), JsonRpcResponse)
    assert [head.split(" ")[:2] for head in server.heads] == [["GET", "/sse"], ["POST", "/m"]]


@pytest.mark.req("sse.endpoint-same-origin")
async def test_an_endpoint_on_another_origin_is_refused_and_nothing_is_sent_there() -> None:
    server = ScriptedSseServer(SSE_HEAD + format_event("http://127.0.0.2:1/message", "endpoint"))
    with pytest.raises(StartupError, match="on another origin"):
        async with open_channel(server):
            pass
    assert server.posted == []


@pytest.mark.req("sse.no-endpoint-event")
@pytest.mark.parametrize("start", [SSE_HEAD, SSE_HEAD + format_event("{}", "message")])
async def test_a_stream_without_an_endpoint_is_abandoned(start: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(legacy_sse, "ENDPOINT_TIMEOUT", 0.2)
    with pytest.raises(StartupError, match="sent no endpoint address"):
        async with open_channel(ScriptedSseServer(start)):
            pass


async def test_an_answer_that_is_no_event_stream_is_reported_with_its_status() -> None:
    with pytest.raises(StartupError, match="404"):
        async with open_channel(ScriptedSseServer(b"HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\nnope")):
            pass


@pytest.mark.parametrize(
    ("start", "message"),
    [
        (b"", "The server 'old' did not answer within 0 s."),
        (b"HTTP/1.1 500 X\r\nTransfer-Encoding: chunked\r\n\r\n", "HTTP 500"),
        (SSE_HEAD, "sent no endpoint address within 0 s"),
    ],
)
async def test_a_server_that_does_not_finish_its_answer_is_given_up(start: bytes, message: str) -> None:
    server = ScriptedSseServer(start)
    async with await asyncio.start_server(server.serve, "127.0.0.1", 0) as listener:
        url = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}/sse"
        connector = SseConnector("old", url, {}, warn=list[str]().append)
        connector.connect_timeout = 0.2
        with anyio.fail_after(4), pytest.raises(StartupError, match=message) as raised:
            async with connector.connect():
                pass
    assert raised.value.server == "old"


@pytest.mark.req("sse.post-failure")
async def test_a_refused_post_fails_only_its_own_request() -> None:
    server = ScriptedSseServer(
        SSE_HEAD + format_event("/m", "endpoint"), lambda message: None if message["id"] == 1 else sse_reply(message)
    )
    async with open_channel(server) as channel:
        with pytest.raises(HttpStatusError, match="400"):
            await ping(channel, 1)
        assert isinstance(await ping(channel, 2), JsonRpcResponse)


@pytest.mark.req("sse.stream-lost")
async def test_the_end_of_the_stream_ends_every_waiting_request() -> None:
    server = ScriptedSseServer(SSE_HEAD + format_event("/m", "endpoint"))

    def hang_up(message: dict[str, Any]) -> bytes:
        server.drop()
        return b""

    server.answers = hang_up
    async with open_channel(server) as channel:
        async with asyncio.timeout(5):
            with pytest.raises(ConnectionLost, match="ended its event stream"):
                await ping(channel, 1)
            with pytest.raises(ConnectionLost):
                await ping(channel, 2)


@pytest.mark.req("sse.deprecated-notice")
async def test_the_transport_is_reported_as_deprecated_once() -> None:
    notes: list[str] = []
    async with open_channel(ScriptedSseServer(SSE_HEAD + format_event("/m", "endpoint"), sse_reply), notes) as channel:
        await ping(channel, 1)
        await ping(channel, 2)
    assert len(notes) == 1
    assert "deprecated since 2025-03-26" in notes[0]


@pytest.mark.req("sse.stick", "sse.messages")
async def test_events_of_other_kinds_are_ignored_and_a_second_endpoint_changes_nothing() -> None:
    async def asked(kinds: bytes) -> list[str]:
        server = ScriptedSseServer(
            SSE_HEAD + format_event("/m", "endpoint"), lambda message: kinds + sse_reply(message)
        )
        async with open_channel(server, notes) as channel:
            assert isinstance(await ping(channel, 1), JsonRpcResponse)
            assert isinstance(await ping(channel, 2), JsonRpcResponse)
            assert set(channel.anomaly_counts.values()) == {0}
        return [head.split(" ")[1] for head in server.heads]

    notes: list[str] = []
    odd = (
        format_event("2026", "ping")
        + format_event("not json", "update")
        + format_event("http://127.0.0.2:1/x", "endpoint")
    )
    assert await asked(odd) == ["/sse", "/m", "/m"]
    assert len(notes) == 1  # that the transport is deprecated


@pytest.mark.parametrize("body", [b"", b"Accepted", b'{"jsonrpc":"2.0","id":1,"result":{"forged":true}}'])
@pytest.mark.req("sse.messages")
async def test_the_answer_to_a_post_only_confirms_it(body: bytes) -> None:
    class ChattyServer(ScriptedSseServer):
        async def _post(self, head: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            length = next(line for line in head.lower().split("\r\n") if line.startswith("content-length"))
            message = json.loads(await reader.readexactly(int(length.split(":")[1])))
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
            assert self._stream is not None
            self._stream.write(sse_reply(message))

    async with open_channel(ChattyServer(SSE_HEAD + format_event("/m", "endpoint"))) as channel:
        answer = await ping(channel, 1)
    assert isinstance(answer, JsonRpcResponse)
    assert bytes(answer.result) == b"{}"


@pytest.mark.parametrize(
    "endpoint", ["//evil.example/m", "https://127.0.0.1:PORT/m", "http://127.0.0.1:1/m", "http://[", "ftp://x/", "\xff"]
)
async def test_endpoints_elsewhere_or_of_no_address_are_refused(endpoint: str) -> None:
    server = ScriptedSseServer(SSE_HEAD + format_event(endpoint, "endpoint"))
    if endpoint == "\xff":
        server.start = server.start.replace("\xff".encode(), b"\xff")
    with pytest.raises(StartupError, match=r"on another origin|invalid endpoint"):
        async with open_channel(server):
            pass
    assert server.posted == []


async def test_an_endpoint_that_would_make_every_request_huge_is_refused() -> None:
    server = ScriptedSseServer(SSE_HEAD + format_event(f"/m?{'a' * 20_000}", "endpoint"))
    with pytest.raises(StartupError, match="sent an endpoint address over 16,384 bytes") as raised:
        async with open_channel(server):
            pass
    assert len(str(raised.value)) < 200
    assert server.posted == []


@pytest.mark.req("sse.messages")
async def test_events_of_other_kinds_right_after_the_endpoint_are_ignored() -> None:
    forged = format_event('{"jsonrpc":"2.0","id":1,"method":"sampling/createMessage"}', "other")
    others = format_event("2026", "ping") + format_event("http://127.0.0.2:1/x", "endpoint") + forged
    notice = format_event('{"jsonrpc":"2.0","method":"notifications/message"}')
    server = ScriptedSseServer(SSE_HEAD + format_event("/m", "endpoint") + others + notice, sse_reply)
    async with open_channel(server) as channel:
        assert isinstance(await ping(channel, 1), JsonRpcResponse)
        assert set(channel.anomaly_counts.values()) == {0}
        message = await anext(aiter(channel.unsolicited()))
    assert isinstance(message, JsonRpcNotification)


async def test_an_unread_notice_does_not_block_later_ones_forever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(legacy_sse, "SEND_TIMEOUT", 0.2)
    notes: list[str] = []

    class StuckServer(ScriptedSseServer):
        async def _post(self, head: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            if b"notifications/" in await reader.read(70):
                await reader.read()
                return
            assert self._stream is not None
            self._stream.write(sse_reply({"id": 1}))
            writer.write(b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n")

    async with open_channel(StuckServer(SSE_HEAD + format_event("/m", "endpoint")), notes) as channel:
        await channel.send(JsonRpcNotification("notifications/initialized"))
        async with asyncio.timeout(5):
            assert isinstance(await ping(channel, 1), JsonRpcResponse)
    assert [text for text in notes if "did not accept" in text]


async def test_an_event_of_15_mb_is_delivered_and_one_over_16_mb_ends_the_connection() -> None:
    def answers(message: dict[str, Any]) -> bytes:
        text = "x" * (15_000_000 if message["id"] == 1 else 17_000_000)
        return format_event(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": {"text": text}}))

    async with open_channel(ScriptedSseServer(SSE_HEAD + format_event("/m", "endpoint"), answers)) as channel:
        async with asyncio.timeout(10):
            answer = await ping(channel, 1)
            assert isinstance(answer, JsonRpcResponse)
            assert len(bytes(answer.result)) > 15_000_000
            with pytest.raises(ConnectionLost, match="event over 16 MB"):
                await ping(channel, 2)


async def test_messages_that_the_server_does_not_read_are_bounded_in_bytes() -> None:
    class SlowSseServer(ScriptedSseServer):
        async def _post(self, head: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read()  # until the client closes

    params = Raw(b'{"pad":"' + b"a" * 1_000_000 + b'"}')
    most = legacy_sse.MAX_QUEUED_BYTES // len(params)
    sent = 0

    async def send() -> None:
        nonlocal sent
        for _ in range(2 * most):
            await channel.send(JsonRpcNotification("notifications/progress", params))
            await anyio.lowlevel.checkpoint()
            sent += 1

    async with open_channel(SlowSseServer(SSE_HEAD + format_event("/m", "endpoint"))) as channel:
        with pytest.raises(ConnectionLost, match="no longer accepts messages"):
            await send()
    assert most - 2 <= sent <= most + 2
