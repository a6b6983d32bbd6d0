"""Recorder of one server's connections in the audit log; it combines repeated failures to reach the server."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

from mcphost.config.approval_digest import server_digest
from mcphost.config.schema import ServerConfig
from mcphost.config.target_secrets import masked_argv, masked_url
from mcphost.errors import McpHostError
from mcphost.host.audit.audit_log import AuditSpan, AuditSubject
from mcphost.host.servers.reconnect_schedule import is_unreachable
from mcphost.host.servers.server_approval import ServerApprovals


class ConnectionRecorder:
    """Recorder of the connections to one server.

    A connection is recorded as two audit rows, for its start and for its end. The first row is written before a process
    is started or an address is contacted.

    While a server cannot be reached, only the first attempt is recorded in this way. All further attempts share two
    rows; the second of these is written when an attempt reaches the server or fails for another reason.
    """

    def __init__(self, approvals: ServerApprovals) -> None:
        self._approvals = approvals
        self._was_unreachable = False
        self._subject: AuditSubject | None = None
        self._who = ""
        self._span: AuditSpan | None = None
        self._attempts = 0  # number of attempts that share the open span; 0 if it records a single connection

    @asynccontextmanager
    async def record(self, server: ServerConfig, is_begun: Callable[[], bool]) -> AsyncGenerator[None]:
        """Return a context manager that records the start and end of a connection.

        *is_begun* returns whether the session has begun. If the block raises an error, the recorded outcome is "lost"
        if the session had begun, else "failed". Raises StoreError or ConsentDenied.
        """
        kind, what = (
            ("process", " ".join(masked_argv(server))) if server.is_stdio else ("connection", masked_url(server))
        )
        subject = AuditSubject(kind=kind, server=server.name, name=what, definition=server_digest(server))
        who = await self._approvals.find_source(server)
        if (subject, who) != (self._subject, self._who):
            self.finish()
            self._subject, self._who = subject, who
        if self._span is None:
            self._span = await self._approvals.audit.start_span(subject, who=who)
        self._attempts += self._was_unreachable
        outcome = "" if self._attempts else "closed"  # `finish` ends a shared span after a cancellation
        try:
            yield
        except Exception as error:
            self._was_unreachable = not is_begun() and isinstance(error, McpHostError) and is_unreachable(error)
            outcome = "lost" if is_begun() else "failed"
            if self._attempts and self._was_unreachable:
                outcome = ""
            raise
        else:
            outcome = "closed"
        finally:
            if outcome:
                self._end(outcome)

    async def handle_connected(self) -> None:
        """Record that the server was reached, if previous attempts could not reach it.

        Raises ConsentDenied if a required row cannot be written.
        """
        self._was_unreachable = False
        if self._attempts and self._subject is not None:
            self._end("connected")
            self._span = await self._approvals.audit.start_span(self._subject, who=self._who)

    def finish(self) -> None:
        """Record the end of attempts that share two rows, with the outcome "failed"; do nothing if there are none.

        The next attempt is recorded in rows of its own.
        """
        self._end("failed")
        self._was_unreachable = False

    def _end(self, outcome: str) -> None:
        span, attempts = self._span, self._attempts
        self._span, self._attempts = None, 0
        if span is not None:
            span.end(outcome, detail={"attempts": attempts} if attempts else None)
