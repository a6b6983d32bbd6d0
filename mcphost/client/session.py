"""The interfaces between the host and the client: sessions, their opener, and the callbacks of the host."""

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
"""Awaited directly before a request is sent or sent again; raises an error to stop it.

The argument is True if the user has signed in or a new session was opened since the last attempt.
"""


class ServerFacts(Struct, frozen=True):
    """The facts that a server declared when it was connected.

    `info` and `instructions` are unverified texts of the server.
    """

    revision: Revision
    info: Implementation
    capabilities: ServerCapabilities
    instructions: str = ""

    @property
    def era(self) -> Era:
        """The era ("handshake" or "stateless") of the negotiated revision."""
        return self.revision.era


class WatchedChanges(Struct, frozen=True):
    """The changes to be notified of: of the three kinds of lists, and of the resources with these URIs."""

    tools: bool = False
    prompts: bool = False
    resources: bool = False
    uris: tuple[str, ...] = ()


class Session(Protocol):
    """One negotiated connection to a server, with the same interface in both eras."""

    @property
    def facts(self) -> ServerFacts:
        """The facts that the server declared when it was connected."""
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

        *deadline* is a time limit in seconds; None means the configured limit, which progress extends up to a maximum.
        *on_notification* receives progress and log messages of the call, and a TaskStatusNotification if the server
        runs the call as a task; it is called on the event loop and must not block. *before_send* is awaited directly
        before the request is sent or sent again, and may raise an error to stop it.

        Cancelling the caller notifies the server. Raises UnsupportedCapability (nothing was sent), RequestRefused,
        RequestTimeout, ConnectionLost, MalformedMessage, TooManyInputRounds, ConsentDenied.
        """
        ...

    def changes(self, wanted: WatchedChanges) -> AsyncIterator[Notification]:
        """Iterate over the wanted changes until the connection ends; there can be one iteration only.

        Changes that the server cannot announce are not reported. For each resource that the server refuses to watch,
        the observer receives a warning.
        """
        ...

    async def watch(self, wanted: WatchedChanges) -> None:
        """Replace the changes that `changes` reports, and wait for the server's response.

        May be called before or during the iteration. If the server refuses a new resource, raises the errors of
        `request`; the other changes are reported all the same.
        """
        ...

    @property
    def watched(self) -> WatchedChanges:
        """The changes that the server has agreed to announce."""
        ...

    def invalidate(self, method: str = "") -> None:
        """Drop the cached results of *method*, or of all methods if it is ""."""
        ...

    def is_cached(self, call: ClientRequest[Any]) -> bool:
        """Return whether `request` would return a cached result for *call*."""
        ...

    async def set_log_level(self, level: str) -> None:
        """Ask the server to send log messages of this level and above; "" turns them off if the era allows it.

        *level* is one of `protocol.notifications.LEVELS`. Raises the errors of `request`.
        """
        ...

    async def notify(self, notification: Notification) -> None:
        """Send a notification if the era and the declared capabilities allow it; else do nothing."""
        ...

    @property
    def anomaly_counts(self) -> Counter[str]:
        """Number of skipped, refused or unusual messages, by a description of their kind."""
        ...

    @property
    def is_closed(self) -> bool:
        """Whether the connection has ended; `request` then fails, and `wait_closed` returns soon."""
        ...

    async def wait_closed(self) -> ConnectionLost:
        """Wait until the connection ends and return the reason."""
        ...


class ServerRequestContext(Struct, frozen=True):
    """The call that a request of the server belongs to, if it is known.

    `method` and `target` describe the call, `target` being a tool's name or a resource's URI. `call_number` is the same
    for all requests that belong to one call. If it is 0, the call is unknown, and `candidate_calls` are the numbers of
    the calls that were running.
    """

    method: str = ""
    target: str = ""
    call_number: int = 0
    revision: Revision = Revision.V2026_07_28
    candidate_calls: tuple[int, ...] = ()


class RequestHandler(Protocol):
    """The host's side of a session: answers the requests that the server sends."""

    @property
    def capabilities(self) -> dict[str, Any]:
        """The client capabilities to declare, in the form of the newest revision."""
        ...

    async def answer(self, request: ServerRequest, context: ServerRequestContext) -> ClientResult:
        """Return the result for the server, or a ServerRequestRejection to send an error.

        Cancelled when the server cancels the request, the connection ends or, in the stateless era, the call ends.
        """
        ...

    def track_request(self, context: ServerRequestContext) -> AbstractContextManager[None]:
        """Return a context manager that surrounds each of our requests in the handshake era; it must not block."""
        ...

    async def prepare(self, context: ServerRequestContext) -> bool:
        """Ask the user the questions that were postponed until the next request.

        Return True if the server may first ask for the new list of roots. Must not raise errors.
        """
        ...

    def filter_reply(self, reply: ClientResult) -> ClientResult:
        """Return *reply* without roots that may no longer be shared; called directly before sending, must not block."""
        ...

    def on_request_cancelled(self, method: str) -> None:
        """Handle the cancellation of a request of *method* by the server that sent it; must not block."""
        ...

    def on_elicitation_complete(self, elicitation: str) -> None:
        """Handle the completion of the URL elicitation with this id; ignore unknown ids. Must not block."""
        ...


