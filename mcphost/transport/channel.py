"""Interfaces for transports: Connector, which connects to a server, and Channel, a live connection."""

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import TYPE_CHECKING, Protocol

import anyio
from anyio.abc import TaskGroup

from mcphost.errors import ConnectionLost, MalformedMessage, RequestNotSent, RequestRefused, SignInRequired
from mcphost.protocol.jsonrpc import JsonRpcMessage, JsonRpcRequest
from mcphost.protocol.revisions import Revision
from mcphost.sign_in_types import AuthChallenge

if TYPE_CHECKING:
    from mcphost.message_log import MessageLog

NO_HEADERS: Mapping[str, str] = {}


class Channel(Protocol):
    """A live connection to one server.

    After the connection is lost, every method raises ConnectionLost; its message includes the server's exit status or
    the HTTP error.
    """

    def exchange(
        self, request: JsonRpcRequest, *, headers: Mapping[str, str] = NO_HEADERS
    ) -> AbstractAsyncContextManager[AsyncIterator[JsonRpcMessage]]:
        """Return a context manager that sends a request and iterates over the messages that belong to it.

        The last message is the response: a JsonRpcResponse or JsonRpcErrorResponse. On a pipe, a notification belongs
        to the request with the same progress token. Leaving the `async with` block before the response arrives cancels
        the request: over HTTP in revision 2026-07-28 and later, by closing the stream; otherwise, with
        `notifications/cancelled`.
        """
        ...

    async def send(self, message: JsonRpcMessage) -> None:
        """Send a notification, or the response to a request from the server."""
        ...

    def unsolicited(self) -> AsyncIterator[JsonRpcMessage]:
        """Iterate over messages from the server that do not belong to a request, such as list changes.

        Only one task may iterate over them.
        """
        ...

    @property
    def anomaly_counts(self) -> Mapping[str, int]:
        """Numbers of dropped messages, keyed by a description of the reason. A number may be zero."""
        ...

    @property
    def is_drained(self) -> bool:
        """Whether the server has read everything that was sent to it.

        The value is an estimate if the operating system cannot report this. Always True over HTTP.
        """
        ...

    @property
    def may_have_been_read(self) -> bool:
        """Whether the server may have read something that was sent to it.

        If this is False, the server's process has certainly read nothing, so no message can have caused it to exit.
        """
        ...

    @property
    def is_closed(self) -> bool:
        """Whether the connection is known to be lost, so that no more messages can be sent."""
        ...

    def set_revision(self, revision: Revision) -> None:
        """Set the negotiated protocol revision, which determines the rules that the transport follows."""
        ...


class Connector(Protocol):
    """Factory for connections to one server.

    `connect` can be called again after a connection has ended.
    """

    message_log: "MessageLog | None"
    """The log to which messages are added, or None if they are not logged; set it before `connect`."""

    def connect(self) -> AbstractAsyncContextManager[Channel]:
        """Return a context manager that starts the server's process or connects to its URL, and yields the channel.

        Leaving the `async with` block closes the channel. Raises StartupError.
        """
        ...


class Authorizer(Protocol):
    """Source of credentials for HTTP requests to one server."""

    async def headers(self, verb: str, url: str) -> Mapping[str, str]:
        """Return the authorization headers for a request, with lowercase names. Raises SignInRequired.

        *verb* is the HTTP method of the request.
        """
        ...

    def current_headers(self, verb: str, url: str) -> Mapping[str, str]:
        """Return the authorization headers that are available now, without waiting or refreshing a token.

        *verb* is the HTTP method of the request.
        """
        ...

    async def recover(self, refusal: AuthChallenge) -> bool:
        """Try to get valid credentials without asking the user; return whether to retry the request.

        *refusal* describes the 401 or 403 response to the request.
        """
        ...


class Unauthorized(SignInRequired):
    """Raised when the server requires the user to sign in; `challenge` describes the 401 or 403 response."""

    def __init__(self, message: str, hint: str, *, server: str, challenge: AuthChallenge) -> None:
        super().__init__(message, hint, server=server)
        self.challenge = challenge


class HttpStatusError(RequestRefused):
    """Raised for an HTTP error status if the body contains no JSON-RPC message. The session remains usable."""

    def __init__(self, message: str, hint: str = "", *, status: int = 0, retry_after: float | None = None) -> None:
        super().__init__(message, hint)
        self.status = status
        self.retry_after = retry_after
        # After a refusal (4xx, 503), nothing was executed; after a gateway's 502 or an invalid 200, that is unknown.
        self.may_have_run = not (400 <= status < 500 or status == 503)


class ResponseInterrupted(ConnectionLost):
    """Raised when a response is incomplete.

    The server may have executed the request. The channel remains usable.
    """


NOT_RUN_HINT = "It did not run; send it again."
"""Hint for a request that the server rejected because it does not know the session."""


class SessionExpired(RequestNotSent):
    """Raised when the server no longer knows the session id of a request; the server did not execute the request."""


def mismatched_id_error(name: str, request: JsonRpcRequest) -> MalformedMessage:
    """Return the error for a response that has the id of *request*, but with the wrong JSON type.

    For example, the response has the id "1" where the request has the id 1.
    """
    was = "a string" if isinstance(request.id, int) else "a number"
    return MalformedMessage(
        f"The server {name!r} answered {request.method} with an id that is {was}, but the id of the "
        f"request is {'a number' if isinstance(request.id, int) else 'a string'}.",
        "The server must repeat the id as it was sent.",
        server=name,
    )


class CancellingTaskGroup:
    """A task group that cancels its remaining tasks when the `async with` block is left.

    An exception raised in the block is passed on unchanged. An ordinary task group would wrap it in an ExceptionGroup,
    so that `except RequestRefused`, for example, would not catch it.
    """

    async def __aenter__(self) -> TaskGroup:
        self._group = anyio.create_task_group()
        return await self._group.__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        self._group.cancel_scope.cancel()
        if error is None or isinstance(error, Exception):
            await self._group.__aexit__(None, None, None)
            return None
        return await self._group.__aexit__(kind, error, trace)
