"""One question about folders for all servers that wait at the same moment."""

import time
from collections.abc import Callable
from typing import Protocol

import anyio

from mcphost.client.timeouts import pause_call_deadlines
from mcphost.errors import ConsentDenied, StoreError
from mcphost.host.audit.audit_log import AuditLog, AuditSubject
from mcphost.host.questions.frontend import Frontend
from mcphost.host.questions.questions import (
    DoNotShare,
    NeverShare,
    RequestingServer,
    RootsVerdict,
    ShareAlways,
    ShareOnce,
    SharePerServer,
    ShareRoots,
    ShareSession,
)
from mcphost.host.server_requests.root_list import RootFolder
from mcphost.serialization import Struct
from mcphost.store.roots import FolderAnswerStore

UNSOLICITED_REASON = "it asked on its own; no call was running"
_VERDICTS: dict[str, RootsVerdict] = {
    "once": ShareOnce(), "session": ShareSession(), "always": ShareAlways(), "never": NeverShare(),
    "deny": DoNotShare(),
}  # fmt: skip


class FolderRequest(Struct, frozen=True):
    """One server's request: the undecided folders, and those that cannot be read now."""

    server: str
    why: str
    account: str
    folders: tuple[RootFolder, ...]
    gone: tuple[str, ...]


class WaitingServer(Protocol):
    """The server's side of a folder question; see RootSharing."""

    @property
    def server(self) -> str:
        """The server's name."""
        ...

    @property
    def frontend(self) -> Frontend:
        """The frontend that answers the server's questions."""
        ...

    @property
    def is_waiting(self) -> bool:
        """Whether the server's request has no answer yet."""
        ...

    async def pending_request(self, why: str) -> FolderRequest | None:
        """Return the request to ask about now, or None."""
        ...

    async def apply_verdict(self, request: FolderRequest, verdict: RootsVerdict) -> None:
        """Apply the user's answer."""
        ...


class FolderQuestions:
    """Queue of folder questions; each covers every server that waits when it opens."""

    def __init__(
        self,
        audit: AuditLog | None = None,
        answers: FolderAnswerStore | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """*audit* records the choice for each of several servers; without *answers* none is stored.

        *clock* returns seconds and limits how long a refusal is repeated.
        """
        self._audit = audit
        self.answers = answers
        self.clock = clock
        self._servers: list[WaitingServer] = []
        self._lock = anyio.Lock()

    def register(self, server: WaitingServer) -> None:
        """Add a server whose questions may be combined with those of others."""
        self._servers.append(server)

    async def ask(self, server: WaitingServer, why: str) -> bool:
        """Ask for this server if it still waits; return whether it did. Raises StoreError or ConsentDenied.

        Cancelling withdraws the question; other waiting servers ask it again.
        """
        if await server.pending_request(why) is None:
            return False
        with pause_call_deadlines():
            async with self._lock:
                # May be answered by another server's question or a concurrent call.
                request = await server.pending_request(why) if server.is_waiting else None
                if request is None:
                    return True
                requests: list[tuple[WaitingServer, FolderRequest]] = [(server, request)]
                for other in self._servers:
                    other_request = await _pending_request(other) if other is not server and other.is_waiting else None
                    if other_request is not None:
                        requests.append((other, other_request))
                verdict = await server.frontend.ask(_make_question([item for _, item in requests]))
                for waiting, item in requests:
                    choice = _server_verdict(verdict, waiting is server, item.server)
                    if len(requests) > 1 and self._audit is not None:
                        subject = AuditSubject(kind="roots", server=item.server)
                        name = next((name for name, known in _VERDICTS.items() if known == choice), "deny")
                        await self._audit.record_decision(subject, name, who=server.frontend.who)
                    await waiting.apply_verdict(item, choice)
        return True


async def _pending_request(server: WaitingServer) -> FolderRequest | None:
    try:
        return await server.pending_request(UNSOLICITED_REASON)
    except (StoreError, ConsentDenied):
        return None  # raised again when that server's own request is answered


def _server_verdict(verdict: RootsVerdict, is_first: bool, server: str) -> RootsVerdict:
    """Return the answer for one server; without a choice it is a refusal."""
    if isinstance(verdict, SharePerServer):
        return _VERDICTS.get(verdict.choices.get(server, "deny"), DoNotShare())
    return verdict if is_first and isinstance(verdict, tuple(map(type, _VERDICTS.values()))) else DoNotShare()


def _make_question(requests: list[FolderRequest]) -> ShareRoots:
    folders = {folder.path: folder for request in requests for folder in request.folders}
    first = requests[0]
    return ShareRoots(
        server=first.server,
        why=first.why,
        roots=tuple(folder.root for folder in folders.values()),
        gone=first.gone,
        origins=tuple(folder.origin for folder in folders.values()),
        warnings=tuple(folder.warning for folder in folders.values()),
        askers=tuple(
            RequestingServer(
                server=request.server,
                why=request.why,
                account=request.account,
                roots=tuple(folder.root for folder in request.folders),
            )
            for request in requests
        )
        if len(requests) > 1
        else (),
    )
