"""Floods of small things are handled a few milliseconds at a time, so that nothing else waits for them."""

import asyncio
from collections import deque
from collections.abc import Callable
from time import perf_counter

SLICE = 0.008
_FEW = 50


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


class Backlog:
    """For callbacks: lines are taken in order, at once when they are few; until then `pause` keeps more away."""

    def __init__(self, take: Callable[[bytes], None], pause: Callable[[], None], resume: Callable[[], None]) -> None:
        self._take = take
        self._pause = pause
        self._resume = resume
        self._lines: deque[bytes] = deque()
        self._then: list[Callable[[], None]] = []

    def add(self, lines: list[bytes]) -> None:
        """Take them now or soon."""
        if not self._lines and len(lines) <= _FEW:
            for line in lines:
                self._take(line)
            return
        if not self._lines:
            self._pause()
            asyncio.get_running_loop().call_soon(self._work)
        self._lines.extend(lines)

    def afterwards(self, then: Callable[[], None]) -> None:
        """Called when everything was taken; at once when it is."""
        if self._lines:
            self._then.append(then)
        else:
            then()

    def clear(self) -> None:
        """Nobody wants the rest."""
        self._lines.clear()

    def _work(self) -> None:
        until = perf_counter() + SLICE
        while self._lines:
            self._take(self._lines.popleft())
            if perf_counter() > until:
                break
        if self._lines:
            asyncio.get_running_loop().call_soon(self._work)
            return
        self._resume()
        waiting, self._then = self._then, []
        for then in waiting:
            then()
