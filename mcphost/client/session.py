"""What the host knows of a connected server: Opener, Session, ServerFacts, Responder, Observer, EraStore."""

from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import Any, Protocol, TypeVar

from mcphost.auth.account import Account, Kept
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
"""Whether a request may be sent, or sent again: raises when not. True: the server may be another to us now, because
somebody signed in, or a new session was opened."""


class ServerFacts(Struct, frozen=True):
    """What was learnt when connecting; `info` and `instructions` are the server's own claims."""

    revision: Revision
    info: Implementation
    capabilities: ServerCapabilities
    instructions: str = ""

    @property
    def era(self) -> Era:
        """The era of the negotiated revision."""
        return self.revision.era


class WatchedChanges(Struct, frozen=True):
    """Which changes a listener wants to hear of."""

    tools: bool = False
    prompts: bool = False
    resources: bool = False
    uris: tuple[str, ...] = ()


class Session(Protocol):
    """One negotiated connection, the same in both eras."""

    @property
    def facts(self) -> ServerFacts:
        """What was learnt when connecting."""
        ...

    async def request(
        self,
        call: ClientRequest[R],
        *,
        deadline: float | None = None,
        on_notification: NotificationFn | None = None,
        before_send: BeforeSendFn | None = None,
    ) -> R:
        """Send one request and wait for its result.

        `deadline` in seconds (None: the server's default, which progress extends up to its maximum); `on_notice`
        gets progress, log messages and TaskStatusNotification (when the call became a task, which is followed to its
        end), on the event loop, and must not block. `again` is awaited last before the request is sent, and before
        it is sent again, with answers or because it was not read; it may end it. Cancelling the caller tells the
        server. Raises UnsupportedCapability (nothing was sent), RequestRefused, RequestTimeout, ConnectionLost,
        MalformedMessage, TooManyInputRounds, ConsentDenied.
        """
        ...

    def changes(self, wanted: WatchedChanges) -> AsyncIterator[Notification]:
        """Changes as they happen, until the connection ends; one reader only.

        What of `want` the server does not tell is simply not heard; the observer is told of resources it refused.
        """
        ...

    async def watch(self, wanted: WatchedChanges) -> None:
        """Change what `changes` is about, while it runs or before; returns when the server agreed.

        Raises what `request` raises when a resource that was not watched before is refused; all else stands.
        """
        ...

    @property
    def watched(self) -> WatchedChanges:
        """What the server agreed to tell of, as far as it is known now."""
        ...

    def invalidate(self, method: str = "") -> None:
        """Remembered results of that method (all of them without one) are stale: the next request asks the server."""
        ...

    def is_cached(self, call: ClientRequest[Any]) -> bool:
        """Whether `request` would answer that from memory."""
        ...

    async def set_log_level(self, level: str) -> None:
        """Ask for log messages from this level on (one of protocol.logging.LEVELS); empty for none, where that exists.

        Raises what `request` raises.
        """
        ...

    async def notify(self, notification: Notification) -> None:
        """Send a notification."""
        ...

    @property
    def anomaly_counts(self) -> Counter[str]:
        """How often something was left out, refused or odd, by kind in words; only what happened is there."""
        ...

    @property
    def is_closed(self) -> bool:
        """Whether the connection is known to be gone, so that no request would be sent; `closed` returns soon after."""
        ...

    async def wait_closed(self) -> ConnectionLost:
        """Wait until the connection is over and say why; at once when it is."""
        ...


class ServerRequestContext(Struct, frozen=True):
    """Which call of ours a server's ask belongs to, as far as the era lets us know; `revision` is always known.

    `number` is the same for all asks of one call and 0 when nothing ties the ask to a call; `running` are then those
    that it may belong to: none when no call runs, which is odd.
    """

    method: str = ""
    target: str = ""
    call_number: int = 0
    revision: Revision = Revision.V2026_07_28
    candidate_calls: tuple[int, ...] = ()


