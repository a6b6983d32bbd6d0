"""Detection of changed tools, which are quarantined until the user has seen and accepted the change.

A tool stays in quarantine even if its definition changes back, because it was different in the meantime.
"""

import hashlib
from collections.abc import Awaitable, Callable
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread

from mcphost.config.approval_digest import server_digest
from mcphost.config.schema import ServerConfig
from mcphost.errors import StoreError
from mcphost.host.audit.audit_log import AuditLog, AuditSubject
from mcphost.host.questions import kinds
from mcphost.host.questions.frontend import Frontend, ask_until_decided
from mcphost.host.servers.catalog import ServerListing, ToolDefinition, fingerprints
from mcphost.host.servers.change_acceptances import ChangeAcceptance, ChangeAcceptances
from mcphost.host.servers.project_lock import ProjectLock
from mcphost.serialization import Struct, replace
from mcphost.store.accepted_tools import ToolFingerprint, ToolFingerprintStore

if TYPE_CHECKING:
    from mcphost.host.questions.tool_changes import ToolChange

CarryOver = Callable[[str, str, str, str, str], Awaitable[None]]
"""Function that transfers grants; arguments: server, server digest, tool, the tool's previous and new digests."""
MAX_REMEMBERED_TOOLS = 5_000
"""Maximum tools remembered per server. Any further tool is quarantined; if accepted, it replaces the oldest."""
MAX_AUDITED_TOOLS = 1_000
"""Maximum quarantined tools per server and run with an audit row each; one more row covers the rest."""
SAVE_SECONDS = 0.25
INLINE_DIGEST_BYTES = 64 * 1024
"""Maximum total bytes of definitions to digest on the event loop; for more, a thread is used."""
MAX_QUESTION_TOOLS = 200
"""Maximum changed tools in one question; another question follows for the rest."""
MAX_WITHDRAWN_QUESTIONS = 20
SECONDS_PER_WITHDRAWAL = 3.0
"""Seconds after which one more question may be replaced, because the server has changed its tools again."""


class ToolDigests(Struct, frozen=True):
    """Digests of tool definitions, keyed by tool name.

    `raw` contains digests of the bytes as received. `canonical` contains digests of the canonical JSON, but only of
    definitions that are new or whose bytes have changed.
    """

    raw: dict[str, str]
    canonical: dict[str, str]


class _WithdrawalLimit:
    """Limit on how often a server's changes replace an open question, so that the user has time to answer it.

    Replacing a question means to withdraw it and ask a new one. Up to MAX_WITHDRAWN_QUESTIONS withdrawals are available
    at first; another one becomes available every SECONDS_PER_WITHDRAWAL.
    """

    def __init__(self) -> None:
        self._tokens = float(MAX_WITHDRAWN_QUESTIONS)
        self._refilled_at = monotonic()

    async def wait(self, needed: float) -> None:
        """Wait until the limit allows *needed* more open questions to be withdrawn.

        Pass 1 before replacing an open question. Pass 0 before asking a new question; this waits only if more questions
        were withdrawn than the limit allows.
        """
        now = monotonic()
        refilled = self._tokens + (now - self._refilled_at) / SECONDS_PER_WITHDRAWAL
        self._tokens, self._refilled_at = min(MAX_WITHDRAWN_QUESTIONS, refilled), now
        if self._tokens < needed:
            await anyio.sleep((needed - self._tokens) * SECONDS_PER_WITHDRAWAL)

    def count(self) -> None:
        """Count one question that was withdrawn or replaced against the limit."""
        self._tokens -= 1


class ToolChangeTrackerFactory:
    """Factory that creates a tool change tracker for each server."""

    def __init__(
        self,
        fingerprints: ToolFingerprintStore,
        frontend: Frontend,
        on_store_error: Callable[[StoreError], None],
        carry_over: CarryOver,
        audit: AuditLog,
        acceptances: ChangeAcceptances | None = None,
    ) -> None:
        """Create a factory; *on_store_error* is called with each error from the store.

        After such an error, remembered definitions and the user's decisions about them apply only to this run.
        *carry_over* transfers grants from a tool's previous definition to the accepted one. *acceptances* are the
        user's decisions to accept all changes of a server in this session.
        """
        self.fingerprints = fingerprints
        self.frontend = frontend
        self.on_store_error = on_store_error
        self.carry_over = carry_over
        self.audit = audit
        self.acceptances = acceptances or ChangeAcceptances()

    def create(self, server: ServerConfig, on_accepted: Callable[[], None]) -> "ToolChangeTracker":
        """Return a tracker for one server; it calls *on_accepted* after the user has accepted changes."""
        return ToolChangeTracker(server, self, on_accepted)


