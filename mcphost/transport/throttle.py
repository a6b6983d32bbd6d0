"""Floods of small things are handled a few milliseconds at a time, so that nothing else waits for them."""

import asyncio
from collections import deque
from collections.abc import Callable, Generator
from time import perf_counter
from typing import TypeVar, cast

SLICE = 0.008
_FEW = 50
LONG = 64 * 1024
"""A line or message of more bytes is read in steps."""
T = TypeVar("T")


class Pace:
    """For a task: `await rest()` when `due`, after each small thing it does without waiting."""

    __slots__ = ("_until",)

    def __init__(self) -> None:
        self._until = 0.0

    @property
    def due(self) -> bool:
        """Whether others should have their turn; a few in a row are never due."""
        if not self._until:
            self._until = perf_counter() + SLICE
        return perf_counter() > self._until

    async def rest(self) -> None:
        """Give it to them."""
        await asyncio.sleep(0)
        self._until = perf_counter() + SLICE


async def at_leisure(steps: Generator[None, None, T]) -> T:
    """Take the steps with turns for others in between, and return what the generator returns."""
    while True:
        try:
            next(steps)
        except StopIteration as done:
            return cast("T", done.value)
        await asyncio.sleep(0)


class Backlog:
    """For callbacks: lines are taken in order, at once when they are few; until then `pause` keeps more away.

    A line over 64 KB is taken by `take_steps`, with turns for others between its steps.
    """

    def __init__(
        self,
        take: Callable[[bytes], None],
        pause: Callable[[], None],
        resume: Callable[[], None],
        take_steps: Callable[[bytes], Generator[None]] | None = None,
    ) -> None:
        self._take = take
        self._pause = pause
        self._resume = resume
        self._take_steps = take_steps
        self._steps: Generator[None] | None = None
        self._lines: deque[bytes] = deque()
        self._then: list[Callable[[], None]] = []

    def add(self, lines: list[bytes]) -> None:
        """Take them now or soon."""
        if not self._busy and len(lines) <= _FEW and not any(len(line) > LONG for line in lines):
            for line in lines:
                self._take(line)
            return
        if not self._busy:
            self._pause()
            asyncio.get_running_loop().call_soon(self._work)
        self._lines.extend(lines)

    @property
    def _busy(self) -> bool:
        return self._steps is not None or bool(self._lines)

    def afterwards(self, then: Callable[[], None]) -> None:
        """Called when everything was taken; at once when it is."""
        if self._busy:
            self._then.append(then)
        else:
            then()

    def clear(self) -> None:
        """Nobody wants the rest."""
        self._lines.clear()
        self._steps = None

    def _work(self) -> None:
        until = perf_counter() + SLICE
        lines, take = self._lines, self._take
        while True:
            if self._steps is not None:
                self._step(self._steps)
            elif not lines:
                break
            elif len(lines[0]) > LONG and self._take_steps is not None:
                self._steps = self._take_steps(lines.popleft())
            else:
                take(lines.popleft())
            if perf_counter() > until:
                break
        if self._busy:
            asyncio.get_running_loop().call_soon(self._work)
            return
        self._resume()
        waiting, self._then = self._then, []
        for then in waiting:
            then()

    def _step(self, steps: Generator[None]) -> None:
        try:
            next(steps)
        except StopIteration:
            self._steps = None
