"""Session for protocol revision 2026-07-28: metadata in every request, caching, and subscriptions."""

import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Generator, Mapping
from contextlib import AbstractAsyncContextManager
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, TypeVar, cast

import anyio

from mcphost.client.capabilities import CLIENT_IMPLEMENTATION, NO_TRACE, capabilities_for, check_capability
from mcphost.client.pagination import MAX_ITEMS, list_tools
from mcphost.client.requests import RequestSender, run_before_send
from mcphost.client.result_cache import CACHEABLE_METHODS, ChangeNotifications, ResultCache, no_credential
from mcphost.client.session import (
    BeforeSendFn,
    NotificationFn,
    RequestHandler,
    ServerFacts,
    ServerRequestContext,
    SessionObserver,
    WatchedChanges,
)
from mcphost.client.subscriptions import Subscriptions
from mcphost.errors import ConnectionLost, MalformedMessage, RequestRefused, ServerError
from mcphost.protocol.base import ClientRequest, Notification
from mcphost.protocol.jsonrpc import HEADER_MISMATCH, JsonRpcMessage, JsonRpcNotification, JsonRpcRequest
from mcphost.protocol.lifecycle import LOG_LEVEL, build_request_meta
from mcphost.protocol.notifications import (
    ListenSubscriptions,
    LoggingMessageNotification,
    PromptListChangedNotification,
    ResourceListChangedNotification,
    SubscriptionFilter,
    ToolListChangedNotification,
    parse_notification,
)
from mcphost.protocol.prompts import GetPrompt
from mcphost.protocol.resources import ReadResource
from mcphost.protocol.revisions import LATEST_STATELESS
from mcphost.protocol.server_requests import COMPLETE, INPUT_REQUIRED
from mcphost.protocol.tasks import (
    TASK_RESULT_TYPE,
    CancelTask,
    GetTask,
    ResumeTask,
    Task,
    UpdateTask,
    has_tasks_extension,
)
from mcphost.protocol.tools import CallTool, ListTools, ListToolsResult
from mcphost.serialization import Raw, encode, replace
from mcphost.transport.channel import NO_HEADERS, Channel
from mcphost.transport.flow_control import run_steps_cooperatively

if TYPE_CHECKING:  # imported with the first input request, server that uses parameter headers, or task
    from mcphost.client.input_required import SessionInputHandler
    from mcphost.client.parameter_headers import ParameterHeaders
    from mcphost.client.task_polling import TaskRegistry

R = TypeVar("R")
NAME_HEADER = "Mcp-Name"
SUBSCRIPTION_ID = b"io.modelcontextprotocol/subscriptionId"
TIME_SLICE = 0.005
MAX_TOOL_WARNINGS = 20
"""Maximum number of warnings about skipped tools per page of the list."""
_INPUT_METHODS = frozenset({CallTool.METHOD, GetPrompt.METHOD, ReadResource.METHOD})


