"""How long a call may take: base time, progress that extends it, a hard maximum, and pauses while a person is asked."""

import asyncio
import math
from collections.abc import Generator
from contextlib import contextmanager
from typing import Protocol

from mcphost.data import Data


class Patience(Data, frozen=True):
    """How long a call may take: `base` seconds, again after each progress notice, never more than `most`.

    `task` is for the work of a call that its server made a task of.
    """

    base: float = 60
    most: float = 600
    task: float = 3_600


class Clock(Protocol):
    """What can give up waiting at a time of the event loop's clock."""

    @property
    def deadline(self) -> float:
        """When."""
        ...

    @deadline.setter
    def deadline(self, value: float) -> None: ...


class Waiting:
    """The time one call has left; `most` is when no progress helps it any more, on the event loop's clock."""

    __slots__ = ("_base", "_clock", "_most", "_stood", "_until")

    def __init__(self, clock: Clock, until: float, most: float, base: float) -> None:
        self._clock, self._until, self._most, self._base = clock, until, most, base
        self._stood = 0.0

    def progress(self, now: float) -> None:
        """The call is alive."""
        self._until = min(max(now + self._base, self._until), self._most)
        if not self._stood:
            self._clock.deadline = self._until

    def stand_still(self, now: float) -> None:
        """Time does not count from now on."""
        self._stood = now
        self._clock.deadline = math.inf

    def go_on(self, now: float) -> None:
        """It counts again."""
        self._until += now - self._stood
        self._most += now - self._stood
        self._stood = 0.0
        self._clock.deadline = self._until


class Pauses:
    """The calls that run on one connection, by id, and whether their time counts."""

    def __init__(self) -> None:
        self._waiting: dict[int, Waiting] = {}
        self._asked = 0

    def begin(self, ident: int, waiting: Waiting) -> None:
        """A call is about to be sent."""
        self._waiting[ident] = waiting
        if self._asked:
            waiting.stand_still(asyncio.get_running_loop().time())

    def end(self, ident: int) -> None:
        """It is over."""
        self._waiting.pop(ident, None)

    @contextmanager
    def person(self) -> Generator[None]:
        """A person is asked something for the server: its calls wait for that, and no deadline counts the time."""
        loop = asyncio.get_running_loop()
        self._asked += 1
        if self._asked == 1:
            for waiting in self._waiting.values():
                waiting.stand_still(loop.time())
        try:
            yield
        finally:
            self._asked -= 1
            if not self._asked:
                for waiting in self._waiting.values():
                    waiting.go_on(loop.time())
