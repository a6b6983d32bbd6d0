"""Time limits for requests.

Progress extends a time limit up to a maximum. Time limits pause while the user answers questions.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from time import monotonic
from typing import Protocol

import anyio

from mcphost.serialization import Struct

MAX_PAUSES = 1_000
"""Maximum number of pauses of one deadline."""
MAX_PAUSED_SECONDS = 4 * 3_600.0
"""Maximum total duration of the pauses of one deadline, in seconds."""


class Timeouts(Struct, frozen=True):
    """Time limits for a request, in seconds.

    - `request`: the limit for a request, which starts again with each progress notification.
    - `max_request`: the total limit for a request with progress.
    - `task`: the limit for a tool call that the server runs as a task.
    - `includes_user_time`: whether the time that the user takes to answer questions counts towards these limits.
    """

    request: float = 60
    max_request: float = 600
    task: float = 3_600
    includes_user_time: bool = False


class DeadlineTarget(Protocol):
    """Interface of cancel scopes and other objects that stop waiting at their `deadline`."""

    @property
    def deadline(self) -> float:
        """The time, on the event loop's clock, at which to stop waiting."""
        ...

    @deadline.setter
    def deadline(self, value: float) -> None: ...


class PausableDeadline:
    """The deadline of one request, which is applied to *target*; all times are event loop times.

    Each progress notification moves the deadline to *extension* seconds after the notification, but not beyond
    *max_deadline*. The deadline pauses while the user is answering a question, at most 1,000 times and for at most four
    hours in total.
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
        """Extend the deadline after the request made progress at the time *now*."""
        self._deadline = min(max(now + self._extension, self._deadline), self._max_deadline)
        if not self._pause_depth:
            self.target.deadline = self._deadline

    def pause(self, now: float) -> None:
        """Pause the deadline until `resume` has been called as many times as `pause`."""
        self._pause_depth += 1
        if self._pause_depth == 1:
            self._pause_count += 1
            self._paused_at = now
            self.target.deadline = self._deadline + (
                self._pause_seconds_left if self._pause_count <= MAX_PAUSES else 0.0
            )

    def resume(self, now: float) -> None:
        """Undo one call to `pause`; once all are undone, the deadline runs again."""
        self._pause_depth -= 1
        if not self._pause_depth:
            paused = min(now - self._paused_at, self._pause_seconds_left) if self._pause_count <= MAX_PAUSES else 0.0
            self._pause_seconds_left -= paused
            self._deadline += paused
            self._max_deadline += paused
            self.target.deadline = self._deadline


def measure_seconds(started_at: float, paused_at: float) -> float:
    """Return the running time of a call in seconds.

    *started_at* and *paused_at* are the attributes of the call's `Stopwatch` with these names.
    """
    return (paused_at or monotonic()) - started_at


class Stopwatch:
    """The running time of a call, without the time that the user takes to answer questions."""

    def __init__(self) -> None:
        self.started_at = monotonic()
        """When the call would have started if it had never been paused."""

        self.paused_at = 0.0
        """When the current pause began; 0 if the stopwatch runs."""

        self._pause_depth = 0

    @property
    def seconds(self) -> float:
        """The running time so far, in seconds."""
        return measure_seconds(self.started_at, self.paused_at)

    def pause(self) -> None:
        """Stop until `resume` has been called as many times as `pause`."""
        self._pause_depth += 1
        if self._pause_depth == 1:
            self.paused_at = monotonic()

    def resume(self) -> None:
        """Undo one call to `pause`; once all are undone, the stopwatch runs again."""
        self._pause_depth -= 1
        if not self._pause_depth:
            self.started_at += monotonic() - self.paused_at
            self.paused_at = 0.0


stopwatches: ContextVar[tuple[Stopwatch, ...]] = ContextVar("stopwatches", default=())
"""The stopwatches of the calls that the current task runs, or for which it handles a server's question."""


