"""Polling for the state of tasks on a server, with time limits (revision 2025-11-25 and the tasks extension)."""

import logging
import math
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from contextvars import copy_context
from typing import Any

import anyio

from mcphost.client.input_required import InputHandler, answer_input_requests
from mcphost.client.requests import RequestSender, make_follow_up_error
from mcphost.client.session import NotificationFn, ServerRequestContext
from mcphost.errors import (
    ConnectionLost,
    MalformedMessage,
    McpHostError,
    RequestRefused,
    RequestTimeout,
    ServerError,
    TooManyInputRounds,
)
from mcphost.protocol.base import ClientRequest, is_set
from mcphost.protocol.jsonrpc import INVALID_PARAMS, ErrorData, JsonRpcMessage, JsonRpcNotification
from mcphost.protocol.notifications import SubscriptionFilter, SubscriptionsAcknowledgedNotification
from mcphost.protocol.server_requests import InputRequest, parse_input_requests
from mcphost.protocol.tasks import (
    CANCELLED,
    COMPLETED,
    EXTENSION_NOTIFICATION,
    INPUT_REQUIRED,
    STATUSES,
    WORKING,
    CancelTask,
    GetTask,
    Task,
    TaskStatusNotification,
    UpdateTask,
    check_task,
)
from mcphost.serialization import Raw, Struct, decode, replace
from mcphost.transport.channel import CancellingTaskGroup, HttpStatusError
from mcphost.transport.flow_control import run_steps_cooperatively

_log = logging.getLogger(__name__)
SendFn = Callable[[ClientRequest[Any]], Awaitable[Raw]]

MIN_POLL_INTERVAL = 0.1
MAX_POLL_INTERVAL = 300.0
# Without a poll interval from the server, polls are frequent at first, because most tasks are short, then rarer.
FIRST_POLL_INTERVAL = 0.5
_LATER_POLL_INTERVAL = 5.0
# Time limit in seconds for the user's answers to all questions of a task, apart from the task's own time limit.
MAX_INPUT_SECONDS = 3_600.0
MAX_POLL_FAILURES = 3
CANCEL_TIMEOUT = 2.0
# Seconds that mcphost waits beyond the lifetime of a task, because clocks differ and polls take time.
EXPIRY_GRACE_SECONDS = 10.0
_TRANSIENT_STATUSES = frozenset({408, 429, 500, 502, 503, 504})


class TaskContext(Struct, frozen=True):
    """The tool call that a task belongs to, and the time limit of the task.

    - `server`, `tool`: the names of the server and the tool.
    - `call_number`: the number of the call (see ServerRequestContext).
    - `limit`: the time limit in seconds.
    - `is_resumed`: whether an earlier run of mcphost created the task. Such a task is never cancelled.
    - `can_cancel`: whether the server supports cancelling tasks.
    - `includes_user_time`: whether the time that the user takes to answer questions counts towards `limit`.
    """

    server: str
    tool: str
    call_number: int
    limit: float
    is_resumed: bool = False
    can_cancel: bool = True
    includes_user_time: bool = False


