"""Tasks that we run for a server of 2025-11-25: its sampling and elicitation requests, answered when it asks again."""

import logging
import secrets
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

import anyio
from anyio.abc import TaskGroup

from mcphost.client.client_info import hosted_tasks
from mcphost.errors import MalformedMessage, McpHostError
from mcphost.protocol.jsonrpc import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    ErrorResponse,
    Message,
    Notification,
    Request,
    Response,
    RpcError,
)
from mcphost.protocol.tasks import (
    CANCELLED,
    COMPLETED,
    FAILED,
    STATUS_NOTICE,
    WORKING,
    CancelTask,
    CreatedTask,
    GetTask,
    GetTaskResult,
    ListTasks,
    Task,
    wanted_task,
    with_related,
)
from mcphost.serialization import Raw, Wire, decode, encode
from mcphost.transport.bounded_queue import size_of

_log = logging.getLogger(__name__)
MAX_RUNNING = 50
MAX_RUNNING_BYTES = 32 * 1024 * 1024
"""Of the requests whose tasks run; each is kept until its task is over."""
MAX_KEPT = 50
MAX_WAITING = 5
"""Requests for the result of one task that wait; each gets a copy of it."""
MAX_BYTES = 16 * 1024 * 1024
MAX_TTL = 3_600_000
DEFAULT_TTL = 300_000
SHORTEST_TTL = 1_000
PAGE = 50
POLL_INTERVAL = 1_000
Work = Callable[[], Awaitable[Message]]


class _Wanted(Wire, frozen=True):
    ttl: float | None = None


class _Target(Wire, frozen=True):
    task_id: str = ""


class _From(Wire, frozen=True):
    cursor: str | None = None


class _Hosted:
    """One task; `outcome` is what the request itself would have been answered with."""

    def __init__(self, method: str, ttl: int, requested: int) -> None:
        self.requested = requested
        """Bytes of the request, which is kept while the task runs."""
        # Whoever knows an id can read the result, so it must not be guessed.
        self.ident = secrets.token_urlsafe(24)
        self.method = method
        self.ttl = ttl
        self.created = self.updated = _now()
        self.status = WORKING
        self.said: str | None = None
        self.outcome: Message | None = None
        self.fetched = False
        self.waiting = 0
        self.over = anyio.Event()
        self.work = anyio.CancelScope()
        self.life = anyio.CancelScope()

    @property
    def size(self) -> int:
        """Bytes of the kept result."""
        return len(bytes(self.outcome.result)) if isinstance(self.outcome, Response) else 0

    def end(self, status: str, outcome: Message, said: str | None = None) -> None:
        """The first end counts; a terminal status never changes."""
        if not self.over.is_set():
            self.status, self.outcome, self.said, self.updated = status, outcome, said, _now()
            self.over.set()

    def state(self) -> Task:
        """As the server is told of it."""
        return Task(
            task_id=self.ident,
            status=self.status,
            status_message=self.said,
            created_at=self.created,
            last_updated_at=self.updated,
            ttl=self.ttl,
            poll_interval=POLL_INTERVAL,
        )


