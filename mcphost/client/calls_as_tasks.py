"""Tool calls that a server runs as tasks (revision 2025-11-25): creation, polling, and fetching the result."""

from collections.abc import Awaitable, Callable
from typing import Any, TypeGuard

import anyio
from anyio.abc import TaskGroup

from mcphost.client.requests import ProgressThrottle, RequestSender, run_before_send
from mcphost.client.session import BeforeSendFn, NotificationFn, ServerRequestContext
from mcphost.client.task_polling import TaskContext, TaskPoller, TaskRegistry
from mcphost.client.timeouts import time_limit
from mcphost.errors import ConnectionLost, MalformedMessage, McpHostError, RequestRefused, RequestTimeout
from mcphost.protocol.base import ClientRequest, Notification, is_set
from mcphost.protocol.jsonrpc import JsonRpcNotification
from mcphost.protocol.notifications import LoggingMessageNotification, ProgressNotification
from mcphost.protocol.tasks import (
    CANCELLED,
    FAILED,
    INPUT_REQUIRED,
    STATUS_NOTIFICATION,
    TASK_SUPPORT_REQUIRED,
    CreateTaskResult,
    GetTaskResult,
    ResumeTask,
    Task,
    parse_tasks_capability,
    read_related_task,
    read_task_support,
)
from mcphost.protocol.tools import CallTool, ListToolsResult
from mcphost.serialization import Raw, decode, replace
from mcphost.transport.channel import CancellingTaskGroup

MAX_TASK_TOOLS = 10_000
MAX_RESULT_TRIES = 20
# Maximum seconds that a request from a server waits for its task, whose creation is still being processed.
TASK_LOOKUP_TIMEOUT = 1.0
_RESULT_TIMEOUT = 4 * 3_600.0


class _PendingResult:
    """Outcome of a request that runs in the background: either `raw` or `error` is set before `done`.

    The request is either a tool call that creates a task, or tasks/result.
    """

    def __init__(self) -> None:
        self.done = anyio.Event()
        self.raw: Raw | None = None
        self.error: McpHostError | None = None


