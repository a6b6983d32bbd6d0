"""Cooperative processing of floods of small items, a few milliseconds at a time."""

import asyncio
from collections.abc import Generator
from time import perf_counter
from typing import TypeVar, cast

TIME_SLICE = 0.008
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
