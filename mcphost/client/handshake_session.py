"""Session for protocol revisions 2024-11-05 to 2025-11-25, with an `initialize` handshake and a keepalive."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar, cast

import anyio
from anyio.abc import TaskGroup

from mcphost.client.calls_as_tasks import CoreTaskRunner
from mcphost.client.capabilities import can_notify, capabilities_for, check_capability
from mcphost.client.incoming_requests import ServerRequestDispatcher
from mcphost.client.input_required import SessionInputHandler, UrlElicitation
from mcphost.client.requests import RequestSender, run_before_send
from mcphost.client.result_cache import ChangeNotifications
from mcphost.client.session import (
    BeforeSendFn,
    NotificationFn,
    RequestHandler,
    ServerFacts,
    ServerRequestContext,
    SessionObserver,
    WatchedChanges,
)
from mcphost.client.session_renewal import RenewFn, SessionRenewal
from mcphost.client.timeouts import pause_time_limits
from mcphost.errors import (
    ConnectionLost,
    MalformedMessage,
    RequestRefused,
    RequestTimeout,
    ServerError,
    UnsupportedCapability,
)
from mcphost.protocol.base import ClientRequest, Notification
from mcphost.protocol.jsonrpc import JsonRpcMessage, JsonRpcNotification, JsonRpcRequest
from mcphost.protocol.lifecycle import Ping
from mcphost.protocol.notifications import (
    CancelledNotification,
    ElicitationCompleteNotification,
    LoggingMessageNotification,
    PromptListChangedNotification,
    ResourceListChangedNotification,
    SetLevel,
    ToolListChangedNotification,
    parse_notification,
)
from mcphost.protocol.resources import Subscribe, Unsubscribe
from mcphost.protocol.revisions import Revision
from mcphost.protocol.server_requests import INPUT_REQUIRED
from mcphost.protocol.tasks import ResumeTask
from mcphost.protocol.tools import ListToolsResult
from mcphost.serialization import Raw, encode, replace
from mcphost.transport.channel import Channel, HttpStatusError, SessionExpired

MIN_PING_TIMEOUT = 1.0
MAX_PING_TIMEOUT = 10.0
MAX_MISSED_PINGS = 3


class Keepalive:
    """Detector of lost connections, which sends a ping after *interval* seconds without a message from the server.

    After three missed pings in a row, it calls *abort*. No pings are sent while a request is running: the request has
    its own time limit, and a server that handles one request at a time would miss pings during a long tool call
    (specification: basic/utilities/ping).
    """

    def __init__(
        self,
        sender: RequestSender,
        observer: SessionObserver,
        interval: float,
        abort: Callable[[ConnectionLost], None],
        renew: Callable[[], Awaitable[None]],
    ) -> None:
        """Create a keepalive; `run` starts it.

        *interval* is in seconds. *renew* is called if a ping shows that the HTTP session has expired. *renew* must open
        a new session or, if that fails, abort the connection and raise ConnectionLost.
        """
        self._sender = sender
        self._observer = observer
        self._interval = interval
        self._timeout = max(MIN_PING_TIMEOUT, min(MAX_PING_TIMEOUT, interval))
        self._abort = abort
        self._renew = renew
        self.missed_count = 0

    async def run(self) -> None:
        """Send pings until cancelled or until the connection is lost; return immediately if the interval is 0."""
        loop = asyncio.get_running_loop()
        missed = 0
        while self._interval > 0:
            if self._sender.in_flight:
                missed = 0
                await anyio.sleep(self._interval)
                continue
            quiet = loop.time() - self._sender.last_received_at
            if quiet < self._interval:
                await anyio.sleep(self._interval - quiet)
                continue
            try:
                failure = await self._ping()
            except SessionExpired:
                try:
                    await self._renew()
                except ConnectionLost:
                    return  # the session was already aborted
                continue
            missed = missed + 1 if failure else 0
            if failure:
                self.missed_count += 1
                self._observer.warn(
                    f"The server {self._sender.server!r} missed a ping ({missed} of {MAX_MISSED_PINGS}): {failure}"
                )
            if missed == MAX_MISSED_PINGS:
                self._abort(self._lost_error())
                return
            if failure:
                await anyio.sleep(self._timeout)
            else:
                self._sender.last_received_at = loop.time()

    async def _ping(self) -> str:
        """Send a ping; return "" if the server responds, otherwise the reason for the failure.

        An error response also shows that the server responds, except for HTTP status 500 and above.
        """
        try:
            await self._sender.send(Ping(), deadline=self._timeout)
        except SessionExpired:
            raise
        except (RequestTimeout, ConnectionLost) as error:
            return error.message
        except HttpStatusError as error:
            return error.message if error.status >= 500 else ""  # a gateway may respond for an unreachable server
        except ServerError:
            return ""
        return ""

    def _lost_error(self) -> ConnectionLost:
        name = self._sender.server
        return ConnectionLost(
            f"The server {name!r} did not answer {MAX_MISSED_PINGS} pings in a row; the connection is considered lost.",
            "Check its log.",
            server=name,
        )


R = TypeVar("R")
ROOTS_RESPONSE_TIMEOUT = 1.0
"""Maximum seconds that a request waits for pending roots/list requests from its server to be answered."""
_NO_CONTEXT = ServerRequestContext()


class HandshakeSession:
    """The Session for revisions before 2026-07-28; `serve` must run while the session is in use.

    If an HTTP server reports that the session has expired, *renew* opens a new one, and the requests that failed
    because of the expiry are sent again. If the new session expires before these requests succeed, the connection
    ends (specification 2025-11-25, basic/transports, "Session Management").
    """

    def __init__(
        self,
        channel: Channel,
        sender: RequestSender,
        facts: ServerFacts,
        handler: RequestHandler,
        observer: SessionObserver,
        tasks: TaskGroup,
        *,
        ping_interval: float = 0,
        renew: RenewFn | None = None,
    ) -> None:
        """Create a session and start its keepalive; *ping_interval* is in seconds, and 0 disables pings.

        *renew* repeats the handshake on the same channel, and may raise ServerError; it is None if sessions cannot
        expire.
        """
        self._channel = channel
        self._sender = sender
        self._facts = facts
        self._handler = handler
        self._input_handler = SessionInputHandler(handler, sender.server)
        self._observer = observer
        self._client_capabilities = capabilities_for(facts.revision, handler.capabilities)
        self._dispatcher = ServerRequestDispatcher(
            handler,
            channel.send,
            tasks,
            declared=self._client_capabilities,
            observer=observer,
            server=sender.server,
            on_flood=self._on_flood,
            pauses=sender.pauses,
        )
        sender.on_request_end = self._dispatcher.on_call_ended
        self._changes = ChangeNotifications()
        self._subscribed: set[str] = set()
        self._lock = anyio.Lock()
        self._closed = anyio.Event()
        withdraw = self._dispatcher.cancel_all
        self._renewal = SessionRenewal(sender, renew, withdraw, self._on_renewed, self._on_expired)
        self._read_scope = anyio.CancelScope()
        self._keepalive = Keepalive(sender, observer, ping_interval, self.abort, self._renewal.renew)
        tasks.start_soon(self._keepalive.run)
        self._close_error: ConnectionLost | None = None
        # Tasks exist since 2025-11-25; in earlier revisions, the capability is not defined.
        declared = facts.capabilities.tasks if facts.revision >= Revision.V2025_11_25 else Raw()
        self._tasks = CoreTaskRunner(
            sender,
            declared,
            tasks,
            warn=observer.warn,
            is_connected=lambda: not self._closed.is_set(),
            send_with_renewal=self._renewal.send,
        )

    @property
    def facts(self) -> ServerFacts:
        """The protocol revision, capabilities and other facts that the server declared in the handshake."""
        return self._facts

    async def request(
        self,
        call: ClientRequest[R],
        *,
        deadline: float | None = None,
        on_notification: NotificationFn | None = None,
        before_send: BeforeSendFn | None = None,
    ) -> R:
        """Send one request and return its result; see `Session.request`."""
        if self._close_error is not None:
            lost = self._lost_error()
            lost.may_have_run = False  # the request was not sent
            raise lost
        check_capability(call.METHOD, self._facts, self._sender.server)
        if call.METHOD == ResumeTask.METHOD:  # the tool call was made before this session
            return await self._request_with_urls(call, deadline, on_notification, before_send)
        context = self._sender.context_of(call)
        with self._handler.track_request(context):
            await self._prepare(context, deadline)
            return await self._request_with_urls(call, deadline, on_notification, before_send)

    async def _prepare(self, context: ServerRequestContext, deadline: float | None) -> None:
        """Ask the user the postponed questions about roots, and wait for the server to request changed roots.

        This is called before a client request is sent, because that request may depend on the roots. The wait for
        roots/list requests from the server is limited to one second. *deadline* is the time limit of the client
        request. If the user's time counts towards time limits, and the user takes longer than *deadline* to answer,
        RequestTimeout is raised.
        """
        timeouts = self._sender.timeouts
        limit = None if not timeouts.includes_user_time else timeouts.request if deadline is None else deadline
        with pause_time_limits(), anyio.move_on_after(limit) as scope:
            if await self._handler.prepare(context):
                with anyio.move_on_after(ROOTS_RESPONSE_TIMEOUT):
                    await self._dispatcher.wait_for_roots()
        if scope.cancelled_caught:
            text = f"You did not answer within {limit:.0f} s whether {self._sender.server!r} may see your folders."
            raise RequestTimeout(text, "The request was not sent.", server=self._sender.server)

    async def _request_with_urls(
        self,
        call: ClientRequest[R],
        deadline: float | None,
        on_notification: NotificationFn | None,
        before_send: BeforeSendFn | None,
    ) -> R:
        urls = UrlElicitation(self._facts.revision, self._client_capabilities, self._input_handler)
        while True:
            try:
                return await self._send_once(call, deadline, on_notification, before_send)
            except RequestRefused as error:
                if not await urls.resolve(error, self._sender.context_of(call)):
                    raise
                await run_before_send(before_send)

    async def _send_once(
        self,
        call: ClientRequest[R],
        deadline: float | None,
        on_notification: NotificationFn | None,
        before_send: BeforeSendFn | None,
    ) -> R:
        if isinstance(call, ResumeTask):
            raw = await self._tasks.resume(call, deadline, on_notification)
            return cast("R", self._sender.decode_result(raw, call))
        if self._tasks.is_task_call(call):
            raw = await self._tasks.run(call, deadline, on_notification, before_send)
            return cast("R", self._sender.decode_result(raw, call))
        session = self._renewal.generation or await self._renewal.wait_for_renewal()
        try:
            result = await self._sender.send(
                call, deadline=deadline, on_notification=on_notification, before_send=before_send
            )
        except SessionExpired:

            async def send() -> R:
                await run_before_send(before_send, has_context_changed=True)
                return await self._sender.send(
                    call, deadline=deadline, on_notification=on_notification, before_send=before_send
                )

            result = await self._renewal.resend(session, send)
        if getattr(result, "result_type", "") == INPUT_REQUIRED:
            raise MalformedMessage(
                f"The server {self._sender.server!r} answered {call.METHOD} with a request for input, which "
                f"{self._facts.revision} does not have.",
                "It mixes revisions of the protocol; update it, or pin another revision for it.",
                server=self._sender.server,
            )
        self._renewal.remember_state(call)
        if isinstance(result, ListToolsResult):
            self._tasks.record_tools(result)
        return result

    async def changes(self, wanted: WatchedChanges) -> AsyncIterator[Notification]:
        """Iterate over notifications of the wanted changes until the connection ends; see `Session.changes`."""
        refusals = await self._update_subscriptions(wanted)
        for refusal in refusals:
            self._observer.warn(f"Changes of a resource are not reported: {refusal.message}")
        async for change in self._changes:
            yield change

    async def watch(self, wanted: WatchedChanges) -> None:
        """Set the changes that `changes` reports; see `Session.watch`."""
        refusals = await self._update_subscriptions(wanted)
        if refusals:
            raise refusals[0]

    @property
    def watched(self) -> WatchedChanges:
        """The changes that `changes` reports, excluding resources that the server refused to watch."""
        return self._changes.wanted

    async def _update_subscriptions(self, wanted: WatchedChanges) -> list[ServerError]:
        """Subscribe to newly wanted resources, and unsubscribe from those that are no longer wanted.

        Returns an error for each resource that the server refused, or a single UnsupportedCapability if new
        resources are wanted but the server does not support subscriptions.
        """
        offered = self._facts.capabilities.resources
        refusals: list[ServerError] = []
        async with self._lock:
            new = [uri for uri in wanted.uris if uri not in self._subscribed]
            # Set before subscribing: the first update may follow the response immediately.
            self._changes.wanted = wanted
            if offered is None or not offered.subscribe:
                return (
                    [UnsupportedCapability(f"The server {self._sender.server!r} offers no subscriptions.")]
                    if new
                    else []
                )
            for uri in sorted(self._subscribed - set(wanted.uris)):
                self._subscribed.discard(uri)
                with suppress(RequestRefused, MalformedMessage, RequestTimeout):  # the outcome does not matter
                    await self.request(Unsubscribe(uri))
            for uri in new:
                try:
                    await self.request(Subscribe(uri))
                    self._subscribed.add(uri)
                except (RequestRefused, MalformedMessage, RequestTimeout) as error:
                    refusals.append(error)
            refused = set(new) - self._subscribed
            self._changes.wanted = replace(wanted, uris=tuple(uri for uri in wanted.uris if uri not in refused))
        return refusals

    def invalidate(self, method: str = "") -> None:
        """Do nothing, because this session has no cached results."""

    def is_cached(self, call: ClientRequest[Any]) -> bool:
        """Return False, because this session has no cached results."""
        return False

    async def set_log_level(self, level: str) -> None:
        """Request log messages of this level and above from the server.

        "" has no effect, because these protocol revisions provide no way to turn log messages off.
        """
        if level:
            await self.request(SetLevel(level))

    async def notify(self, notification: Notification) -> None:
        """Send a notification, unless it needs a capability that the client did not declare."""
        if not can_notify(notification, self._client_capabilities):
            return
        body = encode(notification)
        message = JsonRpcNotification(notification.METHOD, Raw() if body == b"{}" else Raw(body))
        await self._renewal.send(lambda: self._channel.send(message))

    @property
    def anomaly_counts(self) -> Counter[str]:
        """Counts of unusual messages and missed pings, keyed by a description."""
        own = {"pings missed": self._keepalive.missed_count, "progress left out": self._sender.dropped_progress_count}
        return Counter(own) + Counter(self._channel.anomaly_counts) + self._dispatcher.counts

    @property
    def is_closed(self) -> bool:
        """Whether the connection has ended."""
        return self._close_error is not None or self._closed.is_set() or self._channel.is_closed

    async def wait_closed(self) -> ConnectionLost:
        """Wait until the connection ends, and return the reason."""
        await self._closed.wait()
        return self._lost_error()

    def _lost_error(self) -> ConnectionLost:
        why = self._close_error or ConnectionLost(f"The server {self._sender.server!r} closed the connection.")
        return ConnectionLost(why.message, why.hint, server=self._sender.server)

    def abort(self, error: ConnectionLost) -> None:
        """End the session and all requests in flight with *error*, even if the server is still running."""
        self._close_error = self._close_error or error
        self._read_scope.cancel()
        self._sender.fail_all(self._lost_error)

    def _on_flood(self) -> None:
        text = f"The server {self._sender.server!r} sends requests without reading the responses; it was stopped."
        self.abort(ConnectionLost(text, "Check its log.", server=self._sender.server))

    async def serve(self) -> None:
        """Handle messages that do not belong to a request in flight, until the connection ends."""
        try:
            with self._read_scope:
                while True:
                    try:
                        async for message in self._channel.unsolicited():
                            is_request = isinstance(message, JsonRpcRequest)
                            self.handle_unsolicited(
                                message, self._sender.single_context() if is_request else _NO_CONTEXT
                            )
                    except SessionExpired:
                        await self._renewal.renew()
        except ConnectionLost as error:
            self._close_error = self._close_error or error
        finally:
            self._changes.close()
            self._closed.set()
            self._input_handler.close()

    def _on_renewed(self, facts: ServerFacts) -> None:
        """Store the ServerFacts of the new session, and report all lists as changed.

        Raises ConnectionLost if the protocol revision has changed.
        """
        name, before = self._sender.server, self._facts.revision
        if facts.revision != before:
            raise ConnectionLost(
                f"The server {name!r} changed its protocol revision from {before} to {facts.revision}.", server=name
            )
        self._facts = facts
        self._observer.warn(f"The server {name!r} no longer knows the session; a new one was opened.")
        for change in (
            ToolListChangedNotification(),
            PromptListChangedNotification(),
            ResourceListChangedNotification(),
        ):
            self._changes.put(change, is_forced=True)

    def _on_expired(self, error: ConnectionLost) -> None:
        self._observer.warn(error.message)
        self.abort(error)

    def handle_unsolicited(self, message: JsonRpcMessage, context: ServerRequestContext) -> None:
        """Handle a message that is neither a response nor a notification about a request in flight."""
        self._sender.last_received_at = asyncio.get_running_loop().time()
        if isinstance(message, JsonRpcRequest):
            context = replace(context, revision=self._facts.revision)
            self._dispatcher.dispatch(message, partial(self._tasks.resolve_context, message.params, context))
            return
        if not isinstance(message, JsonRpcNotification) or self._tasks.handle_notification(message):
            return
        notification = parse_notification(message.method, message.params)
        if notification is None:
            return
        if isinstance(notification, CancelledNotification):
            if (
                notification.request_id is not None
                and self._dispatcher.cancel(notification.request_id)
                and notification.reason
            ):
                text = f"The server cancelled a request: {notification.reason[:200]}"
                self._observer.log(LoggingMessageNotification("info", data=Raw(encode(text))))
        elif isinstance(notification, LoggingMessageNotification):
            self._observer.log(notification)
        elif isinstance(notification, ElicitationCompleteNotification):
            self._handler.on_elicitation_complete(notification.elicitation_id)
        else:
            self._changes.put(notification)
