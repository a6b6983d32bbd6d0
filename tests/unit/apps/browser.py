"""The requests that a browser sends for a page, at wire level."""

import json
import re
from typing import Any, NamedTuple

import anyio
from anyio.abc import SocketStream

from mcphost.apps.page_server import PageServer


class Reply(NamedTuple):
    """A response: its status, its headers with names in lower case, and its body."""

    status: int
    headers: dict[str, str]
    body: str


async def send_raw(port: int, raw: bytes) -> bytes:
    """Send bytes, and return everything that the server sends until it closes the connection."""
    async with await anyio.connect_tcp("127.0.0.1", port) as stream:
        await stream.send(raw)
        received = b""
        with anyio.move_on_after(5):
            try:
                while True:
                    received += await stream.receive()
            except (anyio.EndOfStream, anyio.BrokenResourceError):
                pass
        return received


def build_request(port: int, method: str, path: str, body: bytes | None = None, **headers: str | None) -> bytes:
    """Return a request; a header that is None is left out, and `_` in a name stands for `-`."""
    lines: dict[str, str | None] = {"host": f"127.0.0.1:{port}"}
    if body is not None:
        lines |= {
            "origin": f"http://127.0.0.1:{port}", "content-type": "application/json",
            "content-length": str(len(body)),
        }  # fmt: skip
    lines |= {name.replace("_", "-"): value for name, value in headers.items()}
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items() if value is not None)
    return f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode() + (body or b"")


def parse_reply(raw: bytes) -> Reply:
    """Parse a response."""
    head, _, body = raw.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
    return Reply(int(first.split(" ")[1]), headers, body.decode())


async def request(port: int, path: str, method: str = "GET", body: bytes | None = None, **headers: str | None) -> Reply:
    """Send a request and return the response."""
    return parse_reply(await send_raw(port, build_request(port, method, path, body, **headers)))


class Browser:
    """A browser that has loaded a page, posts its messages and reads its event stream."""

    def __init__(self, port: int, path: str) -> None:
        self.port, self.path = port, path
        self.paths: dict[str, str] = {}
        self._stream: SocketStream | None = None
        self._buffer = b""

    async def load(self) -> Reply:
        """Load the document, and remember the paths in it."""
        reply = await request(self.port, self.path)
        self.paths = dict(re.findall(r'data-(page|messages|events)="([^"]+)"', reply.body))
        return reply

    async def post(self, message: Any, **headers: str | None) -> int:
        """Post a message of the page, and return the status."""
        body = message if isinstance(message, bytes) else json.dumps(message).encode()
        return (await request(self.port, self.paths["messages"], "POST", body, **headers)).status

    async def connect(self, width: str = "800") -> None:
        """Open the event stream."""
        self._stream = await anyio.connect_tcp("127.0.0.1", self.port)
        await self._stream.send(build_request(self.port, "GET", f"{self.paths['events']}?width={width}"))
        assert (await self._read_event()).startswith("HTTP/1.1 200 ")

    async def _read_event(self) -> str:
        assert self._stream is not None
        ends = (b"\r\n\r\n", b"\n\n")
        while not any(end in self._buffer for end in ends):
            self._buffer += await self._stream.receive()
        at, end = min((self._buffer.find(end), end) for end in ends if end in self._buffer)
        event, self._buffer = self._buffer[:at], self._buffer[at + len(end) :]
        return event.decode()

    async def read(self) -> Any:
        """Return the next message for the page, or "end" if the page was closed."""
        with anyio.fail_after(10):
            while True:
                event = await self._read_event()
                if event.startswith("event: end"):
                    return "end"
                if event.startswith("data: "):
                    return json.loads(event.removeprefix("data: "))

    async def call(self, method: str, params: Any = None, number: Any = 1) -> Any:
        """Send a request of the page, and return the response; the event stream must be open."""
        await self.post({"jsonrpc": "2.0", "id": number, "method": method, "params": params or {}})
        while True:
            message = await self.read()
            if message == "end" or message.get("id") == number:
                return message

    async def notify(self, method: str, params: Any = None) -> None:
        """Send a notification of the page."""
        await self.post({"jsonrpc": "2.0", "method": method, "params": params or {}})

    async def close(self) -> None:
        """Close the event stream."""
        if self._stream is not None:
            await self._stream.aclose()


def browse(server: PageServer) -> Browser:
    """Return a browser at the address of a page."""
    return Browser(server.port, server.url.removeprefix(f"http://127.0.0.1:{server.port}"))
