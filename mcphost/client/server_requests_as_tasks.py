"""Sampling and elicitation requests from a server that the client runs as tasks (revision 2025-11-25)."""

import logging
import secrets
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

import anyio
from anyio.abc import TaskGroup

from mcphost.client.capabilities import task_request_capabilities
from mcphost.errors import MalformedMessage, McpHostError
from mcphost.protocol.jsonrpc import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    ErrorData,
    JsonRpcErrorResponse,
    JsonRpcMessage,
    JsonRpcNotification,
    JsonRpcRequest,
    JsonRpcResponse,
)
from mcphost.protocol.tasks import (
    CANCELLED,
    COMPLETED,
    FAILED,
    STATUS_NOTIFICATION,
    WORKING,
    CancelTask,
    CreateTaskResult,
    GetTask,
    GetTaskResult,
    ListTasks,
    Task,
    add_related_task,
    read_task_metadata,
)
from mcphost.serialization import Raw, WireStruct, decode, encode
from mcphost.transport.flow_control import message_size

_log = logging.getLogger(__name__)
MAX_RUNNING = 50
MAX_RUNNING_BYTES = 32 * 1024 * 1024
"""Maximum total size in bytes of the requests of running tasks, which are kept until their tasks end."""
MAX_FINISHED = 50
MAX_RESULT_WAITERS = 5
"""Maximum number of requests that wait for the result of one task."""
MAX_RESULT_BYTES = 16 * 1024 * 1024
MAX_TTL = 3_600_000
DEFAULT_TTL = 300_000
MIN_TTL = 1_000
PAGE_SIZE = 50
POLL_INTERVAL = 1_000
TaskWork = Callable[[], Awaitable[JsonRpcMessage]]


class _TaskMetadata(WireStruct, frozen=True):
    ttl: float | None = None


class _TaskIdParams(WireStruct, frozen=True):
    task_id: str = ""


class _ListTasksParams(WireStruct, frozen=True):
    cursor: str | None = None


class _ServerTask:
    """A request from a server that runs as a task; `response` is set when the task has ended."""

    def __init__(self, method: str, ttl: int, request_bytes: int) -> None:
        self.request_bytes = request_bytes
        """The size of the request in bytes; the request is kept while the task runs."""
        # The id must not be guessable, because it is all that is needed to read the result.
        self.task_id = secrets.token_urlsafe(24)
        self.method = method
        self.ttl = ttl
        self.created_at = self.updated_at = _now()
        self.status = WORKING
        self.status_message: str | None = None
        self.response: JsonRpcMessage | None = None
        self.is_fetched = False
        self.waiter_count = 0
        self.finished = anyio.Event()
        self.work_scope = anyio.CancelScope()
        self.lifetime_scope = anyio.CancelScope()

    @property
    def result_bytes(self) -> int:
        """The size of the stored result in bytes; 0 if there is none."""
        return len(bytes(self.response.result)) if isinstance(self.response, JsonRpcResponse) else 0

    def finish(self, status: str, response: JsonRpcMessage, status_message: str | None = None) -> None:
        """Set the final status, its message and the response, unless the task has already ended."""
        if not self.finished.is_set():
            self.status, self.response, self.status_message, self.updated_at = status, response, status_message, _now()
            self.finished.set()

    def to_task(self) -> Task:
        """Return the current state of the task as a Task, to be sent to the server."""
        return Task(
            task_id=self.task_id,
            status=self.status,
            status_message=self.status_message,
            created_at=self.created_at,
            last_updated_at=self.updated_at,
            ttl=self.ttl,
            poll_interval=POLL_INTERVAL,
        )


