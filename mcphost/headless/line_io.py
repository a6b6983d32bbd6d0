"""Line-based standard input and output that keeps the order of lines and never blocks the event loop."""

import contextlib
import os
import select
import threading
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterator

import anyio
import anyio.from_thread
from anyio.lowlevel import current_token

from mcphost.sanitize import escape_unsafe_json

MAX_LINE_BYTES = 16_000_000
MAX_BACKLOG_BYTES = 64_000_000
_CHUNK_BYTES = 65_536
_READ_AHEAD_LINES = 64


class OversizedLine:
    """Placeholder for a line that was discarded because it exceeds the size limit."""


async def read_lines(descriptor: int) -> AsyncGenerator[bytes | OversizedLine]:
    """Yield each input line without its line feed until the input ends; the last line may lack a line feed.

    A daemon thread reads the input, because event loops cannot watch regular files, and because a thread that is
    blocked while reading from a terminal cannot be stopped.
    """
    token = current_token()
    lines: deque[bytes | OversizedLine | None] = deque()
    arrived = anyio.Event()
    free_slots = threading.Semaphore(_READ_AHEAD_LINES)

    def append_line(line: bytes | OversizedLine | None) -> None:
        lines.append(line)
        arrived.set()

    def deliver(line: bytes | OversizedLine | None) -> bool:
        free_slots.acquire()
        try:
            anyio.from_thread.run_sync(append_line, line, token=token)
        except (RuntimeError, anyio.RunFinishedError):
            return False  # the event loop has ended
        return True

    threading.Thread(target=_read_input, args=(descriptor, deliver), daemon=True, name="stdin").start()
    while True:
        while lines:
            line = lines.popleft()
            free_slots.release()
            if line is None:
                return
            yield line
        arrived = anyio.Event()
        await arrived.wait()


def _read_input(descriptor: int, deliver: Callable[[bytes | OversizedLine | None], bool]) -> None:
    buffer = _LineBuffer()
    while True:
        try:
            chunk = os.read(descriptor, _CHUNK_BYTES)
        except OSError:
            chunk = b""
        if not all(deliver(line) for line in (buffer.feed(chunk) if chunk else buffer.flush())):
            return
        if not chunk:
            deliver(None)
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
        """Set when everything has been written after `close`, or when the reader has closed its end."""
        threading.Thread(target=self._write_queued, daemon=True, name="stdout").start()

    @property
    def is_full(self) -> bool:
        """Whether so much output is queued that less important lines should be dropped."""
        return self._size > MAX_BACKLOG_BYTES

    def put(self, line: bytes) -> None:
        """Queue one line of JSON, given without a line feed, and return immediately.

        If the output is a terminal, control characters and invisible characters are escaped.
        """
        if self._is_terminal:
            line = escape_unsafe_json(line.decode(errors="replace")).encode()
        with self._condition:
            self._queue.append(line)
            self._size += len(line)
            self._condition.notify()

    def close(self) -> None:
        """Accept no more lines; `finished` is set when all queued lines have been written or the reader is gone."""
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
