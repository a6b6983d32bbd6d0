"""Limits on the HTTP responses that httpx reads: head, chunks, trailers, and bytes per read.

Without them, httpx would accept any number of interim responses (RFC 9110, section 15.2) and chunks, and would
parse up to 64 KB at once.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import Any

import anyio.lowlevel

from mcphost.errors import MalformedMessage

MAX_HEAD_BYTES = 64 * 1024
MAX_HEAD_LINES = 1_000
MAX_INTERIM_RESPONSES = 100
EXTRA_CHUNKS = 1_000
BYTES_PER_CHUNK = 256
"""A body may have one chunk for each BYTES_PER_CHUNK bytes of its size, plus EXTRA_CHUNKS chunks."""
MAX_FRAMING_BYTES = 16 * 1024
"""Maximum number of bytes, such as trailers, that are read in a row without any byte of the body among them."""
_READ_SIZE = 4 * 1024
"""Maximum bytes per read. It is small because parsing a one-byte chunk or an interim response takes up to 50 µs."""

ReadFunction = Callable[..., Awaitable[bytes]]


class TooManyChunks(MalformedMessage):
    """Raised when a body has too many chunks for its size."""


class BodyTooLarge(MalformedMessage):
    """Raised when a body has more bytes than allowed."""


class ResponseLimits:
    """Limits on one response, enforced through httpcore's `trace` extension and `read_body`.

    The connection must not be reused for another request. Before each read, other tasks get a chance to run.
    """

    def __init__(self) -> None:
        self._in_head = True
        self._byte_count = self._line_count = self._response_count = 0
        self._framing_bytes = 0

    async def trace(self, event: str, info: dict[str, Any]) -> None:
        """Handle an httpcore trace event, so that the response is counted and limited while it is read."""
        if event.endswith((".connect_tcp.complete", ".start_tls.complete")):
            stream = info["return_value"]
            stream.read = partial(self._read, stream.read)
        elif event.endswith(".send_request_headers.started"):
            self._in_head = True
            self._byte_count = self._line_count = self._response_count = 0
        elif event.endswith(".receive_response_headers.complete"):
            self._in_head = False
            self._framing_bytes = 0

    async def read_body(self, chunks: AsyncIterator[bytes], max_bytes: int) -> bytes:
        """Read all *chunks* and return them as one body.

        Raises BodyTooLarge if the body exceeds *max_bytes*, or TooManyChunks if it has too many chunks for its size.
        """
        body = bytearray()
        count = 0
        async for chunk in chunks:
            self._framing_bytes = 0
            body += chunk
            count += 1
            if count > EXTRA_CHUNKS + len(body) // BYTES_PER_CHUNK:
                raise TooManyChunks("too many small chunks")
            if len(body) > max_bytes:
                raise BodyTooLarge("a body that is too large")
        return bytes(body)

    async def _read(self, read: ReadFunction, max_bytes: int, timeout: float | None = None) -> bytes:
        await anyio.lowlevel.checkpoint()  # data that is already decrypted is read without waiting
        data = await read(min(max_bytes, _READ_SIZE), timeout)
        if self._in_head:
            self._check_head(data)
        else:
            self._framing_bytes += len(data)
            if self._framing_bytes > MAX_FRAMING_BYTES:
                raise MalformedMessage(f"trailers over {MAX_FRAMING_BYTES // 1024} KB")
        return data

    def _check_head(self, data: bytes) -> None:
        if self._line_count > MAX_HEAD_LINES:  # without the last read, which may contain the body
            raise MalformedMessage(f"over {MAX_HEAD_LINES} header lines")
        self._byte_count += len(data)
        self._line_count += data.count(b"\n")
        self._response_count += data.count(b"HTTP/1.")
        if self._response_count > MAX_INTERIM_RESPONSES + 1:
            raise MalformedMessage(f"over {MAX_INTERIM_RESPONSES} interim responses")
        if self._byte_count > MAX_HEAD_BYTES + _READ_SIZE:
            raise MalformedMessage(f"headers over {MAX_HEAD_BYTES // 1024} KB")