class StatelessSession:
    """A Session for protocol revision 2026-07-28; `serve` must run while the session is in use."""

    def __init__(
        self,
        channel: Channel,
        sender: RequestSender,
        facts: ServerFacts,
        handler: RequestHandler,
        observer: SessionObserver,
        *,
        has_parameter_headers: bool = False,
        trace: Mapping[str, str] = NO_TRACE,
        credential: Callable[[], str] = no_credential,
    ) -> None:
        """Create a session; `serve` runs it.

        - *has_parameter_headers*: true for HTTP, where tool arguments can also be sent as headers.
        - *trace*: the trace context to add to every request (see `capabilities.read_trace_context`).
        - *credential*: returns a digest of the access token. Private results in the cache are used only while this
          digest stays the same.
        """
        self._channel = channel
        self._sender = sender
        self._facts = facts
        self._handler = handler
        self._observer = observer
        self._trace = trace
        self._cached_meta: tuple[dict[str, Any] | None, bytes] = (None, b"")
        self._log_level_meta = b""
        self._checked_methods: set[str] = set()  # methods whose capability has been checked
        self._cache = ResultCache(credential)
        self._changes = ChangeNotifications(self._cache.handle_notification)
        self._subscriptions = Subscriptions(self._open_subscription, sender.server, facts.capabilities, self._changes)
        self._closed = anyio.Event()
        self._close_error: ConnectionLost | None = None
        self._opened_input_handler: SessionInputHandler | None = None
        self._has_warned = False
        self._has_parameter_headers = has_parameter_headers
        self._parameter_headers: dict[str, ParameterHeaders] = {}

    @property
    def facts(self) -> ServerFacts:
        """The protocol revision, capabilities and other facts received when the session was opened."""
        return self._facts

    async def request(
        self,
        call: ClientRequest[R],
        *,
        deadline: float | None = None,
        on_notification: NotificationFn | None = None,
        before_send: BeforeSendFn | None = None,
    ) -> R:
        """Return a cached result, or send the request and return its result; see `Session.request`."""
        if call.METHOD not in self._checked_methods:
            check_capability(call.METHOD, self._facts, self._sender.server)
            self._checked_methods.add(call.METHOD)
        is_cacheable = call.METHOD in CACHEABLE_METHODS
        if is_cacheable:
            cached = self._cache.get(call)
            if cached is not None:
                return cached
        generation, owner = (self._cache.generation(call.METHOD), self._cache.credential) if is_cacheable else (0, "")
        meta = self._request_meta + b"," + self._log_level_meta if self._log_level_meta else self._request_meta

        def send(extra: dict[str, Any] | None) -> Coroutine[Any, Any, Raw]:
            if isinstance(call, ResumeTask):
                task = Task(task_id=call.task_id)
                return self._run_task(task, call.tool, deadline, on_notification, is_resumed=True)
            return self._sender.send_raw(
                call, deadline=deadline, on_notification=on_notification, before_send=before_send,
                meta=meta, headers=self._headers(call), extra_params=extra,
            )  # fmt: skip

        has_relisted = False
        while True:
            try:
                raw = await send(None)
                result, had_questions = await self._complete(call, raw, send, deadline, on_notification)
                break
            except RequestRefused as error:
                if has_relisted or not self._is_header_mismatch(call, error):
                    raise
                self.invalidate(ListTools.METHOD)
                await list_tools(self)
                await run_before_send(before_send, has_context_changed=True)
                has_relisted = True
        if is_cacheable and not had_questions:
            self._cache.put(call, result, memoryview(raw).nbytes, generation, owner)
        if self._subscriptions.is_interrupted:
            self._subscriptions.handle_response()
        return result

    def _is_header_mismatch(self, call: ClientRequest[Any], error: RequestRefused) -> bool:
        """Return whether *error* means that the HTTP headers of a tool call do not match its arguments.

        This happens if the tool's `x-mcp-header` annotations have changed since the tools were listed.
        """
        return error.code == HEADER_MISMATCH and self._has_parameter_headers and call.METHOD == CallTool.METHOD

    @property
    def _request_meta(self) -> bytes:
        """The JSON members of `_meta` for every request; they are encoded again when the capabilities change."""
        capabilities = self._handler.capabilities
        if self._cached_meta[0] != capabilities:
            revision = self._facts.revision
            members = build_request_meta(
                revision, CLIENT_IMPLEMENTATION, capabilities_for(revision, capabilities)
            ) | dict(self._trace)
            self._cached_meta = (capabilities, encode(members)[1:-1])
        return self._cached_meta[1]

    async def _complete(
        self,
        call: ClientRequest[R],
        raw: Raw,
        send: Callable[[dict[str, Any] | None], Coroutine[Any, Any, Raw]],
        deadline: float | None,
        on_notification: NotificationFn | None,
    ) -> tuple[R, bool]:
        """Return the complete result of *call*, and whether the server requested input before it sent that result.

        *raw* is the server's first response. If it contains input requests, they are answered, and the request is sent
        again with the answers. If it is a task, the task is polled until it ends. *send* sends the request of *call*
        with additional params.
        """
        result = self._sender.decode_result(raw, call)
        if isinstance(call, ResumeTask):
            return result, False
        kind = getattr(result, "result_type", "")
        had_questions = kind == INPUT_REQUIRED and call.METHOD in _INPUT_METHODS
        if had_questions:
            from mcphost.client.input_required import resolve_input  # imported with the first input request

            context = ServerRequestContext(
                call.METHOD, self._headers(call)[NAME_HEADER], self._sender.next_id(), self._facts.revision
            )
            try:
                raw = await resolve_input(raw, send, self._input_handler, context)
            except ServerError as error:
                error.server = error.server or self._sender.server
                raise
            result = self._sender.decode_result(raw, call)
            kind = getattr(result, "result_type", "")
        if kind == TASK_RESULT_TYPE and isinstance(call, CallTool):
            raw = await self._run_task(raw, call.name, deadline, on_notification)
            result = cast("R", self._sender.decode_result(raw, call))
            kind = getattr(result, "result_type", "")
        if kind not in ("", COMPLETE):
            raise MalformedMessage(
                f"The server {self._sender.server!r} answered {call.METHOD} with a result of the unknown kind "
                f"{kind[:100]!r}.",
                f"It may be from a revision newer than {LATEST_STATELESS}, the newest that mcphost speaks.",
                server=self._sender.server,
            )
        if self._has_parameter_headers and isinstance(result, ListToolsResult):
            result = cast("R", await run_steps_cooperatively(self._record_parameter_headers(result)))
        return result, had_questions

    @property
    def _input_handler(self) -> "SessionInputHandler":
        if self._opened_input_handler is None:
            from mcphost.client.input_required import SessionInputHandler

            self._opened_input_handler = SessionInputHandler(self._handler, self._sender.server)
            if self._closed.is_set():
                self._opened_input_handler.close()
        return self._opened_input_handler

    @cached_property
    def _task_registry(self) -> "TaskRegistry":
        from mcphost.client.task_polling import TaskRegistry

        return TaskRegistry(self._sender.server)

    async def _run_task(
        self,
        first: Task | Raw,
        tool: str,
        deadline: float | None,
        on_notification: NotificationFn | None,
        is_resumed: bool = False,
    ) -> Raw:
        """Poll the task of a tool call until it ends (SEP-2663); return its result as undecoded JSON.

        *first* is the task, or the undecoded result in which the server reported the task. *tool* is the name of
        the tool. *is_resumed* means that an earlier run of mcphost created the task.
        """
        from mcphost.client.task_polling import TaskContext, TaskPoller, parse_created_task, run_extension_task

        task = first if isinstance(first, Task) else parse_created_task(first)

        async def send(call: ClientRequest[Any]) -> Raw:
            headers, timeout = self._headers(call), self._sender.timeouts.request
            return await self._sender.send_raw(call, deadline=timeout, meta=self._request_meta, headers=headers)

        try:
            limit = self._sender.timeouts.task if deadline is None else deadline
            number = self._sender.next_id()
            poller = TaskPoller(
                task,
                send,
                TaskContext(
                    self._sender.server,
                    tool,
                    number,
                    limit,
                    is_resumed,
                    includes_user_time=self._sender.timeouts.includes_user_time,
                ),
                on_notification=on_notification,
                warn=self._observer.warn,
                is_connected=lambda: not self._closed.is_set(),
            )
            has_notifications = has_tasks_extension(self._facts.capabilities.extensions)
            stream = self._open_subscription if has_notifications else None
            work = partial(run_extension_task, poller, send, self._input_handler, self._sender, stream)
            return await self._task_registry.track(poller, work)
        except ServerError as error:
            error.server = error.server or self._sender.server
            raise

    def _headers(self, call: ClientRequest[Any]) -> Mapping[str, str]:
        if isinstance(call, CallTool):
            wanted = self._parameter_headers.get(call.name) if self._has_parameter_headers else None
            return {**wanted.header_values(call), NAME_HEADER: call.name} if wanted else {NAME_HEADER: call.name}
        if isinstance(call, GetPrompt):
            return {NAME_HEADER: call.name}
        if isinstance(call, ReadResource):
            return {NAME_HEADER: call.uri}
        if isinstance(call, GetTask | UpdateTask | CancelTask):
            return {NAME_HEADER: call.task_id}
        return NO_HEADERS

    def _record_parameter_headers(self, page: ListToolsResult) -> Generator[None, None, ListToolsResult]:
        """Record which arguments must also be sent as HTTP headers; remove tools with invalid annotations.

        Returns *page* without the removed tools. The observer receives one warning for each of the first 20 removed
        tools, and a single warning that states how many more were removed. Yields after every 5 ms of work.
        """
        from mcphost.client.parameter_headers import parse_parameter_headers

        tools: list[Raw] = []
        skipped_count, slice_end = 0, time.perf_counter() + TIME_SLICE
        for definition in page.tools:
            if time.perf_counter() > slice_end:
                yield
                slice_end = time.perf_counter() + TIME_SLICE
            try:
                name, parameter_headers = parse_parameter_headers(definition)
            except MalformedMessage as error:
                skipped_count += 1
                if skipped_count <= MAX_TOOL_WARNINGS:
                    self._observer.warn(error.message)
                continue
            self._parameter_headers.pop(name, None)
            if parameter_headers.headers:
                self._parameter_headers[name] = parameter_headers
                if len(self._parameter_headers) > MAX_ITEMS:  # a server could rename its tools in each list
                    del self._parameter_headers[next(iter(self._parameter_headers))]
            tools.append(definition)
        if skipped_count > MAX_TOOL_WARNINGS:
            self._observer.warn(
                f"{skipped_count - MAX_TOOL_WARNINGS:,} more tools of {self._sender.server!r} were left out."
            )
        return page if len(tools) == len(page.tools) else replace(page, tools=tuple(tools))

    async def changes(self, wanted: WatchedChanges) -> AsyncIterator[Notification]:
        """Iterate over notifications about the wanted changes until the connection ends; see `Session.changes`.

        A broken subscription is reopened, with increasing delays.
        """
        self._subscriptions.set_wanted(wanted)
        try:
            async for change in self._changes:
                yield change
        finally:
            self._subscriptions.set_wanted(WatchedChanges())

    async def watch(self, wanted: WatchedChanges) -> None:
        """Set the changes that `changes` reports; see `Session.watch`."""
        await self._subscriptions.watch(wanted)

    @property
    def watched(self) -> WatchedChanges:
        """The changes that the server has agreed to announce."""
        return self._subscriptions.granted

    def invalidate(self, method: str = "") -> None:
        """Drop the cached results of *method*, or of all methods if it is ""."""
        self._cache.invalidate(method)

    def is_cached(self, call: ClientRequest[Any]) -> bool:
        """Return whether `request` would return a cached result for *call*."""
        return call.METHOD in CACHEABLE_METHODS and self._cache.get(call) is not None

    async def set_log_level(self, level: str) -> None:
        """Request log messages of this level with every later request; "" turns them off."""
        self._log_level_meta = b'"%s":%s' % (LOG_LEVEL.encode(), encode(level)) if level else b""

    async def notify(self, notification: Notification) -> None:
        """Do nothing, because clients send no notifications in revision 2026-07-28."""

    @property
    def anomaly_counts(self) -> Counter[str]:
        """Counts of unusual messages, keyed by a description."""
        return Counter({"progress left out": self._sender.dropped_progress_count}) + Counter(
            self._channel.anomaly_counts
        )

    @property
    def is_closed(self) -> bool:
        """Whether the connection has ended."""
        return self._closed.is_set() or self._channel.is_closed

    async def wait_closed(self) -> ConnectionLost:
        """Wait until the connection ends, and return the reason."""
        await self._closed.wait()
        why = self._close_error or ConnectionLost(f"The server {self._sender.server!r} closed the connection.")
        return ConnectionLost(why.message, why.hint, server=self._sender.server)

    async def serve(self) -> None:
        """Handle messages that do not belong to a request in flight, until the connection ends."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._subscriptions.run)
            try:
                async for message in self._channel.unsolicited():
                    self.handle_unsolicited(message, ServerRequestContext())
            except ConnectionLost as error:
                self._close_error = error  # the next request raises this error as well
            finally:
                self._subscriptions.close()
                self._changes.close()
                self._closed.set()
                if self._opened_input_handler is not None:
                    self._opened_input_handler.close()

    def handle_unsolicited(self, message: JsonRpcMessage, context: ServerRequestContext) -> None:
        """Handle a message that is neither a response nor a notification about a request in flight.

        Requests from the server are ignored, because revision 2026-07-28 does not allow them.
        """
        if isinstance(message, JsonRpcRequest):
            if not self._has_warned:
                self._has_warned = True
                self._observer.warn(
                    f"The server {self._sender.server!r} sent the request {message.method[:100]!r}, which "
                    f"{self._facts.revision} does not allow; it was ignored."
                )
            return
        if isinstance(message, JsonRpcNotification):
            notification = _parse(message)
            if isinstance(notification, LoggingMessageNotification):
                self._observer.log(notification)
            elif notification is not None and self._is_change_without_subscription(message, notification):
                self._changes.put(notification, is_forced=True)

    def _is_change_without_subscription(self, message: JsonRpcNotification, notification: Notification) -> bool:
        """Return whether to accept a list change that did not arrive on a subscription stream.

        FastMCP 4 sends list changes in this way. They are accepted only if no subscription covers the list; otherwise,
        they must be ignored (basic/patterns/subscriptions).
        """
        if SUBSCRIPTION_ID in bytes(message.params):
            return False
        granted = self._subscriptions.granted
        match notification:
            case ToolListChangedNotification():
                return not granted.tools
            case PromptListChangedNotification():
                return not granted.prompts
            case ResourceListChangedNotification():
                return not granted.resources
            case _:
                return False

    def _open_subscription(
        self, wanted: SubscriptionFilter
    ) -> AbstractAsyncContextManager[AsyncIterator[JsonRpcMessage]]:
        body = encode(ListenSubscriptions(wanted))[:-1] + b',"_meta":{' + self._request_meta + b"}}"
        return self._channel.exchange(JsonRpcRequest(self._sender.next_id(), ListenSubscriptions.METHOD, Raw(body)))


def _parse(message: JsonRpcNotification) -> Notification | None:
    return parse_notification(message.method, message.params)
