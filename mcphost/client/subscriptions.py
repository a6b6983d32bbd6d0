"""Subscription streams of a session: one for list changes, and one for resource updates.

Subscriptions exist in protocol revision 2026-07-28 and later.
"""

import random
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager

import anyio
from anyio.abc import TaskGroup

from mcphost.client.error_mapping import map_error
from mcphost.client.result_cache import ChangeNotifications
from mcphost.client.session import WatchedChanges
from mcphost.errors import (
    ConnectionLost,
    MalformedMessage,
    RequestRefused,
    RequestTimeout,
    ServerError,
    UnsupportedCapability,
)
from mcphost.json_limits import JsonLimitExceeded, check_value_count
from mcphost.protocol.base import Notification
from mcphost.protocol.jsonrpc import (
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    JsonRpcErrorResponse,
    JsonRpcMessage,
    JsonRpcNotification,
    JsonRpcResponse,
)
from mcphost.protocol.lifecycle import ServerCapabilities
from mcphost.protocol.notifications import (
    CancelledNotification,
    ListenSubscriptions,
    PromptListChangedNotification,
    ResourceListChangedNotification,
    ResourceUpdatedNotification,
    SubscriptionFilter,
    SubscriptionsAcknowledgedNotification,
    ToolListChangedNotification,
    parse_notification,
)
from mcphost.protocol.resources import UriIndex
from mcphost.serialization import decode_or_none
from mcphost.transport.channel import HttpStatusError
from mcphost.transport.flow_control import run_steps_cooperatively

FIRST_DELAY = 1.0
MAX_DELAY = 60.0
MIN_DELAY = 1.0
"""Seconds between two attempts at least, even if the server responds to other requests in between."""
STEADY_SECONDS = 10.0
"""Seconds that a stream must last before the delay before reopening it is reset to its minimum."""
MAX_UNACKNOWLEDGED_TRIES = 5
ACKNOWLEDGE_TIMEOUT = 10.0
EXTRA_VALUES = 1_000
"""Maximum number of JSON values in an acknowledgement in addition to the requested URIs."""
_FINAL_CODES = frozenset({METHOD_NOT_FOUND, INVALID_PARAMS})
_FINAL_STATUSES = frozenset({400, 404, 405, 501})
_EMPTY_FILTER = SubscriptionFilter()
OpenStreamFn = Callable[[SubscriptionFilter], AbstractAsyncContextManager[AsyncIterator[JsonRpcMessage]]]


