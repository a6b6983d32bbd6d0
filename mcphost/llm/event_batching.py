"""Batching of an answer's events that arrive together, to reduce work on the pipe and on the screen."""

import asyncio
from collections.abc import Callable
from time import perf_counter

from mcphost.llm import worker_protocol
from mcphost.llm.response_limits import AnswerTooLong
from mcphost.serialization import replace

MAX_BATCH_DELAY = 0.02
"""Seconds that an event waits for others, while more are being read."""
MAX_BATCH_LENGTH = 64 * 1024


class EventBatch:
    """Sender of events in order: the first at once, later ones merged if they arrive in one iteration of the loop.

    `put` and `flush` raise AnswerTooLong if *send* does. Use it from the loop's thread; call `flush` before sending an
    event by other means, and `discard` to drop the rest.
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
        """Send an event, now or merged with the next ones."""
        merged = None if self._pending is None else merge_events(self._pending, event)
        if merged is None:
            self.flush()
            self._started_at, self._size = perf_counter(), 0
        self._pending = merged or event
        self._size += len(getattr(event, "text", ""))
        if not self._has_sent or self._size > MAX_BATCH_LENGTH or perf_counter() - self._started_at > MAX_BATCH_DELAY:
            self._has_sent = True
            self.flush()
        elif self._handle is None:
            self._handle = asyncio.get_running_loop().call_soon(self._flush_when_idle)

    def flush(self) -> None:
        """Send the pending event."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
        if self._error is not None:
            raise self._error
        event, self._pending = self._pending, None
        if event is not None:
            self._send(event)

    def discard(self) -> None:
        """Drop the pending event."""
        self._pending = self._error = None
        self.flush()

    def _flush_when_idle(self) -> None:
        self._handle = None
        try:
            self.flush()
        except AnswerTooLong as error:
            self._error = error  # raised by the next call


def merge_events(
    first: worker_protocol.WorkerEvent, second: worker_protocol.WorkerEvent
) -> worker_protocol.WorkerEvent | None:
    """Return both as one event, or None if they do not continue each other."""
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
