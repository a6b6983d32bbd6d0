"""Handling of a server's change notifications: refreshing its lists and publishing resource updates.

A `ChangeWatcher` handles one session. `ServerChanges` belongs to a server and keeps the subscriptions across
sessions.
"""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from time import monotonic as now

import anyio
import anyio.lowlevel

from mcphost.client.session import Session, WatchedChanges
from mcphost.client.timeouts import time_limit
from mcphost.errors import ConnectionLost, RequestRefused, ServerError
from mcphost.host.event_bus import EventBus
from mcphost.host.events import ResourceChanged
from mcphost.host.servers.catalog import KINDS, ServerListing, fetch_listing
from mcphost.protocol.notifications import (
    PromptListChangedNotification,
    ResourceListChangedNotification,
    ResourceUpdatedNotification,
    ToolListChangedNotification,
)
from mcphost.protocol.prompts import ListPrompts
from mcphost.protocol.resources import ListResources, ListResourceTemplates
from mcphost.protocol.skills import ListSkills
from mcphost.protocol.tools import ListTools

REFRESH_SECONDS = 0.25
IDLE_RATIO = 9
"""Average pause in seconds per second spent on listing, so that a server cannot make the host list continuously."""
LISTING_ALLOWANCE = 1.0
"""Seconds that may be spent listing before pauses begin."""
LONGEST_PAUSE = 60.0
STALE_SECONDS = 30.0
"""Maximum age of the tool list at a tool call if the server sends neither a time to live nor notifications."""
REFRESH_TIMEOUT = 10.0
LISTING_TIMEOUT = 60.0
"""Maximum seconds that a tool call waits for the new list after a change notification."""
LISTING_PAUSE = 0.25
WATCH_LIMIT = 1_000
MAX_EVENTS_PER_TURN = 50
"""Maximum update events published in one iteration of the event loop; each may redraw the screen."""
_KINDS: dict[str, tuple[str, ...]] = {
    ToolListChangedNotification.METHOD: ("tools",),
    PromptListChangedNotification.METHOD: ("prompts",),
    # Skills are resources and have no notification of their own.
    ResourceListChangedNotification.METHOD: ("resources", "templates", "skills"),
}
_METHODS = {
    "tools": ListTools.METHOD,
    "prompts": ListPrompts.METHOD,
    "resources": ListResources.METHOD,
    "templates": ListResourceTemplates.METHOD,
    "skills": ListSkills.METHOD,
}