class Subscriptions:
    """The subscription streams of one session; `run` must run while the other methods are used."""

    def __init__(
        self, open_stream: OpenStreamFn, server: str, capabilities: ServerCapabilities, changes: ChangeNotifications
    ) -> None:
        self.open_stream = open_stream
        self.server = server
        self.changes = changes
        self.closed = anyio.Event()
        self._capabilities = capabilities
        self._streams: dict[str, SubscriptionStream] = {}
        self._unstarted: list[SubscriptionStream] = []
        self._tasks: TaskGroup | None = None
        self._lock = anyio.Lock()
        self._reached: anyio.Event | None = None

    async def run(self) -> None:
        """Run the subscription streams until `close` is called."""
        async with anyio.create_task_group() as self._tasks:
            for stream in self._unstarted:
                self._tasks.start_soon(stream.run)
            await self.closed.wait()
            self._tasks.cancel_scope.cancel()

    def close(self) -> None:
        """End all streams; calls to `watch` that are still waiting raise ConnectionLost."""
        self.closed.set()
        self.handle_response()
        for stream in self._streams.values():
            stream.resolve(ConnectionLost(f"The connection to {self.server!r} is closed.", server=self.server))

    @property
    def is_interrupted(self) -> bool:
        """Whether any stream is waiting to be reopened because the server could not be reached."""
        return self._reached is not None

    def handle_response(self) -> None:
        """Reopen the streams that are waiting because the server could not be reached.

        Called after the server has responded to a request, which shows that it is reachable again.
        """
        if self._reached is not None:
            self._reached.set()
            self._reached = None

    def next_response(self) -> anyio.Event:
        """Return an event that is set when the server next responds to any request of this session.

        A stream waits for this event before it is reopened. `close` sets the event, too.
        """
        if self._reached is None:
            self._reached = anyio.Event()
        return self._reached

    @property
    def granted(self) -> WatchedChanges:
        """The changes that the server has agreed to announce."""
        lists, single = self._granted_filter("lists"), self._granted_filter("resources")
        return WatchedChanges(
            tools=lists.tools_list_changed,
            prompts=lists.prompts_list_changed,
            resources=lists.resources_list_changed,
            uris=single.resource_subscriptions,
        )

    def _granted_filter(self, kind: str) -> SubscriptionFilter:
        stream = self._streams.get(kind)
        while stream is not None and not stream.resolved.is_set() and stream.previous is not None:
            stream = stream.previous  # stays open until the new stream is acknowledged
        return stream.granted if stream is not None else _EMPTY_FILTER

    def set_wanted(self, wanted: WatchedChanges) -> None:
        """Set the changes to subscribe to; streams are opened and closed in the background."""
        offered = self._capabilities
        self.changes.wanted = wanted
        lists = SubscriptionFilter(
            tools_list_changed=wanted.tools and offered.tools is not None,
            prompts_list_changed=wanted.prompts and offered.prompts is not None,
            resources_list_changed=wanted.resources and offered.resources is not None,
        )
        may = offered.resources is not None and offered.resources.subscribe
        self._set_stream("lists", lists)
        self._set_stream("resources", SubscriptionFilter(resource_subscriptions=wanted.uris) if may else _EMPTY_FILTER)

    async def watch(self, wanted: WatchedChanges) -> None:
        """Set the changes to subscribe to, and wait until the server has accepted new resources.

        If the server does not accept the new resources, this raises RequestRefused, RequestTimeout,
        UnsupportedCapability or another ServerError, and the previous stream stays open.
        """
        async with self._lock:
            new = set(wanted.uris) - set(self.granted.uris)
            self.set_wanted(wanted)
            stream = self._streams.get("resources")
            if not new:
                return
            if stream is None:
                raise UnsupportedCapability(f"The server {self.server!r} offers no subscriptions.")
            with anyio.move_on_after(ACKNOWLEDGE_TIMEOUT):
                await stream.resolved.wait()
            if stream.error is not None:
                raise stream.error
            if not stream.resolved.is_set():
                raise RequestTimeout(
                    f"The server {self.server!r} did not acknowledge the subscription.", server=self.server
                )
            missing = sorted(new - set(stream.granted.resource_subscriptions))
            if missing:
                raise RequestRefused(f"The server {self.server!r} does not announce changes to {missing[0][:200]!r}.")

    def _set_stream(self, kind: str, wanted: SubscriptionFilter) -> None:
        before = self._streams.get(kind)
        if before is not None and before.wanted == wanted:
            return
        if wanted == _EMPTY_FILTER:
            if before is not None:
                before.close()
                del self._streams[kind]
            return
        stream = self._streams[kind] = SubscriptionStream(self, kind, wanted, before)
        if self._tasks is None:
            self._unstarted.append(stream)
        elif not self.closed.is_set():
            self._tasks.start_soon(stream.run)

    def restore_previous(self, stream: "SubscriptionStream") -> bool:
        """Restore the previous stream, which is still open, after its replacement *stream* has failed.

        Returns False if there is no previous stream, or if *stream* is no longer the current one.
        """
        if self._streams.get(stream.kind) is not stream or stream.previous is None:
            return False
        self._streams[stream.kind] = stream.previous
        return True


