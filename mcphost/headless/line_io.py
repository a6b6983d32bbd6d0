"""Standard input and output as lines for the pipe: bounded, never blocking the event loop, in order."""

import contextlib
import os
import select
import threading
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterator

import anyio
import anyio.from_thread
from anyio.lowlevel import current_token

MAX_LINE_BYTES = 16_000_000
MAX_BACKLOG_BYTES = 64_000_000
_CHUNK_BYTES = 65_536
_READ_AHEAD_LINES = 64


class OversizedLine:
    """A line over the limit, thrown away."""


async def read_lines(descriptor: int) -> AsyncGenerator[bytes | OversizedLine]:
    """Every line without its end, until the input ends; the last one may lack its line end.

    A daemon thread reads: input may be a file, which no event loop can watch, and a thread that waits for a terminal
    can only be left behind.
    """
    token = current_token()
    lines: deque[bytes | OversizedLine | None] = deque()
    arrived = anyio.Event()
    room = threading.Semaphore(_READ_AHEAD_LINES)

    def append_line(line: bytes | OversizedLine | None) -> None:
        lines.append(line)
        arrived.set()

    def deliver(line: bytes | OversizedLine | None) -> bool:
        room.acquire()
        try:
            anyio.from_thread.run_sync(append_line, line, token=token)
        except (RuntimeError, anyio.RunFinishedError):
            return False  # the program ended meanwhile
        return True

    threading.Thread(target=_read_input, args=(descriptor, deliver), daemon=True, name="stdin").start()
    while True:
        while lines:
            line = lines.popleft()
            room.release()
            if line is None:
                return
            yield line
        arrived = anyio.Event()
        await arrived.wait()


def _read_input(descriptor: int, deliver: Callable[[bytes | OversizedLine | None], bool]) -> None:
    cutter = _LineBuffer()
    while True:
        try:
            chunk = os.read(descriptor, _CHUNK_BYTES)
        except OSError:
            chunk = b""
        if not all(deliver(line) for line in (cutter.feed(chunk) if chunk else cutter.flush())):
            return
        if not chunk:
            deliver(None)
            return


class _LineBuffer:
    """Cuts what arrives into lines; of a line over the limit only that it was there comes out, once it is."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0

    def feed(self, chunk: bytes) -> Iterator[bytes | OversizedLine]:
        """The lines that end in this chunk, and one that is too long now."""
        *ended, last = chunk.split(b"\n")
        for piece in ended:
            yield from self._append(piece)
            if self._size <= MAX_LINE_BYTES:
                yield b"".join(self._parts)
            self._parts, self._size = [], 0
        yield from self._append(last)

    def flush(self) -> Iterator[bytes]:
        """What came after the last end of a line, unless it is nothing or was too long."""
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
    """Lines to a descriptor, in the order of `put`; a daemon thread writes, so a slow reader delays nobody."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._queue: list[bytes] = []
        self._size = 0
        self._is_closing = False
        self._condition = threading.Condition()
        self._token = current_token()
        self.finished = anyio.Event()
        """Set when everything was written after `close`, or when the reader is gone."""
        threading.Thread(target=self._write_queued, daemon=True, name="stdout").start()

    @property
    def is_full(self) -> bool:
        """Whether so much waits for the reader that what can be spared should be."""
        return self._size > MAX_BACKLOG_BYTES

    def put(self, line: bytes) -> None:
        """Queue one line, without its end; returns at once."""
        with self._condition:
            self._queue.append(line)
            self._size += len(line)
            self._condition.notify()

    def close(self) -> None:
        """`ended` is set once everything queued is written."""
        with self._condition:
            self._is_closing = True
            self._condition.notify()

    def is_reader_closed(self) -> bool:
        """Whether the other end of a pipe or socket is closed; False for files and terminals. Returns at once."""
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
            with self._condition:  # what is being written still waits for the reader
                self._size -= sum(map(len, batch))
        with contextlib.suppress(RuntimeError, anyio.RunFinishedError):  # the program ended meanwhile
            anyio.from_thread.run_sync(self.finished.set, token=self._token)

    def _write(self, batch: bytes) -> bool:
        view = memoryview(batch)
        try:
            while view:
                view = view[os.write(self._descriptor, view) :]
        except OSError:
            return False
        return True
