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
from mcphost.host.audit.audit_log import AuditLog, AuditSubject
from mcphost.host.questions.frontend import Frontend
from mcphost.host.questions.questions import AcceptToolChanges, ReviewToolChanges, ToolChange
from mcphost.host.servers.catalog import ServerListing, ToolDefinition
from mcphost.host.servers.definition_diff import diff_definitions
from mcphost.serialization import Struct, replace
from mcphost.store.tool_fingerprints import Pin, Pins

CarryOver = Callable[[str, str, str, str, str], Awaitable[None]]
"""Server, its digest, tool, digest before and after: what was allowed of the one holds for the other from now on."""
MAX_REMEMBERED_TOOLS = 5_000
"""Tools remembered of one server. One beyond is held back and asked about; kept, it takes the oldest's place."""
MAX_AUDITED_TOOLS = 1_000
"""Tools held back that have a row each in the ledger, in one run; one row stands for those beyond."""
SAVE_SECONDS = 0.25
INLINE_DIGEST_BYTES = 64 * 1024
"""Bytes of definitions whose digests are computed on the event loop."""
REVERTED_NOTE = "  It is what you know again, but was something else in between. From that to what it is now:"
MAX_QUESTION_TOOLS = 200
"""Changed tools in one question; the next ones are asked about after it."""


class ToolDigests(Struct, frozen=True):
    """Digests of one listing by name: of the bytes of each tool, and of the canonical form where that is needed."""

    raw: dict[str, str]
    canonical: dict[str, str]


class ToolChangeTrackerFactory:
    """Makes the memory of each server."""

    def __init__(
        self, pins: Pins, front: Frontend, tell: Callable[[StoreError], None], follow: CarryOver, journal: AuditLog
    ) -> None:
        """`tell` hears of a store that fails: then what is known lasts for this run. `follow` moves grants along."""
        self.fingerprints = pins
        self.frontend = front
        self.on_store_error = tell
        self.carry_over = follow
        self.audit = journal

    def create(self, server: ServerConfig, on_accepted: Callable[[], None]) -> "ToolChangeTracker":
        """`settled` is called when something was kept."""
        return ToolChangeTracker(server, self, on_accepted)