class RequestHandler(Protocol):
    """Answers what a server asks; capabilities say what it supports."""

    @property
    def capabilities(self) -> dict[str, Any]:
        """The client capabilities to declare, in the shape of the newest revision."""
        ...

    async def answer(self, ask: ServerRequest, context: ServerRequestContext) -> ClientResult:
        """The reply; ServerRequestRejection when there is none. Cancelled when the server or the call goes away."""
        ...

    def track_request(self, context: ServerRequestContext) -> AbstractContextManager[None]:
        """Around each request of ours in the handshake era; enters and leaves at once."""
        ...

    async def prepare(self, context: ServerRequestContext) -> bool:
        """Before such a request: ask what was put off until it is needed; whether the server may need answers about
        folders before it gets that request.

        Raises nothing but cancellation.
        """
        ...

    def filter_reply(self, reply: ClientResult) -> ClientResult:
        """What of a reply may leave now; called right before it does. Returns at once."""
        ...

    def on_request_cancelled(self, method: str) -> None:
        """The server no longer waits for its request of that method, answered or not begun. Returns at once."""
        ...

    def on_elicitation_complete(self, elicitation: str) -> None:
        """The server says that what a URL elicitation was for is done; unknown ids mean nothing. Returns at once."""
        ...


class SessionObserver(Protocol):
    """Hears what does not belong to any call; every method returns at once and never raises."""

    def stderr(self, line: str) -> None:
        """One line of the child's error output, not cleaned."""
        ...

    def log(self, message: LoggingMessageNotification) -> None:
        """A log message that belongs to no call of ours."""
        ...

    def warn(self, text: str) -> None:
        """Something odd that the session survived, said once per kind."""
        ...

    def on_account_changed(self, account: Account | None) -> None:
        """The sign-in that requests are made with from now on; None: without one."""
        ...

    def on_call_ended(self, number: int) -> None:
        """Handle the end of a call while a server request for it is still unanswered."""
        ...


class EraStore(Protocol):
    """Remembers which eras a server speaks, so that the next start sends one opening only; both methods return at once.

    `digest` covers what identifies the server (command, arguments, folder, address), never a secret.
    """

    def get(self, server: str, digest: str) -> ServerEras | None:
        """What the last connection showed, or None."""
        ...

    def put(self, server: str, digest: str, eras: ServerEras) -> None:
        """Remember what this connection showed."""
        ...


PrepareFn = Callable[[], Awaitable[None]]
"""What is to be done before the first request of a connection; see Opener."""


async def prepare_nothing() -> None:
    """Return at once."""


class SessionOpener(Protocol):
    """Connects a configured server; the only thing the host knows about connecting. Tests pass a fake."""

    def open(
        self,
        server: ServerConfig,
        responder: RequestHandler,
        observer: SessionObserver,
        prepare: PrepareFn = prepare_nothing,
    ) -> AbstractAsyncContextManager[Session]:
        """Start or reach the server and negotiate; leaving the block closes it, with its whole process group.

        `prepare` is awaited for each process or connection before its first request, while the process starts; what it
        raises ends the opening.

        Entering raises StartupError, ConnectionLost, RequestTimeout, SignInRequired, UnsupportedRevision or ConfigError
        (a reference that cannot be expanded), each naming the server. A connection that is lost later shows in the
        next `request` as ConnectionLost and ends `changes()`; open again to reconnect. Must be entered and left in
        the same task.
        """
        ...

    async def sign_in(self, server: ServerConfig, observer: SessionObserver, account: str | None = None) -> None:
        """Have a person sign in anew; whoever opens it next uses that. Raises SignInRequired, ConfigError.

        With `account` under that name, which is used from then on, also in later runs; raises UsageError as `use` does.
        """
        ...

    async def list_accounts(self, servers: Sequence[ServerConfig]) -> tuple[Kept, ...]:
        """Every sign-in that is kept, and which of these servers use it."""
        ...

    async def use_account(self, server: ServerConfig, account: str) -> None:
        """Whoever opens the server next, also in later runs, is signed in as that. Raises UsageError when nobody is
        by that name, or the user's file says who it is."""
        ...

    async def sign_out_account(self, account: Account, server: ServerConfig | None) -> bool:
        """As `sign_out`, of a sign-in that is kept; its server may not be configured any more (None)."""
        ...

    async def sign_out(self, server: ServerConfig, observer: SessionObserver) -> bool:
        """Erase the sign-in here, and at the authorization server where that can be done; whether that was done.

        Raises McpHostError when it cannot be erased: then it is still there.
        """
        ...
