"""Drift: a tool whose definition is not what it was is held back until the user has seen the difference and kept it.

That it is again what it was changes nothing: it was something else meanwhile, and who allowed it is told so.
"""

import hashlib
from collections.abc import Awaitable, Callable
from functools import partial

import anyio
import anyio.to_thread

from mcphost.config.digest import server_digest
from mcphost.config.schema import ServerConfig
from mcphost.data import replace
from mcphost.errors import StoreError
from mcphost.host.ledger.journal import Act, Journal
from mcphost.host.questions.front import Front
from mcphost.host.questions.questions import KeepTools, ToolChange, ToolsChanged
from mcphost.host.servers.catalog import ListedTool, Offers
from mcphost.host.servers.difference import compare
from mcphost.store.pins import Pin, Pins

Follow = Callable[[str, str, str, str, str], Awaitable[None]]
"""Server, its digest, tool, digest before and after: what was allowed of the one holds for the other from now on."""
NAMES_LIMIT = 20_000
"""Tools remembered of one server. A server that names new ones for ever has those beyond it held back for good."""
BACK = "  It is what you know again, but was something else in between. From that to what it is now:"
ASKED_LIMIT = 200
"""Changed tools in one question; the next ones are asked about after it."""


class Drifts:
    """Makes the memory of each server."""

    def __init__(
        self, pins: Pins, front: Front, tell: Callable[[StoreError], None], follow: Follow, journal: Journal
    ) -> None:
        """`tell` hears of a store that fails: then what is known lasts for this run. `follow` moves grants along."""
        self.pins = pins
        self.front = front
        self.tell = tell
        self.follow = follow
        self.journal = journal

    def of(self, server: ServerConfig, settled: Callable[[], None]) -> "Drift":
        """`settled` is called when something was kept."""
        return Drift(server, self, settled)