class HostedTasks:
    """The tasks of one session: at most 50 run, for requests of 32 MB; 50 or 16 MB are kept, none longer than an hour.

    Each runs in `group` and ends with the session. `declared` are the client capabilities as they were declared.
    """

    def __init__(
        self,
        declared: dict[str, Any],
        send: Callable[[Message], Awaitable[None]],
        group: TaskGroup,
        server: str,
    ) -> None:
        requests = hosted_tasks(declared) if "tasks" in declared else {}
        self._methods = {f"{area}/{name}" for area, names in requests.items() for name in names}
        self._send = send
        self._group = group
        self._server = server
        self._tasks: dict[str, _Hosted] = {}
        self._operations: dict[str, Callable[[Request], Awaitable[Message]]] = {
            GetTask.METHOD: self._get,
            GetTaskResult.METHOD: self._result,
            CancelTask.METHOD: self._cancel,
            ListTasks.METHOD: self._list,
        }

    def serves(self, method: str) -> bool:
        """Whether that is a question about our tasks; never when we declared none."""
        return bool(self._methods) and method in self._operations

    async def answer(self, request: Request) -> Message:
        """The answer to a question about our tasks; tasks/result waits until the task is over."""
        try:
            return await self._operations[request.method](request)
        except MalformedMessage as error:
            return _refused(request, error.message[:500])

    def wants(self, request: Request) -> bool:
        """Whether the server wants this to be a task, and we said that it may; otherwise it is a plain request."""
        return request.method in self._methods and bool(bytes(wanted_task(request.params)))

    def create(self, request: Request, work: Work) -> Message:
        """Begin the task and answer at once. Raises MalformedMessage for parameters that cannot be read."""
        wanted = decode(wanted_task(request.params), _Wanted, "task").ttl
        running = [task for task in self._tasks.values() if not task.over.is_set()]
        if len(running) >= MAX_RUNNING:
            return ErrorResponse(request.id, RpcError(INTERNAL_ERROR, f"{MAX_RUNNING} tasks are running already."))
        size = size_of(request)
        if running and sum(task.requested for task in running) + size > MAX_RUNNING_BYTES:
            why = f"The requests of running tasks would have more than {MAX_RUNNING_BYTES:,} bytes."
            return ErrorResponse(request.id, RpcError(INTERNAL_ERROR, why))
        ttl = DEFAULT_TTL if wanted is None else int(min(max(wanted, SHORTEST_TTL), MAX_TTL))
        task = _Hosted(request.method, ttl, size)
        self._tasks[task.ident] = task
        self._group.start_soon(self._run, task, work)
        self._note(task, "created")
        return Response(request.id, Raw(encode(CreatedTask(task=Raw(encode(task.state()))))))

    async def _run(self, task: _Hosted, work: Work) -> None:
        ends = anyio.current_time() + task.ttl / 1000
        try:
            with task.life, anyio.CancelScope(deadline=ends):
                with task.work:
                    await _worked(task, work)
                del work  # it holds the request, and the task may be kept for an hour
                self._note(task, task.status)
                self._make_room()
                await self._tell(task)
                await anyio.sleep_forever()
        finally:
            task.end(FAILED, ErrorResponse(None, RpcError(INVALID_PARAMS, "The task has expired.")), "It has expired.")
            self._tasks.pop(task.ident, None)

    async def _tell(self, task: _Hosted) -> None:
        try:
            await self._send(Notification(STATUS_NOTICE, Raw(encode(task.state()))))
        except McpHostError:
            return  # it may ask, or is gone

    def _make_room(self) -> None:
        """What was fetched goes first, then what is oldest."""
        over = sorted((task for task in self._tasks.values() if task.over.is_set()), key=lambda task: not task.fetched)
        size = sum(task.size for task in over)
        for number, task in enumerate(over[:-1]):
            if len(over) - number <= MAX_KEPT and size <= MAX_BYTES:
                return
            size -= task.size
            del self._tasks[task.ident]
            task.life.cancel()

    # -- what the server asks of them
    async def _get(self, request: Request) -> Message:
        return Response(request.id, Raw(encode(self._find(request).state())))

    async def _result(self, request: Request) -> Message:
        task = self._find(request)
        if task.waiting >= MAX_WAITING:
            return _refused(request, f"{MAX_WAITING} requests wait for the result of this task already.")
        task.waiting += 1
        try:
            await task.over.wait()
        finally:
            task.waiting -= 1
        task.fetched = True
        self._note(task, "its result was fetched")
        if isinstance(task.outcome, Response):
            return Response(request.id, with_related(task.outcome.result, task.ident))
        error = task.outcome.error if isinstance(task.outcome, ErrorResponse) else RpcError(INTERNAL_ERROR)
        return ErrorResponse(request.id, error)

    async def _cancel(self, request: Request) -> Message:
        task = self._find(request)
        if task.over.is_set():
            return _refused(request, f"The task is {task.status} already and cannot be cancelled.")
        gone = ErrorResponse(None, RpcError(INTERNAL_ERROR, "The task was cancelled."))
        task.end(CANCELLED, gone, "Cancelled by the server.")
        task.work.cancel()
        return Response(request.id, Raw(encode(task.state())))

    async def _list(self, request: Request) -> Message:
        cursor = decode(bytes(request.params) or b"{}", _From, request.method).cursor
        every = list(self._tasks.values())
        start = 0
        if cursor is not None:
            start = next((number + 1 for number, task in enumerate(every) if task.ident == cursor), -1)
            if start < 0:
                return _refused(request, "The cursor is not one of ours, or its task has expired.")
        page = every[start : start + PAGE]
        more = page[-1].ident if len(every) > start + PAGE else None
        return Response(
            request.id,
            Raw(encode({"tasks": [task.state() for task in page], **({"nextCursor": more} if more else {})})),
        )

    def _find(self, request: Request) -> _Hosted:
        ident = decode(bytes(request.params) or b"{}", _Target, request.method).task_id
        task = self._tasks.get(ident)
        if task is None:
            raise MalformedMessage("There is no such task; it may have expired.")
        return task

    def _note(self, task: _Hosted, what: str) -> None:
        _log.info("task %s for %s of %s: %s", task.ident, task.method, self._server, what)


async def _worked(task: _Hosted, work: Work) -> None:
    outcome = await work()
    if isinstance(outcome, ErrorResponse):
        task.end(FAILED, outcome, outcome.error.message)
    else:
        task.end(COMPLETED, outcome)


def _refused(request: Request, message: str) -> ErrorResponse:
    return ErrorResponse(request.id, RpcError(INVALID_PARAMS, message))


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
