"""Keeps what is known of one ready server true: changes it tells of, lists that ran out, resources that are watched."""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from time import monotonic as now

import anyio
import anyio.lowlevel

from mcphost.client.session import Session, WatchedChanges
from mcphost.client.timeouts import time_limit
from mcphost.errors import ConnectionLost, RequestRefused, ServerError
from mcphost.host.event_queue import EventBus
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
"""Idle seconds for each second of listing, in the long run: a server cannot keep us busy listing."""
LISTING_ALLOWANCE = 1.0
"""Seconds of listing that may be spent before the pauses begin."""
LONGEST_PAUSE = 60.0
STALE_SECONDS = 30.0
"""How old tools may be before a call when the server gave them no time to live and does not tell of changes."""
REFRESH_TIMEOUT = 10.0
LISTING_TIMEOUT = 60.0
"""How long a call waits for the list that its server said is another one now."""
LISTING_PAUSE = 0.25
WATCH_LIMIT = 1_000
MAX_EVENTS_PER_TURN = 50
"""Changed resources told in one turn of the event loop; each may be drawn."""
_KINDS: dict[str, tuple[str, ...]] = {
    ToolListChangedNotification.METHOD: ("tools",),
    PromptListChangedNotification.METHOD: ("prompts",),
    # Skills are resources, and have no notice of their own.
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
    """For as long as one session lives. `run` is a task of its connection; the rest may be called from any task.

    `took` gets what the server offers whenever it was listed anew; `uris` outlives the session, so that what was
    watched is watched again after a reconnect.
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
        self._idle_until = 0.0  # when idle time will have made up for all listing so far
        self._listed_at = 0.0
        self._is_doubtful = False
        self._has_unlisted_change = False
        """Whether the server said that its tools changed, and they were not listed since."""
        self._listing_settled = anyio.Event()
        self._stale_kinds: set[str] = set()
        self._updated_uris: dict[str, None] = {}
        self._list_changed = anyio.Event()
        self._resource_updated = anyio.Event()
        self._listing_lock = anyio.Lock()
        self._watch_lock = anyio.Lock()

    async def list_all(self) -> ServerListing:
        """List everything; no pause follows. Raises what `Session.request` raises for the tools."""
        await self._list(KINDS)
        # Nobody made us do that, and a server's first answers may take a hundred times as long as all later ones.
        self._idle_until = 0.0
        return self.listing

    async def run(self) -> None:
        """Until the session ends."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._refresh_stale)
            tasks.start_soon(self._publish_updates)
            async for notice in self._session.changes(self._watch_filter()):
                if isinstance(notice, ResourceUpdatedNotification):
                    self._updated_uris[notice.uri] = None
                    self._resource_updated.set()
                elif notice.METHOD in _KINDS:
                    self._stale_kinds.update(_KINDS[notice.METHOD])
                    self._list_changed.set()
                    self._is_doubtful = self._is_doubtful or isinstance(notice, ToolListChangedNotification)
                    self._has_unlisted_change = self._has_unlisted_change or isinstance(
                        notice, ToolListChangedNotification
                    )
            # A server that tells no changes is still there.
            await self._session.wait_closed()
            tasks.cancel_scope.cancel()

    # -- lists
    async def refresh(self, kinds: tuple[str, ...] = KINDS) -> None:
        """Ask the server for these lists now, whatever is remembered; a list it will not give leaves the old one."""
        async with self._listing_lock:
            await self._refresh(kinds)

    async def _refresh(self, kinds: tuple[str, ...]) -> bool:
        """Return whether the lists could be read."""
        self._stale_kinds.difference_update(kinds)
        for kind in kinds:
            self._session.invalidate(_METHODS[kind])
        try:
            await self._list(kinds)
        except ServerError as error:
            # What was listed before still stands; running calls must not pay for a list, nor for a sign-in refused.
            self._listed_at, self._is_doubtful = now(), False
            self._warn(f"The changed list could not be read: {error.message}")
            return False
        with anyio.CancelScope(shield=True):  # what was listed is judged, however little time the call has
            await self._on_listing(self.listing)
        if "tools" in kinds:
            self._has_unlisted_change = "tools" in self._stale_kinds  # told of meanwhile
            self._listing_settled.set()
            self._listing_settled = anyio.Event()
        return True

    async def refresh_if_stale(self) -> None:
        """Before a call: list the tools again when what is known of them ran out. Never waits for long, but for a
        person who signs in; never raises.

        Servers of the handshake era say nothing of time: their lists stand until they tell of a change.
        """
        if not self._is_stale():
            return
        with time_limit(REFRESH_TIMEOUT) as scope, suppress(ConnectionLost):  # the call itself will say so
            async with self._listing_lock:
                if self._is_stale():
                    await self._refresh(("tools",))
        if scope.cancelled_caught:
            self._listed_at, self._is_doubtful = now(), False

    @property
    def is_listing_current(self) -> bool:
        """Whether the tools were listed after the last change of them that the server told of."""
        return not self._has_unlisted_change

    async def wait_for_listing(self) -> None:
        """Before a call: wait until `is_settled`, listing the tools as often as the throttle lets. Cancel to give up.

        Raises ServerError when they cannot be listed, or keep changing for SETTLE_SECONDS.
        """
        with time_limit(LISTING_TIMEOUT):
            while self._has_unlisted_change:
                # A server that announces changes without end, or lists slowly, must not keep us busy listing.
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
                f"The server {self._server!r} said that its tools changed, and they are being listed anew; the call "
                "was not sent.",
                "Repeat the call when they are listed.",
                server=self._server,
            )

    async def relist(self) -> None:
        """Before a call is sent again to a server that may be another to us: list the tools. As `freshen` otherwise."""
        with time_limit(REFRESH_TIMEOUT), suppress(ConnectionLost):
            await self.refresh(("tools",))

    def mark_stale(self) -> None:
        """Note that the tools may have changed: a call was refused for what it asks (not in the handshake era)."""
        self._is_doubtful = True

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
            self._listed_at, self._is_doubtful = ended, "tools" in self._stale_kinds  # told of while they were listed

    async def _refresh_stale(self) -> None:
        while True:
            await self._list_changed.wait()
            # A burst of notices costs one listing: the newest state is what counts.
            pause = self._idle_until - now() - IDLE_RATIO * LISTING_ALLOWANCE
            await anyio.sleep(min(max(REFRESH_SECONDS, pause), LONGEST_PAUSE))
            self._list_changed = anyio.Event()
            if kinds := tuple(kind for kind in KINDS if kind in self._stale_kinds):
                await self.refresh(kinds)

    # -- single resources
    async def watch(self, uri: str) -> None:
        """Hear of changes of one resource. Raises ServerError; then nothing is different from before."""
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
                # Also when nobody waits any more: what was asked for must not stay.
                with anyio.move_on_after(1, shield=True), suppress(ServerError):
                    await self._session.watch(self._watch_filter())
                raise

    async def unwatch(self, uri: str) -> bool:
        """Not any more; False when it was not watched."""
        async with self._watch_lock:
            if uri not in self._watched_uris:
                return False
            del self._watched_uris[uri]
            self._updated_uris.pop(uri, None)
            await self._session.watch(self._watch_filter())
            return True

    def _watch_filter(self) -> WatchedChanges:
        facts = self._session.facts
        offered = facts.capabilities
        # Where nobody subscribes to changes of lists, one that comes counts, also when it was never declared.
        tools, prompts, resources = (
            one is not None and (one.list_changed or facts.era == "handshake")
            for one in (offered.tools, offered.prompts, offered.resources)
        )
        return WatchedChanges(tools=tools, prompts=prompts, resources=resources, uris=tuple(self._watched_uris))

    async def _publish_updates(self) -> None:
        """The first one at once, a flood a few times a second."""
        while True:
            await self._resource_updated.wait()
            self._resource_updated = anyio.Event()
            updated, self._updated_uris = self._updated_uris, {}
            for number, uri in enumerate(updated, 1):
                self._events.publish(ResourceChanged(self._server, uri))
                if number % MAX_EVENTS_PER_TURN == 0:
                    await anyio.lowlevel.checkpoint()
            await anyio.sleep(REFRESH_SECONDS)
