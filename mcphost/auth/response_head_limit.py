"""Bounds what comes before the body of an HTTP answer: httpx reads any number of interim answers (RFC 9110, 15.2)."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from mcphost.errors import MalformedMessage

MAX_HEAD_BYTES = 64 * 1024
MAX_INTERIM_RESPONSES = 100
_READ_SIZE = 4 * 1024
"""Bytes read in one turn of the event loop; an interim answer takes 50 microseconds and 18 bytes."""

ReadFunction = Callable[..., Awaitable[bytes]]


class ResponseHeadLimit:
    """Watches one request by httpcore's `trace` extension; reading raises MalformedMessage over a bound."""

    def __init__(self) -> None:
        self._in_head = True
        self._byte_count = self._response_count = 0

    async def trace(self, event: str, info: dict[str, Any]) -> None:
        """Take an event of the request: put a limit on each stream that is opened, and know when its head is over."""
        if event.endswith((".connect_tcp.complete", ".start_tls.complete")):
            stream = info["return_value"]
            stream.read = partial(self._read, stream.read)
        elif event.endswith(".send_request_headers.started"):
            self._in_head = True
            self._byte_count = self._response_count = 0
        elif event.endswith(".receive_response_headers.complete"):
            self._in_head = False

    async def _read(self, read: ReadFunction, max_bytes: int, timeout: float | None = None) -> bytes:
        if not self._in_head:
            return await read(max_bytes, timeout)
        data = await read(min(max_bytes, _READ_SIZE), timeout)
        self._byte_count += len(data)
        self._response_count += data.count(b"HTTP/1.")
        if self._response_count > MAX_INTERIM_RESPONSES + 1:
            raise MalformedMessage(f"over {MAX_INTERIM_RESPONSES} interim answers")
        if self._byte_count > MAX_HEAD_BYTES + _READ_SIZE:
            raise MalformedMessage(f"headers over {MAX_HEAD_BYTES // 1024} KB")
        return data
