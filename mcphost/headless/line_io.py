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

LINE_LIMIT = 16_000_000
BACKLOG_LIMIT = 64_000_000
_CHUNK = 65_536
_AHEAD = 64


class TooLong:
    """A line over the limit, thrown away."""


async def read_lines(descriptor: int) -> AsyncGenerator[bytes | TooLong]:
    """Every line without its end, until the input ends; the last one may lack its line end.

    A daemon thread reads: input may be a file, which no event loop can watch, and a thread that waits for a terminal
    can only be left behind.
    """
    token = current_token()
    lines: deque[bytes | TooLong | None] = deque()
    arrived = anyio.Event()
    room = threading.Semaphore(_AHEAD)

    def put(line: bytes | TooLong | None) -> None:
        lines.append(line)
        arrived.set()

    def hand_over(line: bytes | TooLong | None) -> bool:
        room.acquire()
        try:
            anyio.from_thread.run_sync(put, line, token=token)
        except (RuntimeError, anyio.RunFinishedError):
            return False  # the program ended meanwhile
        return True

    threading.Thread(target=_pump, args=(descriptor, hand_over), daemon=True, name="stdin").start()
    while True:
        while lines:
            line = lines.popleft()
            room.release()
            if line is None:
                return
            yield line
        arrived = anyio.Event()
        await arrived.wait()


def _pump(descriptor: int, hand_over: Callable[[bytes | TooLong | None], bool]) -> None:
    cutter = _Cutter()
    while True:
        try:
            chunk = os.read(descriptor, _CHUNK)
        except OSError:
            chunk = b""
        if not all(hand_over(line) for line in (cutter.lines(chunk) if chunk else cutter.rest())):
            return
        if not chunk:
            hand_over(None)
            return


class _Cutter:
    """Cuts what arrives into lines; of a line over the limit only that it was there comes out, once it is."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0

    def lines(self, chunk: bytes) -> Iterator[bytes | TooLong]:
        """The lines that end in this chunk, and one that is too long now."""
        *ended, last = chunk.split(b"\n")
        for piece in ended:
            yield from self._add(piece)
            if self._size <= LINE_LIMIT:
                yield b"".join(self._parts)
            self._parts, self._size = [], 0
        yield from self._add(last)

    def rest(self) -> Iterator[bytes]:
        """What came after the last end of a line, unless it is nothing or was too long."""
        if 0 < self._size <= LINE_LIMIT:
            yield b"".join(self._parts)

    def _add(self, piece: bytes) -> Iterator[TooLong]:
        if self._size <= LINE_LIMIT:
            self._parts.append(piece)
            self._size += len(piece)
            if self._size > LINE_LIMIT:
                self._parts = []
                yield TooLong()


class Writer:
    """Lines to a descriptor, in the order of `put`; a daemon thread writes, so a slow reader delays nobody."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._queue: list[bytes] = []
        self._size = 0
        self._closing = False
        self._changed = threading.Condition()
        self._token = current_token()
        self.ended = anyio.Event()
        """Set when everything was written after `close`, or when the reader is gone."""
        threading.Thread(target=self._work, daemon=True, name="stdout").start()

    @property
    def full(self) -> bool:
        """Whether so much waits for the reader that what can be spared should be."""
        return self._size > BACKLOG_LIMIT

    def put(self, line: bytes) -> None:
        """Queue one line, without its end; returns at once."""
        with self._changed:
            self._queue.append(line)
            self._size += len(line)
            self._changed.notify()

    def close(self) -> None:
        """`ended` is set once everything queued is written."""
        with self._changed:
            self._closing = True
            self._changed.notify()

    def reader_left(self) -> bool:
        """Whether the other end of a pipe or socket is closed; False for files and terminals. Returns at once."""
        try:
            watch = select.poll()
            watch.register(self._descriptor, 0)
            return any(event & (select.POLLERR | select.POLLHUP | select.POLLNVAL) for _, event in watch.poll(0))
        except OSError:
            return True

    def _work(self) -> None:
        while True:
            with self._changed:
                while not self._queue and not self._closing:
                    self._changed.wait()
                batch, self._queue = self._queue, []
            if not batch or not self._write(b"\n".join(batch) + b"\n"):
                break
            with self._changed:  # what is being written still waits for the reader
                self._size -= sum(map(len, batch))
        with contextlib.suppress(RuntimeError, anyio.RunFinishedError):  # the program ended meanwhile
            anyio.from_thread.run_sync(self.ended.set, token=self._token)

    def _write(self, batch: bytes) -> bool:
        view = memoryview(batch)
        try:
            while view:
                view = view[os.write(self._descriptor, view) :]
        except OSError:
            return False
        return True
