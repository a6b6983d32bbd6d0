"""How long a call may take: base time, progress that extends it, a hard maximum, and pauses while a person is asked."""

import asyncio
from collections import Counter
from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from typing import Protocol

import anyio

from mcphost.serialization import Data

PAUSES = 1_000
"""How often the time of one call may stand still."""
PAUSED_SECONDS = 4 * 3_600.0
"""How long it may, all together."""


class Patience(Data, frozen=True):
    """How long a call may take: `base` seconds, again after each progress notice, never more than `most`.

    `task` is for the work of a call that its server made a task of. `hard`: the time a person is asked counts, too.
    """

    base: float = 60
    most: float = 600
    task: float = 3_600
    hard: bool = False


class Clock(Protocol):
    """What can give up waiting at a time of the event loop's clock."""

    @property
    def deadline(self) -> float:
        """When."""
        ...

    @deadline.setter
    def deadline(self, value: float) -> None: ...


class Waiting:
    """The time one call has left; `most` is when no progress helps it any more, on the event loop's clock.

    It stands still while a person is asked, at most 1,000 times and for four hours.
    """

    __slots__ = ("_base", "_held", "_left", "_most", "_stood", "_times", "_until", "clock")

    def __init__(self, clock: Clock, until: float, most: float, base: float) -> None:
        self.clock, self._until, self._most, self._base = clock, until, most, base
        self._held = 0
        self._times = 0
        self._left = PAUSED_SECONDS
        self._stood = 0.0

    def progress(self, now: float) -> None:
        """The call is alive."""
        self._until = min(max(now + self._base, self._until), self._most)
        if not self._held:
            self.clock.deadline = self._until

    def stand_still(self, now: float) -> None:
        """Time does not count from now on, until `go_on` was called as often."""
        self._held += 1
        if self._held == 1:
            self._times += 1
            self._stood = now
            self.clock.deadline = self._until + (self._left if self._times <= PAUSES else 0.0)

    def go_on(self, now: float) -> None:
        """It counts again."""
        self._held -= 1
        if not self._held:
            stood = min(now - self._stood, self._left) if self._times <= PAUSES else 0.0
            self._left -= stood
            self._until += stood
            self._most += stood
            self.clock.deadline = self._until


# Whoever sets such a limit is floors above the call that finds a sign-in necessary, so no argument leads there.
_limits: ContextVar[tuple[Waiting, ...]] = ContextVar("limits", default=())


@contextmanager
def limited(seconds: float) -> Generator[anyio.CancelScope]:
    """So long for what is inside, not counting the time in which a person is asked to sign in for it.

    Look at `cancelled_caught` of the scope afterwards, as with anyio.move_on_after.
    """
    with anyio.move_on_after(seconds) as scope:
        token = _limits.set((*_limits.get(), Waiting(scope, scope.deadline, scope.deadline, 0)))
        try:
            yield scope
        finally:
            _limits.reset(token)


@contextmanager
def unhurried() -> Generator[None]:
    """A person is asked to sign in: no `limited` block around this counts the time."""
    held, loop = _limits.get(), asyncio.get_running_loop()
    for waiting in held:
        waiting.stand_still(loop.time())
    try:
        yield
    finally:
        for waiting in held:
            waiting.go_on(loop.time())


# Whoever asks a person is floors above the request of the server that makes it necessary.
_pause: ContextVar[Callable[[], AbstractContextManager[None]] | None] = ContextVar("pause", default=None)


@contextmanager
def pausing(pause: Callable[[], AbstractContextManager[None]]) -> Generator[None]:
    """Let `paused` in this task, and in what it calls, stop the time of the calls that `pause` knows."""
    token = _pause.set(pause)
    try:
        yield
    finally:
        _pause.reset(token)


def paused() -> AbstractContextManager[None]:
    """Around asking a person for a server: the calls that may wait for the answer do not count the time."""
    pause = _pause.get()
    return nullcontext() if pause is None else pause()


class Pauses:
    """Whether the time of the calls counts that run on one connection.

    `waiting` are those calls by id; whoever makes them adds and removes them. `hard`: the time always counts.
    """

    def __init__(self, waiting: Mapping[int, Waiting], *, hard: bool) -> None:
        self._hard = hard
        self._waiting = waiting
        self._asked: Counter[int] = Counter()

    def is_asking(self, ident: int) -> bool:
        """Whether a person is asked something for that call now, or for one that nobody knows."""
        return self._asked[ident] > 0 or self._asked[0] > 0

    @contextmanager
    def person(self, ident: int) -> Generator[None]:
        """A person is asked something for the server: the call it is for waits, and its deadline does not count that.

        `ident` is that call's, or 0 when nobody knows: then all that run now may be waiting for it, and none that
        begins later.
        """
        loop = asyncio.get_running_loop()
        known = (ident,) if ident else tuple(self._waiting)
        held = {} if self._hard else {each: self._waiting[each] for each in known if each in self._waiting}
        for waiting in held.values():
            waiting.stand_still(loop.time())
        self._asked[ident] += 1
        try:
            yield
        finally:
            self._asked[ident] -= 1
            self._asked += Counter[int]()  # forget those that are asked no more
            for each, waiting in held.items():
                if self._waiting.get(each) is waiting:  # a call that is over has no clock any more
                    waiting.go_on(loop.time())