class TaskPoller:
    """Poller for one task on a server; it stores the last known state of the task.

    *on_notification* receives a TaskStatusNotification when the status or the status message of the task changes.
    *is_connected* returns whether the connection is still open.
    """

    def __init__(
        self,
        task: Task,
        send: SendFn,
        context: TaskContext,
        *,
        on_notification: NotificationFn | None,
        warn: Callable[[str], None],
        is_connected: Callable[[], bool],
    ) -> None:
        self.task = check_task(task)
        self.server = context.server
        self.tool = context.tool
        self.context = context
        self._send = send
        self._on_notification = on_notification
        self._warn = warn
        self._is_connected = is_connected
        self.task_context = copy_context()
        """The context variables of the task that made the tool call."""
        self._started_at = anyio.current_time()
        self._user_seconds = 0.0
        self.is_asking: Callable[[], bool] = lambda: False
        """Returns whether the user is answering a question of the task, which its status alone does not show."""
        self._poll_interval = FIRST_POLL_INTERVAL
        self._next_poll = self._started_at if task.status != WORKING else self._started_at + self._next_interval()
        self._failures = 0
        self._has_warned = False
        self._updated = anyio.Event()
        self._report_status(task)

    @property
    def task_id(self) -> str:
        """The id of the task."""
        return self.task.task_id

    def update(self, task: Task) -> None:
        """Store a new state that the server has reported; do nothing if the task has already ended."""
        if not self.task.is_terminal and task.task_id == self.task_id:
            self._set_task(task)
            self.wake()

    def wake(self) -> None:
        """Wake up a running `step` before its next poll is due."""
        self._updated.set()

    def poll_soon(self) -> None:
        """Make the next poll happen soon; called after the server has received input for the task."""
        self._poll_interval = FIRST_POLL_INTERVAL
        self._next_poll = min(self._next_poll, anyio.current_time() + self._next_interval())
        self.wake()

    async def step(self) -> None:
        """Wait until the next poll is due, and poll; return without polling if `update` or `wake` is called first.

        Raises ServerError if polling fails permanently, or if the task exceeds its time limit.
        """
        began, was_asking = anyio.current_time(), self.is_asking()
        wait = min(self._next_poll, began + self._time_left()) - began
        with anyio.move_on_after(max(0.0, wait)):
            await self._updated.wait()
        is_updated, self._updated = self._updated.is_set(), anyio.Event()
        if anyio.current_time() >= self._next_poll and not self.task.is_terminal:
            await self.poll()
        elif not is_updated:
            self._time_left()
        if was_asking:
            self._user_seconds += anyio.current_time() - began

    async def poll(self) -> None:
        """Request the state of the task with tasks/get.

        A failed request is repeated at the next poll. The error is raised after more than three consecutive failures,
        or immediately if it is permanent or the connection has ended. Raises RequestRefused if the server does not know
        the task.
        """
        try:
            task = decode(await self._send(GetTask(self.task_id)), Task, "result of tasks/get")
        except (ConnectionLost, RequestTimeout, HttpStatusError) as error:
            self._failures += 1
            await anyio.lowlevel.checkpoint()
            lasting = isinstance(error, HttpStatusError) and error.status not in _TRANSIENT_STATUSES
            if lasting or self._failures > MAX_POLL_FAILURES or not self._is_connected():
                raise
        except RequestRefused as error:
            raise self.unknown_task_error(error) from error
        else:
            self._failures = 0
            self._set_task(task)
        self._next_poll = anyio.current_time() + self._next_interval()

    def unknown_task_error(self, error: RequestRefused) -> RequestRefused:
        """Return the error to raise after the server rejected a request about the task with *error*.

        If *error* has the code for invalid params, the server no longer knows the task, and the result is a new
        error that explains this. Otherwise, *error* itself is returned.
        """
        if error.code != INVALID_PARAMS:
            return error
        return RequestRefused(
            f"The server {self.server!r} no longer knows the task of {self.tool!r} ({error.message}).",
            "Its outcome is unknown; the tool may have run.",
            code=error.code,
            data=error.data,
        )

    def cancelled_error(self) -> RequestRefused:
        """Return the error for a task that the server cancelled without a request from mcphost."""
        why = f": {self.status_message}" if self.status_message else "."
        return RequestRefused(f"The server {self.server!r} cancelled the task of {self.tool!r}{why}")

    def failed_error(self, error: RequestRefused) -> RequestRefused:
        """Return the error for a failed task: *error*, with the task's status message added."""
        error.server = self.server
        if not self.status_message or self.status_message in error.message:
            return error
        return RequestRefused(f"{error.message} ({self.status_message})", error.hint, code=error.code, data=error.data)

    @property
    def status_message(self) -> str:
        """The task's status message, truncated to 2,000 characters."""
        return (self.task.status_message or "")[:2_000]

    async def cancel(self) -> None:
        """Ask the server to cancel the task; wait for at most two seconds, and ignore errors.

        This does nothing if the task has ended or was created by an earlier run of mcphost, or if the server cannot
        cancel tasks.
        """
        if self.task.is_terminal or self.context.is_resumed or not self.context.can_cancel:
            return
        _log.info("task %s of %s at %s: we cancel it", self.task_id[:100], self.tool, self.server)
        with anyio.move_on_after(CANCEL_TIMEOUT, shield=True):
            try:
                await self._send(CancelTask(self.task_id))
            except McpHostError as error:
                # The task has ended, or the server is gone.
                _log.info("task %s of %s at %s: %s", self.task_id[:100], self.tool, self.server, error.message[:500])

    def _set_task(self, task: Task) -> None:
        before, self.task = self.task, check_task(task, self.task_id)
        if task.status not in STATUSES and not self._has_warned:
            self._has_warned = True
            self._warn(
                f"The server {self.server!r} gave the task of {self.tool!r} the unknown status "
                f"{task.status[:100]!r}; it is treated as working."
            )
        if (before.status, before.status_message) != (task.status, task.status_message):
            self._report_status(task)

    def _report_status(self, task: Task) -> None:
        _log.info("task %s of %s at %s: %s", self.task_id[:100], self.tool, self.server, task.status[:100])
        if self._on_notification is not None:
            self._on_notification(TaskStatusNotification(task))

    def _next_interval(self) -> float:
        wanted = self.task.poll_seconds
        if wanted is not None and self.task.status != INPUT_REQUIRED:
            return min(max(wanted, MIN_POLL_INTERVAL), MAX_POLL_INTERVAL)
        # While the task waits for input, nothing changes, regardless of the poll interval that the server asks for.
        pause, self._poll_interval = self._poll_interval, min(self._poll_interval * 1.5, _LATER_POLL_INTERVAL)
        return pause if wanted is None else min(max(wanted, MIN_POLL_INTERVAL, pause), MAX_POLL_INTERVAL)

    def _time_left(self) -> float:
        """Return the number of seconds that `step` can wait before it must check the time limits again.

        Raises RequestTimeout if a limit is exceeded: the task's lifetime, the time limit of the call, or the
        maximum time to wait for the user's input.
        """
        age = anyio.current_time() - self._started_at
        lifetime = self.task.ttl_seconds
        until = math.inf if lifetime is None else lifetime + EXPIRY_GRACE_SECONDS + self._poll_interval
        if age > until:
            raise self._deadline_error(f"is over the {lifetime:.0f} s that its server gave it, and has no result")
        worked = age if self.context.includes_user_time else age - self._user_seconds
        if self.is_asking() and not self.context.includes_user_time:
            if self._user_seconds > MAX_INPUT_SECONDS:
                raise self._deadline_error(f"waited over {MAX_INPUT_SECONDS:.0f} s for input")
            return min(until - age, MAX_INPUT_SECONDS - self._user_seconds) + MIN_POLL_INTERVAL
        if worked > self.context.limit:
            raise self._deadline_error(f"was not done within {self.context.limit:.0f} s")
        return min(until - age, self.context.limit - worked) + MIN_POLL_INTERVAL

    def _deadline_error(self, why: str) -> RequestTimeout:
        text = f"The task of {self.tool!r} at {self.server!r} {why}."
        hint = "It continues on the server." if self.context.is_resumed else "The server was asked to cancel it."
        return RequestTimeout(text, hint, server=self.server)


