"""Tells one server the user's folders: only what the user agreed to show it, and only what is still in the list."""

from collections.abc import Callable
from pathlib import Path

import anyio

from mcphost.clean import whole
from mcphost.client.session import Session
from mcphost.errors import McpHostError, StoreError
from mcphost.host.asks.root_list import Folder, Folders, Heard, file_uri
from mcphost.host.asks.roots import Roots
from mcphost.host.events import RootsTold
from mcphost.host.ledger.journal import Act, Journal
from mcphost.host.questions.front import Front
from mcphost.host.questions.questions import NeverShare, ShareAlways, ShareOnce, ShareRoots, ShareSession
from mcphost.protocol.asks import AskDeclined, Root, RootsReply
from mcphost.protocol.notices import RootsListChanged
from mcphost.store.folders import FolderAnswers
from mcphost.words import counted


def _unsaid(text: str, hint: str) -> None:
    """Nobody is told."""


class Sharing:
    """Answers roots/list of one server; it hears of a folder only after the user agreed to show it that one.

    An answer for good is kept by the server's name, its `digest` and the real folder; `answers` None keeps none.
    `tell` receives why an answer could not be kept: then it holds for this run.
    """

    def __init__(
        self,
        server: str,
        roots: Roots,
        front: Front,
        journal: Journal,
        *,
        answers: FolderAnswers | None = None,
        digest: Callable[[], str] = lambda: "",
        tell: Callable[[str, str], None] = _unsaid,
    ) -> None:
        self._journal = journal
        self._server = server
        self._roots = roots
        self._front = front
        self._answers = answers
        self._digest = digest
        self._warn = tell
        self._session: frozenset[Root] = frozenset()
        self._never: frozenset[str] = frozenset()
        self._for_good: frozenset[str] = frozenset()
        self._told: tuple[Root, ...] | None = None
        self._refused = False
        self._told_at: int | None = None
        self._one_at_a_time = anyio.Lock()

    @property
    def heard(self) -> Heard:
        """What the server knows."""
        told = self._told or ()
        for_good = bool(told) and {root.uri for root in told} <= self._for_good
        agreed = bool(self._session) and {*told} <= self._session
        return Heard(self._told, self._refused, for_good or agreed, for_good)

    async def answer(self, why: str) -> RootsReply | AskDeclined:
        """The roots, or the refusal of the user. Raises StoreError, Declined."""
        async with self._one_at_a_time:
            folders = await self._roots.now()
            version = self._roots.version
            always, never = await self._kept()
            may = tuple(one for one in folders.told if one.path not in never)
            # A folder that is gone or was taken away asks nothing: the server hears less than was agreed to.
            agreed = {one.root for one in may if one.path in always or one.root in self._session}
            new = tuple(one for one in may if one.root not in agreed)
            if not may:
                return self._tell(RootsReply(()), version)
            who = "answer"
            if not new:
                who = "grant" if all(one.path in always for one in may) else "session"
                grants = ", ".join(sorted({always[one.path] for one in may if one.path in always}))
                await self._journal.decided(Act(kind="roots", server=self._server), "shared", who=who, grant=grants)
            else:
                verdict = await self._ask(folders, new, why)
                if verdict == "deny" and not agreed:
                    self._refused = True
                    self._changed()
                    return AskDeclined("The user does not share folders with this server.")
                agreed |= {one.root for one in new} if verdict == "share" else set()
                # The list may have changed while the question was open; of what is new nothing was said.
                await self._roots.now()
            reply = self._roots.still(RootsReply(tuple(one.root for one in may if one.root in agreed)))
            act = Act(kind="roots", server=self._server, arguments={"roots": [root.uri for root in reply.roots]})
            await self._journal.noted(act, "told", decision=counted(len(reply.roots), "folder"), who=who)
            return self._tell(self._roots.still(reply), version)

    async def _kept(self) -> tuple[dict[str, str], frozenset[str]]:
        """The folders that it may know for good, each with the id of that answer, and those it never may.

        While the store fails nothing in it counts as agreed, and every folder is asked about. Raises nothing.
        """
        try:
            kept = await self._answers.of(self._server, self._digest()) if self._answers is not None else {}
        except StoreError as error:
            self._warn(error.message, error.hint)
            kept = {}
        always = {path: one.id for path, one in kept.items() if one.shared}
        self._for_good = frozenset(file_uri(Path(path)) for path in always)
        return always, self._never | (kept.keys() - always.keys())

    async def _ask(self, folders: Folders, new: tuple[Folder, ...], why: str) -> str:
        """Ask about folders that nothing was said about: "share", "never" or "deny". Raises Declined."""
        verdict = await self._front.ask(
            ShareRoots(
                server=self._server,
                why=why,
                roots=tuple(one.root for one in new),
                gone=folders.gone,
                origins=tuple(one.origin for one in new),
                warnings=tuple(one.warning for one in new),
            )
        )
        if isinstance(verdict, ShareSession):
            self._session |= {one.root for one in new}
        elif isinstance(verdict, ShareAlways | NeverShare):
            await self._keep(new, shared=isinstance(verdict, ShareAlways))
        if isinstance(verdict, NeverShare):
            return "never"
        return "share" if isinstance(verdict, ShareOnce | ShareSession | ShareAlways) else "deny"

    async def _keep(self, folders: tuple[Folder, ...], *, shared: bool) -> None:
        """Keep an answer for good, recorded first; for this run when the store fails. Raises Declined."""
        decision = "always" if shared else "never"
        for one in folders:
            act = Act(kind="roots", server=self._server, subject=whole(one.path), definition=self._digest())
            await self._journal.noted(act, "kept", decision=decision, who=self._front.who)
        paths = [one.path for one in folders]
        try:
            if self._answers is None:
                raise StoreError("Answers about folders are not kept here.")
            await self._answers.give(self._server, self._digest(), paths, shared=shared)
        except StoreError as error:
            self._warn(error.message, error.hint)
            self._session |= {one.root for one in folders} if shared else frozenset[Root]()
            self._never |= frozenset[str]() if shared else frozenset(paths)
            return
        self._for_good |= {one.root.uri for one in folders} if shared else frozenset[str]()

    def _tell(self, reply: RootsReply, version: int) -> RootsReply:
        self._told, self._told_at, self._refused = reply.roots, version, False
        self._changed()
        if version != self._roots.version:
            self._roots.poke()
        return reply

    def _changed(self) -> None:
        self._roots.put(RootsTold(self._server, tuple(root.uri for root in self._told or ()), self._refused))

    def still(self, reply: RootsReply) -> RootsReply:
        """What of a reply may leave now."""
        left = self._roots.still(reply)
        self._told = left.roots
        return left

    async def keep_told(self, session: Session, warn: Callable[[str], None]) -> None:
        """While a session lasts: tell a server of the handshake era that the list it was told is no longer the list.

        One that never was told has nothing that could be out of date; the other era asks when it wants to know.
        """
        if session.facts.era != "handshake":
            return
        try:
            while True:
                if self._told_at is None or self._told_at == self._roots.version:
                    await self._roots.moved()
                    continue
                self._told_at = self._roots.version
                await _tell(session, warn)
        finally:
            # The next session is with a program that was told nothing.
            self._told = self._told_at = None


async def _tell(session: Session, warn: Callable[[str], None]) -> None:
    try:
        await session.tell(RootsListChanged())
    except McpHostError as error:
        warn(f"It could not be told that the folders changed: {error.message}")