class ChangeWatcher:
    """Watcher of one session's lists and subscribed resources; the connection runs `run` as a task.

    The other methods may be called from any task. *on_listing* is called with each new listing. *watched_uris* contains
    the subscribed resources; the caller passes the same object to the watcher of the next session, so that the
    subscriptions are restored after a reconnect.
    """

    def __init__(
        self,
        server: str,
        session: Session,
        *,
        watched_uris: dict[str, None],
        events: EventBus,
        warn: Callable[[str], None],
        on_listing: Callable[[ServerListing], Awaitable[None]],
    ) -> None:
        self.listing = ServerListing()
        self._server = server
        self._session = session
        self._watched_uris = watched_uris
        self._events = events
        self._warn = warn
        self._on_listing = on_listing
        self._listing_seconds = 0.0
        self._idle_until = 0.0  # the time at which the pause after the listings so far ends
        self._listed_at = 0.0
        self._is_doubtful = False
        self._has_unlisted_change = False
        """Whether a change notification arrived since the tools were last listed."""
        self._listing_settled = anyio.Event()
        self._stale_kinds: set[str] = set()
        self._updated_uris: dict[str, None] = {}
        self._list_changed = anyio.Event()
        self._resource_updated = anyio.Event()
        self._listing_lock = anyio.Lock()
        self._watch_lock = anyio.Lock()

    async def list_all(self) -> ServerListing:
        """Fetch all lists at the start of a session; see `fetch_listing` for the errors raised.

        After a slow listing, the next refresh is delayed, so that a slow server is not listed too often. This first
        listing causes no such delay.
        """
        await self._list(KINDS)
        # mcphost causes this listing, and a server's first responses may be a hundred times slower than later ones.
        self._idle_until = 0.0
        return self.listing

    async def run(self) -> None:
        """Handle change notifications until the session ends."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._refresh_stale)
            tasks.start_soon(self._publish_updates)
            async for notification in self._session.changes(self._watch_filter()):
                if isinstance(notification, ResourceUpdatedNotification):
                    self._updated_uris[notification.uri] = None
                    self._resource_updated.set()
                elif notification.METHOD in _KINDS:
                    self._stale_kinds.update(_KINDS[notification.METHOD])
                    self._list_changed.set()
                    self._is_doubtful = self._is_doubtful or isinstance(notification, ToolListChangedNotification)
                    self._has_unlisted_change = self._has_unlisted_change or isinstance(
                        notification, ToolListChangedNotification
                    )
            # A server without change notifications is still connected.
            await self._session.wait_closed()
            tasks.cancel_scope.cancel()

    # -- lists
    async def refresh(self, kinds: tuple[str, ...] = KINDS) -> None:
        """Fetch the lists in *kinds* again, bypassing the cache.

        If the lists cannot be read, keep the previous ones and log a warning.
        """
        async with self._listing_lock:
            await self._refresh(kinds)

    async def _refresh(self, kinds: tuple[str, ...]) -> bool:
        """Fetch the lists in *kinds*; return False if they could not be read."""
        self._stale_kinds.difference_update(kinds)
        for kind in kinds:
            self._session.invalidate(_METHODS[kind])
        try:
            await self._list(kinds)
        except ServerError as error:
            # The previous lists stay valid; a failed listing or a declined sign-in must not fail running calls.
            self._listed_at, self._is_doubtful = now(), False
            self._warn(f"The changed list could not be read: {error.message}")
            return False
        with anyio.CancelScope(shield=True):  # new tools are always compared
            await self._on_listing(self.listing)
        if "tools" in kinds:
            self._has_unlisted_change = "tools" in self._stale_kinds  # changed in the meantime
            self._listing_settled.set()
            self._listing_settled = anyio.Event()
        return True

    async def refresh_if_stale(self) -> None:
        """List the tools again before a tool call if the current list may be outdated. Never raises.

        Waits at most 10 seconds, not counting a sign-in by the user. Has no effect before protocol version 2026-07-28:
        in earlier versions, a list is used until the server announces a change.
        """
        if not self._is_stale():
            return
        with time_limit(REFRESH_TIMEOUT) as scope, suppress(ConnectionLost):  # the call itself raises the error
            async with self._listing_lock:
                if self._is_stale():
                    await self._refresh(("tools",))
        if scope.cancelled_caught:
            self._listed_at, self._is_doubtful = now(), False

    @property
    def is_listing_current(self) -> bool:
        """Whether the tools have been listed since the server last announced a change of its tools."""
        return not self._has_unlisted_change

    async def wait_for_listing(self) -> None:
        """Wait, before a tool call, until `is_listing_current` is True; list the tools again if necessary.

        Raises ServerError if the tools cannot be listed or are still changing after LISTING_TIMEOUT seconds. Safe to
        cancel.
        """
        with time_limit(LISTING_TIMEOUT):
            while self._has_unlisted_change:
                # A server that keeps announcing changes, or lists slowly, must not keep the host listing.
                pause = self._listed_at + max(IDLE_RATIO * self._listing_seconds, LISTING_PAUSE) - now()
                if pause > 0:
                    with anyio.move_on_after(pause):
                        await self._listing_settled.wait()
                    continue
                async with self._listing_lock:
                    if self._has_unlisted_change and not await self._refresh(("tools",)):
                        break
        if self._has_unlisted_change:
            raise ServerError(
                f"The tools of the server {self._server!r} changed and are being listed again; the call was not sent.",
                "Repeat the call after they have been listed.",
                server=self._server,
            )

    async def relist(self) -> None:
        """List the tools again before a tool call is retried, because the list may have changed. Never raises."""
        with time_limit(REFRESH_TIMEOUT), suppress(ConnectionLost):
            await self.refresh(("tools",))

    def mark_stale(self) -> None:
        """Mark the tool list as outdated, after the server rejected a call.

        The tools are listed again before the next tool call. Has no effect before protocol version 2026-07-28.
        """
        self._is_doubtful = True

    def list_again(self) -> None:
        """Request a new listing of all features, because the connection failed. Does not wait.

        The server may now be a new process with other features. A new session lists all features anyway, but an HTTP
        server without session ids can be replaced while the session continues. In protocol version 2026-07-28 and
        later, the next tool call waits for the new tool list.
        """
        self._is_doubtful = True
        self._stale_kinds.update(KINDS)
        self._list_changed.set()

    def _is_stale(self) -> bool:
        facts = self._session.facts
        if facts.era == "handshake" or facts.capabilities.tools is None:
            return False
        age = now() - self._listed_at
        if age < IDLE_RATIO * self._listing_seconds:
            return False
        if self._is_doubtful:
            return True
        if self.listing.tools_ttl > 0:
            return age >= self.listing.tools_ttl
        return not self._session.watched.tools and age >= STALE_SECONDS

    async def _list(self, kinds: tuple[str, ...]) -> None:
        began = now()
        self.listing = await fetch_listing(self._session, self.listing, kinds)
        ended = now()
        self._listing_seconds = ended - began
        self._idle_until = max(self._idle_until, ended) + IDLE_RATIO * self._listing_seconds
        if "tools" in kinds:
            self._listed_at, self._is_doubtful = ended, "tools" in self._stale_kinds  # changed in the meantime

    async def _refresh_stale(self) -> None:
        while True:
            await self._list_changed.wait()
            # A burst of notifications costs one listing: only the newest state matters.
            pause = self._idle_until - now() - IDLE_RATIO * LISTING_ALLOWANCE
            await anyio.sleep(min(max(REFRESH_SECONDS, pause), LONGEST_PAUSE))
            self._list_changed = anyio.Event()
            if kinds := tuple(kind for kind in KINDS if kind in self._stale_kinds):
                await self.refresh(kinds)

    # -- single resources
    async def watch(self, uri: str) -> None:
        """Subscribe to updates of one resource. On failure, change nothing and raise ServerError."""
        async with self._watch_lock:
            if uri in self._watched_uris:
                return
            if len(self._watched_uris) >= WATCH_LIMIT:
                raise RequestRefused(f"{WATCH_LIMIT:,} resources of {self._server!r} are watched already.")
            self._watched_uris[uri] = None
            try:
                await self._session.watch(self._watch_filter())
            except BaseException:
                self._watched_uris.pop(uri, None)
                # Also after cancellation: the subscription must not remain.
                with anyio.move_on_after(1, shield=True), suppress(ServerError):
                    await self._session.watch(self._watch_filter())
                raise

    async def unwatch(self, uri: str) -> bool:
        """Unsubscribe from one resource; return False if it was not subscribed."""
        async with self._watch_lock:
            if uri not in self._watched_uris:
                return False
            del self._watched_uris[uri]
            self._updated_uris.pop(uri, None)
            await self._session.watch(self._watch_filter())
            return True

    def announced_uris(self) -> tuple[str, ...]:
        """Return the URIs of the resources for which the server has confirmed the subscription."""
        announced = set(self._session.watched.uris)
        return tuple(uri for uri in self._watched_uris if uri in announced)

    def _watch_filter(self) -> WatchedChanges:
        facts = self._session.facts
        offered = facts.capabilities
        # Before 2026-07-28 there is no subscription to list changes, so undeclared notifications are handled, too.
        tools, prompts, resources = (
            capability is not None and (capability.list_changed or facts.era == "handshake")
            for capability in (offered.tools, offered.prompts, offered.resources)
        )
        return WatchedChanges(tools=tools, prompts=prompts, resources=resources, uris=tuple(self._watched_uris))

    async def _publish_updates(self) -> None:
        """Publish resource updates in batches, 0.25 seconds apart; the first is published immediately."""
        while True:
            await self._resource_updated.wait()
            self._resource_updated = anyio.Event()
            updated, self._updated_uris = self._updated_uris, {}
            for number, uri in enumerate(updated, 1):
                self._events.publish(ResourceChanged(self._server, uri))
                if number % MAX_EVENTS_PER_TURN == 0:
                    await anyio.lowlevel.checkpoint()
            await anyio.sleep(REFRESH_SECONDS)


class ServerChanges:
    """The resource subscriptions of one server, which outlast its sessions, and access to the current ChangeWatcher.

    *wait_until_ready* waits until a session is ready; it may raise ServerError, ConsentDenied or UsageError. While
    there is no session, the tool list counts as up to date. The methods may be called from any task.
    """

    def __init__(self, wait_until_ready: Callable[[], Awaitable[object]]) -> None:
        self.watched_uris: dict[str, None] = {}
        """The URIs of the subscribed resources, oldest subscription first, also while the server is not connected."""

        self._wait_until_ready = wait_until_ready
        self._watcher: ChangeWatcher | None = None

    def use(self, watcher: ChangeWatcher | None) -> None:
        """Set the watcher of the current session, or None after the session has ended."""
        self._watcher = watcher

    async def get_watcher(self) -> ChangeWatcher:
        """Wait until the server is ready and return its session's watcher.

        Raises ServerError if the server failed, ConsentDenied if it is not approved, and UsageError if it is disabled.
        """
        while True:
            await self._wait_until_ready()
            if self._watcher is not None:
                return self._watcher

    def announced_uris(self) -> tuple[str, ...]:
        """Return the URIs of the resources for which the server has confirmed the subscription in this session."""
        return self._watcher.announced_uris() if self._watcher is not None else ()

    async def unwatch(self, uri: str) -> None:
        """Unsubscribe from one resource; without a session, only forget the subscription. Raises ServerError."""
        if self._watcher is None:
            self.watched_uris.pop(uri, None)
        else:
            await self._watcher.unwatch(uri)

    def mark_stale(self) -> None:
        """Mark the tool list as outdated, after the server rejected a call; see `ChangeWatcher.mark_stale`."""
        if self._watcher is not None:
            self._watcher.mark_stale()

    def list_again(self) -> None:
        """Request a new listing of the server's features, because the connection failed and they may have changed."""
        if self._watcher is not None:
            self._watcher.list_again()

    async def refresh_if_stale(self) -> None:
        """List the tools again before a tool call if the current list may be outdated; see ChangeWatcher."""
        if self._watcher is not None:
            await self._watcher.refresh_if_stale()

    @property
    def is_listing_current(self) -> bool:
        """Whether the tools have been listed since the server last announced a change; see ChangeWatcher."""
        return self._watcher is None or self._watcher.is_listing_current

    async def wait_for_listing(self) -> None:
        """Wait, before a tool call, until `is_listing_current` is True; see ChangeWatcher. Raises ServerError."""
        if self._watcher is not None:
            await self._watcher.wait_for_listing()

    async def relist(self) -> None:
        """List the tools again before a tool call is retried; see ChangeWatcher."""
        if self._watcher is not None:
            await self._watcher.relist()