class TaskRegistry:
    """The running tasks of one session, keyed by task id."""

    def __init__(self, server: str) -> None:
        self._server = server
        self.by_id: dict[str, TaskPoller] = {}

    async def track(self, poller: TaskPoller, run: Callable[[], Awaitable[Raw]]) -> Raw:
        """Register a task, await *run* and return its result.

        If *run* is cancelled or raises an error, the server is asked to cancel the task, with two exceptions. After
        RequestRefused, the server has already ended the task. After ConnectionLost, the server cannot be reached, and
        the ConnectionLost that is raised here states that the tool may have run. Raises MalformedMessage if a task with
        the same id is already running.
        """
        if poller.task_id in self.by_id:
            raise MalformedMessage(f"The server {self._server!r} gave two tasks the same id.", server=self._server)
        self.by_id[poller.task_id] = poller
        try:
            return await run()
        except RequestRefused:
            raise  # the server has ended the task
        except ConnectionLost as error:
            raise make_follow_up_error(error) from error.__cause__  # the server is gone
        except BaseException:
            await poller.cancel()
            raise
        finally:
            del self.by_id[poller.task_id]


MessageStream = AbstractAsyncContextManager[AsyncIterator[JsonRpcMessage]]
MAX_INPUT_KEYS = 100
MIN_STREAM_POLL_SECONDS = 1.0


