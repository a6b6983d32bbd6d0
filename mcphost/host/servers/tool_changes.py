"""Drift: a tool whose definition is not what it was is held back until the user has seen the difference and kept it.

That it is again what it was changes nothing: it was something else meanwhile, and who allowed it is told so.
"""

import hashlib
from collections.abc import Awaitable, Callable
from functools import partial

import anyio
import anyio.to_thread

from mcphost.config.approval_digest import server_digest
from mcphost.config.schema import ServerConfig
from mcphost.errors import StoreError
from mcphost.host.audit.audit_log import Act, Journal
from mcphost.host.questions.frontend import Front
from mcphost.host.questions.questions import KeepTools, ToolChange, ToolsChanged
from mcphost.host.servers.catalog import ListedTool, Offers
from mcphost.host.servers.definition_diff import compare
from mcphost.serialization import Data, replace
from mcphost.store.tool_fingerprints import Pin, Pins

Follow = Callable[[str, str, str, str, str], Awaitable[None]]
"""Server, its digest, tool, digest before and after: what was allowed of the one holds for the other from now on."""
NAMES_LIMIT = 5_000
"""Tools remembered of one server. One beyond is held back and asked about; kept, it takes the oldest's place."""
NOTED_LIMIT = 1_000
"""Tools held back that have a row each in the ledger, in one run; one row stands for those beyond."""
SAVE_SECONDS = 0.25
STUDIED_AT_ONCE = 64 * 1024
"""Bytes of definitions whose digests are computed on the event loop."""
BACK = "  It is what you know again, but was something else in between. From that to what it is now:"
ASKED_LIMIT = 200
"""Changed tools in one question; the next ones are asked about after it."""