class CoreTaskRunner:
    """Runner for tool calls that the server executes as tasks, as defined in revision 2025-11-25.

    If the server did not declare that it can run tool calls as tasks, `is_task_call` always returns False.
    """

    def __init__(
        self,
        sender: RequestSender,
        capability: Raw,
        group: TaskGroup,
        *,
        warn: Callable[[str], None],
        is_connected: Callable[[], bool],
        send_with_renewal: Callable[[Callable[[], Awaitable[Raw]]], Awaitable[Raw]],
    ) -> None:
        """Create a runner; *capability* is the server's `tasks` capability.

        Requests are sent through *sender*, and background requests run in *group*. *warn* receives messages for the
        user, and *is_connected* returns whether the connection is still open. *send_with_renewal* awaits a function
        that sends a request; if the HTTP session has expired, it opens a new session and calls the function again.
        """
        self._sender = sender
        self._send_with_renewal = send_with_renewal
        self._capability = parse_tasks_capability(capability)
        self._group = group
        self._warn = warn
        self._is_connected = is_connected
        self._task_tools: dict[str, None] = {}
        self._creating_count = 0
        self._task_created = anyio.Event()
        self.registry = TaskRegistry(sender.server)
        self._progress_by_token: dict[int | str, ProgressThrottle] = {}

    def record_tools(self, page: ListToolsResult) -> None:
        """Record which of the tools on *page* must be called as tasks."""
        if not self._capability.can_run_tools:
            return
        for definition in page.tools:
            if b'"taskSupport"' not in bytes(definition) and not self._task_tools:
                continue  # the usual case, which needs no decoding
            name, wants = read_task_support(definition)
            if wants != TASK_SUPPORT_REQUIRED:
                self._task_tools.pop(name, None)
            elif len(self._task_tools) < MAX_TASK_TOOLS:
                self._task_tools[name] = None

    def is_task_call(self, call: ClientRequest[Any]) -> TypeGuard[CallTool]:
        """Return whether *call* must run as a task.

        Specification 2025-11-25, basic/utilities/tasks, tool-level negotiation.
        """
        return isinstance(call, CallTool) and call.name in self._task_tools

    def handle_notification(self, message: JsonRpcNotification) -> bool:
        """Handle status and progress notifications of running tasks; return False for other notifications."""
        if message.method == STATUS_NOTIFICATION:
            self._handle_status(message.params)
            return True
        if message.method == ProgressNotification.METHOD and self._progress_by_token:
            try:
                notification = decode(message.params, ProgressNotification, f"params object of {message.method}")
            except MalformedMessage:
                return True
            if meter := self._progress_by_token.get(notification.progress_token):
                meter.put(notification)
            return True
        return False

    async def resolve_context(self, params: Raw, default: ServerRequestContext) -> ServerRequestContext:
        """Return the context of the tool call that a server's request belongs to, or *default* if it belongs to none.

        *params* are the params of the server's request, which can contain the id of the tool call's task.
        """
        task_id, known = read_related_task(params), self.registry.by_id
        with anyio.move_on_after(TASK_LOOKUP_TIMEOUT):
            while task_id and task_id not in known and self._creating_count:
                await self._task_created.wait()
        poller = known.get(task_id)
        if poller is None:
            return default
        return replace(
            default,
            method=CallTool.METHOD,
            target=poller.tool,
            call_number=poller.context.call_number,
            candidate_calls=(),
            task_contexts=(poller.task_context,),
        )

    async def run(
        self,
        call: CallTool,
        deadline: float | None,
        on_notification: NotificationFn | None,
        before_send: BeforeSendFn | None,
    ) -> Raw:
        """Run a tool call as a task, and return its result as undecoded JSON; see `Session.request`.

        *deadline* is the time limit of the task in seconds; None means `Timeouts.task`.
        """
        limit = self._sender.timeouts.task if deadline is None else deadline
        token = self._sender.next_id()
        if on_notification is not None:
            self._progress_by_token[token] = ProgressThrottle(
                on_notification
            )  # valid for the lifetime of the task, not only of the request
        try:
            self._creating_count += 1
            try:
                answer = await self._create_task(call, token, limit, on_notification, before_send)
            finally:
                self._creating_count -= 1
                self._task_created.set()
                self._task_created = anyio.Event()
            created = decode(answer, CreateTaskResult, "result of tools/call").task
            if not is_set(created):
                return answer  # the server ran an ordinary tool call instead
            first = decode(created, Task, "task of tools/call")
            return await self._run_to_end(self._create_poller(first, call.name, limit, on_notification))
        finally:
            if meter := self._progress_by_token.pop(token, None):
                meter.close()

    async def resume(self, call: ResumeTask, deadline: float | None, on_notification: NotificationFn | None) -> Raw:
        """Poll a task that an earlier run of mcphost created; return its result as undecoded JSON. See ResumeTask."""
        limit = self._sender.timeouts.task if deadline is None else deadline
        poller = self._create_poller(Task(task_id=call.task_id), call.tool, limit, on_notification, is_resumed=True)
        return await self._run_to_end(poller)

    async def _run_to_end(self, poller: TaskPoller) -> Raw:
        try:
            return await self.registry.track(poller, lambda: self._poll_result(poller))
        finally:
            self._sender.on_request_end(poller.context.call_number)

    def _create_poller(
        self, task: Task, tool: str, limit: float, on_notification: NotificationFn | None, *, is_resumed: bool = False
    ) -> TaskPoller:
        number, hard = self._sender.next_id(), self._sender.timeouts.includes_user_time
        context = TaskContext(self._sender.server, tool, number, limit, is_resumed, self._capability.can_cancel, hard)
        poller = TaskPoller(
            task,
            self._send,
            context,
            on_notification=on_notification,
            warn=self._warn,
            is_connected=self._is_connected,
        )
        poller.is_asking = lambda: self._sender.pauses.is_asking_user(number)
        return poller

    async def _create_task(
        self,
        call: CallTool,
        token: int,
        limit: float,
        on_notification: NotificationFn | None,
        before_send: BeforeSendFn | None,
    ) -> Raw:
        """Create a task with a lifetime of *limit* seconds; return the response. Cancellation also cancels the task."""
        # A task must be cancelled with tasks/cancel, not with a notification, so the response has to be awaited first.
        fetch, given_up, sent = _PendingResult(), False, False

        def forward(notification: Notification) -> None:
            meter = self._progress_by_token.get(token)
            if isinstance(notification, ProgressNotification) and meter is not None:
                meter.put(notification)
            elif isinstance(notification, LoggingMessageNotification) and on_notification is not None and not given_up:
                on_notification(notification)

        async def send() -> Raw:
            nonlocal sent
            if sent:
                await run_before_send(before_send, has_context_changed=True)
            sent = True
            return await self._sender.send_raw(
                call,
                deadline=self._sender.timeouts.max_request,
                on_notification=forward if on_notification is not None else None,
                before_send=before_send,
                extra_params={"task": {"ttl": max(1, int(limit * 1000))}},
                progress_token=token,
            )

        async def create() -> None:
            try:
                fetch.raw = await self._send_with_renewal(send)
                if given_up:
                    await self._cancel_created(fetch.raw, call.name)
            except McpHostError as error:
                fetch.error = error
            finally:
                fetch.done.set()

        if not self._is_connected():
            raise ConnectionLost(f"The connection to {self._sender.server!r} is closed.", server=self._sender.server)
        try:
            with time_limit(min(limit, self._sender.timeouts.request)) as scope:
                self._group.start_soon(create)
                await fetch.done.wait()
        except BaseException:
            given_up = True
            raise
        if scope.cancelled_caught:
            given_up = True
            raise RequestTimeout(
                f"The server {self._sender.server!r} did not create a task for {call.name!r} in time.",
                "If it is created later, it is cancelled.",
                server=self._sender.server,
            )
        return self._unwrap(fetch)

    async def _cancel_created(self, answer: Raw, tool: str) -> None:
        created = decode(answer, CreateTaskResult, "result of tools/call").task
        if is_set(created):
            task = decode(created, Task, "task of tools/call")
            await self._create_poller(task, tool, 0, None).cancel()

    async def _poll_result(self, poller: TaskPoller) -> Raw:
        fetch: _PendingResult | None = None
        tries = 0
        async with CancellingTaskGroup() as group:
            while not poller.task.is_terminal:
                # A server sends the requests of a task, such as elicitation, only while tasks/result is in flight.
                if poller.task.status == INPUT_REQUIRED and fetch is None and tries < MAX_RESULT_TRIES:
                    fetch, tries = _PendingResult(), tries + 1
                    group.start_soon(self._fetch_result, poller, fetch)
                await poller.step()
                if fetch is not None and fetch.done.is_set():
                    if fetch.raw is not None:
                        return fetch.raw
                    await poller.poll()  # an error is the task's own error only if the task has ended
                    if not poller.task.is_terminal:
                        fetch = None
            if poller.task.status == CANCELLED:
                raise poller.cancelled_error()
            with time_limit(self._sender.timeouts.request):
                if fetch is None:
                    fetch = _PendingResult()
                    group.start_soon(self._fetch_result, poller, fetch)
                await fetch.done.wait()
            return self._final_result(poller, fetch)

    async def _fetch_result(self, poller: TaskPoller, fetch: _PendingResult) -> None:
        try:
            fetch.raw = await self._sender.send_raw(GetTaskResult(poller.task_id), deadline=_RESULT_TIMEOUT)
        except McpHostError as error:
            fetch.error = error
        finally:
            fetch.done.set()
            poller.wake()

    def _final_result(self, poller: TaskPoller, fetch: _PendingResult) -> Raw:
        error = fetch.error
        if isinstance(error, RequestRefused):
            if poller.task.status == FAILED:
                raise poller.failed_error(error) from error
            raise poller.unknown_task_error(error) from error
        if error is None and fetch.raw is None:
            raise RequestTimeout(
                f"The server {self._sender.server!r} says that the task of {poller.tool!r} is "
                f"{poller.task.status}, but does not return its result.",
                server=self._sender.server,
            )
        return self._unwrap(fetch)

    @staticmethod
    def _unwrap(fetch: _PendingResult) -> Raw:
        if fetch.error is not None:
            raise fetch.error
        return fetch.raw if fetch.raw is not None else Raw()

    async def _send(self, call: ClientRequest[Any]) -> Raw:
        return await self._send_with_renewal(
            lambda: self._sender.send_raw(call, deadline=self._sender.timeouts.request)
        )

    def _handle_status(self, params: Raw) -> None:
        try:
            task = decode(params, Task, f"params object of {STATUS_NOTIFICATION}")
            poller = self.registry.by_id.get(task.task_id)
            if poller is not None:
                poller.update(task)
        except MalformedMessage:
            return  # polling detects it