class ToolChangeTracker:
    """The memory of what one server's tools were.

    A definition is taken as seen the first time, so that only changes ask. `first` is awaited before the server is
    ready, `look` whenever its tools were listed anew; `run` lives as long as a session, and asks.
    """

    def __init__(
        self, server: ServerConfig, factory: ToolChangeTrackerFactory, on_accepted: Callable[[], None]
    ) -> None:
        self._server = server.name
        self._digest = server_digest(server)
        self._fingerprints = factory.fingerprints
        self._frontend = factory.frontend
        self._on_store_error = factory.on_store_error
        self._carry_over = factory.carry_over
        self._on_accepted = on_accepted
        self._audit = factory.audit
        self._audited: dict[str, str] = {}
        self._audit_count = 0
        self._known: dict[str, Pin] | None = None
        self._unsaved: dict[str, tuple[Pin, bytes]] = {}
        self._unsaved_changes: dict[str, tuple[Pin, bytes]] = {}
        self._quarantined: dict[str, ToolDefinition] = {}
        self._quarantined_digests: dict[str, str] = {}  # of what is held back
        self._listed_names: frozenset[str] = frozenset()
        self._forgotten: list[str] = []
        self._refuses_unknown = False
        self._refused: dict[str, str] = {}
        self._has_work = anyio.Event()
        self._decision_made = anyio.Event()

    @property
    def quarantined(self) -> frozenset[str]:
        """The tools that are held back now."""
        return frozenset(self._quarantined)

    async def compare_first(self, offers: ServerListing) -> None:
        """Compare with what was seen before, in this run or an earlier one; `run` writes it down. Raises nothing."""
        await self.load()
        self.compare(offers, await self.compute_digests(offers))

    async def load(self) -> None:
        """Read what was seen in earlier runs, unless that was done; may be called before the tools are listed.

        Raises nothing.
        """
        if self._known is None:
            self._known = {}
            try:
                self._known = await self._fingerprints.all(self._server, self._digest)
            except StoreError as error:
                self._on_store_error(error)

    async def compute_digests(self, offers: ServerListing) -> ToolDigests:
        """Compute what `look` needs, on a thread when that takes longer than a change of threads."""
        if sum(len(listed.raw) for listed in offers.tools.values()) <= INLINE_DIGEST_BYTES:
            return _compute_digests(offers.tools, self._known or {})
        return await anyio.to_thread.run_sync(partial(_compute_digests, offers.tools, dict(self._known or {})))

    def compare(self, offers: ServerListing, digests: ToolDigests | None = None) -> None:
        """Compare; what is new is remembered, what changed is held back at once. `digests` are those of `offers`."""
        known = self._known if self._known is not None else {}
        digests = digests or _compute_digests(offers.tools, known)
        self._quarantined, self._quarantined_digests = {}, {}
        self._listed_names = frozenset(offers.tools)
        for name, listed in offers.tools.items():
            raw, pin = digests.raw[name], known.get(name)
            if pin is not None and pin.raw == raw and not pin.turned:
                continue
            digest = digests.canonical.get(name) or listed.digest
            if pin is None and len(known) < MAX_REMEMBERED_TOOLS:
                self._remember(name, Pin(name, raw, digest), listed)
            elif pin is None or pin.turned or pin.digest != digest:
                self._quarantined[name], self._quarantined_digests[name] = listed, digest
                self._record_quarantine(name, digest)
                if pin is not None and digest not in (pin.digest, pin.turned):
                    known[name] = replace(pin, turned=digest)
                    self._unsaved_changes[name] = (known[name], bytes(listed.raw))
        self._decision_made.set()
        self._decision_made = anyio.Event()
        self._has_work.set()

    def _record_quarantine(self, tool: str, digest: str) -> None:
        """Record once that it is held back, with what it is now."""
        if self._audited.get(tool) == digest or self._audit_count > MAX_AUDITED_TOOLS:
            return
        self._audit_count += 1
        if self._audit_count > MAX_AUDITED_TOOLS:
            tool, digest = f"more than {MAX_AUDITED_TOOLS:,} tools", ""
        self._audited[tool] = digest
        self._audit.queue_event(
            AuditSubject(kind="drift", server=self._server, name=tool, definition=digest), "held back"
        )

    async def run(self) -> None:
        """Write down what is new and ask about what is held back, until cancelled: that withdraws the question.

        Tools that were seen for the first time are written down a moment later, so that the store has little to do
        while other servers start. Call `save` when it was cancelled.
        """
        self._has_work = anyio.Event()
        if not (self._unsaved_changes or self._undecided()):
            with anyio.move_on_after(SAVE_SECONDS):
                await self._has_work.wait()
        while True:
            self._has_work = anyio.Event()
            await self.save()
            if not self._undecided():
                await self._has_work.wait()
                continue
            # The tools may become something else once more while the question is open.
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._ask, tasks.cancel_scope)
                await self._has_work.wait()
                tasks.cancel_scope.cancel()

    async def wait_for_decision(self, tool: str) -> bool:
        """Wait until the user has said whether a tool may be what it is; True when it is not held back (any more)."""
        while tool in self._quarantined:
            if self._refused.get(tool) == self._quarantined_digests[tool] or not self._can_ask(tool):
                return False
            await self._decision_made.wait()
        return True

    async def list_changes(self) -> tuple[ToolChange, ...]:
        """What is held back, each with its difference."""
        held = [(name, listed, self._quarantined_digests[name]) for name, listed in self._quarantined.items()]
        return tuple([await self._describe_change(*one) for one in held])

    def ask_again(self) -> bool:
        """Ask once more about what the user did not want to keep; False when nothing is held back."""
        self._refused.clear()
        self._refuses_unknown = False
        self._has_work.set()
        return bool(self._quarantined)

    async def accept(self, tools: dict[str, str]) -> tuple[str, ...]:
        """The user's own word: these, by name, may be what was shown, by digest. Which of them still were that."""
        kept: list[str] = []
        for name, digest in tools.items():
            if self._quarantined_digests.get(name) != digest or not self._make_room(name):
                continue
            kept.append(name)
            listed = self._quarantined.pop(name)
            del self._quarantined_digests[name]
            before = (self._known or {}).get(name)
            self._remember(name, Pin(name, hashlib.sha256(listed.raw).hexdigest(), digest), listed)
            self._audit.queue_event(
                AuditSubject(kind="drift", server=self._server, name=name, definition=digest), "kept"
            )
            if before is not None:
                await self._carry_over(self._server, self._digest, name, before.digest, digest)
        await self.save()
        self._decision_made.set()
        self._decision_made = anyio.Event()
        self._on_accepted()
        return tuple(kept)

    def _make_room(self, tool: str) -> bool:
        """Forget the oldest tool that is not listed where `tool` would be one too many; whether there is room.

        The memory stays full then, so what was forgotten is asked about when it comes back.
        """
        known = self._known if self._known is not None else {}
        if tool in known or len(known) < MAX_REMEMBERED_TOOLS:
            return True
        oldest = next((one for one in known if one not in self._listed_names), None)
        if oldest is None:
            return False
        del known[oldest]
        self._unsaved.pop(oldest, None)
        self._unsaved_changes.pop(oldest, None)
        self._forgotten.append(oldest)
        return True

    def _can_ask(self, tool: str) -> bool:
        if ReviewToolChanges.KIND not in self._frontend.kinds or self._known is None:
            return False
        # A server may name new ones for ever: after one refusal the user asks for the next question.
        return tool in self._known or not self._refuses_unknown

    def _undecided(self) -> dict[str, ToolDefinition]:
        """What nobody has decided yet."""
        return {
            name: listed
            for name, listed in self._quarantined.items()
            if self._can_ask(name) and self._refused.get(name) != self._quarantined_digests[name]
        }

    async def _ask(self, scope: anyio.CancelScope) -> None:
        held = tuple(self._undecided().items())[:MAX_QUESTION_TOOLS]
        asked = {name: self._quarantined_digests[name] for name, _ in held}
        changes = tuple([await self._describe_change(name, listed, asked[name]) for name, listed in held])
        unknown = asked.keys() - (self._known or {}).keys()
        many = f"{len(changes)} of its tools are" if len(changes) > 1 else "one of its tools is"
        is_back = all(one.difference[:1] == (REVERTED_NOTE,) for one in changes)
        what = "again what you saw, but something else in between" if is_back else "not what you saw before"
        if len(unknown) == len(asked):
            what = f"not known; only {MAX_REMEMBERED_TOOLS:,} tools of a server are remembered"
        verdict = await self._frontend.ask(
            ReviewToolChanges(server=self._server, why=f"{many} {what}", changes=changes)
        )
        # Whatever else a front may say keeps nothing.
        wanted = verdict.tools if isinstance(verdict, AcceptToolChanges) else ()  # pyright: ignore[reportUnnecessaryIsInstance]
        self._refused.update((name, digest) for name, digest in asked.items() if name not in wanted)
        self._refuses_unknown |= not unknown.issubset(wanted)
        kept = await self.accept({name: digest for name, digest in asked.items() if name in wanted})
        # What could not be kept is not asked about at once again.
        self._refused.update((name, digest) for name, digest in asked.items() if name not in kept)
        scope.cancel()
        self._has_work.set()

    async def _describe_change(self, name: str, listed: ToolDefinition, digest: str) -> ToolChange:
        pin = (self._known or {}).get(name)
        is_back = pin is not None and pin.digest == digest
        earlier = self._fingerprints.meanwhile if is_back else self._fingerprints.definition
        try:
            await self.save()
            before = await earlier(self._server, self._digest, name)
        except StoreError as error:
            self._on_store_error(error)
            before = b""
        # A definition is as long as its server likes.
        lines = await anyio.to_thread.run_sync(partial(diff_definitions, before, bytes(listed.raw)))
        if is_back:
            lines = (REVERTED_NOTE, *lines)
        return ToolChange(tool=name, digest=digest, difference=lines)

    def _remember(self, name: str, pin: Pin, listed: ToolDefinition) -> None:
        if self._known is None:
            self._known = {}
        self._known[name] = pin
        self._unsaved_changes.pop(name, None)
        self._unsaved[name] = (pin, bytes(listed.raw))

    async def save(self) -> None:
        """Write down what is new. Raises nothing."""
        new, self._unsaved = self._unsaved, {}
        turned, self._unsaved_changes = self._unsaved_changes, {}
        forgotten, self._forgotten = self._forgotten, []
        try:
            if forgotten:
                await self._fingerprints.forget(self._server, self._digest, forgotten)
            if new:
                await self._fingerprints.keep(self._server, self._digest, new.values())
            if turned:
                await self._fingerprints.turn(self._server, self._digest, turned.values())
        except StoreError as error:
            self._on_store_error(error)


def _compute_digests(tools: dict[str, ToolDefinition], known: dict[str, Pin]) -> ToolDigests:
    """The canonical form costs more than the bytes; it is made only where the bytes are not what is known."""
    raw = {name: hashlib.sha256(listed.raw).hexdigest() for name, listed in tools.items()}
    canonical: dict[str, str] = {}
    for name, listed in tools.items():
        pin = known.get(name)
        if pin is None or pin.raw != raw[name] or pin.turned:
            canonical[name] = listed.digest
    return ToolDigests(raw, canonical)
