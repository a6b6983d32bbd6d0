"""Floods of small things are handled a few milliseconds at a time, so that nothing else waits for them."""

import asyncio
from collections import deque
from collections.abc import Callable, Generator
from time import perf_counter
from typing import TypeVar, cast

TIME_SLICE = 0.008
_MAX_IMMEDIATE_LINES = 50
LONG_MESSAGE = 64 * 1024
"""A line or message of more bytes is read in steps."""
T = TypeVar("T")


class Throttle:
    """For a task: `await rest()` when `due`, after each small thing it does without waiting."""

    __slots__ = ("_until",)

    def __init__(self) -> None:
        self._until = 0.0

    @property
    def is_due(self) -> bool:
        """Whether others should have their turn; a few in a row are never due."""
        if not self._until:
            self._until = perf_counter() + TIME_SLICE
        return perf_counter() > self._until

    async def yield_control(self) -> None:
        """Give it to them."""
        await asyncio.sleep(0)
        self._until = perf_counter() + TIME_SLICE


async def run_steps_cooperatively(steps: Generator[None, None, T]) -> T:
    """Take the steps with turns for others in between, and return what the generator returns."""
    while True:
        try:
            next(steps)
        except StopIteration as done:
            return cast("T", done.value)
        await asyncio.sleep(0)


class LineBacklog:
    """For callbacks: lines are taken in order, at once when they are few; until then `pause` keeps more away.

    A line over 64 KB is taken by `take_steps`, with turns for others between its steps.
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
        """Take them now or soon."""
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
        """Called when everything was taken; at once when it is."""
        if self._is_busy:
            self._callbacks.append(callback)
        else:
            callback()

    def clear(self) -> None:
        """Nobody wants the rest."""
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