class SessionObserver(Protocol):
    """The host's listener for events that belong to no call; its methods must not block or raise errors."""

    def stderr(self, line: str) -> None:
        """Handle a line of the server's standard error; the text is unsanitized."""
        ...

    def log(self, message: LoggingMessageNotification) -> None:
        """Handle a log message that belongs to no call."""
        ...

    def warn(self, text: str) -> None:
        """Handle a warning about a problem that did not end the session; each kind is reported once."""
        ...

    def on_account_changed(self, account: Account | None) -> None:
        """Handle a change of the account that later requests use; None means no sign-in."""
        ...

    def on_call_ended(self, number: int) -> None:
        """Handle the end of a call while a question that the server asked during it is still open."""
        ...


class EraStore(Protocol):
    """Store for the eras that each server supports, so that the next connection tries only one; must not block.

    *digest* identifies the server's command, arguments, working directory and URL; see `connect.server_digest`.
    """

    def get(self, server: str, digest: str) -> ServerEras | None:
        """Return the eras that the server supported at its last connection, None if unknown."""
        ...

    def put(self, server: str, digest: str, eras: ServerEras) -> None:
        """Store the eras that the server supports."""
        ...


PrepareFn = Callable[[], Awaitable[None]]
"""Awaited before the first request of a connection; see `SessionOpener.open`."""


async def prepare_nothing() -> None:
    """Do nothing; the default of the parameter `prepare` of `SessionOpener.open`."""


class SessionOpener(Protocol):
    """Interface through which the host connects to configured servers and manages their accounts."""

    def open(
        self,
        server: ServerConfig,
        responder: RequestHandler,
        observer: SessionObserver,
        prepare: PrepareFn = prepare_nothing,
    ) -> AbstractAsyncContextManager[Session]:
        """Return a context manager that connects to the server and yields the session.

        Leaving it ends the connection and, for a local server, its whole process group. *prepare* is awaited before the
        first request of each new process or connection; its errors end the attempt.

        Entering raises StartupError, ConnectionLost, RequestTimeout, SignInRequired, UnsupportedRevision, or
        ConfigError for a reference that cannot be expanded; each has the server's name. If the connection is lost
        later, `request` raises ConnectionLost and `changes` ends; open again to reconnect. Must be entered and left in
        the same task.
        """
        ...

    async def sign_in(self, server: ServerConfig, observer: SessionObserver, account: str | None = None) -> None:
        """Ask the user to sign in again; later connections use it. Raises SignInRequired or ConfigError.

        With *account*, store the sign-in under that name and select it for this and later runs; raises UsageError as
        `use_account` does.
        """
        ...

    async def list_accounts(self, servers: Sequence[ServerConfig]) -> tuple[StoredAccount, ...]:
        """Return all stored accounts, each with those of *servers* that use it."""
        ...

    async def use_account(self, server: ServerConfig, account: str) -> None:
        """Select the stored account for later connections to the server, also in later runs.

        Raises UsageError if there is no such account, or if the configuration sets the account.
        """
        ...

    async def sign_out_account(self, account: Account, server: ServerConfig | None) -> bool:
        """Sign out a stored account as `sign_out` does; *server* is None if no server is configured for it any more."""
        ...

    async def sign_out(self, server: ServerConfig, observer: SessionObserver) -> bool:
        """Delete the stored sign-in and revoke it at the authorization server; return whether it was revoked.

        Raises McpHostError if it could not be deleted, and so is still stored.
        """
        ...
