"""The host's interface to servers: SessionOpener, Session, RequestHandler, SessionObserver, EraStore."""

from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import Any, Protocol, TypeVar

from mcphost.auth.accounts import Account, StoredAccount
from mcphost.config.schema import ServerConfig
from mcphost.errors import ConnectionLost
from mcphost.protocol.base import ClientRequest, Notification
from mcphost.protocol.lifecycle import Implementation, ServerCapabilities
from mcphost.protocol.notifications import LoggingMessageNotification
from mcphost.protocol.revisions import Era, Revision, ServerEras
from mcphost.protocol.server_requests import ClientResult, ServerRequest
from mcphost.serialization import Struct

R = TypeVar("R")
NotificationFn = Callable[[Notification], None]
BeforeSendFn = Callable[[bool], Awaitable[None]]
"""Awaited before a request is sent or resent; raises if it must not be sent.

The argument is True if the server may treat us differently now, after a sign-in or with a new session.
"""


class ServerFacts(Struct, frozen=True):
    """The facts learned when connecting; `info` and `instructions` are the server's own claims."""

    revision: Revision
    info: Implementation
    capabilities: ServerCapabilities
    instructions: str = ""

    @property
    def era(self) -> Era:
        """The era of the negotiated revision."""
        return self.revision.era


class WatchedChanges(Struct, frozen=True):
    """The changes that a listener wants to receive."""

    tools: bool = False
    prompts: bool = False
    resources: bool = False
    uris: tuple[str, ...] = ()


class Session(Protocol):
    """One negotiated connection, with the same interface in both eras."""

    @property
    def facts(self) -> ServerFacts:
        """The facts learned when connecting."""
        ...

    async def request(
        self,
        call: ClientRequest[R],
        *,
        deadline: float | None = None,
        on_notification: NotificationFn | None = None,
        before_send: BeforeSendFn | None = None,
    ) -> R:
        """Send one request and return its result.

        *deadline* is in seconds; None means the server's default, which progress extends up to its maximum.
        *on_notification* receives progress, log messages and TaskStatusNotification (if the call became a task, which
        is followed to its end) on the event loop and must not block. *before_send* is awaited last before the request
        is sent, and before it is resent, with answers or because it was not read; it may raise to stop the request.
        Cancelling the caller notifies the server. Raises UnsupportedCapability (nothing was sent), RequestRefused,
        RequestTimeout, ConnectionLost, MalformedMessage, TooManyInputRounds, ConsentDenied.
        """
        ...

    def changes(self, wanted: WatchedChanges) -> AsyncIterator[Notification]:
        """Iterate over changes until the connection ends; one reader only.

        Changes that the server does not announce are missing; the observer is warned of refused resources.
        """
        ...

    async def watch(self, wanted: WatchedChanges) -> None:
        """Change what `changes` reports, before or while it runs; return when the server agreed.

        Raises the errors of `request` if a newly watched resource is refused; other changes stay in effect.
        """
        ...

    @property
    def watched(self) -> WatchedChanges:
        """The changes that the server currently agreed to announce."""
        ...

    def invalidate(self, method: str = "") -> None:
        """Drop cached results of *method*, or all of them without one; the next request is sent."""
        ...

    def is_cached(self, call: ClientRequest[Any]) -> bool:
        """Return whether `request` would answer *call* from the cache."""
        ...

    async def set_log_level(self, level: str) -> None:
        """Request log messages from this level on (one of protocol.logging.LEVELS).

        An empty level means none, where the era supports that. Raises the errors of `request`.
        """
        ...

    async def notify(self, notification: Notification) -> None:
        """Send a notification."""
        ...

    @property
    def anomaly_counts(self) -> Counter[str]:
        """How often something was skipped, refused or unusual, by kind; only kinds that occurred are present."""
        ...

    @property
    def is_closed(self) -> bool:
        """Whether the connection is known to be gone; no request is sent then, and `wait_closed` returns soon."""
        ...

    async def wait_closed(self) -> ConnectionLost:
        """Wait until the connection ends and return the reason."""
        ...


class ServerRequestContext(Struct, frozen=True):
    """The call that a server request belongs to, as far as the era shows it; `revision` is always known.

    `call_number` is the same for all requests of one call, and 0 if nothing links the request to a call; then
    `candidate_calls` are the calls it may belong to. They are empty if no call runs, which is unusual.
    """

    method: str = ""
    target: str = ""
    call_number: int = 0
    revision: Revision = Revision.V2026_07_28
    candidate_calls: tuple[int, ...] = ()


