"""Joins the pieces of an answer that arrive together, so that each crosses the pipe and the screen with others."""

import asyncio
from collections.abc import Callable
from time import perf_counter

from mcphost.llm import worker_protocol
from mcphost.llm.answer_limits import AnswerTooLong
from mcphost.serialization import replace

BATCH_SECONDS = 0.02
"""A piece waits at most so long for others, and only while more are being read."""
BATCH_CHARS = 64 * 1024


class NoteBatch:
    """Sends notes in order: the first at once, later ones joined with those that are read in the same turn of the loop.

    `put` and `flush` raise AnswerTooLong when `send` does. Use it from the loop's thread; call `flush` before any note
    that does not go through it, and `drop` when nobody wants the rest.
    """

    def __init__(self, send: Callable[[worker_protocol.Note], None]) -> None:
        self._send = send
        self._waiting: worker_protocol.Note | None = None
        self._size = 0
        self._since = 0.0
        self._began = False
        self._handle: asyncio.Handle | None = None
        self._error: AnswerTooLong | None = None

    def put(self, note: worker_protocol.Note) -> None:
        """Send a note, now or with the next ones."""
        joined = None if self._waiting is None else join(self._waiting, note)
        if joined is None:
            self.flush()
            self._since, self._size = perf_counter(), 0
        self._waiting = joined or note
        self._size += len(getattr(note, "text", ""))
        if not self._began or self._size > BATCH_CHARS or perf_counter() - self._since > BATCH_SECONDS:
            self._began = True
            self.flush()
        elif self._handle is None:
            self._handle = asyncio.get_running_loop().call_soon(self._idle)

    def flush(self) -> None:
        """Send what waits."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
        if self._error is not None:
            raise self._error
        note, self._waiting = self._waiting, None
        if note is not None:
            self._send(note)

    def drop(self) -> None:
        """Forget what waits."""
        self._waiting = self._error = None
        self.flush()

    def _idle(self) -> None:
        self._handle = None
        try:
            self.flush()
        except AnswerTooLong as error:
            self._error = error  # for whoever puts the next one


def join(first: worker_protocol.Note, second: worker_protocol.Note) -> worker_protocol.Note | None:
    """Return both as one note; None when they are no pieces of the same thing."""
    match first, second:
        case worker_protocol.Text(), worker_protocol.Text():
            return replace(first, text=first.text + second.text)
        case worker_protocol.Thinking(), worker_protocol.Thinking():
            return replace(first, text=first.text + second.text, blocks=first.blocks + second.blocks)
        case worker_protocol.ToolPiece(), worker_protocol.ToolPiece() if first.index == second.index and not (
            second.call or second.name
        ):
            return replace(first, text=first.text + second.text)
        case _:
            return None