class Drift:
    """The memory of what one server's tools were.

    A definition is taken as seen the first time, so that only changes ask. `first` is awaited before the server is
    ready, `look` whenever its tools were listed anew; `run` lives as long as a session, and asks.
    """

    def __init__(self, server: ServerConfig, shared: Drifts, settled: Callable[[], None]) -> None:
        self._server = server.name
        self._digest = server_digest(server)
        self._pins = shared.pins
        self._front = shared.front
        self._tell = shared.tell
        self._follow = shared.follow
        self._settled = settled
        self._journal = shared.journal
        self._noted: dict[str, str] = {}
        self._known: dict[str, Pin] | None = None
        self._new: dict[str, tuple[Pin, bytes]] = {}
        self._turned: dict[str, tuple[Pin, bytes]] = {}
        self._held: dict[str, ListedTool] = {}
        self._refused: dict[str, str] = {}
        self._work = anyio.Event()
        self._decided = anyio.Event()

    @property
    def held(self) -> frozenset[str]:
        """The tools that are held back now."""
        return frozenset(self._held)

    async def first(self, offers: Offers) -> None:
        """Compare with what was seen before, in this run or an earlier one. Raises nothing."""
        if self._known is None:
            self._known = {}
            try:
                self._known = await self._pins.all(self._server, self._digest)
            except StoreError as error:
                self._tell(error)
        self.look(offers)
        await self._save()

    def look(self, offers: Offers) -> None:
        """Compare; what is new is remembered, what changed is held back at once."""
        known = self._known if self._known is not None else {}
        self._held = {}
        for name, listed in offers.tools.items():
            raw = hashlib.sha256(listed.raw).hexdigest()
            pin = known.get(name)
            if pin is None and len(known) < NAMES_LIMIT:
                self._remember(name, Pin(name, raw, listed.digest), listed)
            # The canonical form costs more; it is asked only where the bytes differ.
            elif pin is None or (pin.raw != raw and pin.digest != listed.digest):
                self._held[name] = listed
                self._note(name, listed.digest)
                if pin is not None and pin.turned != listed.digest:
                    known[name] = replace(pin, turned=listed.digest)
                    self._turned[name] = (known[name], bytes(listed.raw))
            elif pin.turned:
                self._held[name] = listed
                self._note(name, listed.digest)
        self._decided.set()
        self._decided = anyio.Event()
        self._work.set()

    def _note(self, tool: str, digest: str) -> None:
        """Record once that it is held back, with what it is now."""
        if self._noted.get(tool) != digest:
            self._noted[tool] = digest
            self._journal.note(Act(kind="drift", server=self._server, subject=tool, definition=digest), "held back")

    async def run(self) -> None:
        """Write down what is new and ask about what is held back, until cancelled: that withdraws the question."""
        while True:
            self._work = anyio.Event()
            await self._save()
            if not self._open():
                await self._work.wait()
                continue
            # The tools may become something else once more while the question is open.
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._ask, tasks.cancel_scope)
                await self._work.wait()
                tasks.cancel_scope.cancel()

    async def decided(self, tool: str) -> bool:
        """Wait until the user has said whether a tool may be what it is; True when it is not held back (any more)."""
        while tool in self._held:
            if self._refused.get(tool) == self._held[tool].digest or not self._asks(tool):
                return False
            await self._decided.wait()
        return True

    async def changes(self) -> tuple[ToolChange, ...]:
        """What is held back, each with its difference."""
        return tuple([await self._change(name, listed) for name, listed in tuple(self._held.items())])

    def again(self) -> bool:
        """Ask once more about what the user did not want to keep; False when nothing is held back."""
        self._refused.clear()
        self._work.set()
        return bool(self._held)

    async def keep(self, tools: dict[str, str]) -> tuple[str, ...]:
        """The user's own word: these, by name, may be what was shown, by digest. Which of them still were that."""
        kept = tuple(name for name, digest in tools.items() if name in self._held and self._held[name].digest == digest)
        for name in kept:
            listed = self._held.pop(name)
            before = (self._known or {}).get(name)
            self._remember(name, _pin(listed), listed)
            self._journal.note(Act(kind="drift", server=self._server, subject=name, definition=listed.digest), "kept")
            if before is not None:
                await self._follow(self._server, self._digest, name, before.digest, listed.digest)
        await self._save()
        self._decided.set()
        self._decided = anyio.Event()
        self._settled()
        return kept

    def _asks(self, tool: str) -> bool:
        return ToolsChanged.KIND in self._front.kinds and (self._known is not None and tool in self._known)

    def _open(self) -> dict[str, ListedTool]:
        """What nobody has decided yet."""
        return {
            name: listed
            for name, listed in self._held.items()
            if self._asks(name) and self._refused.get(name) != listed.digest
        }

    async def _ask(self, scope: anyio.CancelScope) -> None:
        asked = dict(tuple(self._open().items())[:ASKED_LIMIT])
        changes = tuple([await self._change(name, listed) for name, listed in asked.items()])
        many = f"{len(changes)} of its tools are" if len(changes) > 1 else "one of its tools is"
        is_back = all(one.difference[:1] == (BACK,) for one in changes)
        what = "again what you saw, but something else in between" if is_back else "not what you saw before"
        verdict = await self._front.ask(ToolsChanged(server=self._server, why=f"{many} {what}", changes=changes))
        # Whatever else a front may say keeps nothing.
        wanted = verdict.tools if isinstance(verdict, KeepTools) else ()  # pyright: ignore[reportUnnecessaryIsInstance]
        self._refused.update((name, listed.digest) for name, listed in asked.items() if name not in wanted)
        await self.keep({name: listed.digest for name, listed in asked.items() if name in wanted})
        scope.cancel()
        self._work.set()

    async def _change(self, name: str, listed: ListedTool) -> ToolChange:
        pin = (self._known or {}).get(name)
        is_back = pin is not None and pin.digest == listed.digest
        earlier = self._pins.meanwhile if is_back else self._pins.definition
        try:
            await self._save()
            before = await earlier(self._server, self._digest, name)
        except StoreError as error:
            self._tell(error)
            before = b""
        # A definition is as long as its server likes.
        lines = await anyio.to_thread.run_sync(partial(compare, before, bytes(listed.raw)))
        if is_back:
            lines = (BACK, *lines)
        return ToolChange(tool=name, digest=listed.digest, difference=lines)

    def _remember(self, name: str, pin: Pin, listed: ListedTool) -> None:
        if self._known is None:
            self._known = {}
        self._known[name] = pin
        self._turned.pop(name, None)
        self._new[name] = (pin, bytes(listed.raw))

    async def _save(self) -> None:
        new, self._new = self._new, {}
        turned, self._turned = self._turned, {}
        try:
            if new:
                await self._pins.keep(self._server, self._digest, new.values())
            if turned:
                await self._pins.turn(self._server, self._digest, turned.values())
        except StoreError as error:
            self._tell(error)


def _pin(listed: ListedTool) -> Pin:
    return Pin(listed.name, hashlib.sha256(listed.raw).hexdigest(), listed.digest)
