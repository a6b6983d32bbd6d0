"""One HTTP/1.1 connection: framing, streaming bodies and hard bounds; `http_pool` makes and keeps them.

Why not a library: with 16 requests in flight httpx 0.28 costs more CPU and ten times the latency of the official
SDK's client, and it hides whether a connection was used before, which decides if a request may be sent again.
"""

import asyncio
from collections import deque
from typing import cast

from mcphost.errors import ConnectionLost, MalformedMessage
from mcphost.transport.wakeup import Waited

HEAD_LIMIT = 64 * 1024
_QUEUE_MARK = 1024 * 1024
_CHUNK_LINE = 1024
_HEADER_LINES = 256
_INTERIM_ANSWERS = 512
SPARE_CHUNKS = 1_000
BYTES_A_CHUNK = 16
_PIECE = 32 * 1024


class Stale(ConnectionLost):
    """A kept connection turned out to be closed before any byte of an answer came."""


class Connection(Waited, asyncio.Protocol):
    """One connection, one response at a time. Bytes that nobody asked for end it."""

    def __init__(self) -> None:
        super().__init__()
        self._transport: asyncio.Transport | None = None
        self._buffer: bytes = b""
        self._expecting = False
        self._in_body = False
        self._queue: deque[bytes] = deque()
        self._queued = 0
        self._error: Exception | None = None
        self._paused = False
        self.used = False
        self.idle_since = 0.0
        self.keep = True
        self.complete = False
        self.status = 0
        self.headers: dict[str, str] = {}
        self._left = 0  # bytes of the body, or of the current chunk
        self._mode = ""  # length, chunked, close
        self._trailer = 0
        self._heads = 0  # bytes of interim answers so far
        self._interim = 0
        self._chunks_left = 0  # how many chunks may still come before more bytes do
        self._tunnel = False
        self._eager = False  # whether the last piece came without waiting

    # -- asyncio's side
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        if not self._expecting:
            self._fail(ConnectionLost("bytes came after the answer"))
            self.abort()
            return
        try:
            if self._in_body:
                self._body(data)
            else:
                self._head(data)
        except MalformedMessage as error:
            self._fail(error)
            self.abort()

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self.keep = False
        if self._in_body and self._mode == "close" and exc is None:
            self._finish()
        elif self._expecting:
            started = self._in_body or self._buffer
            kind = Stale if self.used and not started else ConnectionLost
            self._fail(kind(str(exc) if exc else "the server closed the connection"))
        self._wake()

    # -- our side
    @property
    def transport(self) -> asyncio.Transport | None:
        """What it goes over; None before it is connected."""
        return self._transport

    @property
    def usable(self) -> bool:
        """Whether another request may be sent on it."""
        closing = self._transport is None or self._transport.is_closing()
        return self.keep and not closing and self._error is None and not self._expecting and not self._queue

    def start(self, data: bytes, *, tunnel: bool = False) -> None:
        """Send one request; `tunnel` for a CONNECT, whose good answer has no body (RFC 9110, 9.3.6)."""
        self._expecting = True
        self._eager = False  # the answer has to come first
        self._in_body = self.complete = False
        self._buffer = b""
        self._heads = self._interim = 0
        self._tunnel = tunnel
        if self._transport is not None:
            self._transport.write(data)

    async def head(self) -> None:
        """Wait for status and headers. Raises ConnectionLost, MalformedMessage."""
        while not self._in_body and not self.complete:
            await self._wait()

    async def chunk(self) -> bytes | None:
        """The next piece of the body; None at its end. Raises ConnectionLost, MalformedMessage."""
        if not self._queue:
            self._eager = False
        while not self._queue:
            if self.complete:
                return None
            await self._wait()
        if self._eager:
            await asyncio.sleep(0)  # who sends faster than we read must not keep everybody else waiting
        self._eager = True
        data = self._piece()
        if self._paused and self._queued < _QUEUE_MARK and self._transport is not None:
            self._paused = False
            self._transport.resume_reading()
        return data

    def _piece(self) -> bytes:
        """What is queued, joined to pieces of a size that is handled in milliseconds."""
        data = self._queue.popleft()
        if self._queue and len(data) < _PIECE:
            pieces = [data]
            size = len(data)
            while self._queue and size + len(self._queue[0]) <= _PIECE:
                pieces.append(self._queue.popleft())
                size += len(pieces[-1])
            data = b"".join(pieces)
        self._queued -= len(data)
        return data

    def abort(self) -> None:
        """Drop the connection, which tells the server that nobody reads any more."""
        self.keep = False
        if self._transport is not None:
            self._transport.abort()

    def secured(self, transport: asyncio.BaseTransport | None) -> None:
        """From now on everything goes through this transport, which a handshake inside the tunnel made."""
        self._transport = cast("asyncio.Transport | None", transport)
        self.keep, self.complete, self._tunnel = True, False, False

    async def _wait(self) -> None:
        if self._error is not None:
            raise self._error
        await self._woken()

    def _fail(self, error: Exception) -> None:
        self.keep = False
        if self._error is None:
            self._error = error
        self._wake()

    def _finish(self) -> None:
        self.complete = True
        self._expecting = False
        self._wake()

    # -- reading
    def _head(self, data: bytes) -> None:
        data = self._buffer + data if self._buffer else data
        self._buffer = b""
        while True:
            end = data.find(b"\r\n\r\n")
            if self._heads + (len(data) if end < 0 else end) > HEAD_LIMIT:
                raise MalformedMessage("headers over 64 KB")
            if end < 0:
                self._buffer = data
                return
            version, lines = self._status(data[:end])
            data = data[end + 4 :]
            if self.status >= 200:
                break
            self._heads += end  # an interim answer
            self._interim += 1
            if self._interim > _INTERIM_ANSWERS:
                raise MalformedMessage(f"over {_INTERIM_ANSWERS} interim answers")
        self.headers = _fields(lines)
        self.keep = version == "HTTP/1.1" and "close" not in self.headers.get("connection", "").lower()
        self._frame()
        self._in_body = True
        self._wake()
        if self._mode == "length" and self._left == 0:
            self._finish()
        if data or self.complete:
            self._body(data)

    def _status(self, head: bytes) -> tuple[str, list[str]]:
        status, *lines = head.decode("latin-1").split("\r\n")
        parts = status.split(" ", 2)
        digits = parts[1] if len(parts) > 1 else ""
        if not parts[0].startswith("HTTP/1.") or not (digits.isascii() and digits.isdigit() and len(digits) == 3):
            raise MalformedMessage(f"not an HTTP answer: {status[:100]!r}")
        self.status = int(digits)
        if self.status == 101:
            raise MalformedMessage("the server wants to switch protocols")
        if self.status < 100:
            raise MalformedMessage(f"not an HTTP answer: {status[:100]!r}")
        return parts[0], lines

    def _frame(self) -> None:
        coding = self.headers.get("transfer-encoding", "").lower().strip()
        length = self.headers.get("content-length")
        self._trailer = 0
        if self.status in (204, 304) or (self._tunnel and self.status < 300):
            self._mode, self._left = "length", 0
        elif coding:
            if coding != "chunked":
                raise MalformedMessage(f"the transfer encoding {coding[:50]!r}")
            # Both headers at once is how requests are smuggled; such a connection is not used again.
            self.keep = self.keep and length is None
            self._mode, self._left, self._chunks_left = "chunked", 0, SPARE_CHUNKS
        elif length is not None:
            values = {value.strip() for value in length.split(",")}
            (value,) = values if len(values) == 1 else ("",)
            if not (value.isascii() and value.isdigit() and len(value) < 16):
                raise MalformedMessage(f"the content length {length[:50]!r}")
            self._mode, self._left = "length", int(value)
        else:
            self._mode, self.keep = "close", False

    def _body(self, data: bytes) -> None:
        if self._mode == "chunked":
            data = self._chunked(data)
        elif self._mode == "length":
            taken, data = data[: self._left], data[self._left :]
            self._left -= len(taken)
            self._put(taken)
            if self._left == 0 and not self.complete:
                self._finish()
        else:
            self._put(data)
            data = b""
        if data:  # more than the answer
            self.abort()

    def _chunked(self, data: bytes) -> bytes:
        """Take what belongs to the chunked body; returns what is left over after its end.

        What comes at once may have a chunk for each 16 bytes, and a thousand more may come in a row.
        """
        self._chunks_left = min(SPARE_CHUNKS, self._chunks_left + 1) + len(data) // BYTES_A_CHUNK
        if self._buffer:
            data, self._buffer = self._buffer + data, b""
        at: int = 0
        while not self.complete and at < len(data):
            if self._left > 2:  # payload and the CRLF after it
                taken = data[at : at + self._left - 2]
                self._put(taken)
                self._left -= len(taken)
                at += len(taken)
                continue
            end = data.find(b"\r\n", at)
            if end < 0:
                if len(data) - at > _CHUNK_LINE:
                    raise MalformedMessage("a chunk without a size")
                self._buffer = data[at:]
                return b""
            line = data[at:end]
            at = end + 2
            self._chunk_line(line)
        return data[at:]

    def _chunk_line(self, line: bytes) -> None:
        if self._left == 2:
            if line:
                raise MalformedMessage("a chunk longer than its size")
            self._left = 0
        elif self._trailer:
            self._trailer += len(line)
            if self._trailer > HEAD_LIMIT:
                raise MalformedMessage("trailers over 64 KB")
            if not line:
                self._finish()
        else:
            digits = line.partition(b";")[0].strip()
            if not digits or len(digits) > 8 or digits.strip(b"0123456789abcdefABCDEF"):
                raise MalformedMessage(f"the chunk size {digits[:20]!r}")
            size = int(digits, 16)
            self._chunks_left -= 1
            if self._chunks_left < 0:
                raise MalformedMessage("chunks of almost no bytes")
            if size:
                self._left = size + 2
            else:
                self._trailer = 1

    def _put(self, data: bytes) -> None:
        if not data:
            return
        if len(data) <= _PIECE:
            self._queue.append(data)
        else:
            self._queue.extend(data[at : at + _PIECE] for at in range(0, len(data), _PIECE))
        self._queued += len(data)
        if self._queued > _QUEUE_MARK and not self._paused and self._transport is not None:
            self._paused = True
            self._transport.pause_reading()
        self._wake()


def _fields(lines: list[str]) -> dict[str, str]:
    if len(lines) > _HEADER_LINES:
        raise MalformedMessage(f"over {_HEADER_LINES} header lines")
    fields: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or not name or name != name.strip():
            raise MalformedMessage(f"the header line {line[:100]!r}")
        name = name.lower()
        value = value.strip()
        fields[name] = f"{fields[name]}, {value}" if name in fields else value
    return fields
