"""How long a call may take: base time, progress that extends it, a hard maximum, and pauses while a person is asked."""

import asyncio
from collections import Counter
from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from typing import Protocol

import anyio

from mcphost.serialization import Struct

MAX_PAUSES = 1_000
"""How often the time of one call may stand still."""
MAX_PAUSED_SECONDS = 4 * 3_600.0
"""How long it may, all together."""


class Timeouts(Struct, frozen=True):
    """How long a call may take: `base` seconds, again after each progress notice, never more than `most`.

    `task` is for the work of a call that its server made a task of. `hard`: the time a person is asked counts, too.
    """

    request: float = 60
    max_request: float = 600
    task: float = 3_600
    includes_user_time: bool = False


class DeadlineTarget(Protocol):
    """What can give up waiting at a time of the event loop's clock."""

    @property
    def deadline(self) -> float:
        """When."""
        ...

    @deadline.setter
    def deadline(self, value: float) -> None: ...


class PausableDeadline:
    """The time one call has left; `most` is when no progress helps it any more, on the event loop's clock.

    It stands still while a person is asked, at most 1,000 times and for four hours.
    """

    __slots__ = (
        "_deadline",
        "_extension",
        "_max_deadline",
        "_pause_count",
        "_pause_depth",
        "_pause_seconds_left",
        "_paused_at",
        "target",
    )

    def __init__(self, target: DeadlineTarget, deadline: float, max_deadline: float, extension: float) -> None:
        self.target, self._deadline, self._max_deadline, self._extension = target, deadline, max_deadline, extension
        self._pause_depth = 0
        self._pause_count = 0
        self._pause_seconds_left = MAX_PAUSED_SECONDS
        self._paused_at = 0.0

    def extend(self, now: float) -> None:
        """The call is alive."""
        self._deadline = min(max(now + self._extension, self._deadline), self._max_deadline)
        if not self._pause_depth:
            self.target.deadline = self._deadline

    def pause(self, now: float) -> None:
        """Time does not count from now on, until `go_on` was called as often."""
        self._pause_depth += 1
        if self._pause_depth == 1:
            self._pause_count += 1
            self._paused_at = now
            self.target.deadline = self._deadline + (
                self._pause_seconds_left if self._pause_count <= MAX_PAUSES else 0.0
            )

    def resume(self, now: float) -> None:
        """It counts again."""
        self._pause_depth -= 1
        if not self._pause_depth:
            stood = min(now - self._paused_at, self._pause_seconds_left) if self._pause_count <= MAX_PAUSES else 0.0
            self._pause_seconds_left -= stood
            self._deadline += stood
            self._max_deadline += stood
            self.target.deadline = self._deadline


# Whoever sets such a limit is floors above the call that finds a sign-in necessary, so no argument leads there.
_active_limits: ContextVar[tuple[PausableDeadline, ...]] = ContextVar("limits", default=())


@contextmanager
def time_limit(seconds: float) -> Generator[anyio.CancelScope]:
    """So long for what is inside, not counting the time in which a person is asked to sign in for it.

    Look at `cancelled_caught` of the scope afterwards, as with anyio.move_on_after.
    """
    with anyio.move_on_after(seconds) as scope:
        token = _active_limits.set((*_active_limits.get(), PausableDeadline(scope, scope.deadline, scope.deadline, 0)))
        try:
            yield scope
        finally:
            _active_limits.reset(token)


@contextmanager
def pause_time_limits() -> Generator[None]:
    """A person is asked to sign in: no `limited` block around this counts the time."""
    held, loop = _active_limits.get(), asyncio.get_running_loop()
    for waiting in held:
        waiting.pause(loop.time())
    try:
        yield
    finally:
        for waiting in held:
            waiting.resume(loop.time())


# Whoever asks a person is floors above the request of the server that makes it necessary.
_pause_deadlines: ContextVar[Callable[[], AbstractContextManager[None]] | None] = ContextVar("pause", default=None)


@contextmanager
def provide_pause(pause_deadlines: Callable[[], AbstractContextManager[None]]) -> Generator[None]:
    """Let `paused` in this task, and in what it calls, stop the time of the calls that `pause` knows."""
    token = _pause_deadlines.set(pause_deadlines)
    try:
        yield
    finally:
        _pause_deadlines.reset(token)


def pause_call_deadlines() -> AbstractContextManager[None]:
    """Around asking a person for a server: the calls that may wait for the answer do not count the time."""
    pause = _pause_deadlines.get()
    return nullcontext() if pause is None else pause()


class UserPauses:
    """Whether the time of the calls counts that run on one connection.

    `waiting` are those calls by id; whoever makes them adds and removes them. `hard`: the time always counts.
    """

    def __init__(self, deadlines: Mapping[int, PausableDeadline], *, includes_user_time: bool) -> None:
        self._includes_user_time = includes_user_time
        self._deadlines = deadlines
        self._question_counts: Counter[int] = Counter()

    def is_asking_user(self, call_number: int) -> bool:
        """Whether a person is asked something for that call now, or for one that nobody knows."""
        return self._question_counts[call_number] > 0 or self._question_counts[0] > 0

    @contextmanager
    def pause_for_user(self, call_number: int) -> Generator[None]:
        """A person is asked something for the server: the call it is for waits, and its deadline does not count that.

        `ident` is that call's, or 0 when nobody knows: then all that run now may be waiting for it, and none that
        begins later.
        """
        loop = asyncio.get_running_loop()
        known = (call_number,) if call_number else tuple(self._deadlines)
        held = (
            {}
            if self._includes_user_time
            else {each: self._deadlines[each] for each in known if each in self._deadlines}
        )
        for waiting in held.values():
            waiting.pause(loop.time())
        self._question_counts[call_number] += 1
        try:
            yield
        finally:
            self._question_counts[call_number] -= 1
            self._question_counts += Counter[int]()  # forget those that are asked no more
            for each, waiting in held.items():
                if self._deadlines.get(each) is waiting:  # a call that is over has no clock any more
                    waiting.resume(loop.time())
