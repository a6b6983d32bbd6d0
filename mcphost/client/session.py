"""Interfaces between the host and the MCP client.

They cover sessions, how sessions are opened, the user's accounts, and the host's callbacks.
"""

from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from contextvars import Context
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from mcphost.config.schema import ServerConfig
from mcphost.errors import ConnectionLost, ServerError
from mcphost.protocol.base import ClientRequest, Notification
from mcphost.protocol.lifecycle import Implementation, ServerCapabilities
from mcphost.protocol.notifications import LoggingMessageNotification
from mcphost.protocol.revisions import Era, Revision, ServerEras
from mcphost.protocol.server_requests import ClientResult, ServerRequest
from mcphost.serialization import Struct

if TYPE_CHECKING:
    from mcphost.auth.accounts import Account, StoredAccount
    from mcphost.message_log import MessageLog

R = TypeVar("R")
NotificationFn = Callable[[Notification], None]
BeforeSendFn = Callable[[bool], Awaitable[None]]
"""Awaited directly before each attempt to send a request; may raise an error to prevent it.

The argument is True if the user has signed in, or a new session was opened, since the last attempt.
"""


class ServerFacts(Struct, frozen=True):
    """Information that a server provided about itself when the session was opened.

    `revision` is the negotiated protocol revision, and `info` contains the server's name and version. This
    information, including the capabilities, is not verified.
    """

    revision: Revision
    info: Implementation
    capabilities: ServerCapabilities
    instructions: str = ""

    @property
    def era(self) -> Era:
        """The era of the negotiated protocol revision: "handshake" before 2026-07-28, "stateless" since then."""
        return self.revision.era


class WatchedChanges(Struct, frozen=True):
    """The changes that a session reports to the host.

    - `tools`, `prompts`, `resources`: whether changes to the list of this name are reported.
    - `uris`: the resources whose changes are reported.
    """

    tools: bool = False
    prompts: bool = False
    resources: bool = False
    uris: tuple[str, ...] = ()


class Session(Protocol):
    """One negotiated connection to a server, with the same interface for all protocol revisions."""

    @property
    def facts(self) -> ServerFacts:
        """The protocol revision, capabilities and other facts received when the session was opened."""
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

        - *deadline*: a time limit in seconds. None means the configured limit, which progress notifications extend up
          to a maximum.
        - *on_notification*: receives progress and log messages about the request, and a TaskStatusNotification if the
          server runs a tool call as a task. It is called on the event loop and must not block.
        - *before_send*: awaited directly before each attempt to send the request; may raise an error to prevent the
          attempt.

        If the caller is cancelled, the server is notified. Raises UnsupportedCapability (nothing was sent),
        RequestRefused, RequestTimeout, ConnectionLost, MalformedMessage, TooManyInputRounds or ConsentDenied.
        """
        ...

    def changes(self, wanted: WatchedChanges) -> AsyncIterator[Notification]:
        """Iterate over notifications about the wanted changes until the connection ends.

        This may be called only once per session. Changes that the server cannot announce are not reported. The
        SessionObserver receives a warning for each resource that the server refuses to watch.
        """
        ...

    async def watch(self, wanted: WatchedChanges) -> None:
        """Set the changes that `changes` reports, and wait for the server's response.

        This may be called before or during the iteration. If the server refuses to watch a new resource, this raises
        RequestRefused or another of the errors that `request` raises; the other changes are still reported.
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
        """Request log messages of this level and above; "" turns them off if the revision allows that.

        *level* is one of `protocol.notifications.LEVELS`. Raises ServerError or ConsentDenied; see `request`.
        """
        ...

    async def notify(self, notification: Notification) -> None:
        """Send a notification if the revision and the declared capabilities allow it; otherwise, do nothing."""
        ...

    @property
    def anomaly_counts(self) -> Counter[str]:
        """Counts of skipped, rejected or unusual messages, keyed by a description."""
        ...

    @property
    def is_closed(self) -> bool:
        """Whether the connection has ended; `request` then raises ConnectionLost, and `wait_closed` returns soon."""
        ...

    async def wait_closed(self) -> ConnectionLost:
        """Wait until the connection ends, and return the reason."""
        ...


class ServerRequestContext(Struct, frozen=True):
    """The client request during which a server sent its own request, if known.

    - `method`: the method of the client request.
    - `target`: the name of the tool that it calls, or the URI of the resource that it reads.
    - `call_number`: the number of the client request, or 0 if the client request is unknown.
    - `revision`: the negotiated protocol revision.
    - `candidate_calls`: if `call_number` is 0, the numbers of the client requests that were running.
    - `task_contexts`: the context variables of the asyncio tasks that sent these client requests. The handler needs
      them because it usually runs in another task.
    """

    method: str = ""
    target: str = ""
    call_number: int = 0
    revision: Revision = Revision.V2026_07_28
    candidate_calls: tuple[int, ...] = ()
    task_contexts: tuple[Context, ...] = ()


class RequestHandler(Protocol):
    """Interface through which a session lets the host answer requests from the server."""

    @property
    def capabilities(self) -> dict[str, Any]:
        """The client capabilities to declare, as defined by the latest revision."""
        ...

    async def answer(self, request: ServerRequest, context: ServerRequestContext) -> ClientResult:
        """Return the result for the server, or a ServerRequestRejection to send an error.

        This is cancelled if the server cancels the request, or if the connection ends. In revision 2026-07-28 and
        later, it is also cancelled if the related client request ends.
        """
        ...

    def track_request(self, context: ServerRequestContext) -> AbstractContextManager[None]:
        """Return a context manager that the session keeps active while a client request runs; it must not block.

        *context* describes the client request. Sessions with revision 2026-07-28 or later do not call this method.
        """
        ...

    async def prepare(self, context: ServerRequestContext) -> bool:
        """Ask questions that were postponed until this client request, such as which folders to share as roots.

        Return True if the client request may depend on the roots; the session then delays the client request, so that
        the server can first request the changed roots. Must not raise errors.
        """
        ...

    def filter_reply(self, reply: ClientResult) -> ClientResult:
        """Return *reply* without roots that the user no longer shares; other replies are returned unchanged.

        The session calls this directly before sending the reply. Must not block.
        """
        ...

    def on_request_cancelled(self, method: str) -> None:
        """Handle a notification in which the server cancels its own request; *method* is the method of that request.

        Must not block.
        """
        ...

    def on_elicitation_complete(self, elicitation: str) -> None:
        """Handle the completion of the URL elicitation with the id *elicitation*; must not block.

        Unknown ids are ignored.
        """
        ...


