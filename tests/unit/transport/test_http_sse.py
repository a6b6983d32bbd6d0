"""HTTP+SSE of 2024-11-05 against a server that does one thing wrong at a time, over real sockets."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from mcphost.errors import CannotStart, ConnectionLost
from mcphost.protocol.jsonrpc import Message, Notification, Request, Response
from mcphost.transport import http_sse
from mcphost.transport.channel import Channel, HttpStatus
from mcphost.transport.http_sse import SseDialer

pytestmark = pytest.mark.anyio
STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"


def event(data: str, kind: str = "message") -> bytes:
    return f"event: {kind}\r\ndata: {data}\r\n\r\n".encode()


class Server:
    """`start` is what the event stream begins with; `answers` gives events for each message that is posted."""

    def __init__(self, start: bytes, answers: Callable[[dict[str, Any]], bytes | None] = lambda message: b"") -> None:
        self.start = start
        self.answers = answers
        self.posted: list[dict[str, Any]] = []
        self.heads: list[str] = []
        self.port = 0
        self._stream: asyncio.StreamWriter | None = None

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                self.heads.append(head)
                if head.startswith("GET"):
                    writer.write(self.start)
                    self._stream = writer
                    await reader.read()
                    return
                await self._post(head, reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def _post(self, head: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        length = next(line for line in head.lower().split("\r\n") if line.startswith("content-length"))
        message = json.loads(await reader.readexactly(int(length.split(":")[1])))
        self.posted.append(message)
        said = self.answers(message)
        status = b"202 Accepted" if said is not None else b"400 Bad Request"
        writer.write(b"HTTP/1.1 %s\r\nContent-Length: 2\r\n\r\nno" % status)
        if said and self._stream is not None:
            self._stream.write(said)

    def drop(self) -> None:
        """End the event stream."""
        assert self._stream is not None
        self._stream.close()


@asynccontextmanager
async def connected(server: Server) -> AsyncIterator[Channel]:
    listener = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    server.port = listener.sockets[0].getsockname()[1]
    server.start = server.start.replace(b"PORT", str(server.port).encode())
    async with listener:
        dialer = SseDialer("old", f"http://127.0.0.1:{server.port}/sse", {"X-Key": "k"}, warn=lambda text: None)
        async with dialer.dial() as channel:
            yield channel


def reply(message: dict[str, Any]) -> bytes:
    return event(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": {}})) if "id" in message else b""


async def ask(channel: Channel, ident: int) -> Message:
    async with channel.exchange(Request(ident, "ping")) as messages:
        async for message in messages:
            return message
    raise AssertionError("no answer")


@pytest.mark.req("sse.open", "sse.endpoint-uri", "sse.messages")
@pytest.mark.parametrize("endpoint", ["/message?s=1", "message?s=1", "http://127.0.0.1:PORT/message?s=1"])
async def test_messages_go_to_the_address_the_server_names_and_answers_come_as_events(endpoint: str) -> None:
    server = Server(STREAM + event(endpoint, "endpoint"), reply)
    async with connected(server) as channel:
        answers = [await ask(channel, ident) for ident in (1, 2)]
        await channel.send(Notification("notifications/initialized"))
        assert isinstance(await ask(channel, 3), Response)
    assert all(isinstance(answer, Response) for answer in answers)
    assert [message["method"] for message in server.posted] == ["ping", "ping", "notifications/initialized", "ping"]
    assert server.heads[0].startswith("GET /sse ")
    assert server.heads[1].startswith("POST /message?s=1 ")
    assert all("x-key: k" in head.lower() for head in server.heads)


@pytest.mark.req("sse.endpoint-same-origin")
async def test_an_endpoint_on_another_origin_is_refused_and_nothing_is_sent_there() -> None:
    server = Server(STREAM + event("http://127.0.0.2:1/message", "endpoint"))
    with pytest.raises(CannotStart, match="endpoint is on another origin"):
        async with connected(server):
            pass
    assert server.posted == []


@pytest.mark.req("sse.no-endpoint-event")
@pytest.mark.parametrize("start", [STREAM, STREAM + event("{}", "message")])
async def test_a_stream_without_an_endpoint_is_given_up(start: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_sse, "ENDPOINT_SECONDS", 0.2)
    with pytest.raises(CannotStart, match="named no address"):
        async with connected(Server(start)):
            pass


async def test_an_answer_that_is_no_event_stream_is_told_with_its_status() -> None:
    with pytest.raises(CannotStart, match="404"):
        async with connected(Server(b"HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\nnope")):
            pass


@pytest.mark.req("sse.post-failure")
async def test_a_refused_post_fails_its_own_request_and_no_other() -> None:
    server = Server(STREAM + event("/m", "endpoint"), lambda message: None if message["id"] == 1 else reply(message))
    async with connected(server) as channel:
        with pytest.raises(HttpStatus, match="400"):
            await ask(channel, 1)
        assert isinstance(await ask(channel, 2), Response)


@pytest.mark.req("sse.stream-lost")
async def test_the_end_of_the_stream_ends_every_waiting_request() -> None:
    server = Server(STREAM + event("/m", "endpoint"))

    def hang_up(message: dict[str, Any]) -> bytes:
        server.drop()
        return b""

    server.answers = hang_up
    async with connected(server) as channel:
        async with asyncio.timeout(5):
            with pytest.raises(ConnectionLost, match="ended its event stream"):
                await ask(channel, 1)
            with pytest.raises(ConnectionLost):
                await ask(channel, 2)