class Digests(Data, frozen=True):
    """Digests of one listing by name: of the bytes of each tool, and of the canonical form where that is needed."""

    raw: dict[str, str]
    canonical: dict[str, str]


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
        self._notes = 0
        self._known: dict[str, Pin] | None = None
        self._new: dict[str, tuple[Pin, bytes]] = {}
        self._turned: dict[str, tuple[Pin, bytes]] = {}
        self._held: dict[str, ListedTool] = {}
        self._digests: dict[str, str] = {}  # of what is held back
        self._listed: frozenset[str] = frozenset()
        self._forgotten: list[str] = []
        self._refuses_unknown = False
        self._refused: dict[str, str] = {}
        self._work = anyio.Event()
        self._decided = anyio.Event()

    @property
    def held(self) -> frozenset[str]:
        """The tools that are held back now."""
        return frozenset(self._held)

    async def first(self, offers: Offers) -> None:
        """Compare with what was seen before, in this run or an earlier one; `run` writes it down. Raises nothing."""
        await self.recall()
        self.look(offers, await self.study(offers))

    async def recall(self) -> None:
        """Read what was seen in earlier runs, unless that was done; may be called before the tools are listed.

        Raises nothing.
        """
        if self._known is None:
            self._known = {}
            try:
                self._known = await self._pins.all(self._server, self._digest)
            except StoreError as error:
                self._tell(error)

    async def study(self, offers: Offers) -> Digests:
        """Compute what `look` needs, on a thread when that takes longer than a change of threads."""
        if sum(len(listed.raw) for listed in offers.tools.values()) <= STUDIED_AT_ONCE:
            return _digests(offers.tools, self._known or {})
        return await anyio.to_thread.run_sync(partial(_digests, offers.tools, dict(self._known or {})))

    def look(self, offers: Offers, digests: Digests | None = None) -> None:
        """Compare; what is new is remembered, what changed is held back at once. `digests` are those of `offers`."""
        known = self._known if self._known is not None else {}
        digests = digests or _digests(offers.tools, known)
        self._held, self._digests = {}, {}
        self._listed = frozenset(offers.tools)
        for name, listed in offers.tools.items():
            raw, pin = digests.raw[name], known.get(name)
            if pin is not None and pin.raw == raw and not pin.turned:
                continue
            digest = digests.canonical.get(name) or listed.digest
            if pin is None and len(known) < NAMES_LIMIT:
                self._remember(name, Pin(name, raw, digest), listed)
            elif pin is None or pin.turned or pin.digest != digest:
                self._held[name], self._digests[name] = listed, digest
                self._note(name, digest)
                if pin is not None and digest not in (pin.digest, pin.turned):
                    known[name] = replace(pin, turned=digest)
                    self._turned[name] = (known[name], bytes(listed.raw))
        self._decided.set()
        self._decided = anyio.Event()
        self._work.set()

    def _note(self, tool: str, digest: str) -> None:
        """Record once that it is held back, with what it is now."""
        if self._noted.get(tool) == digest or self._notes > NOTED_LIMIT:
            return
        self._notes += 1
        if self._notes > NOTED_LIMIT:
            tool, digest = f"more than {NOTED_LIMIT:,} tools", ""
        self._noted[tool] = digest
        self._journal.note(Act(kind="drift", server=self._server, subject=tool, definition=digest), "held back")

    async def run(self) -> None:
        """Write down what is new and ask about what is held back, until cancelled: that withdraws the question.

        Tools that were seen for the first time are written down a moment later, so that the store has little to do
        while other servers start. Call `save` when it was cancelled.
        """
        self._work = anyio.Event()
        if not (self._turned or self._open()):
            with anyio.move_on_after(SAVE_SECONDS):
                await self._work.wait()
        while True:
            self._work = anyio.Event()
            await self.save()
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
            if self._refused.get(tool) == self._digests[tool] or not self._asks(tool):
                return False
            await self._decided.wait()
        return True

    async def changes(self) -> tuple[ToolChange, ...]:
        """What is held back, each with its difference."""
        held = [(name, listed, self._digests[name]) for name, listed in self._held.items()]
        return tuple([await self._change(*one) for one in held])

    def again(self) -> bool:
        """Ask once more about what the user did not want to keep; False when nothing is held back."""
        self._refused.clear()
        self._refuses_unknown = False
        self._work.set()
        return bool(self._held)

    async def keep(self, tools: dict[str, str]) -> tuple[str, ...]:
        """The user's own word: these, by name, may be what was shown, by digest. Which of them still were that."""
        kept: list[str] = []
        for name, digest in tools.items():
            if self._digests.get(name) != digest or not self._make_room(name):
                continue
            kept.append(name)
            listed = self._held.pop(name)
            del self._digests[name]
            before = (self._known or {}).get(name)
            self._remember(name, Pin(name, hashlib.sha256(listed.raw).hexdigest(), digest), listed)
            self._journal.note(Act(kind="drift", server=self._server, subject=name, definition=digest), "kept")
            if before is not None:
                await self._follow(self._server, self._digest, name, before.digest, digest)
        await self.save()
        self._decided.set()
        self._decided = anyio.Event()
        self._settled()
        return tuple(kept)

    def _make_room(self, tool: str) -> bool:
        """Forget the oldest tool that is not listed where `tool` would be one too many; whether there is room.

        The memory stays full then, so what was forgotten is asked about when it comes back.
        """
        known = self._known if self._known is not None else {}
        if tool in known or len(known) < NAMES_LIMIT:
            return True
        oldest = next((one for one in known if one not in self._listed), None)
        if oldest is None:
            return False
        del known[oldest]
        self._new.pop(oldest, None)
        self._turned.pop(oldest, None)
        self._forgotten.append(oldest)
        return True

    def _asks(self, tool: str) -> bool:
        if ToolsChanged.KIND not in self._front.kinds or self._known is None:
            return False
        # A server may name new ones for ever: after one refusal the user asks for the next question.
        return tool in self._known or not self._refuses_unknown

    def _open(self) -> dict[str, ListedTool]:
        """What nobody has decided yet."""
        return {
            name: listed
            for name, listed in self._held.items()
            if self._asks(name) and self._refused.get(name) != self._digests[name]
        }

    async def _ask(self, scope: anyio.CancelScope) -> None:
        held = tuple(self._open().items())[:ASKED_LIMIT]
        asked = {name: self._digests[name] for name, _ in held}
        changes = tuple([await self._change(name, listed, asked[name]) for name, listed in held])
        unknown = asked.keys() - (self._known or {}).keys()
        many = f"{len(changes)} of its tools are" if len(changes) > 1 else "one of its tools is"
        is_back = all(one.difference[:1] == (BACK,) for one in changes)
        what = "again what you saw, but something else in between" if is_back else "not what you saw before"
        if len(unknown) == len(asked):
            what = f"not known; only {NAMES_LIMIT:,} tools of a server are remembered"
        verdict = await self._front.ask(ToolsChanged(server=self._server, why=f"{many} {what}", changes=changes))
        # Whatever else a front may say keeps nothing.
        wanted = verdict.tools if isinstance(verdict, KeepTools) else ()  # pyright: ignore[reportUnnecessaryIsInstance]
        self._refused.update((name, digest) for name, digest in asked.items() if name not in wanted)
        self._refuses_unknown |= not unknown.issubset(wanted)
        kept = await self.keep({name: digest for name, digest in asked.items() if name in wanted})
        # What could not be kept is not asked about at once again.
        self._refused.update((name, digest) for name, digest in asked.items() if name not in kept)
        scope.cancel()
        self._work.set()

    async def _change(self, name: str, listed: ListedTool, digest: str) -> ToolChange:
        pin = (self._known or {}).get(name)
        is_back = pin is not None and pin.digest == digest
        earlier = self._pins.meanwhile if is_back else self._pins.definition
        try:
            await self.save()
            before = await earlier(self._server, self._digest, name)
        except StoreError as error:
            self._tell(error)
            before = b""
        # A definition is as long as its server likes.
        lines = await anyio.to_thread.run_sync(partial(compare, before, bytes(listed.raw)))
        if is_back:
            lines = (BACK, *lines)
        return ToolChange(tool=name, digest=digest, difference=lines)

    def _remember(self, name: str, pin: Pin, listed: ListedTool) -> None:
        if self._known is None:
            self._known = {}
        self._known[name] = pin
        self._turned.pop(name, None)
        self._new[name] = (pin, bytes(listed.raw))

    async def save(self) -> None:
        """Write down what is new. Raises nothing."""
        new, self._new = self._new, {}
        turned, self._turned = self._turned, {}
        forgotten, self._forgotten = self._forgotten, []
        try:
            if forgotten:
                await self._pins.forget(self._server, self._digest, forgotten)
            if new:
                await self._pins.keep(self._server, self._digest, new.values())
            if turned:
                await self._pins.turn(self._server, self._digest, turned.values())
        except StoreError as error:
            self._tell(error)


def _digests(tools: dict[str, ListedTool], known: dict[str, Pin]) -> Digests:
    """The canonical form costs more than the bytes; it is made only where the bytes are not what is known."""
    raw = {name: hashlib.sha256(listed.raw).hexdigest() for name, listed in tools.items()}
    canonical: dict[str, str] = {}
    for name, listed in tools.items():
        pin = known.get(name)
        if pin is None or pin.raw != raw[name] or pin.turned:
            canonical[name] = listed.digest
    return Digests(raw, canonical)
