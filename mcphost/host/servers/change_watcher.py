"""Keeps what is known of one ready server true: changes it tells of, lists that ran out, resources that are watched."""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from time import monotonic as now

import anyio
import anyio.lowlevel

from mcphost.client.session import Session, Watch
from mcphost.client.timeouts import limited
from mcphost.errors import ConnectionLost, Refused, ServerError
from mcphost.host.event_queue import Feeds
from mcphost.host.events import ResourceChanged
from mcphost.host.servers.catalog import KINDS, Offers, fetch
from mcphost.protocol.notifications import PromptsListChanged, ResourcesListChanged, ResourceUpdated, ToolsListChanged
from mcphost.protocol.prompts import ListPrompts
from mcphost.protocol.resources import ListResources, ListTemplates
from mcphost.protocol.skills import ListSkills
from mcphost.protocol.tools import ListTools

REFRESH_SECONDS = 0.25
SHARE = 9
"""Idle seconds for each second of listing, in the long run: a server cannot keep us busy listing."""
LISTING_ALLOWANCE = 1.0
"""Seconds of listing that may be spent before the pauses begin."""
LONGEST_PAUSE = 60.0
UNTOLD_SECONDS = 30.0
"""How old tools may be before a call when the server gave them no time to live and does not tell of changes."""
FRESHEN_SECONDS = 10.0
SETTLE_SECONDS = 60.0
"""How long a call waits for the list that its server said is another one now."""
SETTLE_PAUSE = 0.25
WATCH_LIMIT = 1_000
TOLD_AT_ONCE = 50
"""Changed resources told in one turn of the event loop; each may be drawn."""
_KINDS: dict[str, tuple[str, ...]] = {
    ToolsListChanged.METHOD: ("tools",),
    PromptsListChanged.METHOD: ("prompts",),
    # Skills are resources, and have no notice of their own.
    ResourcesListChanged.METHOD: ("resources", "templates", "skills"),
}
_METHODS = {
    "tools": ListTools.METHOD,
    "prompts": ListPrompts.METHOD,
    "resources": ListResources.METHOD,
    "templates": ListTemplates.METHOD,
    "skills": ListSkills.METHOD,
}


