"""One question about folders for all servers that wait for its answer at the same moment."""

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
from mcphost.store.roots import FolderAnswers

UNSOLICITED_REASON = "it asked by itself, while no call of it ran"
_VERDICTS: dict[str, RootsVerdict] = {
    "once": ShareOnce(), "session": ShareSession(), "always": ShareAlways(), "never": NeverShare(),
    "deny": DoNotShare(),
}  # fmt: skip


class FolderRequest(Struct, frozen=True):
    """What one server wants to know: the folders that nothing was said about, and those that cannot be read now."""

    server: str
    why: str
    account: str
    folders: tuple[RootFolder, ...]
    gone: tuple[str, ...]


class WaitingServer(Protocol):
    """A server's side of it; see Sharing."""

    @property
    def server(self) -> str:
        """Its name."""
        ...

    @property
    def frontend(self) -> Frontend:
        """Whoever answers its questions."""
        ...

    @property
    def is_waiting(self) -> bool:
        """Whether it asked and has no answer."""
        ...

    async def pending_request(self, why: str) -> FolderRequest | None:
        """What there is to ask now."""
        ...

    async def apply_verdict(self, request: FolderRequest, verdict: RootsVerdict) -> None:
        """Take the answer."""
        ...


class FolderQuestions:
    """Asks about folders, one question at a time; each is about every server that waits when it opens."""

    def __init__(
        self,
        audit: AuditLog | None = None,
        answers: FolderAnswers | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`journal` records what was chosen for each of several servers; `answers` None keeps none for good.

        `clock`, in seconds, says for how long a refusal holds.
        """
        self._audit = audit
        self.answers = answers
        self.clock = clock
        self._servers: list[WaitingServer] = []
        self._lock = anyio.Lock()

    def register(self, server: WaitingServer) -> None:
        """Add a server whose questions may be asked together with those of others."""
        self._servers.append(server)

    async def ask(self, server: WaitingServer, why: str) -> bool:
        """Ask for this server, unless there is nothing to ask any more; whether it was. Raises StoreError, Declined.

        Cancelling withdraws the question; whoever else waits for its answer asks it again.
        """
        if await server.pending_request(why) is None:
            return False
        with pause_call_deadlines():
            async with self._lock:
                # Answered with another server's question, or for a call beside this one.
                mine = await server.pending_request(why) if server.is_waiting else None
                if mine is None:
                    return True
                asked: list[tuple[WaitingServer, FolderRequest]] = [(server, mine)]
                for other in self._servers:
                    theirs = await _pending_request(other) if other is not server and other.is_waiting else None
                    if theirs is not None:
                        asked.append((other, theirs))
                verdict = await server.frontend.ask(_make_question([request for _, request in asked]))
                for one, request in asked:
                    choice = _server_verdict(verdict, one is server, request.server)
                    if len(asked) > 1 and self._audit is not None:
                        act = AuditSubject(kind="roots", server=request.server)
                        name = next((name for name, known in _VERDICTS.items() if known == choice), "deny")
                        await self._audit.record_decision(act, name, who=server.frontend.who)
                    await one.apply_verdict(request, choice)
        return True


async def _pending_request(server: WaitingServer) -> FolderRequest | None:
    try:
        return await server.pending_request(UNSOLICITED_REASON)
    except (StoreError, ConsentDenied):
        return None  # it hears of that when it needs the answer itself


def _server_verdict(verdict: RootsVerdict, is_first: bool, server: str) -> RootsVerdict:
    """The answer for one server; what was not chosen for it is refused."""
    if isinstance(verdict, SharePerServer):
        return _VERDICTS.get(verdict.choices.get(server, "deny"), DoNotShare())
    return verdict if is_first and isinstance(verdict, tuple(map(type, _VERDICTS.values()))) else DoNotShare()


def _make_question(requests: list[FolderRequest]) -> ShareRoots:
    folders = {one.path: one for request in requests for one in request.folders}
    first = requests[0]
    return ShareRoots(
        server=first.server,
        why=first.why,
        roots=tuple(one.root for one in folders.values()),
        gone=first.gone,
        origins=tuple(one.origin for one in folders.values()),
        warnings=tuple(one.warning for one in folders.values()),
        askers=tuple(
            RequestingServer(
                server=one.server, why=one.why, account=one.account, roots=tuple(each.root for each in one.folders)
            )
            for one in requests
        )
        if len(requests) > 1
        else (),
    )