class ServerTaskRunner:
    """Runner for one server's requests that run as tasks; the tasks end with the HTTP session or the connection.

    At most 50 tasks run at a time, with requests of at most 32 MiB in total. At most 50 finished tasks, with results of
    at most 16 MiB in total, are kept for up to an hour. *capabilities* are the declared client capabilities.
    """

    def __init__(
        self,
        capabilities: dict[str, Any],
        send: Callable[[JsonRpcMessage], Awaitable[None]],
        group: TaskGroup,
        server: str,
    ) -> None:
        requests = task_request_capabilities(capabilities) if "tasks" in capabilities else {}
        self._methods = {f"{area}/{name}" for area, names in requests.items() for name in names}
        self._send = send
        self._group = group
        self._server = server
        self._tasks: dict[str, _ServerTask] = {}
        self._operations: dict[str, Callable[[JsonRpcRequest], Awaitable[JsonRpcMessage]]] = {
            GetTask.METHOD: self._get,
            GetTaskResult.METHOD: self._result,
            CancelTask.METHOD: self._cancel,
            ListTasks.METHOD: self._list,
        }

    def is_task_method(self, method: str) -> bool:
        """Return whether *method* is one of the `tasks/` methods, and the client declared support for tasks."""
        return bool(self._methods) and method in self._operations

    async def handle(self, request: JsonRpcRequest) -> JsonRpcMessage:
        """Return the response to a `tasks/` request; tasks/result waits until the task has ended."""
        try:
            return await self._operations[request.method](request)
        except MalformedMessage as error:
            return _invalid_params(request, error.message[:500])

    def is_task_request(self, request: JsonRpcRequest) -> bool:
        """Return whether the request must run as a task.

        It must if it contains the `task` parameter and the client declared that it supports tasks for the request's
        method.
        """
        return request.method in self._methods and bool(bytes(read_task_metadata(request.params)))

    def create(self, request: JsonRpcRequest, work: TaskWork) -> JsonRpcMessage:
        """Start a task for *request*; return a response with the task, or an error if too many are running.

        *work* returns the response that becomes the result of the task. Raises MalformedMessage for invalid params.
        """
        wanted = decode(read_task_metadata(request.params), _TaskMetadata, "task").ttl
        running = [task for task in self._tasks.values() if not task.finished.is_set()]
        if len(running) >= MAX_RUNNING:
            return JsonRpcErrorResponse(
                request.id, ErrorData(INTERNAL_ERROR, f"{MAX_RUNNING} tasks are running already.")
            )
        size = message_size(request)
        if running and sum(task.request_bytes for task in running) + size > MAX_RUNNING_BYTES:
            why = f"The requests of running tasks would have more than {MAX_RUNNING_BYTES:,} bytes."
            return JsonRpcErrorResponse(request.id, ErrorData(INTERNAL_ERROR, why))
        ttl = DEFAULT_TTL if wanted is None else int(min(max(wanted, MIN_TTL), MAX_TTL))
        task = _ServerTask(request.method, ttl, size)
        self._tasks[task.task_id] = task
        self._group.start_soon(self._run, task, work)
        self._log_state(task, "created")
        return JsonRpcResponse(request.id, Raw(encode(CreateTaskResult(task=Raw(encode(task.to_task()))))))

    def cancel_all(self) -> None:
        """End all tasks and forget their results, because the session in which they were created has ended."""
        for task in self._tasks.values():
            task.lifetime_scope.cancel()
        self._tasks.clear()

    async def _run(self, task: _ServerTask, work: TaskWork) -> None:
        ends = anyio.current_time() + task.ttl / 1000
        try:
            with task.lifetime_scope, anyio.CancelScope(deadline=ends):
                with task.work_scope:
                    await _run_work(task, work)
                del work  # the closure references the request, and the task may be kept for an hour
                self._log_state(task, task.status)
                self._evict_finished()
                await self._notify(task)
                await anyio.sleep_forever()
        finally:
            task.finish(
                FAILED,
                JsonRpcErrorResponse(None, ErrorData(INVALID_PARAMS, "The task has expired.")),
                "It has expired.",
            )
            self._tasks.pop(task.task_id, None)

    async def _notify(self, task: _ServerTask) -> None:
        try:
            await self._send(JsonRpcNotification(STATUS_NOTIFICATION, Raw(encode(task.to_task()))))
        except McpHostError:
            return  # the server can poll, unless it is gone

    def _evict_finished(self) -> None:
        """Remove finished tasks that exceed the limits: first those whose result was fetched, then the oldest."""
        finished = sorted(
            (task for task in self._tasks.values() if task.finished.is_set()), key=lambda task: not task.is_fetched
        )
        size = sum(task.result_bytes for task in finished)
        for number, task in enumerate(finished[:-1]):
            if len(finished) - number <= MAX_FINISHED and size <= MAX_RESULT_BYTES:
                return
            size -= task.result_bytes
            del self._tasks[task.task_id]
            task.lifetime_scope.cancel()

    # -- requests about tasks
    async def _get(self, request: JsonRpcRequest) -> JsonRpcMessage:
        return JsonRpcResponse(request.id, Raw(encode(self._find_task(request).to_task())))

    async def _result(self, request: JsonRpcRequest) -> JsonRpcMessage:
        task = self._find_task(request)
        if task.waiter_count >= MAX_RESULT_WAITERS:
            return _invalid_params(request, f"{MAX_RESULT_WAITERS} requests wait for the result of this task already.")
        task.waiter_count += 1
        try:
            await task.finished.wait()
        finally:
            task.waiter_count -= 1
        task.is_fetched = True
        self._log_state(task, "its result was fetched")
        if isinstance(task.response, JsonRpcResponse):
            return JsonRpcResponse(request.id, add_related_task(task.response.result, task.task_id))
        error = task.response.error if isinstance(task.response, JsonRpcErrorResponse) else ErrorData(INTERNAL_ERROR)
        return JsonRpcErrorResponse(request.id, error)

    async def _cancel(self, request: JsonRpcRequest) -> JsonRpcMessage:
        task = self._find_task(request)
        if task.finished.is_set():
            return _invalid_params(request, f"The task is {task.status} already and cannot be cancelled.")
        gone = JsonRpcErrorResponse(None, ErrorData(INTERNAL_ERROR, "The task was cancelled."))
        task.finish(CANCELLED, gone, "Cancelled by the server.")
        task.work_scope.cancel()
        return JsonRpcResponse(request.id, Raw(encode(task.to_task())))

    async def _list(self, request: JsonRpcRequest) -> JsonRpcMessage:
        cursor = decode(bytes(request.params) or b"{}", _ListTasksParams, f"params object of {request.method}").cursor
        every = list(self._tasks.values())
        start = 0
        if cursor is not None:
            start = next((number + 1 for number, task in enumerate(every) if task.task_id == cursor), -1)
            if start < 0:
                return _invalid_params(request, "The cursor is not one of ours, or its task has expired.")
        page = every[start : start + PAGE_SIZE]
        more = page[-1].task_id if len(every) > start + PAGE_SIZE else None
        return JsonRpcResponse(
            request.id,
            Raw(encode({"tasks": [task.to_task() for task in page], **({"nextCursor": more} if more else {})})),
        )

    def _find_task(self, request: JsonRpcRequest) -> _ServerTask:
        task_id = decode(bytes(request.params) or b"{}", _TaskIdParams, f"params object of {request.method}").task_id
        task = self._tasks.get(task_id)
        if task is None:
            raise MalformedMessage("There is no such task; it may have expired.")
        return task

    def _log_state(self, task: _ServerTask, what: str) -> None:
        _log.info("task %s for %s of %s: %s", task.task_id, task.method, self._server, what)


async def _run_work(task: _ServerTask, work: TaskWork) -> None:
    outcome = await work()
    if isinstance(outcome, JsonRpcErrorResponse):
        task.finish(FAILED, outcome, outcome.error.message)
    else:
        task.finish(COMPLETED, outcome)


def _invalid_params(request: JsonRpcRequest, message: str) -> JsonRpcErrorResponse:
    return JsonRpcErrorResponse(request.id, ErrorData(INVALID_PARAMS, message))


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
