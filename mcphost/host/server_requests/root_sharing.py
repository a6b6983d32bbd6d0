"""Tells one server the user's folders: only what the user agreed to show it, and only what is still in the list.

A server that asks while no call, read or prompt of it runs is asked about when the first of these needs the answer.
"""

import math
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import anyio

from mcphost.client.session import ServerRequestContext, Session
from mcphost.errors import McpHostError, StoreError
from mcphost.host.audit.audit_log import AuditLog, AuditSubject
from mcphost.host.events import RootsShared
from mcphost.host.questions.frontend import Frontend
from mcphost.host.questions.questions import (
    NeverShare,
    RootsVerdict,
    ShareAlways,
    ShareOnce,
    ShareRoots,
    ShareSession,
)
from mcphost.host.server_requests.folder_questions import FolderQuestions, FolderRequest
from mcphost.host.server_requests.root_list import KnownRoots, RootFolder, RootFolders, file_uri
from mcphost.host.server_requests.roots import Roots
from mcphost.pluralize import pluralize
from mcphost.protocol.notifications import RootsListChangedNotification
from mcphost.protocol.prompts import GetPrompt
from mcphost.protocol.resources import ReadResource
from mcphost.protocol.server_requests import ListRootsResult, Root, ServerRequestRejection
from mcphost.protocol.tools import CallTool
from mcphost.sanitize import replace_surrogates
from mcphost.serialization import Struct

HOLD_SECONDS = 50.0
"""How long a roots/list waits for the first call; the SDKs give up on an answer after 60 s."""
METHODS_NEEDING_ROOTS = frozenset({CallTool.METHOD, ReadResource.METHOD, GetPrompt.METHOD})
"""What a server may need the folders for."""
BLOCKED_TIMEOUT = 2.0
"""How long a request of ours may go unanswered while a roots/list waits: the server may want its answer first."""
RELIST_SECONDS = 1.0
"""How long a call waits for a server to list again that was told to."""
REFUSAL_SECONDS = 60.0
"""How long a refusal answers the same question again."""
MAX_HELD_REQUESTS = 5
"""Requests of one server that wait; what comes beyond is answered with an empty list."""


def _ignore_notice(text: str, hint: str) -> None:
    """Nobody is told."""


def _empty_text() -> str:
    return ""


class _ServerFolders(Struct, frozen=True):
    """The list as it is for one server: what it may be told, and why."""

    folders: RootFolders
    version: int
    allowed: tuple[RootFolder, ...]
    approved: dict[str, str]
    """Paths that it is told, with the id of the lasting answer or "" for one of this run."""

    @property
    def undecided(self) -> tuple[RootFolder, ...]:
        """The folders that nothing was said about."""
        return tuple(one for one in self.allowed if one.path not in self.approved)