class SubscriptionStream:
    """A subscription stream that is reopened when it breaks.

    *previous* is the stream that it replaces, if any. That stream stays open until the server has accepted the new one.
    """

    def __init__(
        self, owner: Subscriptions, kind: str, wanted: SubscriptionFilter, previous: "SubscriptionStream | None"
    ) -> None:
        self.kind = kind
        self.wanted = wanted
        self.previous = previous
        self.granted = _EMPTY_FILTER
        self._granted_uris = UriIndex()
        self.resolved = anyio.Event()
        self.error: ServerError | None = None
        self._owner = owner
        self._scope = anyio.CancelScope()
        self._has_been_active = False

    def close(self) -> None:
        """Close this stream and the one that it replaces; the transport informs the server."""
        self._scope.cancel()
        if self.previous is not None:
            self.previous.close()

    def resolve(self, error: ServerError | None = None) -> None:
        """Record that the server has accepted the stream or, if *error* is given, that the stream could not be opened.

        Only the first call has an effect.
        """
        if self.resolved.is_set():
            return
        self.error = error
        self.resolved.set()
        if error is not None:
            if self._owner.restore_previous(self):
                self._scope.cancel()  # the error was reported, so the stream must not start later
        elif self.previous is not None:
            self.previous.close()
        self.previous = None

    async def run(self) -> None:
        """Keep the stream open until it is closed or the server rejects it permanently.

        Five consecutive attempts that the server does not acknowledge count as a permanent rejection. Attempts that
        fail because the connection is lost do not count.
        """
        wait, vain = FIRST_DELAY, 0
        with self._scope:
            while not self._owner.closed.is_set():
                began, self.granted, gone = anyio.current_time(), _EMPTY_FILTER, False
                try:
                    active = await self._listen()
                except ConnectionLost:
                    active, gone = self.granted != _EMPTY_FILTER, True
                except ServerError as error:
                    self.resolve(error)
                    if _is_final(error):
                        return
                    active = False
                self.granted = _EMPTY_FILTER
                if active and anyio.current_time() - began > STEADY_SECONDS:
                    wait, vain = FIRST_DELAY, 0
                vain = 0 if active or gone else vain + 1
                if vain >= MAX_UNACKNOWLEDGED_TRIES:
                    self.resolve(
                        RequestRefused(f"The server {self._owner.server!r} does not acknowledge subscriptions.")
                    )
                    return
                is_reachable = await self._pause(wait, ends_with_response=gone)
                wait = FIRST_DELAY if is_reachable else min(wait * 2, MAX_DELAY)

    async def _pause(self, seconds: float, *, ends_with_response: bool) -> bool:
        """Wait for about *seconds* seconds; return early if the session is closed.

        If *ends_with_response* is true, also return early when the server responds to another request, but not before
        MIN_DELAY seconds have passed. Returns True if the wait was ended by a response.
        """
        responded = self._owner.next_response() if ends_with_response else self._owner.closed
        until = anyio.current_time() + seconds * random.uniform(0.8, 1.2)  # noqa: S311 - spreads clients, no secret
        with anyio.move_on_after(min(seconds, MIN_DELAY)):
            await self._owner.closed.wait()
        with anyio.move_on_after(max(0.0, until - anyio.current_time())):
            await responded.wait()
        return ends_with_response and responded.is_set()

    async def _listen(self) -> bool:
        """Open the stream and read it to its end; return whether the server accepted it. Raises ServerError."""
        active = False
        async with self._owner.open_stream(self.wanted) as messages:
            async for message in messages:
                if isinstance(message, JsonRpcErrorResponse):
                    raise map_error(self._owner.server, ListenSubscriptions.METHOD, message.error)
                if isinstance(message, JsonRpcResponse):
                    return active
                if (
                    isinstance(message, JsonRpcNotification)
                    and message.method == SubscriptionsAcknowledgedNotification.METHOD
                ):
                    await self._check_acknowledgement(message)
                notification = _parse(message) if isinstance(message, JsonRpcNotification) else None
                if isinstance(notification, CancelledNotification):
                    return active
                if isinstance(notification, SubscriptionsAcknowledgedNotification):
                    if not active:
                        active = True
                        self._handle_acknowledged(notification)
                elif active and notification is not None and self._is_requested(notification):
                    self._owner.changes.put(notification)
        return active

    async def _check_acknowledgement(self, message: JsonRpcNotification) -> None:
        """Raise MalformedMessage if an acknowledgement lists far more resources than were requested."""
        requested = len(self.wanted.resource_subscriptions)
        try:
            await run_steps_cooperatively(check_value_count(bytes(message.params), requested + EXTRA_VALUES))
        except JsonLimitExceeded as error:
            raise MalformedMessage(
                f"The server {self._owner.server!r} acknowledged far more than the {requested:,} requested resources.",
                server=self._owner.server,
            ) from error

    def _is_requested(self, notification: Notification) -> bool:
        if isinstance(notification, ResourceUpdatedNotification):
            return bool(self._granted_uris.find(notification.uri))
        return type(notification) in {type(one) for one in _list_changes(self.granted)}

    def _handle_acknowledged(self, acknowledgement: SubscriptionsAcknowledgedNotification) -> None:
        self.granted = intersect_filters(self.wanted, acknowledgement.notifications)
        self._granted_uris = UriIndex(self.granted.resource_subscriptions)
        self.resolve()
        if self._has_been_active:
            # While no stream was open, changes were not announced.
            for changed in _list_changes(self.granted):
                self._owner.changes.put(changed)
        self._has_been_active = True


def _is_final(error: ServerError) -> bool:
    if isinstance(error, HttpStatusError):
        return error.status in _FINAL_STATUSES
    return isinstance(error, RequestRefused) and error.code in _FINAL_CODES


def intersect_filters(wanted: SubscriptionFilter, accepted: SubscriptionFilter | None) -> SubscriptionFilter:
    """Return the changes that are both wanted and accepted.

    If *accepted* is None, all changes are accepted.
    """
    if accepted is None:
        return wanted
    uris = set(accepted.resource_subscriptions)
    return SubscriptionFilter(
        tools_list_changed=wanted.tools_list_changed and accepted.tools_list_changed,
        prompts_list_changed=wanted.prompts_list_changed and accepted.prompts_list_changed,
        resources_list_changed=wanted.resources_list_changed and accepted.resources_list_changed,
        resource_subscriptions=tuple(uri for uri in wanted.resource_subscriptions if uri in uris),
    )


def _list_changes(granted: SubscriptionFilter) -> list[Notification]:
    out: list[Notification] = []
    if granted.tools_list_changed:
        out.append(ToolListChangedNotification())
    if granted.prompts_list_changed:
        out.append(PromptListChangedNotification())
    if granted.resources_list_changed:
        out.append(ResourceListChangedNotification())
    return out


def _parse(message: JsonRpcNotification) -> Notification | None:
    if message.method == SubscriptionsAcknowledgedNotification.METHOD:
        return decode_or_none(bytes(message.params) or b"{}", SubscriptionsAcknowledgedNotification)
    return parse_notification(message.method, message.params)
