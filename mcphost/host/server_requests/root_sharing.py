"""Tells one server the user's folders: only what the user agreed to show it, and only what is still in the list.

A server that asks while no call, read or prompt of it runs is asked about when the first of these needs the answer.
"""

import math
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import anyio

from mcphost.client.session import AskContext, Session
from mcphost.errors import McpHostError, StoreError
from mcphost.host.audit.audit_log import Act, Journal
from mcphost.host.events import RootsTold
from mcphost.host.questions.frontend import Front
from mcphost.host.questions.questions import (
    NeverShare,
    RootsVerdict,
    ShareAlways,
    ShareOnce,
    ShareRoots,
    ShareSession,
)
from mcphost.host.server_requests.folder_questions import FolderQuestions, FolderRequest
from mcphost.host.server_requests.root_list import Folder, Folders, Heard, file_uri
from mcphost.host.server_requests.roots import Roots
from mcphost.pluralize import counted
from mcphost.protocol.notifications import RootsListChanged
from mcphost.protocol.prompts import GetPrompt
from mcphost.protocol.resources import ReadResource
from mcphost.protocol.server_requests import AskDeclined, Root, RootsReply
from mcphost.protocol.tools import CallTool
from mcphost.sanitize import whole
from mcphost.serialization import Data

HOLD_SECONDS = 50.0
"""How long a roots/list waits for the first call; the SDKs give up on an answer after 60 s."""
FOLDER_METHODS = frozenset({CallTool.METHOD, ReadResource.METHOD, GetPrompt.METHOD})
"""What a server may need the folders for."""
BLOCKED_SECONDS = 2.0
"""How long a request of ours may go unanswered while a roots/list waits: the server may want its answer first."""
RELIST_SECONDS = 1.0
"""How long a call waits for a server to list again that was told to."""
REFUSED_SECONDS = 60.0
"""How long a refusal answers the same question again."""
HELD_LIMIT = 5
"""Requests of one server that wait; what comes beyond is answered with an empty list."""


def _unsaid(text: str, hint: str) -> None:
    """Nobody is told."""


def _nobody() -> str:
    return ""


class _Seen(Data, frozen=True):
    """The list as it is for one server: what it may be told, and why."""

    folders: Folders
    version: int
    may: tuple[Folder, ...]
    agreed: dict[str, str]
    """Paths that it is told, with the id of the lasting answer or "" for one of this run."""

    @property
    def new(self) -> tuple[Folder, ...]:
        """The folders that nothing was said about."""
        return tuple(one for one in self.may if one.path not in self.agreed)


