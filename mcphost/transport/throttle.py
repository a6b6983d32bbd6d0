"""Cooperative processing of floods of small items, a few milliseconds at a time."""

import asyncio
from collections import deque
from collections.abc import Callable, Generator
from time import perf_counter
from typing import TypeVar, cast

from mcphost.errors import MalformedMessage
from mcphost.transport.line_splitter import LineSplitter

TIME_SLICE = 0.008
_MAX_IMMEDIATE_LINES = 50
LONG_MESSAGE = 64 * 1024
"""Longer lines and messages, in bytes, are read in steps."""
T = TypeVar("T")


class Throttle:
    """Await `yield_control()` when `is_due`, after each small item that a task handles without waiting."""

    __slots__ = ("_until",)

    def __init__(self) -> None:
        self._until = 0.0

    @property
    def is_due(self) -> bool:
        """Whether other tasks should run; never after only a few items."""
        if not self._until:
            self._until = perf_counter() + TIME_SLICE
        return perf_counter() > self._until

    async def yield_control(self) -> None:
        """Let other tasks run."""
        await asyncio.sleep(0)
        self._until = perf_counter() + TIME_SLICE


async def run_steps_cooperatively(steps: Generator[None, None, T]) -> T:
    """Run a generator in steps, letting other tasks run in between, and return its return value."""
    while True:
        try:
            next(steps)
        except StopIteration as done:
            return cast("T", done.value)
        await asyncio.sleep(0)


class LineBacklog:
    """A backlog of lines for callbacks: few lines are handled at once; otherwise `pause` stops the input.

    A line over 64 KB is handled in steps, letting other tasks run in between.
    """

    def __init__(
        self,
        handle_line: Callable[[bytes], None],
        pause: Callable[[], None],
        resume: Callable[[], None],
        handle_line_in_steps: Callable[[bytes], Generator[None]] | None = None,
    ) -> None:
        self._handle_line = handle_line
        self._pause = pause
        self._resume = resume
        self._handle_line_in_steps = handle_line_in_steps
        self._steps: Generator[None] | None = None
        self._lines: deque[bytes] = deque()
        self._callbacks: list[Callable[[], None]] = []

    def add(self, lines: list[bytes]) -> None:
        """Handle lines now or soon."""
        if (
            not self._is_busy
            and len(lines) <= _MAX_IMMEDIATE_LINES
            and not any(len(line) > LONG_MESSAGE for line in lines)
        ):
            for line in lines:
                self._handle_line(line)
            return
        if not self._is_busy:
            self._pause()
            asyncio.get_running_loop().call_soon(self._process_lines)
        self._lines.extend(lines)

    @property
    def _is_busy(self) -> bool:
        return self._steps is not None or bool(self._lines)

    def call_when_empty(self, callback: Callable[[], None]) -> None:
        """Call *callback* when every line was handled; immediately if none are queued."""
        if self._is_busy:
            self._callbacks.append(callback)
        else:
            callback()

    def clear(self) -> None:
        """Drop the queued lines."""
        self._lines.clear()
        self._steps = None

    def _process_lines(self) -> None:
        until = perf_counter() + TIME_SLICE
        lines, take = self._lines, self._handle_line
        while True:
            if self._steps is not None:
                self._run_step(self._steps)
            elif not lines:
                break
            elif len(lines[0]) > LONG_MESSAGE and self._handle_line_in_steps is not None:
                self._steps = self._handle_line_in_steps(lines.popleft())
            else:
                take(lines.popleft())
            if perf_counter() > until:
                break
        if self._is_busy:
            asyncio.get_running_loop().call_soon(self._process_lines)
            return
        self._resume()
        waiting, self._callbacks = self._callbacks, []
        for then in waiting:
            then()

    def _run_step(self, steps: Generator[None]) -> None:
        try:
            next(steps)
        except StopIteration:
            self._steps = None


class LineReader(LineBacklog):
    """A backlog that is fed with the bytes of a stream."""

    def __init__(
        self,
        handle_line: Callable[[bytes], None],
        pause: Callable[[], None],
        resume: Callable[[], None],
        handle_line_in_steps: Callable[[bytes], Generator[None]],
        *,
        limit: int,
        filter_lines: Callable[[list[bytes]], list[bytes]],
        on_malformed: Callable[[MalformedMessage], None],
    ) -> None:
        """*on_malformed* is called, and the bytes are dropped, when a line is longer than *limit* bytes."""
        super().__init__(handle_line, pause, resume, handle_line_in_steps)
        self._splitter = LineSplitter(limit)
        self._filter_lines = filter_lines
        self._on_malformed = on_malformed

    def feed(self, data: bytes) -> None:
        """Handle the lines that *data* completes, now or soon."""
        try:
            lines = self._splitter.feed(data)
        except MalformedMessage as error:
            self._on_malformed(error)
            return
        self.add(self._filter_lines(lines))
