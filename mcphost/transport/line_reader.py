"""Incremental reading of newline-delimited messages, in linear time and bounded memory."""

import asyncio
import io
import re
from collections import deque
from collections.abc import Callable, Generator
from time import perf_counter

from mcphost.errors import MalformedMessage
from mcphost.transport.flow_control import LONG_MESSAGE, TIME_SLICE

_MAX_IMMEDIATE_LINES = 50
MESSAGE_LIMIT = 16 * 1024 * 1024
_MANY_EMPTY = b"\n" * 16
_EMPTY_LINES = re.compile(rb"\n{16,}")


class LineSplitter:
    """Incremental splitter of a byte stream into lines; `feed` raises MalformedMessage if a line is too long.

    Chunks of an unfinished line are appended to a buffer, which is never scanned again. Collecting the chunks in a list
    and joining them at the end would take twice the memory of the line, and a sixth more CPU time.
    """

    __slots__ = ("_limit", "_unfinished")

    def __init__(self, limit: int = MESSAGE_LIMIT) -> None:
        self._unfinished: io.BytesIO | None = None
        self._limit = limit

    def feed(self, data: bytes) -> list[bytes]:
        """Add bytes, and return the lines that are now complete, without line endings.

        Long sequences of empty lines are shortened.
        """
        if b"\n" not in data:  # true of most chunks of a long line, which splitting would copy
            self._append(data)
            return []
        if _MANY_EMPTY in data:
            data = _EMPTY_LINES.sub(b"\n\n", data)
        lines = data.split(b"\n")
        tail = lines.pop()
        if lines and self._unfinished is not None:
            self._append(lines[0])
            lines[0] = self.flush()
        if tail:
            self._append(tail)
        return lines

    def flush(self) -> bytes:
        """Return the unfinished last line, and clear the buffer."""
        # without a copy, because nothing writes to the buffer afterwards
        rest = b"" if self._unfinished is None else self._unfinished.getvalue()
        self._unfinished = None
        return rest

    def _append(self, data: bytes) -> None:
        unfinished = io.BytesIO() if self._unfinished is None else self._unfinished
        if unfinished.tell() + len(data) > self._limit:
            self._unfinished = None
            raise MalformedMessage(f"message over {self._limit // (1024 * 1024)} MB")
        unfinished.write(data)
        self._unfinished = unfinished


class LineReader:
    """Reader that splits a byte stream into lines, and passes each to a callback without blocking the loop for long.

    A few short lines are handled immediately. More lines are handled in short time slices, and no further input is read
    until all of them have been handled. A line of more than 64 KB is passed to *handle_line_in_steps*, if it is given,
    and other tasks can run between its steps.
    """

    def __init__(
        self,
        handle_line: Callable[[bytes], None],
        pause: Callable[[], None],
        resume: Callable[[], None],
        handle_line_in_steps: Callable[[bytes], Generator[None]] | None = None,
        *,
        limit: int,
        filter_lines: Callable[[list[bytes]], list[bytes]],
        on_malformed: Callable[[MalformedMessage], None],
    ) -> None:
        """Create a reader that passes lines to *handle_line*.

        - *pause*, *resume*: called to stop and to continue reading from the stream.
        - *handle_line_in_steps*: if given, called instead of *handle_line* for a line of more than 64 KB.
        - *limit*: the maximum length of a line in bytes; a longer line is dropped, and *on_malformed* is called.
        - *filter_lines*: called with the lines that have just been completed; returns those to handle.
        """
        self._handle_line = handle_line
        self._pause = pause
        self._resume = resume
        self._handle_line_in_steps = handle_line_in_steps
        self._splitter = LineSplitter(limit)
        self._filter_lines = filter_lines
        self._on_malformed = on_malformed
        self._steps: Generator[None] | None = None
        self._lines: deque[bytes] = deque()
        self._callbacks: list[Callable[[], None]] = []

    def feed(self, data: bytes) -> None:
        """Add bytes, and handle the lines that are now complete.

        A few short lines are handled immediately; otherwise, lines are handled in later iterations of the event loop.
        """
        try:
            lines = self._splitter.feed(data)
        except MalformedMessage as error:
            self._on_malformed(error)
            return
        lines = self._filter_lines(lines)
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

    def finish(self) -> None:
        """Handle the unfinished last line, because the stream has ended."""
        if rest := self._splitter.flush():
            self.feed(rest + b"\n")

    @property
    def _is_busy(self) -> bool:
        return self._steps is not None or bool(self._lines)

    def call_when_empty(self, callback: Callable[[], None]) -> None:
        """Call *callback* as soon as no lines are queued, which may be immediately."""
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