class RequestHandler(Protocol):
    """Answers the requests of a server."""

    @property
    def capabilities(self) -> dict[str, Any]:
        """The client capabilities to declare, in the form of the newest revision."""
        ...

    async def answer(self, request: ServerRequest, context: ServerRequestContext) -> ClientResult:
        """Return the reply, or a ServerRequestRejection. Cancelled when the server or the call ends."""
        ...

    def track_request(self, context: ServerRequestContext) -> AbstractContextManager[None]:
        """Return a context manager for each request of ours in the handshake era; it never blocks."""
        ...

    async def prepare(self, context: ServerRequestContext) -> bool:
        """Ask postponed questions before a request; return whether the server may need the roots first.

        Raises nothing but cancellation.
        """
        ...

    def filter_reply(self, reply: ClientResult) -> ClientResult:
        """Return what may still be sent of *reply*; called immediately before sending, and never blocks."""
        ...

    def on_request_cancelled(self, method: str) -> None:
        """Handle a server that cancelled its request of *method*, answered or not. Returns immediately."""
        ...

    def on_elicitation_complete(self, elicitation: str) -> None:
        """Handle the end of a URL elicitation; unknown ids are ignored. Returns immediately."""
        ...


class SessionObserver(Protocol):
    """Receives events that belong to no call; every method returns immediately and never raises."""

    def stderr(self, line: str) -> None:
        """Handle one unsanitized line of the process's standard error."""
        ...

    def log(self, message: LoggingMessageNotification) -> None:
        """Handle a log message that belongs to no call."""
        ...

    def warn(self, text: str) -> None:
        """Handle a warning about a survived irregularity, reported once per kind."""
        ...

    def on_account_changed(self, account: Account | None) -> None:
        """Handle a new account for later requests; None means no sign-in."""
        ...

    def on_call_ended(self, number: int) -> None:
        """Handle the end of a call while a server request for it is still unanswered."""
        ...


class EraStore(Protocol):
    """Remembers the eras of each server, to send one opening only; neither method blocks.

    `digest` covers what identifies the server (command, arguments, folder, URL), never a secret.
    """

    def get(self, server: str, digest: str) -> ServerEras | None:
        """Return the eras that the last connection showed, or None."""
        ...

    def put(self, server: str, digest: str, eras: ServerEras) -> None:
        """Store the eras that this connection showed."""
        ...


PrepareFn = Callable[[], Awaitable[None]]
"""Awaited before the first request of a connection; see SessionOpener."""


async def prepare_nothing() -> None:
    """Return at once."""


class SessionOpener(Protocol):
    """Connects configured servers; the host's only interface for connecting. Tests use a fake."""

    def open(
        self,
        server: ServerConfig,
        responder: RequestHandler,
        observer: SessionObserver,
        prepare: PrepareFn = prepare_nothing,
    ) -> AbstractAsyncContextManager[Session]:
        """Start or reach the server and negotiate; leaving the block closes it and its whole process group.

        *prepare* is awaited for each process or connection before its first request, while the process starts; its
        errors end the attempt.

        Entering raises StartupError, ConnectionLost, RequestTimeout, SignInRequired, UnsupportedRevision or ConfigError
        (a reference that cannot be expanded), each with the server's name. If the connection is lost later, the next
        `request` raises ConnectionLost and `changes()` ends; open again to reconnect. Must be entered and left in the
        same task.
        """
        ...

    async def sign_in(self, server: ServerConfig, observer: SessionObserver, account: str | None = None) -> None:
        """Have the user sign in again, for later connections. Raises SignInRequired, ConfigError.

        With *account*, sign in under that name and use it from now on, also in later runs; raises UsageError as
        `use_account` does.
        """
        ...

    async def list_accounts(self, servers: Sequence[ServerConfig]) -> tuple[StoredAccount, ...]:
        """Return every stored account and the servers of *servers* that use it."""
        ...

    async def use_account(self, server: ServerConfig, account: str) -> None:
        """Use *account* for later connections to the server, also in later runs.

        Raises UsageError if there is no such account, or if the user's configuration sets the account.
        """
        ...

    async def sign_out_account(self, account: Account, server: ServerConfig | None) -> bool:
        """Sign out a stored account; *server* is None if it is no longer configured.

        See `sign_out`.
        """
        ...

    async def sign_out(self, server: ServerConfig, observer: SessionObserver) -> bool:
        """Delete the stored sign-in and revoke it at the authorization server; return whether it was revoked.

        Raises McpHostError if it cannot be deleted: it is still stored then.
        """
        ...
