"""Tells one server the user's folders: only what the user agreed to show it, and only what is still in the list."""

from collections.abc import Callable

import anyio

from mcphost.client.session import Session
from mcphost.errors import McpHostError
from mcphost.host.asks.root_list import Folders, Heard
from mcphost.host.asks.roots import Roots
from mcphost.host.events import RootsTold
from mcphost.host.ledger.journal import Act, Journal
from mcphost.host.questions.front import Front
from mcphost.host.questions.questions import ShareOnce, ShareRoots, ShareSession
from mcphost.protocol.asks import AskDeclined, Root, RootsReply
from mcphost.protocol.notices import RootsListChanged
from mcphost.words import counted


class Sharing:
    """Answers roots/list of one server; it hears of a folder only after the user agreed to show it that one."""

    def __init__(self, server: str, roots: Roots, front: Front, journal: Journal) -> None:
        self._journal = journal
        self._server = server
        self._roots = roots
        self._front = front
        self._shared: tuple[Root, ...] | None = None
        self._told: tuple[Root, ...] | None = None
        self._refused = False
        self._told_at: int | None = None
        self._one_at_a_time = anyio.Lock()

    @property
    def heard(self) -> Heard:
        """What the server knows."""
        return Heard(self._told, self._refused, self._shared is not None)

    async def answer(self, why: str) -> RootsReply | AskDeclined:
        """The roots, or the refusal of the user. Raises StoreError, Declined."""
        async with self._one_at_a_time:
            folders = await self._roots.now()
            version = self._roots.version
            if not folders.there:
                return self._tell(RootsReply(()), version)
            # A folder that is gone or was taken away asks nothing: the server hears less than was agreed to.
            who = "answer"
            if self._shared is not None and set(folders.there) <= set(self._shared):
                who = "session"
                await self._journal.decided(Act(kind="roots", server=self._server), "shared", who=who)
            elif not await self._agreed(folders, why):
                self._refused = True
                self._changed()
                return AskDeclined("The user does not share folders with this server.")
            else:
                # The list may have changed while the question was open; of what is new nothing was said.
                await self._roots.now()
            reply = self._roots.still(RootsReply(folders.there))
            act = Act(kind="roots", server=self._server, arguments={"roots": [root.uri for root in reply.roots]})
            await self._journal.noted(act, "told", decision=counted(len(reply.roots), "folder"), who=who)
            return self._tell(self._roots.still(reply), version)

    async def _agreed(self, folders: Folders, why: str) -> bool:
        told = folders.told
        verdict = await self._front.ask(
            ShareRoots(
                server=self._server,
                why=why,
                roots=folders.there,
                gone=folders.gone,
                origins=tuple(one.origin for one in told),
                warnings=tuple(one.warning for one in told),
            )
        )
        if isinstance(verdict, ShareSession):
            self._shared = folders.there
        return isinstance(verdict, ShareOnce | ShareSession)

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