async def listen_for_updates(poller: TaskPoller, open_stream: Callable[[SubscriptionFilter], MessageStream]) -> None:
    """Update the state of a task from the server's notifications, until the notification stream ends.

    *open_stream* opens a subscription. This returns immediately if the server refuses to send notifications; the
    caller polls the task in any case.
    """
    try:
        async with open_stream(SubscriptionFilter(task_ids=(poller.task_id,))) as messages:
            async for message in messages:
                if not isinstance(message, JsonRpcNotification):
                    return  # refused or ended
                if message.method == EXTENSION_NOTIFICATION:
                    poller.update(decode(message.params, Task, f"params object of {EXTENSION_NOTIFICATION}"))
                elif message.method == SubscriptionsAcknowledgedNotification.METHOD:
                    granted = decode(
                        message.params, SubscriptionsAcknowledgedNotification, message.method
                    ).notifications
                    if granted is None or poller.task_id not in granted.task_ids:
                        return
    except ServerError:
        return  # polling continues


async def run_extension_task(
    poller: TaskPoller,
    send: SendFn,
    handler: InputHandler,
    sender: RequestSender,
    open_stream: Callable[[SubscriptionFilter], MessageStream] | None = None,
) -> Raw:
    """Poll a task of the tasks extension (SEP-2663) until it ends, and return its result as undecoded JSON.

    - *send*: sends a request about the task, such as tasks/update.
    - *handler*: answers each input request of the task once.
    - *open_stream*: opens a subscription to the state of the task; used only if the server's poll interval is at least
      one second.

    Raises RequestRefused if the task failed or was cancelled, and TooManyInputRounds if it requested too many inputs.
    Errors of `TaskPoller.step`, and errors while answering an input request (such as ConsentDenied), propagate.
    """
    context = ServerRequestContext("tools/call", poller.tool, poller.context.call_number)
    seen: set[str] = set()
    failures: list[McpHostError] = []
    questions = 0
    poller.is_asking = lambda: questions > 0

    async def respond(wanted: dict[str, InputRequest]) -> None:
        nonlocal questions
        try:
            try:
                replies = await answer_input_requests(wanted, handler, context)
            finally:
                questions -= 1
            await send(UpdateTask(poller.task_id, replies))
            poller.poll_soon()
        except McpHostError as error:
            failures.append(poller.unknown_task_error(error) if isinstance(error, RequestRefused) else error)
            poller.wake()

    async with CancellingTaskGroup() as group:
        if open_stream is not None and (poller.task.poll_seconds or 0) >= MIN_STREAM_POLL_SECONDS:
            group.start_soon(listen_for_updates, poller, open_stream)
        while not (poller.task.is_terminal and _has_result(poller.task)):
            if poller.task.is_terminal:
                await poller.poll()  # the response that created the task has only its status
                break
            # The server repeats input requests until their answers arrive, so each key is handled only once.
            fresh = await _new_input_requests(poller.task, seen)
            if fresh:
                seen.update(fresh)
                if len(seen) > MAX_INPUT_KEYS:
                    raise TooManyInputRounds(
                        f"The task of {poller.tool!r} asked for more than {MAX_INPUT_KEYS} inputs; it was cancelled.",
                        server=poller.server,
                    )
                questions += 1
                group.start_soon(respond, fresh)
            await poller.step()
            if failures:
                raise failures[0]
    return _task_result(poller, sender)


async def _new_input_requests(task: Task, seen: set[str]) -> dict[str, InputRequest]:
    if task.status != INPUT_REQUIRED:
        return {}
    requests = await run_steps_cooperatively(parse_input_requests(task.input_requests))
    return {key: request for key, request in requests.items() if key not in seen}


def _has_result(task: Task) -> bool:
    return task.status == CANCELLED or is_set(task.result if task.status == COMPLETED else task.error)


def _task_result(poller: TaskPoller, sender: RequestSender) -> Raw:
    task = poller.task
    if task.status == CANCELLED:
        raise poller.cancelled_error()
    if not _has_result(task):
        raise MalformedMessage(
            f"The server {poller.server!r} says that the task of {poller.tool!r} is {task.status}, but "
            "returns neither a result nor an error.",
            server=poller.server,
        )
    if task.status == COMPLETED:
        return task.result
    raise poller.failed_error(sender.to_exception(decode(task.error, ErrorData, "error of a task"), "tools/call"))


def parse_created_task(raw: Raw) -> Task:
    """Decode the new task in a result of type `task`, leaving out any result, error and input requests in it."""
    task = decode(raw, Task, "result of tools/call")
    return replace(task, result=Raw(), error=Raw(), input_requests=Raw())