class Watching:
    """For as long as one session lives. `run` is a task of its connection; the rest may be called from any task.

    `took` gets what the server offers whenever it was listed anew; `uris` outlives the session, so that what was
    watched is watched again after a reconnect.
    """

    def __init__(
        self,
        server: str,
        session: Session,
        *,
        uris: dict[str, None],
        feeds: Feeds,
        warn: Callable[[str], None],
        took: Callable[[Offers], Awaitable[None]],
    ) -> None:
        self.offers = Offers()
        self._server = server
        self._session = session
        self._uris = uris
        self._feeds = feeds
        self._warn = warn
        self._took = took
        self._cost = 0.0
        self._paid_at = 0.0  # when idle time will have made up for all listing so far
        self._listed = 0.0
        self._doubted = False
        self._changed = False
        """Whether the server said that its tools changed, and they were not listed since."""
        self._settled = anyio.Event()
        self._stale: set[str] = set()
        self._updated: dict[str, None] = {}
        self._heard = anyio.Event()
        self._told = anyio.Event()
        self._listing = anyio.Lock()
        self._watching = anyio.Lock()

    async def first(self) -> Offers:
        """List everything; no pause follows. Raises what `Session.request` raises for the tools."""
        await self._list(KINDS)
        # Nobody made us do that, and a server's first answers may take a hundred times as long as all later ones.
        self._paid_at = 0.0
        return self.offers

    async def run(self) -> None:
        """Until the session ends."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._refresh_stale)
            tasks.start_soon(self._tell_updates)
            async for notice in self._session.changes(self._want()):
                if isinstance(notice, ResourceUpdated):
                    self._updated[notice.uri] = None
                    self._told.set()
                elif notice.METHOD in _KINDS:
                    self._stale.update(_KINDS[notice.METHOD])
                    self._heard.set()
                    self._doubted = self._doubted or isinstance(notice, ToolsListChanged)
                    self._changed = self._changed or isinstance(notice, ToolsListChanged)
            # A server that tells no changes is still there.
            await self._session.closed()
            tasks.cancel_scope.cancel()

    # -- lists
    async def refresh(self, kinds: tuple[str, ...] = KINDS) -> None:
        """Ask the server for these lists now, whatever is remembered; a list it will not give leaves the old one."""
        async with self._listing:
            await self._refresh(kinds)

    async def _refresh(self, kinds: tuple[str, ...]) -> bool:
        """Return whether the lists could be read."""
        self._stale.difference_update(kinds)
        for kind in kinds:
            self._session.forget(_METHODS[kind])
        try:
            await self._list(kinds)
        except ServerError as error:
            # What was listed before still stands; running calls must not pay for a list, nor for a sign-in refused.
            self._listed, self._doubted = now(), False
            self._warn(f"The changed list could not be read: {error.message}")
            return False
        with anyio.CancelScope(shield=True):  # what was listed is judged, however little time the call has
            await self._took(self.offers)
        if "tools" in kinds:
            self._changed = "tools" in self._stale  # told of meanwhile
            self._settled.set()
            self._settled = anyio.Event()
        return True

    async def freshen(self) -> None:
        """Before a call: list the tools again when what is known of them ran out. Never waits for long, but for a
        person who signs in; never raises.

        Servers of the handshake era say nothing of time: their lists stand until they tell of a change.
        """
        if not self._ran_out():
            return
        with limited(FRESHEN_SECONDS) as scope, suppress(ConnectionLost):  # the call itself will say so
            async with self._listing:
                if self._ran_out():
                    await self._refresh(("tools",))
        if scope.cancelled_caught:
            self._listed, self._doubted = now(), False

    @property
    def is_settled(self) -> bool:
        """Whether the tools were listed after the last change of them that the server told of."""
        return not self._changed

    async def settle(self) -> None:
        """Before a call: wait until `is_settled`, listing the tools as often as the throttle lets. Cancel to give up.

        Raises ServerError when they cannot be listed, or keep changing for SETTLE_SECONDS.
        """
        with limited(SETTLE_SECONDS):
            while self._changed:
                # A server that announces changes without end, or lists slowly, must not keep us busy listing.
                pause = self._listed + max(SHARE * self._cost, SETTLE_PAUSE) - now()
                if pause > 0:
                    with anyio.move_on_after(pause):
                        await self._settled.wait()
                    continue
                async with self._listing:
                    if self._changed and not await self._refresh(("tools",)):
                        break
        if self._changed:
            raise ServerError(
                f"The server {self._server!r} said that its tools changed, and they are being listed anew; the call "
                "was not sent.",
                "Repeat the call when they are listed.",
                server=self._server,
            )

    async def relist(self) -> None:
        """Before a call is sent again to a server that may be another to us: list the tools. As `freshen` otherwise."""
        with limited(FRESHEN_SECONDS), suppress(ConnectionLost):
            await self.refresh(("tools",))

    def doubt(self) -> None:
        """Note that the tools may have changed: a call was refused for what it asks (not in the handshake era)."""
        self._doubted = True

    def _ran_out(self) -> bool:
        facts = self._session.facts
        if facts.era == "handshake" or facts.capabilities.tools is None:
            return False
        age = now() - self._listed
        if age < SHARE * self._cost:
            return False
        if self._doubted:
            return True
        if self.offers.tools_ttl > 0:
            return age >= self.offers.tools_ttl
        return not self._session.watched.tools and age >= UNTOLD_SECONDS

    async def _list(self, kinds: tuple[str, ...]) -> None:
        began = now()
        self.offers = await fetch(self._session, self.offers, kinds)
        ended = now()
        self._cost = ended - began
        self._paid_at = max(self._paid_at, ended) + SHARE * self._cost
        if "tools" in kinds:
            self._listed, self._doubted = ended, "tools" in self._stale  # told of while they were listed

    async def _refresh_stale(self) -> None:
        while True:
            await self._heard.wait()
            # A burst of notices costs one listing: the newest state is what counts.
            pause = self._paid_at - now() - SHARE * LISTING_ALLOWANCE
            await anyio.sleep(min(max(REFRESH_SECONDS, pause), LONGEST_PAUSE))
            self._heard = anyio.Event()
            if kinds := tuple(kind for kind in KINDS if kind in self._stale):
                await self.refresh(kinds)

    # -- single resources
    async def watch(self, uri: str) -> None:
        """Hear of changes of one resource. Raises ServerError; then nothing is different from before."""
        async with self._watching:
            if uri in self._uris:
                return
            if len(self._uris) >= WATCH_LIMIT:
                raise Refused(f"{WATCH_LIMIT:,} resources of {self._server!r} are watched already.")
            self._uris[uri] = None
            try:
                await self._session.watch(self._want())
            except BaseException:
                self._uris.pop(uri, None)
                # Also when nobody waits any more: what was asked for must not stay.
                with anyio.move_on_after(1, shield=True), suppress(ServerError):
                    await self._session.watch(self._want())
                raise

    async def unwatch(self, uri: str) -> bool:
        """Not any more; False when it was not watched."""
        async with self._watching:
            if uri not in self._uris:
                return False
            del self._uris[uri]
            self._updated.pop(uri, None)
            await self._session.watch(self._want())
            return True

    def _want(self) -> Watch:
        facts = self._session.facts
        offered = facts.capabilities
        # Where nobody subscribes to changes of lists, one that comes counts, also when it was never declared.
        tools, prompts, resources = (
            one is not None and (one.list_changed or facts.era == "handshake")
            for one in (offered.tools, offered.prompts, offered.resources)
        )
        return Watch(tools=tools, prompts=prompts, resources=resources, uris=tuple(self._uris))

    async def _tell_updates(self) -> None:
        """The first one at once, a flood a few times a second."""
        while True:
            await self._told.wait()
            self._told = anyio.Event()
            updated, self._updated = self._updated, {}
            for number, uri in enumerate(updated, 1):
                self._feeds.put(ResourceChanged(self._server, uri))
                if number % TOLD_AT_ONCE == 0:
                    await anyio.lowlevel.checkpoint()
            await anyio.sleep(REFRESH_SECONDS)