@contextmanager
def pause_stopwatches() -> Generator[None]:
    """Stop the stopwatches of the current task during the `with` block, in which the user answers a question."""
    paused = stopwatches.get()
    for stopwatch in paused:
        stopwatch.pause()
    try:
        yield
    finally:
        for stopwatch in paused:
            stopwatch.resume()


# A context variable, because a limit is set several layers above the request that requires a sign-in.
_active_limits: ContextVar[tuple[PausableDeadline, ...]] = ContextVar("limits", default=())


@contextmanager
def time_limit(seconds: float) -> Generator[anyio.CancelScope]:
    """Limit the `with` block to *seconds*, not including the time that the user takes to sign in.

    After the block, the scope's `cancelled_caught` is True if the limit was reached, as with
    anyio.move_on_after.
    """
    with anyio.move_on_after(seconds) as scope:
        token = _active_limits.set((*_active_limits.get(), PausableDeadline(scope, scope.deadline, scope.deadline, 0)))
        try:
            yield scope
        finally:
            _active_limits.reset(token)


@contextmanager
def pause_time_limits() -> Generator[None]:
    """Pause all enclosing `time_limit` blocks, and the stopwatches of the task, during the `with` block."""
    limits, loop = _active_limits.get(), asyncio.get_running_loop()
    for limit in limits:
        limit.pause(loop.time())
    try:
        with pause_stopwatches():
            yield
    finally:
        for limit in limits:
            limit.resume(loop.time())


# A context variable, because the user is asked several layers above the server request that requires this.
_pause_deadlines: ContextVar[Callable[[], AbstractContextManager[None]] | None] = ContextVar("pause", default=None)


@contextmanager
def provide_pause(pause_deadlines: Callable[[], AbstractContextManager[None]]) -> Generator[None]:
    """Make `pause_call_deadlines` return the result of *pause_deadlines* in this task, during the `with` block.

    *pause_deadlines* returns a context manager that pauses the deadlines of requests.
    """
    token = _pause_deadlines.set(pause_deadlines)
    try:
        yield
    finally:
        _pause_deadlines.reset(token)


def pause_call_deadlines() -> AbstractContextManager[None]:
    """Return a context manager that pauses the deadlines of requests while the user answers a question.

    Outside of a `provide_pause` block, it has no effect.
    """
    pause = _pause_deadlines.get()
    return nullcontext() if pause is None else pause()


class UserPauses:
    """Pauses of request deadlines while the user answers questions from one server.

    *deadlines* maps the number of each running request to its deadline, and is updated by the caller. If
    *includes_user_time* is true, deadlines do not pause.
    """

    def __init__(self, deadlines: Mapping[int, PausableDeadline], *, includes_user_time: bool) -> None:
        self._includes_user_time = includes_user_time
        self._deadlines = deadlines
        self._question_counts: Counter[int] = Counter()

    def is_asking_user(self, call_number: int) -> bool:
        """Return whether the user is being asked a question that belongs, or may belong, to request *call_number*."""
        return self._question_counts[call_number] > 0 or self._question_counts[0] > 0

    @contextmanager
    def pause_for_user(self, call_number: int) -> Generator[None]:
        """Pause the deadline of request *call_number* during the `with` block, in which the user is asked a question.

        If *call_number* is 0, it is unknown which request the question belongs to; the deadlines of all running
        requests are then paused.
        """
        loop = asyncio.get_running_loop()
        numbers = (call_number,) if call_number else tuple(self._deadlines)
        paused = (
            {}
            if self._includes_user_time
            else {number: self._deadlines[number] for number in numbers if number in self._deadlines}
        )
        for deadline in paused.values():
            deadline.pause(loop.time())
        self._question_counts[call_number] += 1
        try:
            yield
        finally:
            self._question_counts[call_number] -= 1
            self._question_counts += Counter[int]()  # drop zero counts
            for number, deadline in paused.items():
                if self._deadlines.get(number) is deadline:  # a request that has finished is not resumed
                    deadline.resume(loop.time())