class RootSharing:
    """Answers roots/list of one server; it hears of a folder only after the user agreed to show it that one.

    An answer for good is kept by the server's name, its `digest` and the real folder.
    `tell` receives why an answer could not be kept: then it holds for this run. `questions` are those of all servers.
    """

    def __init__(
        self,
        server: str,
        roots: Roots,
        front: Frontend,
        audit: AuditLog,
        *,
        digest: Callable[[], str] = _empty_text,
        notify: Callable[[str, str], None] = _ignore_notice,
        folder_questions: FolderQuestions | None = None,
        account: Callable[[], str] = _empty_text,
    ) -> None:
        self._audit = audit
        self.server = server
        self._roots = roots
        self.frontend = front
        self._digest = digest
        self._notify = notify
        self._account = account
        self._folder_questions = folder_questions or FolderQuestions()
        self._answers, self._clock = self._folder_questions.answers, self._folder_questions.clock
        self._folder_questions.register(self)
        self._session_roots: frozenset[Root] = frozenset()
        self._never_paths: frozenset[str] = frozenset()
        self._once_roots: frozenset[Root] = frozenset()
        self._once_replies_left = 0
        self._refused_at = -math.inf
        self._refused_roots: frozenset[Root] = frozenset()
        self._permanent_uris: frozenset[str] = frozenset()
        self.has_answers = False
        """Whether a folder of the list may be told though nobody can be asked; known after `begin`."""
        # What the server knows.
        self._sent_roots: tuple[Root, ...] | None = None
        self._recorded_roots: tuple[Root, ...] | None = None
        self._is_refused = False
        self._sent_version: int | None = None
        self._reply_count = 0
        # What waits.
        self._is_ready = False
        self._running_calls = 0
        self._other_requests: dict[object, float] = {}
        self._held_count = 0
        self._asking_count = 0
        self._preparing_count = 0
        self._is_answer_pending = False
        self._decision_count = 0
        self._needs_relisting = False
        self._wakeup = anyio.Event()

    @property
    def known_roots(self) -> KnownRoots:
        """What the server knows."""
        told = self._sent_roots or ()
        for_good = bool(told) and {root.uri for root in told} <= self._permanent_uris
        agreed = bool(self._session_roots) and {*told} <= self._session_roots
        return KnownRoots(self._sent_roots, self._is_refused, for_good or agreed, for_good)

    @property
    def is_waiting(self) -> bool:
        """Whether the server asked and has no answer that was meant for it."""
        return self._held_count > 0 or self._is_answer_pending or self._asking_count > 0

    async def begin_connection(self) -> None:
        """Begin a connection, before its first request: nothing was asked for yet. Raises StoreError."""
        self._is_answer_pending = self._needs_relisting = False
        if not self._can_ask:
            self.has_answers = bool((await self._inspect_folders()).approved)

    def mark_ready(self) -> None:
        """Calls may be made from now on; what waits is asked about with the first."""
        self._is_ready = True

    # -- answering
    async def answer(
        self, why: str, context: ServerRequestContext | None = None
    ) -> ListRootsResult | ServerRequestRejection:
        """The roots, or the refusal of the user; later, when nothing needs them yet. Raises StoreError, Declined.

        A request that is taken back, or waits too long, is asked about with the next call.
        """
        context = context or ServerRequestContext()
        seen = await self._inspect_folders()
        is_tied = context.method in METHODS_NEEDING_ROOTS
        if (
            seen.undecided
            and self._can_ask
            and context.revision.era == "handshake"
            and not (self._running_calls or is_tied)
        ):
            if seen.approved:
                # It is told what was agreed to, and asked about what is new with its next call.
                self._is_answer_pending = True
                return await self._make_reply(seen, was_asked=False)
            if not await self._wait_for_decision():
                return ListRootsResult(())
            seen = await self._inspect_folders()
        asked = bool(seen.undecided) and await self._ask_user(why)
        if asked or seen.undecided:
            seen = await self._inspect_folders()
        if seen.allowed and not seen.approved and seen.undecided:
            self._note_refusal()
            return ServerRequestRejection("The user does not share folders with this server.")
        return await self._make_reply(seen, was_asked=asked)

    def on_request_cancelled(self) -> None:
        """Ask with the next call: the server wanted to know the folders, and gave up before it heard."""
        self._is_answer_pending = True

    @property
    def _can_ask(self) -> bool:
        return ShareRoots.KIND in self.frontend.kinds

    async def _ask_user(self, why: str) -> bool:
        """Have the user asked; whether they were. Raises StoreError, Declined."""
        if not self._can_ask:
            return False
        self._asking_count += 1
        try:
            return await self._folder_questions.ask(self, why)
        finally:
            self._asking_count -= 1

    async def _make_reply(self, server_folders: _ServerFolders, *, was_asked: bool) -> ListRootsResult:
        """What is agreed to and there, recorded before it leaves where it differs from what was told last."""
        reply = self._roots.filter_reply(
            ListRootsResult(tuple(one.root for one in server_folders.allowed if one.path in server_folders.approved))
        )
        if self._once_replies_left:
            self._once_replies_left -= 1
        if server_folders.allowed and reply.roots != self._recorded_roots:
            grants = sorted({ident for ident in server_folders.approved.values() if ident})
            who = "answer" if was_asked else "grant" if all(server_folders.approved.values()) else "session"
            if not was_asked:
                act = AuditSubject(kind="roots", server=self.server)
                await self._audit.record_decision(act, "shared", who=who, grant=", ".join(grants))
            act = AuditSubject(
                kind="roots", server=self.server, arguments={"roots": [root.uri for root in reply.roots]}
            )
            await self._audit.record_event(act, "told", decision=pluralize(len(reply.roots), "folder"), who=who)
            self._recorded_roots = reply.roots
            reply = self._roots.filter_reply(reply)
        return self._record_reply(reply, server_folders.version)

    async def _inspect_folders(self) -> _ServerFolders:
        """The list now, and what was said about it. While the store fails nothing in it counts as agreed.

        Raises StoreError when the list itself cannot be read.
        """
        folders = await self._roots.refresh()
        version = self._roots.version
        try:
            kept = await self._answers.of(self.server, self._digest()) if self._answers is not None else {}
        except StoreError as error:
            self._notify(error.message, error.hint)
            kept = {}
        self._permanent_uris = frozenset(file_uri(Path(path)) for path, one in kept.items() if one.shared)
        never = self._never_paths | {path for path, one in kept.items() if not one.shared}
        may = tuple(one for one in folders.available if one.path not in never)
        run = self._session_roots | (self._once_roots if self._once_replies_left else frozenset[Root]())
        agreed = {one.path: kept[one.path].id for one in may if one.path in kept}
        agreed |= {one.path: "" for one in may if one.path not in kept and one.root in run}
        return _ServerFolders(folders, version, may, agreed)

    # -- waiting until it is needed
    async def _wait_for_decision(self) -> bool:
        """Wait until a call needs the answer, or the user gave one; False when nobody did in time."""
        if self._held_count >= MAX_HELD_REQUESTS:
            return False
        self._held_count += 1
        is_needed = False
        try:
            is_needed = await self._wait_until_needed()
        finally:
            self._held_count -= 1
            self._is_answer_pending = self._is_answer_pending or not is_needed
        return is_needed

    async def _wait_until_needed(self) -> bool:
        ends, before = anyio.current_time() + HOLD_SECONDS, self._decision_count
        while self._decision_count == before:
            until = min((ends, *(began + BLOCKED_TIMEOUT for began in self._other_requests.values())))
            if not self._preparing_count and until <= anyio.current_time():
                return False
            stir = self._wakeup
            with anyio.CancelScope(deadline=math.inf if self._preparing_count else until):
                await stir.wait()
        return True

    def _wake(self) -> None:
        self._wakeup.set()
        self._wakeup = anyio.Event()

    @contextmanager
    def track_request(self, method: str) -> Generator[None]:
        """Around each request of ours in the handshake era."""
        if method in METHODS_NEEDING_ROOTS and self._is_ready:
            self._running_calls += 1
            try:
                yield
            finally:
                self._running_calls -= 1
            return
        one = object()
        self._other_requests[one] = anyio.current_time()
        if self._held_count:
            self._wake()
        try:
            yield
        finally:
            del self._other_requests[one]

    async def prepare(self, why: str) -> bool:
        """Before a call, read or prompt: ask what was put off; whether something was answered. Raises nothing.

        A server that no longer waits for its answer is told that the list changed, and has a moment to list again.
        """
        if not self._is_ready or not (self._held_count or self._is_answer_pending):
            return False
        self._preparing_count += 1
        self._wake()
        try:
            if self._can_ask and (await self._inspect_folders()).undecided:
                await self._folder_questions.ask(self, why)
            self._release_held()
        except McpHostError as error:
            self._notify(error.message, error.hint)
        finally:
            self._preparing_count -= 1
            self._wake()
        if self._needs_relisting:
            before = self._reply_count
            with anyio.move_on_after(RELIST_SECONDS):
                while self._reply_count == before:
                    await self._wakeup.wait()
        return True

    def _release_held(self) -> None:
        """Let held requests be answered, and one that is gone be made again."""
        if self._is_answer_pending and not (self._held_count or self._asking_count):
            self._needs_relisting = not self._is_refused
            self._roots.notify_change()
        self._is_answer_pending = False
        self._decision_count += 1
        self._wake()

    # -- the question
    async def pending_request(self, why: str) -> FolderRequest | None:
        """What there is to ask now; None for nothing, or for what was refused a moment ago. Raises StoreError."""
        seen = await self._inspect_folders()
        roots = frozenset(one.root for one in seen.undecided)
        was_refused = roots == self._refused_roots and self._clock() - self._refused_at < REFUSAL_SECONDS
        if not roots or was_refused:
            return None
        return FolderRequest(self.server, why, self._account(), seen.undecided, seen.folders.missing)

    async def apply_verdict(self, request: FolderRequest, verdict: RootsVerdict) -> None:
        """Take the user's answer for this server. Raises ConsentDenied."""
        roots = frozenset(one.root for one in request.folders)
        if isinstance(verdict, ShareOnce | ShareSession | ShareAlways):
            self._is_refused = False
        else:
            self._note_refusal()
        if isinstance(verdict, ShareOnce):
            self._once_roots, self._once_replies_left = roots, max(1, self._asking_count + self._held_count)
        elif isinstance(verdict, ShareSession):
            self._session_roots |= roots
        elif isinstance(verdict, ShareAlways | NeverShare):
            await self._save_answer(request.folders, shared=isinstance(verdict, ShareAlways))
        else:
            self._refused_roots, self._refused_at = roots, self._clock()
        self._release_held()

    async def _save_answer(self, folders: tuple[RootFolder, ...], *, shared: bool) -> None:
        """Keep an answer for good, recorded first; for this run when the store fails. Raises ConsentDenied."""
        decision = "always" if shared else "never"
        for one in folders:
            act = AuditSubject(
                kind="roots", server=self.server, name=replace_surrogates(one.path), definition=self._digest()
            )
            await self._audit.record_event(act, "kept", decision=decision, who=self.frontend.who)
        paths = [one.path for one in folders]
        try:
            if self._answers is None:
                raise StoreError("Answers about folders are not kept here.")
            await self._answers.give(self.server, self._digest(), paths, shared=shared)
        except StoreError as error:
            self._notify(error.message, error.hint)
            self._session_roots |= {one.root for one in folders} if shared else frozenset[Root]()
            self._never_paths |= frozenset[str]() if shared else frozenset(paths)
            return
        self._permanent_uris |= {one.root.uri for one in folders} if shared else frozenset[str]()

    # -- what the server knows
    def _record_reply(self, reply: ListRootsResult, version: int) -> ListRootsResult:
        before = self.known_roots
        self._sent_roots, self._sent_version, self._is_refused = reply.roots, version, False
        self._reply_count += 1
        if self.known_roots != before:
            self._publish_known_roots()
        if version != self._roots.version:
            self._roots.notify_change()
        self._wake()
        return reply

    def _note_refusal(self) -> None:
        if not self._is_refused:
            self._is_refused = True
            self._publish_known_roots()

    def _publish_known_roots(self) -> None:
        self._roots.publish(
            RootsShared(self.server, tuple(root.uri for root in self._sent_roots or ()), self._is_refused)
        )

    def filter_reply(self, reply: ListRootsResult) -> ListRootsResult:
        """What of a reply may leave now."""
        left = self._roots.filter_reply(reply)
        self._sent_roots = left.roots
        return left

    async def send_list_changes(self, session: Session, warn: Callable[[str], None]) -> None:
        """While a session lasts: tell a server of the handshake era that the list it was told is no longer the list.

        One that never was told has nothing that could be out of date; the other era asks when it wants to know.
        """
        self.mark_ready()
        try:
            if session.facts.era != "handshake":
                await anyio.sleep_forever()
            while True:
                is_old = self._sent_version is not None and self._sent_version != self._roots.version
                if not (is_old or self._needs_relisting):
                    await self._roots.wait_for_change()
                    continue
                self._sent_version = self._roots.version if is_old else self._sent_version
                self._needs_relisting = False
                await _send_list_changed(session, warn)
                self._wake()
        finally:
            # The next session is with a program that was told nothing.
            self._sent_roots = self._recorded_roots = self._sent_version = None
            self._is_ready = self._is_answer_pending = self._needs_relisting = False
            self._once_replies_left = 0


async def _send_list_changed(session: Session, warn: Callable[[str], None]) -> None:
    try:
        await session.notify(RootsListChangedNotification())
    except McpHostError as error:
        warn(f"It could not be told that the folders changed: {error.message}")
