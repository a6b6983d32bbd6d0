"""One task at a server, followed from its creation to its end: polled at its pace, bounded in time, in both forms."""

import logging
import math
from collections.abc import Awaitable, Callable
from typing import Any

import anyio

from mcphost.client.session import NoticeFn
from mcphost.errors import ConnectionLost, DeadlinePassed, MalformedMessage, McpHostError, Refused
from mcphost.protocol.base import Call
from mcphost.protocol.jsonrpc import INVALID_PARAMS
from mcphost.protocol.tasks import ASKS_INPUT, STATUSES, WORKING, CancelTask, GetTask, Task, TaskChanged, checked
from mcphost.serialization import Data, Raw, decode
from mcphost.transport.channel import HttpStatus

_log = logging.getLogger(__name__)
Send = Callable[[Call[Any]], Awaitable[Raw]]

QUICKEST = 0.1
SLOWEST = 300.0
# Where a server names no pace: soon at first, because most tasks are short, then calmer.
_FIRST_PACE = 0.5
_CALM_PACE = 5.0
# The person who is asked may take this long over all questions of one task; it does not count as the task's time.
INPUT_LIMIT = 3_600.0
POLL_FAILURES = 3
CANCEL_WAIT = 2.0
# How much later than its lifetime a task is given up; clocks differ and polls take time.
_GRACE = 10.0
_TROUBLED = frozenset({408, 429, 500, 502, 503, 504})


class Errand(Data, frozen=True):
    """What a task is for: a call of `tool`, whose work may take `limit` seconds, not counting what somebody is asked.

    `number` is that of the call (see AskContext); `is_left` when an earlier call began it; `may_cancel` when the server
    can be told that nobody wants it any more. `hard`: the time that somebody is asked counts, too.
    """

    server: str
    tool: str
    number: int
    limit: float
    is_left: bool = False
    may_cancel: bool = True
    hard: bool = False


