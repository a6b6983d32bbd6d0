"""A scripted HTTP server on loopback that passes each request to a function, which may write any bytes."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any


@dataclass
class ReceivedRequest:
    """A received request, with methods to respond to it."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    writer: asyncio.StreamWriter

    @property
    def message(self) -> dict[str, Any]:
        return json.loads(self.body)

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def reply(self, status: int = 200, body: bytes = b"", kind: str = "application/json", **headers: str) -> None:
        lines = [f"HTTP/1.1 {status} X", f"content-length: {len(body)}"]
        if kind:
            lines.append(f"content-type: {kind}")
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        await self.send("\r\n".join(lines).encode() + b"\r\n\r\n" + body)

    async def result(self, result: Any, **headers: str) -> None:
        body = json.dumps({"jsonrpc": "2.0", "id": self.message["id"], "result": result}).encode()
        await self.reply(200, body, **headers)

    async def error(self, status: int, code: int, data: Any = None) -> None:
        error = {"code": code, "message": "no", "data": data}
        body = json.dumps({"jsonrpc": "2.0", "id": self.message.get("id"), "error": error}).encode()
        await self.reply(status, body)

    async def stream(self) -> None:
        await self.send(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n")

    async def event(self, message: dict[str, Any]) -> None:
        await self.send(b"data: " + json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n\n")

    async def wait_closed(self) -> None:
        """Wait until the client closes the connection of this request."""
        await self._reader.read()

    @property
    def has_ended(self) -> bool:
        """Return whether the client has closed the connection of this request."""
        return self._reader.at_eof()

    _reader: asyncio.StreamReader = field(default=None, repr=False)  # type: ignore[assignment]


@dataclass
class RawServer:
    port: int
    seen: list[ReceivedRequest] = field(default_factory=list)
    listener: asyncio.Server = field(default=None, repr=False)  # type: ignore[assignment]
    secure: bool = False
    connections: int = 0
    """How many came, whether they said anything or not."""

    @property
    def url(self) -> str:
        return f"http{'s' if self.secure else ''}://127.0.0.1:{self.port}/mcp"

    def calls(self) -> list[str]:
        """Return the HTTP method and the JSON-RPC method of every request so far."""
        return [
            f"{message.method} {message.message.get('method', 'answer') if message.body else ''}".strip()
            for message in self.seen
        ]


@asynccontextmanager
async def serve(
    handler: Callable[[ReceivedRequest], Awaitable[object]], context: ssl.SSLContext | None = None, *, port: int = 0
) -> AsyncIterator[RawServer]:
    """Serve until the block ends, using TLS if *context* is given; a handler returns False to close the connection.

    *port* is the port of a server that was stopped; 0 selects a free one.
    """
    running: set[asyncio.Task[Any]] = set()

    async def connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        running.add(task)
        server.connections += 1
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
                headers = {
                    name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:] if line)
                }
                body = await reader.readexactly(int(headers.get("content-length", 0)))
                verb, path, _ = head[0].split(" ", 2)
                request = ReceivedRequest(verb, path, headers, body, writer)
                request._reader = reader
                server.seen.append(request)
                if await handler(request) is False:
                    return
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            return  # the client left, or the test is over
        finally:
            running.discard(task)
            writer.close()

    listener = await asyncio.start_server(connection, "127.0.0.1", port, limit=1 << 22, ssl=context)
    server = RawServer(listener.sockets[0].getsockname()[1], listener=listener, secure=context is not None)
    try:
        yield server
    finally:
        listener.close()
        for task in list(running):
            task.cancel()
        if running:
            await asyncio.wait(running, timeout=2)
        await listener.wait_closed()


MEGABYTE = 1_000_000
