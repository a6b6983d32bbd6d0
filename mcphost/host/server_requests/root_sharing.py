"""Replies to one server's roots/list requests, with the folders that the user agreed to share.

Before protocol version 2026-07-28, a server can request roots while none of its tool calls, resource reads or
prompt requests is running. In this case, the user is asked before the next tool call, resource read or prompt
request.
"""

import math
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import anyio

from mcphost.client.session import ServerRequestContext, Session
from mcphost.errors import McpHostError, StoreError
from mcphost.host.audit.audit_log import AuditLog, AuditSubject
from mcphost.host.events import RootsShared
from mcphost.host.questions import kinds
from mcphost.host.questions.frontend import Frontend
from mcphost.host.server_requests.root_folders import (
    FolderQuestions,
    FolderRequest,
    KnownRoots,
    RootFolder,
    RootFolders,
    file_uri,
)
from mcphost.host.server_requests.roots import Roots
from mcphost.pluralize import pluralize
from mcphost.protocol.notifications import RootsListChangedNotification
from mcphost.protocol.prompts import GetPrompt
from mcphost.protocol.resources import ReadResource
from mcphost.protocol.server_requests import ListRootsResult, Root, ServerRequestRejection
from mcphost.protocol.tools import CallTool
from mcphost.sanitize import replace_surrogates
from mcphost.serialization import Struct

if TYPE_CHECKING:
    from mcphost.host.questions.questions import RootsVerdict

HOLD_SECONDS = 50.0
"""Maximum seconds that a roots/list request waits for the first tool call; the SDKs time out after 60 s."""
METHODS_NEEDING_ROOTS = frozenset({CallTool.METHOD, ReadResource.METHOD, GetPrompt.METHOD})
"""Client requests for which a server may need the folders."""
BLOCKED_TIMEOUT = 2.0
"""Seconds that another client request may wait for a held roots/list, whose reply the server may need first."""
RELIST_SECONDS = 1.0
"""Maximum seconds that a tool call waits for the server to request the roots again after a notification."""
REFUSAL_SECONDS = 60.0
"""Seconds during which a refusal also applies to repetitions of the same request."""
MAX_HELD_REQUESTS = 5
"""Maximum waiting requests of one server; any others get an empty list."""


def _ignore_notice(text: str, hint: str) -> None:
    """Do nothing; this is the default for the parameter `notify`."""


def _empty_text() -> str:
    return ""


class _ServerFolders(Struct, frozen=True):
    """The folders in the list of roots, and the user's decisions about sharing them with one server."""

    folders: RootFolders
    version: int
    allowed: tuple[RootFolder, ...]
    approved: dict[str, str]
    """The id of the stored answer, keyed by shared path; "" if the folder is shared in this run only."""

    @property
    def undecided(self) -> tuple[RootFolder, ...]:
        """The folders that the user has neither approved nor denied for this server."""
        return tuple(folder for folder in self.allowed if folder.path not in self.approved)


