"""The two protocols of a transport: Channel (exchange, send, unsolicited) and Dialer.

To add a transport, implement both; `mux` turns any duplex pipe of messages into a Channel.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from mcphost.errors import ConnectionLost, MalformedMessage, RequestNotSent, RequestRefused, SignInRequired
from mcphost.protocol.jsonrpc import JsonRpcMessage, JsonRpcRequest
from mcphost.protocol.revisions import Revision

NO_HEADERS: Mapping[str, str] = {}


class Channel(Protocol):
    """A live way to one server.

    Everything raises ConnectionLost once the server is gone, with its exit status or HTTP failure in the message.
    """

    def exchange(
        self, request: JsonRpcRequest, *, headers: Mapping[str, str] = NO_HEADERS
    ) -> AbstractAsyncContextManager[AsyncIterator[JsonRpcMessage]]:
        """Send a request; the iterator yields what belongs to it and ends after its Response or JsonRpcErrorResponse.

        On a pipe, notifications are routed here by progress token. Leaving the block before the answer cancels:
        `notifications/cancelled` on a pipe and in the handshake era, closing the stream in the stateless one.
        """
        ...

    async def send(self, message: JsonRpcMessage) -> None:
        """Send a notification, or the answer to a request of the server."""
        ...

    def unsolicited(self) -> AsyncIterator[JsonRpcMessage]:
        """What belongs to no exchange; one reader only."""
        ...

    @property
    def anomaly_counts(self) -> Mapping[str, int]:
        """How often something odd was left out, by kind in words; zeros may be among them."""
        ...

    @property
    def is_drained(self) -> bool:
        """Whether the peer has read all that was sent, as far as that can be known; a request over HTTP always is."""
        ...

    @property
    def is_closed(self) -> bool:
        """Whether it is known to be of no use any more: nothing that is given to it would be sent."""
        ...

    def set_revision(self, revision: Revision) -> None:
        """The negotiated revision; HTTP changes its rules, pipes ignore it."""
        ...


class Connector(Protocol):
    """Knows how to reach one server; may dial again after a channel ended."""

    def connect(self) -> AbstractAsyncContextManager[Channel]:
        """Start the child or reach the address; leaving closes it. Raises StartupError."""
        ...


class AuthChallenge(Protocol):
    """What an authorizer needs to know of a 401 or 403."""

    @property
    def status(self) -> int:
        """401 or 403."""
        ...

    @property
    def www_authenticate(self) -> str:
        """The WWW-Authenticate header, "" when absent."""
        ...

    @property
    def authorization(self) -> str:
        """The Authorization header of the refused request, "" for none."""
        ...

    @property
    def dpop_nonce(self) -> str:
        """The DPoP-Nonce header, "" when absent."""
        ...


class Authorizer(Protocol):
    """Identity, as HTTP transports see it."""

    async def headers(self, verb: str, url: str) -> Mapping[str, str]:
        """The headers a request to this server carries; may be empty; names in lower case. Raises SignInRequired."""
        ...

    def current_headers(self, verb: str, url: str) -> Mapping[str, str]:
        """As `headers`, with what is there: nothing is renewed or waited for."""
        ...

    async def recover(self, refusal: AuthChallenge) -> bool:
        """Called on 401 and 403, and asks nobody; True means that the same request may be sent once more."""
        ...


class Unauthorized(SignInRequired):
    """The server wants an account and nothing but a person can help; `refusal` is what it said."""

    def __init__(self, message: str, hint: str, *, server: str, challenge: AuthChallenge) -> None:
        super().__init__(message, hint, server=server)
        self.challenge = challenge


class HttpStatusError(RequestRefused):
    """An HTTP answer that is no JSON-RPC message; `status` says which. The session goes on."""

    def __init__(self, message: str, hint: str = "", *, status: int = 0, retry_after: float | None = None) -> None:
        super().__init__(message, hint)
        self.status = status
        self.retry_after = retry_after
        # Refusals (4xx, 503) come before anything runs; a gateway's 502 and an odd answer with 200 may come after.
        self.may_have_run = not (400 <= status < 500 or status == 503)


class ResponseInterrupted(ConnectionLost):
    """One answer broke off; what was asked may have been done, and the channel itself goes on."""


class SessionExpired(RequestNotSent):
    """The server forgot our session (HTTP 404 with a session id): nothing was run, `initialize` starts a new one."""


def mismatched_id_error(name: str, request: JsonRpcRequest) -> MalformedMessage:
    """The error for an answer that is probably meant for `request` and has its id in another JSON type."""
    was = "a text" if isinstance(request.id, int) else "a number"
    return MalformedMessage(
        f"The server {name!r} answered {request.method} under an id that is {was} where ours is "
        f"{'a number' if isinstance(request.id, int) else 'a text'}; that is no answer.",
        "The server must repeat the id as it was sent.",
        server=name,
    )