class Following:
    """The state of one task as last seen.

    `hear` gets a TaskChanged whenever status or message change. `alive` says whether the connection still stands.
    """

    def __init__(
        self,
        first: Task,
        send: Send,
        errand: Errand,
        *,
        hear: NoticeFn | None,
        warn: Callable[[str], None],
        alive: Callable[[], bool],
    ) -> None:
        self.task = checked(first)
        self.server = errand.server
        self.tool = errand.tool
        self.errand = errand
        self._send = send
        self._hear = hear
        self._warn = warn
        self._alive = alive
        self._began = anyio.current_time()
        self._asking = 0.0
        self.is_asking: Callable[[], bool] = lambda: False
        """Whether somebody thinks about one of its questions now; what its status says is the server's word only."""
        self._pace = _FIRST_PACE
        self._next_poll = self._began if first.status != WORKING else self._began + self._pause()
        self._failures = 0
        self._odd = False
        self._news = anyio.Event()
        self._note(first)

    @property
    def ident(self) -> str:
        """The id of the task."""
        return self.task.task_id

    def heard(self, task: Task) -> None:
        """The server told the state without being asked; polling goes on all the same."""
        if not self.task.is_over and task.task_id == self.ident:
            self._see(task)
            self.wake()

    def wake(self) -> None:
        """End a step early."""
        self._news.set()

    def poll_soon(self) -> None:
        """Poll soon again: what the task waited for was sent."""
        self._pace = _FIRST_PACE
        self._next_poll = min(self._next_poll, anyio.current_time() + self._pause())
        self.wake()

    async def step(self) -> None:
        """Wait for news, or for the time of the next poll and poll. Raises ServerError: the task is given up then."""
        began, asked = anyio.current_time(), self.is_asking()
        wait = min(self._next_poll, began + self._time_left()) - began
        with anyio.move_on_after(max(0.0, wait)):
            await self._news.wait()
        news, self._news = self._news.is_set(), anyio.Event()
        if anyio.current_time() >= self._next_poll and not self.task.is_over:
            await self.look()
        elif not news:
            self._time_left()
        if asked:
            self._asking += anyio.current_time() - began

    async def look(self) -> None:
        """Ask for the state now. A poll changes nothing, so one that got lost is sent again later."""
        try:
            task = decode(await self._send(GetTask(self.ident)), Task, "result of tasks/get")
        except (ConnectionLost, DeadlinePassed, HttpStatus) as error:
            self._failures += 1
            await anyio.lowlevel.checkpoint()
            lasting = isinstance(error, HttpStatus) and error.status not in _TROUBLED
            if lasting or self._failures > POLL_FAILURES or not self._alive():
                raise
        except Refused as error:
            raise self.unknown(error) from error
        else:
            self._failures = 0
            self._see(task)
        self._next_poll = anyio.current_time() + self._pause()

    def unknown(self, error: Refused) -> Refused:
        """A refusal in the task's terms."""
        if error.code != INVALID_PARAMS:
            return error
        return Refused(
            f"The server {self.server!r} does not know the task of {self.tool!r} any more ({error.message}).",
            "What it did until then is not known; the tool may have done its work.",
            code=error.code,
            data=error.data,
        )

    def cancelled(self) -> Refused:
        """The task ended as cancelled, and not by us."""
        why = f": {self.said}" if self.said else "."
        return Refused(f"The server {self.server!r} cancelled the task of {self.tool!r}{why}")

    def failed(self, error: Refused) -> Refused:
        """The error of a failed task, with what its status says of it."""
        error.server = self.server
        if not self.said or self.said in error.message:
            return error
        return Refused(f"{error.message} ({self.said})", error.hint, code=error.code, data=error.data)

    @property
    def said(self) -> str:
        """The status message, bounded."""
        return (self.task.status_message or "")[:2_000]

    async def cancel(self) -> None:
        """Tell the server that nobody wants the task any more; done at most two seconds later, whatever happens."""
        if self.task.is_over or self.errand.is_left or not self.errand.may_cancel:
            return
        _log.info("task %s of %s at %s: we cancel it", self.ident[:100], self.tool, self.server)
        with anyio.move_on_after(CANCEL_WAIT, shield=True):
            try:
                await self._send(CancelTask(self.ident))
            except McpHostError as error:
                # It ended meanwhile, or nobody is there to hear it.
                _log.info("task %s of %s at %s: %s", self.ident[:100], self.tool, self.server, error.message[:500])

    def _see(self, task: Task) -> None:
        before, self.task = self.task, checked(task, self.ident)
        if task.status not in STATUSES and not self._odd:
            self._odd = True
            self._warn(
                f"The server {self.server!r} gave the task of {self.tool!r} the unknown status "
                f"{task.status[:100]!r}; it is taken to be working."
            )
        if (before.status, before.status_message) != (task.status, task.status_message):
            self._note(task)

    def _note(self, task: Task) -> None:
        _log.info("task %s of %s at %s: %s", self.ident[:100], self.tool, self.server, task.status[:100])
        if self._hear is not None:
            self._hear(TaskChanged(task))

    def _pause(self) -> float:
        wanted = self.task.pace
        if wanted is not None and self.task.status != ASKS_INPUT:
            return min(max(wanted, QUICKEST), SLOWEST)
        # While it waits for input nothing changes by itself, however soon the server wants to be asked.
        pause, self._pace = self._pace, min(self._pace * 1.5, _CALM_PACE)
        return pause if wanted is None else min(max(wanted, QUICKEST, pause), SLOWEST)

    def _time_left(self) -> float:
        """Seconds until the task is given up. Raises DeadlinePassed."""
        age = anyio.current_time() - self._began
        lifetime = self.task.lifetime
        until = math.inf if lifetime is None else lifetime + _GRACE + self._pace
        if age > until:
            raise self._late(f"is over the {lifetime:.0f} s that its server gave it, and has no result")
        worked = age if self.errand.hard else age - self._asking
        if self.is_asking() and not self.errand.hard:
            if self._asking > INPUT_LIMIT:
                raise self._late(f"waited over {INPUT_LIMIT:.0f} s for input")
            return min(until - age, INPUT_LIMIT - self._asking) + QUICKEST
        if worked > self.errand.limit:
            raise self._late(f"was not done within {self.errand.limit:.0f} s")
        return min(until - age, self.errand.limit - worked) + QUICKEST

    def _late(self, why: str) -> DeadlinePassed:
        text = f"The task of {self.tool!r} at {self.server!r} {why}."
        hint = "It goes on there." if self.errand.is_left else "The server was told to cancel it."
        return DeadlinePassed(text, hint, server=self.server)


class Followed:
    """The tasks of one session that somebody waits for, by their ids."""

    def __init__(self, server: str) -> None:
        self._server = server
        self.by_id: dict[str, Following] = {}

    async def to_the_end(self, following: Following, work: Callable[[], Awaitable[Raw]]) -> Raw:
        """What `work` returns; when it ends in any other way and the task may go on at the server, cancel it there."""
        if following.ident in self.by_id:
            raise MalformedMessage(f"The server {self._server!r} gave two tasks the same id.", server=self._server)
        self.by_id[following.ident] = following
        try:
            return await work()
        except (Refused, ConnectionLost):
            raise  # the server ended it itself, or is gone
        except BaseException:
            await following.cancel()
            raise
        finally:
            del self.by_id[following.ident]