class Sharing:
    """Answers roots/list of one server; it hears of a folder only after the user agreed to show it that one.

    An answer for good is kept by the server's name, its `digest` and the real folder.
    `tell` receives why an answer could not be kept: then it holds for this run. `questions` are those of all servers.
    """

    def __init__(
        self,
        server: str,
        roots: Roots,
        front: Front,
        journal: Journal,
        *,
        digest: Callable[[], str] = _nobody,
        tell: Callable[[str, str], None] = _unsaid,
        questions: FolderQuestions | None = None,
        account: Callable[[], str] = _nobody,
    ) -> None:
        self._journal = journal
        self.server = server
        self._roots = roots
        self.front = front
        self._digest = digest
        self._warn = tell
        self._account = account
        self._questions = questions or FolderQuestions()
        self._answers, self._clock = self._questions.answers, self._questions.clock
        self._questions.join(self)
        self._session: frozenset[Root] = frozenset()
        self._never: frozenset[str] = frozenset()
        self._once: frozenset[Root] = frozenset()
        self._once_left = 0
        self._refused_at = -math.inf
        self._refused_for: frozenset[Root] = frozenset()
        self._for_good: frozenset[str] = frozenset()
        self.has_answers = False
        """Whether a folder of the list may be told though nobody can be asked; known after `begin`."""
        # What the server knows.
        self._told: tuple[Root, ...] | None = None
        self._recorded: tuple[Root, ...] | None = None
        self._refused = False
        self._told_at: int | None = None
        self._tellings = 0
        # What waits.
        self._live = False
        self._working = 0
        self._others: dict[object, float] = {}
        self._held = 0
        self._asking = 0
        self._preparing = 0
        self._wanted = False
        self._decided = 0
        self._relist = False
        self._stir = anyio.Event()

    @property
    def heard(self) -> Heard:
        """What the server knows."""
        told = self._told or ()
        for_good = bool(told) and {root.uri for root in told} <= self._for_good
        agreed = bool(self._session) and {*told} <= self._session
        return Heard(self._told, self._refused, for_good or agreed, for_good)

    @property
    def waits(self) -> bool:
        """Whether the server asked and has no answer that was meant for it."""
        return self._held > 0 or self._wanted or self._asking > 0

    async def begin(self) -> None:
        """Begin a connection, before its first request: nothing was asked for yet. Raises StoreError."""
        self._wanted = self._relist = False
        if not self._asks:
            self.has_answers = bool((await self._look()).agreed)

    def ready(self) -> None:
        """Calls may be made from now on; what waits is asked about with the first."""
        self._live = True

    # -- answering
    async def answer(self, why: str, context: AskContext | None = None) -> RootsReply | AskDeclined:
        """The roots, or the refusal of the user; later, when nothing needs them yet. Raises StoreError, Declined.

        A request that is taken back, or waits too long, is asked about with the next call.
        """
        context = context or AskContext()
        seen = await self._look()
        is_tied = context.method in FOLDER_METHODS
        if seen.new and self._asks and context.revision.era == "handshake" and not (self._working or is_tied):
            if seen.agreed:
                # It is told what was agreed to, and asked about what is new with its next call.
                self._wanted = True
                return await self._reply(seen, asked=False)
            if not await self._hold():
                return RootsReply(())
            seen = await self._look()
        asked = bool(seen.new) and await self._settle(why)
        if asked or seen.new:
            seen = await self._look()
        if seen.may and not seen.agreed and seen.new:
            self._note_refusal()
            return AskDeclined("The user does not share folders with this server.")
        return await self._reply(seen, asked=asked)

    def taken_back(self) -> None:
        """Ask with the next call: the server wanted to know the folders, and gave up before it heard."""
        self._wanted = True

    @property
    def _asks(self) -> bool:
        return ShareRoots.KIND in self.front.kinds

    async def _settle(self, why: str) -> bool:
        """Have the user asked; whether they were. Raises StoreError, Declined."""
        if not self._asks:
            return False
        self._asking += 1
        try:
            return await self._questions.settle(self, why)
        finally:
            self._asking -= 1

    async def _reply(self, seen: _Seen, *, asked: bool) -> RootsReply:
        """What is agreed to and there, recorded before it leaves where it differs from what was told last."""
        reply = self._roots.still(RootsReply(tuple(one.root for one in seen.may if one.path in seen.agreed)))
        if self._once_left:
            self._once_left -= 1
        if seen.may and reply.roots != self._recorded:
            grants = sorted({ident for ident in seen.agreed.values() if ident})
            who = "answer" if asked else "grant" if all(seen.agreed.values()) else "session"
            if not asked:
                act = Act(kind="roots", server=self.server)
                await self._journal.decided(act, "shared", who=who, grant=", ".join(grants))
            act = Act(kind="roots", server=self.server, arguments={"roots": [root.uri for root in reply.roots]})
            await self._journal.noted(act, "told", decision=counted(len(reply.roots), "folder"), who=who)
            self._recorded = reply.roots
            reply = self._roots.still(reply)
        return self._tell(reply, seen.version)

    async def _look(self) -> _Seen:
        """The list now, and what was said about it. While the store fails nothing in it counts as agreed.

        Raises StoreError when the list itself cannot be read.
        """
        folders = await self._roots.now()
        version = self._roots.version
        try:
            kept = await self._answers.of(self.server, self._digest()) if self._answers is not None else {}
        except StoreError as error:
            self._warn(error.message, error.hint)
            kept = {}
        self._for_good = frozenset(file_uri(Path(path)) for path, one in kept.items() if one.shared)
        never = self._never | {path for path, one in kept.items() if not one.shared}
        may = tuple(one for one in folders.told if one.path not in never)
        run = self._session | (self._once if self._once_left else frozenset[Root]())
        agreed = {one.path: kept[one.path].id for one in may if one.path in kept}
        agreed |= {one.path: "" for one in may if one.path not in kept and one.root in run}
        return _Seen(folders, version, may, agreed)

    # -- waiting until it is needed
    async def _hold(self) -> bool:
        """Wait until a call needs the answer, or the user gave one; False when nobody did in time."""
        if self._held >= HELD_LIMIT:
            return False
        self._held += 1
        is_needed = False
        try:
            is_needed = await self._until_needed()
        finally:
            self._held -= 1
            self._wanted = self._wanted or not is_needed
        return is_needed

    async def _until_needed(self) -> bool:
        ends, before = anyio.current_time() + HOLD_SECONDS, self._decided
        while self._decided == before:
            until = min((ends, *(began + BLOCKED_SECONDS for began in self._others.values())))
            if not self._preparing and until <= anyio.current_time():
                return False
            stir = self._stir
            with anyio.CancelScope(deadline=math.inf if self._preparing else until):
                await stir.wait()
        return True

    def _stirred(self) -> None:
        self._stir.set()
        self._stir = anyio.Event()

    @contextmanager
    def running(self, method: str) -> Generator[None]:
        """Around each request of ours in the handshake era."""
        if method in FOLDER_METHODS and self._live:
            self._working += 1
            try:
                yield
            finally:
                self._working -= 1
            return
        one = object()
        self._others[one] = anyio.current_time()
        if self._held:
            self._stirred()
        try:
            yield
        finally:
            del self._others[one]

    async def prepare(self, why: str) -> bool:
        """Before a call, read or prompt: ask what was put off; whether something was answered. Raises nothing.

        A server that no longer waits for its answer is told that the list changed, and has a moment to list again.
        """
        if not self._live or not (self._held or self._wanted):
            return False
        self._preparing += 1
        self._stirred()
        try:
            if self._asks and (await self._look()).new:
                await self._questions.settle(self, why)
            self._release()
        except McpHostError as error:
            self._warn(error.message, error.hint)
        finally:
            self._preparing -= 1
            self._stirred()
        if self._relist:
            before = self._tellings
            with anyio.move_on_after(RELIST_SECONDS):
                while self._tellings == before:
                    await self._stir.wait()
        return True

    def _release(self) -> None:
        """Let held requests be answered, and one that is gone be made again."""
        if self._wanted and not (self._held or self._asking):
            self._relist = not self._refused
            self._roots.poke()
        self._wanted = False
        self._decided += 1
        self._stirred()

    # -- the question
    async def request(self, why: str) -> FolderRequest | None:
        """What there is to ask now; None for nothing, or for what was refused a moment ago. Raises StoreError."""
        seen = await self._look()
        roots = frozenset(one.root for one in seen.new)
        was_refused = roots == self._refused_for and self._clock() - self._refused_at < REFUSED_SECONDS
        if not roots or was_refused:
            return None
        return FolderRequest(self.server, why, self._account(), seen.new, seen.folders.gone)

    async def decide(self, request: FolderRequest, verdict: RootsVerdict) -> None:
        """Take the user's answer for this server. Raises Declined."""
        roots = frozenset(one.root for one in request.folders)
        if isinstance(verdict, ShareOnce | ShareSession | ShareAlways):
            self._refused = False
        else:
            self._note_refusal()
        if isinstance(verdict, ShareOnce):
            self._once, self._once_left = roots, max(1, self._asking + self._held)
        elif isinstance(verdict, ShareSession):
            self._session |= roots
        elif isinstance(verdict, ShareAlways | NeverShare):
            await self._keep(request.folders, shared=isinstance(verdict, ShareAlways))
        else:
            self._refused_for, self._refused_at = roots, self._clock()
        self._release()

    async def _keep(self, folders: tuple[Folder, ...], *, shared: bool) -> None:
        """Keep an answer for good, recorded first; for this run when the store fails. Raises Declined."""
        decision = "always" if shared else "never"
        for one in folders:
            act = Act(kind="roots", server=self.server, subject=whole(one.path), definition=self._digest())
            await self._journal.noted(act, "kept", decision=decision, who=self.front.who)
        paths = [one.path for one in folders]
        try:
            if self._answers is None:
                raise StoreError("Answers about folders are not kept here.")
            await self._answers.give(self.server, self._digest(), paths, shared=shared)
        except StoreError as error:
            self._warn(error.message, error.hint)
            self._session |= {one.root for one in folders} if shared else frozenset[Root]()
            self._never |= frozenset[str]() if shared else frozenset(paths)
            return
        self._for_good |= {one.root.uri for one in folders} if shared else frozenset[str]()

    # -- what the server knows
    def _tell(self, reply: RootsReply, version: int) -> RootsReply:
        before = self.heard
        self._told, self._told_at, self._refused = reply.roots, version, False
        self._tellings += 1
        if self.heard != before:
            self._changed()
        if version != self._roots.version:
            self._roots.poke()
        self._stirred()
        return reply

    def _note_refusal(self) -> None:
        if not self._refused:
            self._refused = True
            self._changed()

    def _changed(self) -> None:
        self._roots.put(RootsTold(self.server, tuple(root.uri for root in self._told or ()), self._refused))

    def still(self, reply: RootsReply) -> RootsReply:
        """What of a reply may leave now."""
        left = self._roots.still(reply)
        self._told = left.roots
        return left

    async def keep_told(self, session: Session, warn: Callable[[str], None]) -> None:
        """While a session lasts: tell a server of the handshake era that the list it was told is no longer the list.

        One that never was told has nothing that could be out of date; the other era asks when it wants to know.
        """
        self.ready()
        try:
            if session.facts.era != "handshake":
                await anyio.sleep_forever()
            while True:
                is_old = self._told_at is not None and self._told_at != self._roots.version
                if not (is_old or self._relist):
                    await self._roots.moved()
                    continue
                self._told_at = self._roots.version if is_old else self._told_at
                self._relist = False
                await _tell(session, warn)
                self._stirred()
        finally:
            # The next session is with a program that was told nothing.
            self._told = self._recorded = self._told_at = None
            self._live = self._wanted = self._relist = False
            self._once_left = 0


async def _tell(session: Session, warn: Callable[[str], None]) -> None:
    try:
        await session.tell(RootsListChanged())
    except McpHostError as error:
        warn(f"It could not be told that the folders changed: {error.message}")