class SessionObserver(Protocol):
    """Interface through which the host observes a session; the methods must not block or raise errors."""

    @property
    def message_log(self) -> "MessageLog | None":
        """The log to which the MCP messages of the next connection are added, or None to disable logging."""
        ...

    def stderr(self, line: str) -> None:
        """Handle a line that the server printed to standard error; the line is not sanitized."""
        ...

    def log(self, message: LoggingMessageNotification) -> None:
        """Handle a log message that is not associated with a client request."""
        ...

    def warn(self, text: str) -> None:
        """Handle a warning about a problem that did not end the session; each kind of problem is reported once."""
        ...

    def on_account_changed(self, account: "Account | None") -> None:
        """Handle a change of the account that requests use; *account* is None if nobody is signed in."""
        ...

    def on_reachability_changed(self, error: ServerError | None) -> None:
        """Handle a change in the reachability of a remote server.

        *error* is the reason why the server cannot be reached, or None if it can be reached again. The session remains
        open, and requests are still sent.
        """
        ...

    def on_call_ended(self, number: int) -> None:
        """Handle the end of a client request during which the server asked a question that is still open.

        *number* is the `call_number` of the request's ServerRequestContext.
        """
        ...


class EraStore(Protocol):
    """Store for the protocol eras that each server supports; the methods must not block.

    The eras are "handshake" (revisions before 2026-07-28) and "stateless" (later revisions). They are stored so that
    the next connection can try the right era first. *digest* identifies the server's command, arguments, working
    directory and URL; see `connect.endpoint_digest`.
    """

    def get(self, server: str, digest: str) -> ServerEras | None:
        """Return the eras that the server supported at its last connection, or None if they are unknown.

        *digest* is the server's `connect.endpoint_digest`.
        """
        ...

    def put(self, server: str, digest: str, eras: ServerEras) -> None:
        """Store the eras that the server supports; *digest* is the server's `connect.endpoint_digest`."""
        ...


PrepareFn = Callable[[], Awaitable[None]]
"""Awaited before the first request of a connection; see `SessionOpener.open`."""


async def prepare_nothing() -> None:
    """Do nothing; this is the default for `prepare` in `SessionOpener.open`."""


class AccountManager(Protocol):
    """Interface through which the host manages accounts on configured servers."""

    def ask_passphrase_again(self) -> None:
        """Allow the next connection to ask for the passphrase of the encrypted secrets file.

        The user is then asked even if they declined to enter the passphrase earlier in this run.
        """
        ...

    async def sign_in(self, server: ServerConfig, observer: SessionObserver, account: str | None = None) -> None:
        """Let the user sign in again; the new tokens are used for later connections.

        If *account* is given, the tokens are stored under that account name, and the account is selected for this run
        and later ones. Raises SignInRequired if the sign-in fails, and ConfigError if a `${…}` reference in the
        configuration cannot be expanded. Raises UsageError if the user cannot select *account*, for example because the
        configuration specifies another account.
        """
        ...

    async def list_accounts(self, servers: Sequence[ServerConfig]) -> "tuple[StoredAccount, ...]":
        """Return all stored accounts, each with the names of the *servers* that can use it."""
        ...

    async def use_account(self, server: ServerConfig, account: str) -> None:
        """Select a stored account for connections to the server, in this run and later ones.

        Raises UsageError if there is no such account, or if the configuration sets the account.
        """
        ...

    async def sign_out_account(self, account: "Account", server: ServerConfig | None) -> bool:
        """Sign out of a stored account; return whether the server revoked the tokens.

        *server* is None if the server is no longer configured. Raises McpHostError if the tokens could not be deleted
        and are still stored.
        """
        ...

    async def sign_out(self, server: ServerConfig, observer: SessionObserver) -> bool:
        """Delete and revoke the tokens of the current account; return whether the server revoked them.

        Raises McpHostError if the tokens could not be deleted and are still stored.
        """
        ...


class SessionOpener(Protocol):
    """Interface through which the host connects to configured servers."""

    @property
    def account_manager(self) -> AccountManager:
        """The manager of the accounts that this opener uses to connect to servers."""
        ...

    def open(
        self,
        server: ServerConfig,
        responder: RequestHandler,
        observer: SessionObserver,
        prepare: PrepareFn = prepare_nothing,
    ) -> AbstractAsyncContextManager[Session]:
        """Return a context manager that connects to the server and yields the session.

        Leaving the context manager ends the connection and, for a local server, its process group. *responder* answers
        requests from the server. *prepare* is awaited before the first request to each new process or connection; if it
        raises an error, connecting fails with that error.

        Entering raises StartupError, ConnectionLost, RequestTimeout, SignInRequired, UnsupportedRevision, or
        ConfigError for a `${…}` reference that cannot be expanded; each error names the server. If the connection is
        lost later, `request` raises ConnectionLost, and `changes` ends; call `open` again to reconnect. The context
        manager must be entered and left in the same task.
        """
        ...
