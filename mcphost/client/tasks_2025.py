"""Tools that run as tasks at a server of 2025-11-25: created, followed, their questions fetched, their result taken."""

from collections.abc import Awaitable, Callable
from typing import Any, TypeGuard

import anyio
from anyio.abc import TaskGroup

from mcphost.client.progress import ProgressMeter
from mcphost.client.requests import Caller, repeated
from mcphost.client.session import AgainFn, AskContext, NoticeFn
from mcphost.client.tasks import Errand, Followed, Following
from mcphost.client.timeouts import limited
from mcphost.errors import ConnectionLost, DeadlinePassed, MalformedMessage, McpHostError, Refused
from mcphost.protocol.base import Call, Notice, is_set
from mcphost.protocol.jsonrpc import Notification
from mcphost.protocol.notifications import LogMessage, Progress
from mcphost.protocol.tasks import (
    ASKS_INPUT,
    CANCELLED,
    FAILED,
    REQUIRED,
    STATUS_NOTICE,
    CreatedTask,
    GetTaskResult,
    ResumeTask,
    Task,
    related_task,
    support,
    task_support,
)
from mcphost.protocol.tools import CallTool, ToolPage
from mcphost.serialization import Raw, decode, replace
from mcphost.transport.task_group import Tasks

KNOWN_TOOLS = 10_000
RESULT_TRIES = 20
# A task is known a moment after its answer was read; a question right behind that answer waits so long at most.
HEELS = 1.0
_LONG = 4 * 3_600.0


class _Fetch:
    """One tasks/result on its way: it blocks until the task is over, and only while it does are questions delivered."""

    def __init__(self) -> None:
        self.done = anyio.Event()
        self.raw: Raw | None = None
        self.error: McpHostError | None = None


