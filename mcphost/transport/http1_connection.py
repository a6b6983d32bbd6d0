"""Client connections for HTTP/1.1, which parse responses strictly and limit their size.

`http_pool` opens connections and reuses them. docs/decisions/0008 (httpx) and 0020 (h11) explain why no library
is used here. The parser follows the grammar in RFC 9110 and RFC 9112, but does not accept the deviations that
these RFCs tolerate in old implementations. `tests/fuzz` compares it with h11.
"""

import asyncio
import re
import select
from collections import deque
from typing import cast

from mcphost.errors import ConnectionLost, MalformedMessage
from mcphost.transport.flow_control import WakeupFuture

HEAD_LIMIT = 64 * 1024
CLOSED_TEXT = "the server closed the connection"
_HIGH_WATER_MARK = 1024 * 1024
_MAX_CHUNK_LINE = 1024
_MAX_HEADER_LINES = 256
_MAX_INTERIM_RESPONSES = 512
SMALL_CHUNK_ALLOWANCE = 1_000
BYTES_PER_CHUNK = 16
_MAX_PIECE = 32 * 1024
# RFC 9112, section 4: status-line; the reason and the space before it may be missing.
_STATUS_LINE = re.compile(r"(HTTP/1\.[0-9]) ([0-9]{3})(?: [\t\x20-\x7e\x80-\xff]*)?")
# RFC 9110, sections 5.1 and 5.5: a token; values keep the control characters that cannot end a line.
_HEADER_LINE = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+):([^\x00\n\x0b\x0c\r]*)")
_CONTENT_LENGTH = re.compile(r"[0-9]{1,15}")
# RFC 9112, section 7.1: chunk-size and extensions, which are ignored.
_CHUNK_LINE = re.compile(rb"([0-9A-Fa-f]{1,8})(?:;[\t\x20-\x7e\x80-\xff]*|[ \t]*)")


class StaleConnection(ConnectionLost):
    """Raised when a reused connection was closed before the response began, so the request can be sent again."""


