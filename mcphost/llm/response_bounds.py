"""Bounds of a provider's answer as bytes, checked before any object is built from them; for the worker process only.

litellm and the providers' own libraries build about ten Python objects for each JSON object of an event, at 20
microseconds each. All of them read through `httpx.Response.aiter_bytes`, which `install` wraps.
"""

from collections.abc import AsyncIterator
from typing import Any

from mcphost.json_bounds import objects_in
from mcphost.llm.answer_limits import AnswerTooLong

MAX_EVENT = 16_000_000
"""Bytes of one line of an answer."""
MAX_ANSWER = 512_000_000
"""Bytes of one answer; 250,000 pieces with a large frame each are less."""
MAX_OBJECTS = 4_000
"""JSON objects in one line: 256 tool calls and their arguments have fewer."""


class LineMeter:
    """Counts the bytes and the JSON objects of each line; `feed` raises AnswerTooLong when a bound is passed."""

    def __init__(self) -> None:
        self._total = 0
        self._pieces: list[bytes] = []
        self._size = 0
        self._opened = 0
        self._most = MAX_OBJECTS

    def feed(self, data: bytes) -> None:
        """Count more bytes of the answer."""
        self._total += len(data)
        if self._total > MAX_ANSWER:
            raise AnswerTooLong(f"The answer passed {MAX_ANSWER // 1_000_000} MB and was stopped.")
        start = 0
        # Most chunks hold whole events with few objects each: one count settles them.
        if not self._pieces and data.count(b"{") <= MAX_OBJECTS and b"\n" in data:
            start = data.rindex(b"\n") + 1
        while start < len(data):
            end = data.find(b"\n", start)
            if end < 0:
                self._add(data[start:])
                return
            self._add(data[start:end])
            self._begin()
            start = end + 1

    def _begin(self) -> None:
        self._pieces.clear()
        self._size = self._opened = 0
        self._most = MAX_OBJECTS

    def _add(self, piece: bytes) -> None:
        self._pieces.append(piece)
        self._size += len(piece)
        self._opened += piece.count(b"{")
        if self._size > MAX_EVENT:
            raise AnswerTooLong(f"One event of the answer passed {MAX_EVENT // 1_000_000} MB; it was stopped.")
        if self._opened > self._most:
            # Braces inside of texts were counted as well; now without them.
            count = objects_in(b"".join(self._pieces))
            if count > MAX_OBJECTS:
                raise AnswerTooLong(f"One event of the answer holds more than {MAX_OBJECTS:,} objects; it was stopped.")
            self._most = 2 * self._opened


def install(response: Any) -> None:
    """Check all that is read with this class of responses (`httpx.Response`) from now on."""
    read = response.aiter_bytes

    async def aiter_bytes(self: Any, chunk_size: int | None = None) -> AsyncIterator[bytes]:
        meter = LineMeter()
        async for data in read(self, chunk_size):
            meter.feed(data)
            yield data

    response.aiter_bytes = aiter_bytes
