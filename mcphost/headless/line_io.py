"""Line-based standard input and output that keeps the order of lines and never blocks the event loop."""

import contextlib
import os
import select
import threading
from collections import deque
from collections.abc import Callable, Iterator
from time import monotonic
from typing import Self

import anyio
import anyio.from_thread
from anyio.lowlevel import current_token

from mcphost.sanitize import escape_line_separators, escape_unsafe_json

MAX_LINE_BYTES = 16_000_000
MAX_BACKLOG_BYTES = 64_000_000
_CHUNK_BYTES = 65_536
_READ_AHEAD_LINES = 64


class OversizedLine:
    """Placeholder for a line that was discarded because it exceeds the size limit."""


class InputLines:
    """Asynchronous iterator over input lines without their line feeds; the last line may lack a line feed.

    The input is read on a thread, because event loops cannot watch regular files. The thread is a daemon, because a
    thread that is blocked while reading from a terminal cannot be stopped.
    """

    def __init__(self, descriptor: int) -> None:
        """Start reading from the file *descriptor*, at most 64 lines ahead; an event loop must be running."""
        self._token = current_token()
        self._lines: deque[bytes | OversizedLine | None] = deque()
        self._arrived = anyio.Event()
        self._free_slots = threading.Semaphore(_READ_AHEAD_LINES)
        self._discarded_until = float("-inf")
        threading.Thread(target=_read_input, args=(descriptor, self._deliver), daemon=True, name="stdin").start()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes | OversizedLine:
        """Return the next line. Safe to cancel: a line that arrives later is returned by the next call."""
        while not self._lines:
            self._arrived = anyio.Event()
            await self._arrived.wait()
        line = self._lines[0]
        if line is None:
            raise StopAsyncIteration
        self._lines.popleft()
        self._free_slots.release()
        return line

    def discard(self) -> None:
        """Discard all lines that have been read but not yet returned.

        This includes lines that the thread has read but not yet delivered to the event loop.
        """
        self._discarded_until = monotonic()
        while self._lines and self._lines[0] is not None:
            self._lines.popleft()
            self._free_slots.release()

    def _append(self, line: bytes | OversizedLine | None, read_at: float) -> None:
        if line is not None and read_at <= self._discarded_until:
            self._free_slots.release()
            return
        self._lines.append(line)
        self._arrived.set()

    def _deliver(self, line: bytes | OversizedLine | None, read_at: float) -> bool:
        self._free_slots.acquire()
        try:
            anyio.from_thread.run_sync(self._append, line, read_at, token=self._token)
        except (RuntimeError, anyio.RunFinishedError):
            return False  # the event loop has ended
        return True


def _read_input(descriptor: int, deliver: Callable[[bytes | OversizedLine | None, float], bool]) -> None:
    buffer = _LineBuffer()
    while True:
        try:
            chunk = os.read(descriptor, _CHUNK_BYTES)
        except OSError:
            chunk = b""
        read_at = monotonic()
        if not all(deliver(line, read_at) for line in (buffer.feed(chunk) if chunk else buffer.flush())):
            return
        if not chunk:
            deliver(None, read_at)
            return


class _LineBuffer:
    """Buffer that splits input into lines; a line over the size limit becomes one OversizedLine."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0

    def feed(self, chunk: bytes) -> Iterator[bytes | OversizedLine]:
        """Yield the lines that end in *chunk*, and an OversizedLine as soon as a line exceeds the size limit."""
        *complete, last = chunk.split(b"\n")
        for piece in complete:
            yield from self._append(piece)
            if self._size <= MAX_LINE_BYTES:
                yield b"".join(self._parts)
            self._parts, self._size = [], 0
        yield from self._append(last)

    def flush(self) -> Iterator[bytes]:
        """Yield the unfinished last line, unless it is empty or exceeds the size limit."""
        if 0 < self._size <= MAX_LINE_BYTES:
            yield b"".join(self._parts)

    def _append(self, piece: bytes) -> Iterator[OversizedLine]:
        if self._size <= MAX_LINE_BYTES:
            self._parts.append(piece)
            self._size += len(piece)
            if self._size > MAX_LINE_BYTES:
                self._parts = []
                yield OversizedLine()


class LineWriter:
    """Writer that writes lines to a file descriptor on a daemon thread, so a slow reader blocks nothing else."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._is_terminal = os.isatty(descriptor)
        self._queue: list[bytes] = []
        self._size = 0
        self._is_closing = False
        self._condition = threading.Condition()
        self._token = current_token()
        self.finished = anyio.Event()
        """Set when all lines have been written after a call of `close`, or when the reader has closed its end."""
        threading.Thread(target=self._write_queued, daemon=True, name="stdout").start()

    @property
    def is_full(self) -> bool:
        """Whether the queued output exceeds the limit, so that less important lines should be dropped."""
        return self._size > MAX_BACKLOG_BYTES

    def put(self, line: bytes) -> None:
        """Queue one line of JSON, given without a line feed, and return immediately.

        Characters at which some programs end a line are escaped. If the output is a terminal, control characters and
        invisible characters are escaped, too.
        """
        line = escape_line_separators(line)
        if self._is_terminal:
            line = escape_unsafe_json(line.decode(errors="replace")).encode()
        with self._condition:
            self._queue.append(line)
            self._size += len(line)
            self._condition.notify()

    def close(self) -> None:
        """Stop writing after all queued lines have been written; return without waiting.

        `finished` is set when the lines have been written, or when the reader has closed its end.
        """
        with self._condition:
            self._is_closing = True
            self._condition.notify()

    def is_reader_closed(self) -> bool:
        """Return whether the other end of a pipe or socket is closed; False for other files. Never blocks."""
        try:
            watch = select.poll()
            watch.register(self._descriptor, 0)
            return any(event & (select.POLLERR | select.POLLHUP | select.POLLNVAL) for _, event in watch.poll(0))
        except OSError:
            return True

    def _write_queued(self) -> None:
        while True:
            with self._condition:
                while not self._queue and not self._is_closing:
                    self._condition.wait()
                batch, self._queue = self._queue, []
            if not batch or not self._write(b"\n".join(batch) + b"\n"):
                break
            with self._condition:  # lines that are being written still count
                self._size -= sum(map(len, batch))
        with contextlib.suppress(RuntimeError, anyio.RunFinishedError):  # the event loop has ended
            anyio.from_thread.run_sync(self.finished.set, token=self._token)

    def _write(self, batch: bytes) -> bool:
        view = memoryview(batch)
        try:
            while view:
                view = view[os.write(self._descriptor, view) :]
        except OSError:
            return False
        return True