class CoreTasks:
    """What one session knows of its server's tasks; without the server's declaration nothing ever becomes one."""

    def __init__(
        self,
        caller: Caller,
        declared: Raw,
        group: TaskGroup,
        *,
        warn: Callable[[str], None],
        alive: Callable[[], bool],
        through: Callable[[Callable[[], Awaitable[Raw]]], Awaitable[Raw]],
    ) -> None:
        """`through` sends once more what an HTTP session that was forgotten did not read."""
        self._caller = caller
        self._through = through
        self._support = support(declared)
        self._group = group
        self._warn = warn
        self._alive = alive
        self._wanting: dict[str, None] = {}
        self._making = 0
        self._made = anyio.Event()
        self.followed = Followed(caller.server)
        self._tokens: dict[int | str, ProgressMeter] = {}

    def learn(self, page: ToolPage) -> None:
        """Remember which of the listed tools must be called as tasks."""
        if not self._support.tool_calls:
            return
        for definition in page.tools:
            if b'"taskSupport"' not in bytes(definition) and not self._wanting:
                continue  # the usual case, without reading it
            name, wants = task_support(definition)
            if wants != REQUIRED:
                self._wanting.pop(name, None)
            elif len(self._wanting) < KNOWN_TOOLS:
                self._wanting[name] = None

    def takes(self, call: Call[Any]) -> TypeGuard[CallTool]:
        """Whether the call must become a task (specification 2025-11-25: basic/utilities/tasks, tool-level)."""
        return isinstance(call, CallTool) and call.name in self._wanting

    def heard(self, message: Notification) -> bool:
        """Take a notice about a running task; False when it is none."""
        if message.method == STATUS_NOTICE:
            self._status(message.params)
            return True
        if message.method == Progress.METHOD and self._tokens:
            try:
                said = decode(message.params, Progress, message.method)
            except MalformedMessage:
                return True
            if meter := self._tokens.get(said.progress_token):
                meter.put(said)
            return True
        return False

    async def context(self, params: Raw, otherwise: AskContext) -> AskContext:
        """Which call a question of the server belongs to, by the task it names."""
        ident, known = related_task(params), self.followed.by_id
        with anyio.move_on_after(HEELS):
            while ident and ident not in known and self._making:
                await self._made.wait()
        following = known.get(ident)
        if following is None:
            return otherwise
        return replace(
            otherwise, method=CallTool.METHOD, detail=following.tool, number=following.errand.number, running=()
        )

    async def run(
        self, call: CallTool, deadline: float | None, on_notice: NoticeFn | None, again: AgainFn | None
    ) -> Raw:
        """See Session.request; the result still as JSON. `deadline` (None: `Patience.task`) is for the whole task."""
        limit = self._caller.patience.task if deadline is None else deadline
        token = self._caller.next_id()
        hear = on_notice
        if hear is not None:
            self._tokens[token] = ProgressMeter(hear)  # valid for as long as the task lives, not only for the request
        try:
            self._making += 1
            try:
                answer = await self._created(call, token, limit, hear, again)
            finally:
                self._making -= 1
                self._made.set()
                self._made = anyio.Event()
            created = decode(answer, CreatedTask, "result of tools/call").task
            if not is_set(created):
                return answer  # it was done at once, as a plain call
            first = decode(created, Task, "task of tools/call")
            return await self._end_of(self._following(first, call.name, limit, hear))
        finally:
            if meter := self._tokens.pop(token, None):
                meter.close()

    async def resume(self, call: ResumeTask, deadline: float | None, on_notice: NoticeFn | None) -> Raw:
        """See ResumeTask; the result still as JSON."""
        limit = self._caller.patience.task if deadline is None else deadline
        following = self._following(Task(task_id=call.task_id), call.tool, limit, on_notice, is_left=True)
        return await self._end_of(following)

    async def _end_of(self, following: Following) -> Raw:
        try:
            return await self.followed.to_the_end(following, lambda: self._result(following))
        finally:
            self._caller.over(following.errand.number)

    def _following(
        self, task: Task, tool: str, limit: float, hear: NoticeFn | None, *, is_left: bool = False
    ) -> Following:
        number, hard = self._caller.next_id(), self._caller.patience.hard
        errand = Errand(self._caller.server, tool, number, limit, is_left, self._support.cancelling, hard)
        following = Following(
            task,
            self._send,
            errand,
            hear=hear,
            warn=self._warn,
            alive=self._alive,
        )
        following.is_asking = lambda: self._caller.pauses.is_asking(number)
        return following

    async def _created(
        self, call: CallTool, token: int, limit: float, hear: NoticeFn | None, again: AgainFn | None
    ) -> Raw:
        """The answer to the call. It may not be cancelled by a notification, only its task by tasks/cancel, so the
        request outlives whoever gives up on it, and then cancels what it made."""
        fetch, given_up, sent = _Fetch(), False, False

        def tell(notice: Notice) -> None:
            meter = self._tokens.get(token)
            if isinstance(notice, Progress) and meter is not None:
                meter.put(notice)
            elif isinstance(notice, LogMessage) and hear is not None and not given_up:
                hear(notice)

        async def send() -> Raw:
            nonlocal sent
            if sent:
                await repeated(again, doubtful=True)
            sent = True
            return await self._caller.raw_call(
                call,
                deadline=self._caller.patience.most,
                on_notice=tell if hear is not None else None,
                again=again,
                extra={"task": {"ttl": max(1, int(limit * 1000))}},
                token=token,
            )

        async def create() -> None:
            try:
                fetch.raw = await self._through(send)
                if given_up:
                    await self._drop(fetch.raw, call.name)
            except McpHostError as error:
                fetch.error = error
            finally:
                fetch.done.set()

        if not self._alive():
            raise ConnectionLost(f"The connection to {self._caller.server!r} is closed.", server=self._caller.server)
        try:
            with limited(min(limit, self._caller.patience.base)) as scope:
                self._group.start_soon(create)
                await fetch.done.wait()
        except BaseException:
            given_up = True
            raise
        if scope.cancelled_caught:
            given_up = True
            raise DeadlinePassed(
                f"The server {self._caller.server!r} made no task of {call.name!r} in time.",
                "If it still makes one, that is cancelled.",
                server=self._caller.server,
            )
        return self._taken(fetch)

    async def _drop(self, answer: Raw, tool: str) -> None:
        created = decode(answer, CreatedTask, "result of tools/call").task
        if is_set(created):
            task = decode(created, Task, "task of tools/call")
            await self._following(task, tool, 0, None).cancel()

    async def _result(self, following: Following) -> Raw:
        fetch: _Fetch | None = None
        tries = 0
        async with Tasks() as group:
            while not following.task.is_over:
                if following.task.status == ASKS_INPUT and fetch is None and tries < RESULT_TRIES:
                    fetch, tries = _Fetch(), tries + 1
                    group.start_soon(self._fetch, following, fetch)
                await following.step()
                if fetch is not None and fetch.done.is_set():
                    if fetch.raw is not None:
                        return fetch.raw
                    await following.look()  # an error is the task's own only when the task is over
                    if not following.task.is_over:
                        fetch = None
            if following.task.status == CANCELLED:
                raise following.cancelled()
            with limited(self._caller.patience.base):
                if fetch is None:
                    fetch = _Fetch()
                    group.start_soon(self._fetch, following, fetch)
                await fetch.done.wait()
            return self._final(following, fetch)

    async def _fetch(self, following: Following, fetch: _Fetch) -> None:
        try:
            fetch.raw = await self._caller.raw_call(GetTaskResult(following.ident), deadline=_LONG)
        except McpHostError as error:
            fetch.error = error
        finally:
            fetch.done.set()
            following.wake()

    def _final(self, following: Following, fetch: _Fetch) -> Raw:
        error = fetch.error
        if isinstance(error, Refused):
            if following.task.status == FAILED:
                raise following.failed(error) from error
            raise following.unknown(error) from error
        if error is None and fetch.raw is None:
            raise DeadlinePassed(
                f"The server {self._caller.server!r} says that the task of {following.tool!r} is "
                f"{following.task.status}, and does not give its result.",
                server=self._caller.server,
            )
        return self._taken(fetch)

    @staticmethod
    def _taken(fetch: _Fetch) -> Raw:
        if fetch.error is not None:
            raise fetch.error
        return fetch.raw if fetch.raw is not None else Raw()

    async def _send(self, call: Call[Any]) -> Raw:
        return await self._through(lambda: self._caller.raw_call(call, deadline=self._caller.patience.base))

    def _status(self, params: Raw) -> None:
        try:
            task = decode(params, Task, STATUS_NOTICE)
            following = self.followed.by_id.get(task.task_id)
            if following is not None:
                following.heard(task)
        except MalformedMessage:
            return  # polling will tell