class ToolChangeTracker:
    """Tracker of one server's tool definitions, which quarantines those that change.

    A tool that mcphost has never seen before is accepted without asking the user, unless the project's lock file
    records other tools or another definition. The user is asked only about changes.

    Await `compare_first` before the server is ready, and call `compare` with each later listing. Run `run` as a task
    during each session; it asks the user.
    """

    def __init__(
        self, server: ServerConfig, factory: ToolChangeTrackerFactory, on_accepted: Callable[[], None]
    ) -> None:
        self._server = server.name
        self._digest = server_digest(server)
        self.project_lock = ProjectLock(server)
        self._fingerprints = factory.fingerprints
        self._frontend = factory.frontend
        self._on_store_error = factory.on_store_error
        self._carry_over = factory.carry_over
        self._on_accepted = on_accepted
        self._audit = factory.audit
        self._acceptances = factory.acceptances
        self._offers_session = server.has_own_watch
        self._audited: dict[str, str] = {}
        self._audit_count = 0
        self._known: dict[str, ToolFingerprint] | None = None
        self._can_save = True
        self._unsaved: dict[str, tuple[ToolFingerprint, bytes]] = {}
        self._unsaved_changes: dict[str, tuple[ToolFingerprint, bytes]] = {}
        self._quarantined: dict[str, ToolDefinition] = {}
        self._quarantined_digests: dict[str, str] = {}
        self._listed_names: frozenset[str] = frozenset()
        self._forgotten: list[str] = []
        self._refuses_unknown = False
        self._refused: dict[str, str] = {}
        self._withdrawals = _WithdrawalLimit()
        self._has_work = anyio.Event()
        self._decision_made = anyio.Event()

    @property
    def quarantined(self) -> frozenset[str]:
        """The names of the quarantined tools."""
        return frozenset(self._quarantined)

    def is_quarantined(self, tool: str) -> bool:
        """Return whether the tool with this name is quarantined."""
        return tool in self._quarantined

    async def compare_first(self, offers: ServerListing) -> None:
        """Compare a connection's first listing with the remembered definitions. Never raises.

        New definitions are stored later, by `run`.
        """
        await self.load()
        self.compare(offers, await self.compute_digests(offers))

    async def load(self) -> None:
        """Load the fingerprints stored by earlier runs, unless already loaded. Never raises.

        If loading fails, this run saves no fingerprints, because they could overwrite the stored fingerprints of
        definitions that the user accepted.
        """
        if self._known is None:
            self._known = {}
            try:
                self._known = await self._fingerprints.load_all(self._server, self._digest)
            except StoreError as error:
                self._can_save = False
                self._on_store_error(error)

    async def compute_digests(self, offers: ServerListing) -> ToolDigests:
        """Return the digests that `compare` needs, computed in a thread if the definitions exceed 64 KB."""
        if sum(len(listed.raw) for listed in offers.tools.values()) <= INLINE_DIGEST_BYTES:
            return _compute_digests(offers.tools, self._known or {})
        return await anyio.to_thread.run_sync(partial(_compute_digests, offers.tools, dict(self._known or {})))

    def compare(self, offers: ServerListing, digests: ToolDigests | None = None) -> None:
        """Remember new tools and quarantine changed ones, without waiting.

        *digests* are the digests of the tools in *offers*; if omitted, this method computes them.
        """
        known = self._known if self._known is not None else {}
        digests = digests or _compute_digests(offers.tools, known)
        self._quarantined, self._quarantined_digests = {}, {}
        self._listed_names = frozenset(offers.tools)
        for name, listed in offers.tools.items():
            raw, pin = digests.raw[name], known.get(name)
            if pin is not None and pin.raw_digest == raw and not pin.changed_digest:
                continue
            digest = digests.canonical.get(name) or listed.digest
            if pin is None and len(known) < MAX_REMEMBERED_TOOLS and self.project_lock.allows(listed, digest):
                self._remember(name, ToolFingerprint(name, raw, digest), listed)
            elif pin is None or pin.changed_digest or pin.digest != digest:
                self._quarantined[name], self._quarantined_digests[name] = listed, digest
                self._record_quarantine(name, digest)
                if pin is not None and digest not in (pin.digest, pin.changed_digest):
                    known[name] = replace(pin, changed_digest=digest)
                    self._unsaved_changes[name] = (known[name], bytes(listed.raw))
        self._decision_made.set()
        self._decision_made = anyio.Event()
        self._has_work.set()

    def _record_quarantine(self, tool: str, digest: str) -> None:
        """Record in the audit log that *tool* was quarantined with the definition *digest*, unless already recorded."""
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
        """Run until cancelled: store new tools, and ask the user about quarantined ones.

        On cancellation, the open question is withdrawn; the caller must then call `save`. New tools are stored after a
        short delay, so that they do not keep the store busy while other servers start.
        """
        self._has_work = anyio.Event()
        if not (self._unsaved_changes or self._undecided()):
            with anyio.move_on_after(SAVE_SECONDS):
                await self._has_work.wait()
        while True:
            self._has_work = anyio.Event()
            await self.save()
            await self._accept_in_advance()
            if not self._undecided():
                await self._has_work.wait()
                continue
            await self._withdrawals.wait(0)
            asked = self._undecided_digests()
            if not asked:
                continue
            # The tools may change again while the question is open.
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._ask, tasks.cancel_scope)
                await self._wait_until_outdated(asked)
                self._withdrawals.count()
                tasks.cancel_scope.cancel()

    async def _wait_until_outdated(self, asked: dict[str, str]) -> None:
        """Wait until the open question about the tools *asked* (names and digests) must be replaced.

        Announcements without an actual change are ignored, and replacements are limited (see `_WithdrawalLimit`).
        Otherwise, a server could make the question unanswerable by changing its tools constantly. The open question may
        therefore show outdated definitions, but an answer accepts only the definitions that the question shows.
        """
        while True:
            await self._has_work.wait()
            self._has_work = anyio.Event()
            await self.save()
            current = self._undecided_digests()
            if not current or self._find_accepted_in_advance()[1]:
                return
            if current != asked:
                await self._withdrawals.wait(1)
                if self._undecided_digests() != asked:
                    return

    async def wait_for_decision(self, tool: str) -> bool:
        """Wait until the user accepts or refuses a quarantined tool; return False if it stays in quarantine."""
        while tool in self._quarantined:
            if self._refused.get(tool) == self._quarantined_digests[tool] or not self._can_ask(tool):
                return False
            await self._decision_made.wait()
        return True

    async def list_changes(self) -> "tuple[ToolChange, ...]":
        """Return the quarantined tools, each with a diff from its remembered definition."""
        quarantined = [(name, listed, self._quarantined_digests[name]) for name, listed in self._quarantined.items()]
        return tuple([await self._describe_change(*change) for change in quarantined])

    def ask_again(self) -> bool:
        """Ask the user again about all quarantined tools; return False if there are none."""
        self._refused.clear()
        self._refuses_unknown = False
        self._has_work.set()
        return bool(self._quarantined)

    async def accept(self, tools: dict[str, str]) -> tuple[str, ...]:
        """Accept quarantined tools, given as a mapping of names to digests; return the accepted names.

        A tool whose definition no longer has the given digest stays in quarantine. An open question is replaced by
        one about the remaining tools.
        """
        accepted = await self._accept(tools)
        if accepted:
            self._has_work.set()
        return accepted

    async def _accept_in_advance(self) -> None:
        """Accept quarantined changes if the user decided earlier in this session to accept all changes of this server.

        Unknown tools stay in quarantine.
        """
        acceptance, digests = self._find_accepted_in_advance()
        if acceptance is not None:
            self._acceptances.count_use(acceptance)
            await self._accept(digests, acceptance=acceptance.id)

    def _find_accepted_in_advance(self) -> tuple[ChangeAcceptance | None, dict[str, str]]:
        """Return the user's decision to accept all changes in this session, and the tools that it covers now.

        The second item maps the names of these tools to their digests. Returns None and {} if there is no decision, or
        if it covers no tool now.
        """
        acceptance = self._acceptances.find(self._server, self._digest) if self._offers_session else None
        known = self._known or {}
        digests = {name: digest for name, digest in self._undecided_digests().items() if name in known}
        return (acceptance, digests) if acceptance is not None and digests else (None, {})

    def _record_acceptance(self) -> None:
        """Accept the later changes of this server until mcphost exits, and record that in the audit log."""
        acceptance = self._acceptances.add(self._server, self._digest)
        subject = AuditSubject(kind="grant", server=self._server, name=acceptance.text, definition=self._digest)
        detail = {"scope": "session"}
        self._audit.queue_event(subject, "given", who=self._frontend.who, grant=acceptance.id, detail=detail)

    async def _accept(
        self, tools: dict[str, str], *, is_recorded: bool = False, acceptance: str = ""
    ) -> tuple[str, ...]:
        """Accept quarantined tools; see `accept`.

        If *is_recorded* is true, another mcphost process has already recorded the acceptance in the audit log.
        *acceptance* is the id of the decision for this session that covers the changes, "" if the user accepted these
        changes themselves.
        """
        accepted: list[str] = []
        for name, digest in tools.items():
            if self._quarantined_digests.get(name) != digest or not self._make_room(name):
                continue
            accepted.append(name)
            listed = self._quarantined.pop(name)
            del self._quarantined_digests[name]
            before = (self._known or {}).get(name)
            raw = hashlib.sha256(listed.raw).hexdigest()
            replaced = before.digest if before is not None else ""
            self._remember(name, ToolFingerprint(name, raw, digest, accepted_from=replaced), listed)
            if not is_recorded:
                subject = AuditSubject(kind="drift", server=self._server, name=name, definition=digest)
                who = "session" if acceptance else "mcphost"
                self._audit.queue_event(subject, "kept", who=who, grant=acceptance)
            if before is not None:
                await self._carry_over(self._server, self._digest, name, before.digest, digest)
        await self.save()
        self._decision_made.set()
        self._decision_made = anyio.Event()
        self._on_accepted()
        return tuple(accepted)

    def _make_room(self, tool: str) -> bool:
        """Return whether another tool can be remembered; if necessary, forget the oldest tool that is no longer listed.

        If the result is True, the caller must remember *tool* before it awaits anything. During an await, the server
        could list another new tool, which would take the free place without review by the user. If the result is False,
        *tool* must stay in quarantine, even if the user accepted it before this tracker forgot it.
        """
        known = self._known if self._known is not None else {}
        if tool in known or len(known) < MAX_REMEMBERED_TOOLS:
            return True
        oldest = next((name for name in known if name not in self._listed_names), None)
        if oldest is None:
            return False
        del known[oldest]
        self._unsaved.pop(oldest, None)
        self._unsaved_changes.pop(oldest, None)
        self._forgotten.append(oldest)
        return True

    def _can_ask(self, tool: str) -> bool:
        if kinds.TOOLS_CHANGED not in self._frontend.kinds or self._known is None:
            return False
        # A server may list any number of new tools: after one refusal, ask again only at the user's request.
        return tool in self._known or not self._refuses_unknown

    def _undecided(self) -> dict[str, ToolDefinition]:
        """Return the quarantined tools that the user can be asked about and has not refused."""
        return {
            name: listed
            for name, listed in self._quarantined.items()
            if self._can_ask(name) and self._refused.get(name) != self._quarantined_digests[name]
        }

    def _undecided_digests(self) -> dict[str, str]:
        return {name: self._quarantined_digests[name] for name in self._undecided()}

    async def _ask(self, scope: anyio.CancelScope) -> None:
        from mcphost.host.questions.tool_changes import AcceptToolChanges, ReviewToolChanges
        from mcphost.host.servers.definition_diff import REVERTED_NOTE

        undecided = tuple(self._undecided().items())[:MAX_QUESTION_TOOLS]
        digests = {name: self._quarantined_digests[name] for name, _ in undecided}
        changes = tuple([await self._describe_change(name, listed, digests[name]) for name, listed in undecided])
        unknown = digests.keys() - (self._known or {}).keys()
        is_reverted = all(one.difference[:1] == (REVERTED_NOTE,) for one in changes)
        change = "back to what you saw, after a change in between" if is_reverted else "not what you saw before"
        if len(unknown) == len(digests) and self.project_lock.has_tools:
            change = "not what the project's lock file records"
        elif len(unknown) == len(digests):
            change = (
                f"unknown, because mcphost stores the definitions of at most {MAX_REMEMBERED_TOOLS:,} tools per server"
            )
        why = f"{len(changes)} of its tools are {change}" if len(changes) > 1 else f"one of its tools is {change}"
        question = ReviewToolChanges(server=self._server, why=why, changes=changes, offers_session=self._offers_session)
        elsewhere: dict[str, str] = {}

        async def is_decided() -> bool:
            elsewhere.update(await self._find_accepted_elsewhere(digests))
            return bool(elsewhere)

        verdict = await ask_until_decided(self._frontend, question, is_decided)
        if verdict is None and elsewhere:
            await self._accept(elsewhere, is_recorded=True)
            scope.cancel()
            self._has_work.set()
            return
        # Any other answer of a frontend accepts nothing.
        selected = verdict.tools if isinstance(verdict, AcceptToolChanges) else ()  # pyright: ignore[reportUnnecessaryIsInstance]
        if selected and self._offers_session and verdict is not None and verdict.for_session is True:
            self._record_acceptance()
        self._refused.update((name, digest) for name, digest in digests.items() if name not in selected)
        self._refuses_unknown |= not unknown.issubset(selected)
        accepted = await self._accept({name: digest for name, digest in digests.items() if name in selected})
        # Tools that could not be accepted are not asked about again immediately.
        self._refused.update((name, digest) for name, digest in digests.items() if name not in accepted)
        scope.cancel()
        self._has_work.set()

    async def _find_accepted_elsewhere(self, digests: dict[str, str]) -> dict[str, str]:
        """Return the changed definitions that the user accepted in another mcphost process.

        *digests* and the result map tool names to digests. A definition is returned only if the store records that the
        user accepted exactly this change, from the definition that this process remembers to the one in *digests*. It
        is not enough that the store contains the new definition: a process that remembers no earlier definition of the
        tool stores a new one without asking the user.

        The user is always asked about unknown tools, and about definitions that have changed back to the accepted one;
        these are never returned. Raises StoreError.
        """
        known = self._known or {}
        changed = {name: one for name, one in digests.items() if name in known and known[name].digest != one}
        stored = await self._fingerprints.load_all(self._server, self._digest) if changed else {}
        return {
            name: digest
            for name, digest in changed.items()
            if (pin := stored.get(name)) is not None
            and (pin.digest, pin.changed_digest, pin.accepted_from) == (digest, "", known[name].digest)
        }

    async def _describe_change(self, name: str, listed: ToolDefinition, digest: str) -> "ToolChange":
        from mcphost.host.questions.tool_changes import ToolChange
        from mcphost.host.servers.definition_diff import REVERTED_NOTE, diff_definitions

        pin = (self._known or {}).get(name)
        if pin is None and self.project_lock.has_tools:
            return ToolChange(tool=name, digest=digest, difference=await self._diff_with_lock(listed))
        is_reverted = pin is not None and pin.digest == digest
        earlier = self._fingerprints.load_changed_definition if is_reverted else self._fingerprints.load_definition
        try:
            await self.save()
            before = await earlier(self._server, self._digest, name)
        except StoreError as error:
            self._on_store_error(error)
            before = b""
        # In a thread, because the server decides how long a definition is.
        lines = await anyio.to_thread.run_sync(partial(diff_definitions, before, bytes(listed.raw)))
        if is_reverted:
            lines = (REVERTED_NOTE, *lines)
        return ToolChange(tool=name, digest=digest, difference=lines)

    async def _diff_with_lock(self, listed: ToolDefinition) -> tuple[str, ...]:
        """Return the diff from a tool's definition in the lock file to *listed*; for tools that were never accepted."""
        from mcphost.host.servers.definition_diff import UNLOCKED_NOTE, diff_definitions

        before = self.project_lock.locked_definition(listed.name)
        if not before:
            lines = await anyio.to_thread.run_sync(partial(diff_definitions, b"", bytes(listed.raw)))
            return (UNLOCKED_NOTE, *lines[1:])
        after = self.project_lock.shown_definition(listed)
        return await anyio.to_thread.run_sync(partial(diff_definitions, before, after))

    def _remember(self, name: str, pin: ToolFingerprint, listed: ToolDefinition) -> None:
        if self._known is None:
            self._known = {}
        self._known[name] = pin
        self._unsaved_changes.pop(name, None)
        self._unsaved[name] = (pin, bytes(listed.raw))

    async def save(self) -> None:
        """Store the fingerprints of new and changed tools and delete forgotten ones. Never raises."""
        new, self._unsaved = self._unsaved, {}
        turned, self._unsaved_changes = self._unsaved_changes, {}
        forgotten, self._forgotten = self._forgotten, []
        if not self._can_save:
            return
        try:
            if forgotten:
                await self._fingerprints.delete(self._server, self._digest, forgotten)
            if new:
                await self._fingerprints.save(self._server, self._digest, new.values())
            if turned:
                await self._fingerprints.save_changed(self._server, self._digest, turned.values())
        except StoreError as error:
            self._on_store_error(error)


def _compute_digests(tools: dict[str, ToolDefinition], known: dict[str, ToolFingerprint]) -> ToolDigests:
    """Return the digests of the tools; see `ToolDigests`.

    Canonical digests are slow to compute, so there are none for definitions whose bytes are unchanged.
    """
    raw = {name: hashlib.sha256(listed.raw).hexdigest() for name, listed in tools.items()}
    new = {
        name: listed.raw
        for name, listed in tools.items()
        if (pin := known.get(name)) is None or pin.raw_digest != raw[name] or pin.changed_digest
    }
    return ToolDigests(raw, dict(zip(new, fingerprints(tuple(new.values())), strict=True)))