class HttpConnection(WakeupFuture, asyncio.Protocol):
    """An HTTP/1.1 connection for one request at a time; unexpected bytes from the server close it."""

    def __init__(self) -> None:
        super().__init__()
        self._transport: asyncio.Transport | None = None
        self._buffer: bytes = b""
        self._is_expecting_response = False
        self._is_in_body = False
        self._queue: deque[bytes] = deque()
        self._queued_bytes = 0
        self._error: Exception | None = None
        self._is_paused = False
        self.is_reused = False
        self.is_second_attempt = False
        """Whether the same request had already been sent on another connection, which the server had closed."""
        self.idle_since = 0.0
        self.is_keep_alive = True
        self.is_complete = False
        self.status = 0
        self.headers: dict[str, str] = {}
        self._remaining_bytes = 0  # bytes of the body, or of the current chunk
        self._framing = ""  # length, chunked, close
        self._trailer_bytes = self._trailer_count = 0
        self._interim_bytes = 0  # bytes of interim responses so far
        self._interim_count = 0
        self._chunks_left = 0  # number of chunks that are accepted before more bytes arrive
        self._is_tunnel = False
        self._has_just_read = False  # whether the last piece was available without waiting

    # -- asyncio.Protocol
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Store the transport of the connection; called by asyncio."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Process received bytes; called by asyncio. Invalid data closes the connection."""
        if self._error is not None:
            return
        if not self._is_expecting_response:
            self._fail(ConnectionLost("unexpected bytes after the response"))
            self.abort()
            return
        try:
            if self._is_in_body:
                self._feed_body(data)
            else:
                self._feed_head(data)
        except MalformedMessage as error:
            self._fail(error)
            self.abort()

    def eof_received(self) -> bool:
        """Return False, so that asyncio closes the connection after the server has sent all its data."""
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """Complete a response whose body lasts until the connection is closed; called by asyncio.

        If any other response is expected or incomplete, this makes `read_head` or `read_chunk` raise an error.
        """
        self.is_keep_alive = False
        if self._is_in_body and self._framing == "close" and exc is None:
            self._complete_response()
        elif self._is_expecting_response:
            started = self._is_in_body or self._buffer
            kind = StaleConnection if self.is_reused and not started else ConnectionLost
            self._fail(kind(str(exc) if exc else CLOSED_TEXT))
        self._wake()

    # -- requests
    @property
    def transport(self) -> asyncio.Transport | None:
        """The asyncio transport, or None before the connection is established."""
        return self._transport

    @property
    def is_usable(self) -> bool:
        """Whether another request can be sent on this connection."""
        closing = self._transport is None or self._transport.is_closing()
        return (
            self.is_keep_alive
            and not closing
            and self._error is None
            and not self._is_expecting_response
            and not self._queue
            and not self._has_unread_input()
        )

    def _has_unread_input(self) -> bool:
        """Return whether the socket has data, or the end of the stream, that the event loop has not read yet.

        A server sends nothing on an idle connection. Unread input therefore means that the server has closed the
        connection, for example while the event loop was busy.
        """
        sock = self._transport.get_extra_info("socket") if self._transport is not None else None
        if sock is None or sock.fileno() < 0 or not hasattr(select, "poll"):  # no poll on Windows
            return False
        poll = select.poll()
        poll.register(sock, select.POLLIN)
        return bool(poll.poll(0))

    def send_request(self, data: bytes, *, tunnel: bool = False) -> None:
        """Send the bytes of one request.

        *tunnel* must be True for CONNECT, because its 2xx response has no body (RFC 9110, section 9.3.6).
        """
        self._is_expecting_response = True
        self.is_second_attempt = False
        self._has_just_read = False  # the response has to arrive first
        self._is_in_body = self.is_complete = False
        self._buffer = b""
        self._interim_bytes = self._interim_count = 0
        self._is_tunnel = tunnel
        if self._transport is not None:
            self._transport.write(data)

    async def read_head(self) -> None:
        """Wait for the response's status line and headers. Raises ConnectionLost or MalformedMessage."""
        while not self._is_in_body and not self.is_complete:
            await self._wait()

    async def read_chunk(self) -> bytes | None:
        """Return the next piece of the body, or None at its end. Raises ConnectionLost or MalformedMessage."""
        if not self._queue:
            self._has_just_read = False
        while not self._queue:
            if self.is_complete:
                return None
            await self._wait()
        if self._has_just_read:
            await asyncio.sleep(0)  # a peer that sends faster than it is read must not block other tasks
        self._has_just_read = True
        data = self._take_piece()
        if self._is_paused and self._queued_bytes < _HIGH_WATER_MARK and self._transport is not None:
            self._is_paused = False
            self._transport.resume_reading()
        return data

    def _take_piece(self) -> bytes:
        """Remove and return the next piece of the body, joined with the pieces that follow, up to 32 KB in total."""
        data = self._queue.popleft()
        if self._queue and len(data) < _MAX_PIECE:
            pieces = [data]
            size = len(data)
            while self._queue and size + len(self._queue[0]) <= _MAX_PIECE:
                pieces.append(self._queue.popleft())
                size += len(pieces[-1])
            data = b"".join(pieces)
        self._queued_bytes -= len(data)
        return data

    def abort(self) -> None:
        """Close the connection immediately, so that the server notices that its response is no longer read."""
        self.is_keep_alive = False
        if self._transport is not None:
            self._transport.abort()

    def set_tls_transport(self, transport: asyncio.BaseTransport | None) -> None:
        """Replace the transport with the TLS transport that was negotiated inside a proxy's tunnel."""
        self._transport = cast("asyncio.Transport | None", transport)
        self.is_keep_alive, self.is_complete, self._is_tunnel = True, False, False

    async def _wait(self) -> None:
        if self._error is not None:
            raise self._error
        await self._wait_for_wakeup()

    def _fail(self, error: Exception) -> None:
        self.is_keep_alive = False
        if self._error is None:
            self._error = error
        self._wake()

    def _complete_response(self) -> None:
        self.is_complete = True
        self._is_expecting_response = False
        self._wake()

    # -- parsing
    def _feed_head(self, data: bytes) -> None:
        data = self._buffer + data if self._buffer else data
        self._buffer = b""
        while True:
            end = data.find(b"\r\n\r\n")
            if self._interim_bytes + (len(data) if end < 0 else end) > HEAD_LIMIT:
                raise MalformedMessage("headers over 64 KB")
            if end < 0:
                self._buffer = data
                return
            version, headers = self._parse_head(data[:end])
            data = data[end + 4 :]
            if self.status >= 200:
                break
            self._interim_bytes += end  # an interim response
            self._interim_count += 1
            if self._interim_count > _MAX_INTERIM_RESPONSES:
                raise MalformedMessage(f"over {_MAX_INTERIM_RESPONSES} interim responses")
        self.headers = headers
        self.is_keep_alive = version == "HTTP/1.1" and "close" not in self.headers.get("connection", "").lower()
        self._choose_framing()
        self._is_in_body = True
        self._wake()
        if self._framing == "length" and self._remaining_bytes == 0:
            self._complete_response()
        if data or self.is_complete:
            self._feed_body(data)

    def _parse_head(self, head: bytes) -> tuple[str, dict[str, str]]:
        """Parse the head of a response: store its status, and return the HTTP version and the headers."""
        line, *lines = head.decode("latin-1").split("\r\n")
        match = _STATUS_LINE.fullmatch(line)
        if match is None or match[2] < "100":
            raise MalformedMessage(f"not an HTTP response: {line[:100]!r}")
        self.status = int(match[2])
        if self.status == 101:
            raise MalformedMessage("the server wants to switch protocols")
        return match[1], _parse_headers(lines)

    def _choose_framing(self) -> None:
        coding = self.headers.get("transfer-encoding")
        length = _parse_content_length(self.headers)
        self._trailer_bytes = self._trailer_count = 0
        if coding is not None and coding.lower() != "chunked":
            raise MalformedMessage(f"the transfer encoding {coding[:50]!r}")
        if self.status in (204, 304) or (self._is_tunnel and self.status < 300):
            self._framing, self._remaining_bytes = "length", 0
        elif coding is not None:
            # Both headers together enable request smuggling, so the connection is not reused.
            self.is_keep_alive = self.is_keep_alive and length is None
            self._framing, self._remaining_bytes, self._chunks_left = "chunked", 0, SMALL_CHUNK_ALLOWANCE
        elif length is not None:
            self._framing, self._remaining_bytes = "length", length
        else:
            self._framing, self.is_keep_alive = "close", False

    def _feed_body(self, data: bytes) -> None:
        if self._framing == "chunked":
            data = self._feed_chunked(data)
        elif self._framing == "length":
            taken, data = data[: self._remaining_bytes], data[self._remaining_bytes :]
            self._remaining_bytes -= len(taken)
            self._queue_body(taken)
            if self._remaining_bytes == 0 and not self.is_complete:
                self._complete_response()
        else:
            self._queue_body(data)
            data = b""
        if data:  # more than the response
            self.abort()

    def _feed_chunked(self, data: bytes) -> bytes:
        """Parse data in chunked transfer coding; return the bytes that follow the end of the body.

        Raises MalformedMessage for invalid data, or if there are too many chunks: more than one for every 16 bytes
        received, plus 1,000.
        """
        self._chunks_left = min(SMALL_CHUNK_ALLOWANCE, self._chunks_left + 1) + len(data) // BYTES_PER_CHUNK
        if self._buffer:
            data, self._buffer = self._buffer + data, b""
        at: int = 0
        while not self.is_complete and at < len(data):
            if self._remaining_bytes > 2:  # payload and the CRLF after it
                taken = data[at : at + self._remaining_bytes - 2]
                self._queue_body(taken)
                self._remaining_bytes -= len(taken)
                at += len(taken)
                continue
            end = data.find(b"\r\n", at)
            if end < 0:
                if len(data) - at > _MAX_CHUNK_LINE:
                    raise MalformedMessage("a chunk without a size")
                self._buffer = data[at:]
                return b""
            line = data[at:end]
            at = end + 2
            self._feed_chunk_line(line)
        return data[at:]

    def _feed_chunk_line(self, line: bytes) -> None:
        if self._remaining_bytes == 2:
            if line:
                raise MalformedMessage("a chunk longer than its size")
            self._remaining_bytes = 0
        elif self._trailer_bytes:
            self._trailer_bytes += len(line) + 2
            if self._trailer_bytes > HEAD_LIMIT:
                raise MalformedMessage("trailers over 64 KB")
            if line:
                self._trailer_count += 1
                if self._trailer_count > _MAX_HEADER_LINES:
                    raise MalformedMessage(f"over {_MAX_HEADER_LINES} trailer lines")
                _parse_header(line.decode("latin-1"))
            else:
                self._complete_response()
        else:
            match = _CHUNK_LINE.fullmatch(line)
            if match is None:
                raise MalformedMessage(f"the chunk size {line[:20]!r}")
            size = int(match[1], 16)
            self._chunks_left -= 1
            if self._chunks_left < 0:
                raise MalformedMessage("chunks of almost no bytes")
            if size:
                self._remaining_bytes = size + 2
            else:
                self._trailer_bytes = 1

    def _queue_body(self, data: bytes) -> None:
        if not data:
            return
        if len(data) <= _MAX_PIECE:
            self._queue.append(data)
        else:
            self._queue.extend(data[at : at + _MAX_PIECE] for at in range(0, len(data), _MAX_PIECE))
        self._queued_bytes += len(data)
        if self._queued_bytes > _HIGH_WATER_MARK and not self._is_paused and self._transport is not None:
            self._is_paused = True
            self._transport.pause_reading()
        self._wake()


def _parse_headers(lines: list[str]) -> dict[str, str]:
    if len(lines) > _MAX_HEADER_LINES:
        raise MalformedMessage(f"over {_MAX_HEADER_LINES} header lines")
    headers: dict[str, str] = {}
    for line in lines:
        name, value = _parse_header(line)
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return headers


def _parse_header(line: str) -> tuple[str, str]:
    match = _HEADER_LINE.fullmatch(line)
    if match is None:
        raise MalformedMessage(f"the header line {line[:100]!r}")
    return match[1].lower(), match[2].strip(" \t")


def _parse_content_length(headers: dict[str, str]) -> int | None:
    """Return the Content-Length, or None if absent; identical values may be repeated (RFC 9112, section 6.3)."""
    text = headers.get("content-length")
    if text is None:
        return None
    values = {value.strip(" \t") for value in text.split(",")}
    value = values.pop()
    if values or not _CONTENT_LENGTH.fullmatch(value):
        raise MalformedMessage(f"the content length {text[:50]!r}")
    headers["content-length"] = value
    return int(value)