class RootSharing:
    """Policy for sharing folders with one server, which receives a folder only if the user agrees.

    A permanent answer is stored with the server's name, the digest that *digest* returns, and the folder's real
    path. If it cannot be stored, *notify* is called with a message and a hint, and the answer applies only to this
    run. All servers share the same *folder_questions*.
    """

    def __init__(
        self,
        server: str,
        roots: Roots,
        frontend: Frontend,
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
        self.frontend = frontend
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
        """Whether a folder can be shared without asking, because of a stored answer; set by `begin_connection`."""
        # What the server has received
        self._sent_roots: tuple[Root, ...] | None = None
        self._recorded_roots: tuple[Root, ...] | None = None
        self._is_refused = False
        self._sent_version: int | None = None
        self._reply_count = 0
        # Waiting requests
        self._is_ready = False
        self._running_calls = 0
        self._other_requests: dict[object, float] = {}
        self.held_count = 0
        self._asking_count = 0
        self._preparing_count = 0
        self._is_answer_pending = False
        self._has_ended = False
        self._decision_count = 0
        self._needs_relisting = False
        self._wakeup = anyio.Event()

    @property
    def known_roots(self) -> KnownRoots:
        """The roots that the server has received, and the user's answer about sharing them."""
        sent = self._sent_roots or ()
        is_permanent = bool(sent) and {root.uri for root in sent} <= self._permanent_uris
        is_approved = bool(self._session_roots) and {*sent} <= self._session_roots
        return KnownRoots(self._sent_roots, self._is_refused, is_permanent or is_approved, is_permanent)

    @property
    def is_waiting(self) -> bool:
        """Whether a roots request from the server is still unanswered."""
        return self.held_count > 0 or self._is_answer_pending or self._asking_count > 0

    async def begin_connection(self) -> None:
        """Forget what is pending from the previous connection, such as questions that were postponed.

        If the frontend cannot ask the user, the stored answers are read, and `has_answers` is set to True if they allow
        sharing at least one folder, otherwise to False. Raises StoreError if the list of folders cannot be read.
        """
        self._is_answer_pending = self._needs_relisting = self._has_ended = False
        if not self._can_ask:
            self.has_answers = bool((await self._inspect_folders()).approved)

    def end_connection(self) -> None:
        """Record that the connection has ended; later questions about folders no longer cover this server."""
        self._has_ended = True
        self._is_ready = self._is_answer_pending = self._needs_relisting = False

    def mark_ready(self) -> None:
        """Record that the server is ready for requests; only then are deferred questions asked.

        A deferred question is asked before the next tool call, resource read or prompt request.
        """
        self._is_ready = True

    # -- answering
    async def answer(
        self, why: str, context: ServerRequestContext | None = None
    ) -> ListRootsResult | ServerRequestRejection:
        """Return the roots to send, or a rejection; ask the user about undecided folders.

        *why* is the reason shown with the question. *context* is the client request, if known, during which the
        server sent its request.

        Before protocol version 2026-07-28, the user is asked only while a tool call, resource read or prompt
        request is running. If the roots request arrives at any other time, the folders that are already approved
        are sent at once; if there are none, the roots request waits. In both cases, the user is asked before the
        next tool call, resource read or prompt request, even if the roots request has timed out.

        Raises StoreError if the list of folders cannot be read, and ConsentDenied if the decision or the reply cannot
        be recorded in the audit log.
        """
        context = context or ServerRequestContext()
        folders = await self._inspect_folders()
        belongs_to_call = context.method in METHODS_NEEDING_ROOTS
        if (
            folders.undecided
            and self._can_ask
            and context.revision.era == "handshake"
            and not (self._running_calls or belongs_to_call)
        ):
            if folders.approved:
                # Send the approved folders now; ask about the new ones before the next tool call.
                self._is_answer_pending = True
                return await self._make_reply(folders, was_asked=False)
            if not await self._wait_for_decision():
                return ListRootsResult(())
            folders = await self._inspect_folders()
        was_asked = bool(folders.undecided) and await self._ask_user(why)
        if was_asked or folders.undecided:
            folders = await self._inspect_folders()
        if folders.allowed and not folders.approved and folders.undecided:
            self._note_refusal()
            return ServerRequestRejection("The user does not share folders with this server.")
        return await self._make_reply(folders, was_asked=was_asked)

    def on_request_cancelled(self) -> None:
        """Handle the server's cancellation of its roots request, which withdraws the question to the user.

        The question is asked again before the next tool call, resource read or prompt request, unless the
        connection has ended.
        """
        self._is_answer_pending = not self._has_ended

    @property
    def _can_ask(self) -> bool:
        return kinds.SHARE_ROOTS in self.frontend.kinds

    async def _ask_user(self, why: str) -> bool:
        """Ask the user which folders to share; return False if nothing was asked.

        *why* is the reason shown with the question. Raises StoreError or ConsentDenied, as `FolderQuestions.ask` does.
        """
        if not self._can_ask:
            return False
        self._asking_count += 1
        try:
            return await self._folder_questions.ask(self, why)
        finally:
            self._asking_count -= 1

    async def _make_reply(self, server_folders: _ServerFolders, *, was_asked: bool) -> ListRootsResult:
        """Return a reply with the approved folders, recorded in the audit log if it differs from the last reply.

        *was_asked* means that the user was asked about this reply. The audit log then names the user's answer as the
        reason for sending the folders; otherwise, it names an earlier decision. Raises ConsentDenied if the audit log
        cannot record the reply.
        """
        reply = self._roots.filter_reply(
            ListRootsResult(
                tuple(folder.root for folder in server_folders.allowed if folder.path in server_folders.approved)
            )
        )
        if self._once_replies_left:
            self._once_replies_left -= 1
        if server_folders.allowed and reply.roots != self._recorded_roots:
            grants = sorted({grant_id for grant_id in server_folders.approved.values() if grant_id})
            who = "answer" if was_asked else "grant" if all(server_folders.approved.values()) else "session"
            if not was_asked:
                subject = AuditSubject(kind="roots", server=self.server)
                await self._audit.record_decision(subject, "shared", who=who, grant=", ".join(grants))
            subject = AuditSubject(
                kind="roots", server=self.server, arguments={"roots": [root.uri for root in reply.roots]}
            )
            await self._audit.record_event(subject, "told", decision=pluralize(len(reply.roots), "folder"), who=who)
            self._recorded_roots = reply.roots
            reply = self._roots.filter_reply(reply)
        return self._record_reply(reply, server_folders.version)

    async def _inspect_folders(self) -> _ServerFolders:
        """Inspect the folders and return them with the user's decisions for this server.

        If the stored answers cannot be read, the user is notified, and no stored answer applies. Raises StoreError if
        the list of folders cannot be read.
        """
        folders = await self._roots.refresh()
        version = self._roots.version
        try:
            stored = (
                await self._answers.find_for_server(self.server, self._digest()) if self._answers is not None else {}
            )
        except StoreError as error:
            self._notify(error.message, error.hint)
            stored = {}
        self._permanent_uris = frozenset(file_uri(Path(path)) for path, answer in stored.items() if answer.is_shared)
        denied = self._never_paths | {path for path, answer in stored.items() if not answer.is_shared}
        allowed = tuple(folder for folder in folders.available if folder.path not in denied)
        session = self._session_roots | (self._once_roots if self._once_replies_left else frozenset[Root]())
        approved = {folder.path: stored[folder.path].id for folder in allowed if folder.path in stored}
        approved |= {folder.path: "" for folder in allowed if folder.path not in stored and folder.root in session}
        return _ServerFolders(folders, version, allowed, approved)

    # -- waiting for a call
    async def _wait_for_decision(self) -> bool:
        """Wait until the user has decided about the folders, usually before the next tool call; then return True.

        Returns False after a timeout, or immediately if MAX_HELD_REQUESTS requests are already waiting.
        """
        if self.held_count >= MAX_HELD_REQUESTS:
            return False
        self.held_count += 1
        is_needed = False
        try:
            is_needed = await self._wait_until_needed()
        finally:
            self.held_count -= 1
            self._is_answer_pending = not self._has_ended and (self._is_answer_pending or not is_needed)
        return is_needed

    async def _wait_until_needed(self) -> bool:
        deadline, before = anyio.current_time() + HOLD_SECONDS, self._decision_count
        while self._decision_count == before:
            until = min((deadline, *(began + BLOCKED_TIMEOUT for began in self._other_requests.values())))
            if not self._preparing_count and until <= anyio.current_time():
                return False
            wakeup = self._wakeup
            with anyio.CancelScope(deadline=math.inf if self._preparing_count else until):
                await wakeup.wait()
        return True

    def _wake(self) -> None:
        self._wakeup.set()
        self._wakeup = anyio.Event()

    @contextmanager
    def track_request(self, method: str) -> Generator[None]:
        """Return a context manager that marks a client request with this method as running.

        The user can be asked about folders while a tool call, resource read or prompt request is running. During any
        other client request, a roots request waits for the user's decision only for a short time, because the server
        may need the roots before it can respond. Used only before protocol version 2026-07-28.
        """
        if method in METHODS_NEEDING_ROOTS and self._is_ready:
            self._running_calls += 1
            try:
                yield
            finally:
                self._running_calls -= 1
            return
        token = object()
        self._other_requests[token] = anyio.current_time()
        if self.held_count:
            self._wake()
        try:
            yield
        finally:
            del self._other_requests[token]

    async def prepare(self, why: str) -> bool:
        """Ask a deferred question about folders before a tool call, resource read or prompt request.

        *why* is the reason shown with the question. If the server has already cancelled its roots request, the server
        is notified that the roots changed, and mcphost waits up to one second for a new request. Returns False if no
        roots request was waiting for a decision. Never raises.
        """
        if not self._is_ready or not (self.held_count or self._is_answer_pending):
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
        """Let the roots requests that waited for the user's decision continue.

        If the server has already cancelled its roots request, the server is notified that the roots changed, so that
        it sends a new request.
        """
        if self._is_answer_pending and not (self.held_count or self._asking_count):
            self._needs_relisting = not self._is_refused
            self._roots.notify_change()
        self._is_answer_pending = False
        self._decision_count += 1
        self._wake()

    # -- the question
    async def pending_request(self, why: str) -> FolderRequest | None:
        """Return the request about which the user must be asked now, or None if there is nothing to ask.

        There is nothing to ask if the user has decided about all folders, or refused the same folders in the last 60
        seconds. *why* is the reason shown with the question. Raises StoreError if the list of folders cannot be read.
        """
        folders = await self._inspect_folders()
        roots = frozenset(folder.root for folder in folders.undecided)
        was_refused = roots == self._refused_roots and self._clock() - self._refused_at < REFUSAL_SECONDS
        if not roots or was_refused:
            return None
        return FolderRequest(self.server, why, self._account(), folders.undecided, folders.folders.missing)

    async def apply_verdict(self, request: FolderRequest, verdict: "RootsVerdict") -> None:
        """Record the user's decision about sharing folders, and release the roots requests waiting for it.

        Raises ConsentDenied if the decision cannot be recorded in the audit log.
        """
        from mcphost.host.questions.questions import NeverShare, ShareAlways, ShareOnce, ShareSession

        roots = frozenset(folder.root for folder in request.folders)
        if isinstance(verdict, ShareOnce | ShareSession | ShareAlways):
            self._is_refused = False
        else:
            self._note_refusal()
        if isinstance(verdict, ShareOnce):
            self._once_roots, self._once_replies_left = roots, max(1, self._asking_count + self.held_count)
        elif isinstance(verdict, ShareSession):
            self._session_roots |= roots
        elif isinstance(verdict, ShareAlways | NeverShare):
            await self._save_answer(request.folders, shared=isinstance(verdict, ShareAlways))
        else:
            self._refused_roots, self._refused_at = roots, self._clock()
        self._release_held()

    async def _save_answer(self, folders: tuple[RootFolder, ...], *, shared: bool) -> None:
        """Record a permanent answer about *folders* in the audit log and store it. Raises ConsentDenied.

        *shared* is true if the user shares the folders, and false if the user never shares them. If the answer
        cannot be stored, it applies only to this run.
        """
        decision = "always" if shared else "never"
        for folder in folders:
            subject = AuditSubject(
                kind="roots", server=self.server, name=replace_surrogates(folder.path), definition=self._digest()
            )
            await self._audit.record_event(subject, "kept", decision=decision, who=self.frontend.who)
        paths = [folder.path for folder in folders]
        try:
            if self._answers is None:
                raise StoreError("Answers about folders are not stored here.")
            await self._answers.save(self.server, self._digest(), paths, is_shared=shared)
        except StoreError as error:
            self._notify(error.message, error.hint)
            self._session_roots |= {folder.root for folder in folders} if shared else frozenset[Root]()
            self._never_paths |= frozenset[str]() if shared else frozenset(paths)
            return
        self._permanent_uris |= {folder.root.uri for folder in folders} if shared else frozenset[str]()

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
        """Return the reply with only the roots that may be sent now, and record these as sent."""
        filtered = self._roots.filter_reply(reply)
        self._sent_roots = filtered.roots
        return filtered

    async def send_list_changes(self, session: Session, warn: Callable[[str], None]) -> None:
        """Notify the server of each change of the roots until the session ends.

        A server that has not received any roots in this session is not notified. Servers with protocol version
        2026-07-28 or later are never notified, because they request the roots each time they need them. *warn* is
        called with a message if a notification cannot be sent. Calls `mark_ready` first, and `end_connection` last.
        """
        self.mark_ready()
        try:
            if session.facts.era != "handshake":
                await anyio.sleep_forever()
            while True:
                is_outdated = self._sent_version is not None and self._sent_version != self._roots.version
                if not (is_outdated or self._needs_relisting):
                    await self._roots.wait_for_change()
                    continue
                self._sent_version = self._roots.version if is_outdated else self._sent_version
                self._needs_relisting = False
                await _send_list_changed(session, warn)
                self._wake()
        finally:
            # The next session's server has not received any roots.
            self._sent_roots = self._recorded_roots = self._sent_version = None
            self._once_replies_left = 0
            self.end_connection()


async def _send_list_changed(session: Session, warn: Callable[[str], None]) -> None:
    try:
        await session.notify(RootsListChangedNotification())
    except McpHostError as error:
        warn(f"The change of the folders could not be sent: {error.message}")
