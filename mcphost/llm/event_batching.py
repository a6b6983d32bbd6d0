"""Joins the pieces of an answer that arrive together, so that each crosses the pipe and the screen with others."""

import asyncio
from collections.abc import Callable
from time import perf_counter

from mcphost.llm import worker_protocol
from mcphost.llm.answer_limits import AnswerTooLong
from mcphost.serialization import replace

MAX_BATCH_DELAY = 0.02
"""A piece waits at most so long for others, and only while more are being read."""
MAX_BATCH_LENGTH = 64 * 1024


class EventBatch:
    """Sends notes in order: the first at once, later ones joined with those that are read in the same turn of the loop.

    `put` and `flush` raise AnswerTooLong when `send` does. Use it from the loop's thread; call `flush` before any note
    that does not go through it, and `drop` when nobody wants the rest.
    """

    def __init__(self, send: Callable[[worker_protocol.WorkerEvent], None]) -> None:
        self._send = send
        self._pending: worker_protocol.WorkerEvent | None = None
        self._size = 0
        self._started_at = 0.0
        self._has_sent = False
        self._handle: asyncio.Handle | None = None
        self._error: AnswerTooLong | None = None

    def put(self, event: worker_protocol.WorkerEvent) -> None:
        """Send a note, now or with the next ones."""
        joined = None if self._pending is None else merge_events(self._pending, event)
        if joined is None:
            self.flush()
            self._started_at, self._size = perf_counter(), 0
        self._pending = joined or event
        self._size += len(getattr(event, "text", ""))
        if not self._has_sent or self._size > MAX_BATCH_LENGTH or perf_counter() - self._started_at > MAX_BATCH_DELAY:
            self._has_sent = True
            self.flush()
        elif self._handle is None:
            self._handle = asyncio.get_running_loop().call_soon(self._flush_when_idle)

    def flush(self) -> None:
        """Send what waits."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
        if self._error is not None:
            raise self._error
        note, self._pending = self._pending, None
        if note is not None:
            self._send(note)

    def discard(self) -> None:
        """Forget what waits."""
        self._pending = self._error = None
        self.flush()

    def _flush_when_idle(self) -> None:
        self._handle = None
        try:
            self.flush()
        except AnswerTooLong as error:
            self._error = error  # for whoever puts the next one


def merge_events(
    first: worker_protocol.WorkerEvent, second: worker_protocol.WorkerEvent
) -> worker_protocol.WorkerEvent | None:
    """Return both as one note; None when they are no pieces of the same thing."""
    match first, second:
        case worker_protocol.WorkerTextDelta(), worker_protocol.WorkerTextDelta():
            return replace(first, text=first.text + second.text)
        case worker_protocol.WorkerThinkingDelta(), worker_protocol.WorkerThinkingDelta():
            return replace(first, text=first.text + second.text, blocks=first.blocks + second.blocks)
        case worker_protocol.WorkerToolCallDelta(), worker_protocol.WorkerToolCallDelta() if (
            first.index == second.index and not (second.tool_call_id or second.name)
        ):
            return replace(first, text=first.text + second.text)
        case _:
            return None
