"""Bounds what comes before the body of an HTTP answer: httpx reads any number of interim answers (RFC 9110, 15.2)."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from mcphost.errors import MalformedMessage

HEAD_BYTES = 64 * 1024
INTERIM_ANSWERS = 100
_STEP = 4 * 1024
"""Bytes read in one turn of the event loop; an interim answer takes 50 microseconds and 18 bytes."""

Read = Callable[..., Awaitable[bytes]]


class HeadLimit:
    """Watches one request by httpcore's `trace` extension; reading raises MalformedMessage over a bound."""

    def __init__(self) -> None:
        self._in_head = True
        self._bytes = self._answers = 0

    async def trace(self, event: str, info: dict[str, Any]) -> None:
        """Take an event of the request: put a limit on each stream that is opened, and know when its head is over."""
        if event.endswith((".connect_tcp.complete", ".start_tls.complete")):
            stream = info["return_value"]
            stream.read = partial(self._read, stream.read)
        elif event.endswith(".send_request_headers.started"):
            self._in_head = True
            self._bytes = self._answers = 0
        elif event.endswith(".receive_response_headers.complete"):
            self._in_head = False

    async def _read(self, read: Read, max_bytes: int, timeout: float | None = None) -> bytes:
        if not self._in_head:
            return await read(max_bytes, timeout)
        data = await read(min(max_bytes, _STEP), timeout)
        self._bytes += len(data)
        self._answers += data.count(b"HTTP/1.")
        if self._answers > INTERIM_ANSWERS + 1:
            raise MalformedMessage(f"over {INTERIM_ANSWERS} interim answers")
        if self._bytes > HEAD_BYTES + _STEP:
            raise MalformedMessage(f"headers over {HEAD_BYTES // 1024} KB")
        return data
