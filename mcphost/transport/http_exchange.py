"""One JSON-RPC request over HTTP: a POST that the server answers with JSON or an event stream."""

from collections import deque
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Protocol

import anyio

from mcphost.errors import ConnectionLost, MalformedMessage, RequestNotSent, SignInRequired
from mcphost.protocol.jsonrpc import (
    JsonRpcErrorResponse,
    JsonRpcMessage,
    JsonRpcNotification,
    JsonRpcRequest,
    JsonRpcResponse,
    serialize_message,
)
from mcphost.transport.channel import ResponseInterrupted, SessionExpired, mismatched_id_error
from mcphost.transport.event_stream import EventDecoder, ServerSentEvent
from mcphost.transport.flow_control import Throttle
from mcphost.transport.http_client import EVENT_STREAM, MAY_HAVE_RUN_HINT, HttpResponse
from mcphost.transport.mcp_headers import PROTOCOL_VERSION_HEADER, SESSION_ID_HEADER

if TYPE_CHECKING:
    from mcphost.message_log import MessageLog

JSON = "application/json"
EFFECTFUL_METHODS = frozenset({"tools/call", "tasks/update"})
"""Methods whose requests are not sent again if the server may have received them."""

MAX_SILENT_RESUMES = 5
FIRST_RESUME_DELAY = 1.0
MIN_RESUME_DELAY = 1.0  # regardless of `retry`, so that a server cannot cause a request loop
MAX_RESUME_DELAY = 60.0


class PostChannel(Protocol):
    """The part of HttpChannel's interface that HttpExchange uses."""

    name: str
    message_limit: int
    unmatched_count: int
    message_log: "MessageLog | None"

    async def request(
        self, verb: str, body: bytes, headers: Mapping[str, str], *, is_repeatable: bool = True
    ) -> HttpResponse:
        """Send an HTTP request; see `HttpClient.request`.

        *is_repeatable* is False if the server must not handle the request twice.
        """
        ...

    def headers_for(self, request: JsonRpcRequest, extra: Mapping[str, str]) -> dict[str, str]:
        """Return the protocol's HTTP headers for a request.

        *extra* are additional headers, which are sent only in protocol revision 2026-07-28 and later.
        """
        ...

    async def parse_body(self, data: bytes) -> list[JsonRpcMessage]:
        """Return the JSON-RPC messages in a response body."""
        ...

    async def parse_event(self, event: ServerSentEvent) -> list[JsonRpcMessage]:
        """Return the JSON-RPC messages in a server-sent event."""
        ...

    def on_opened(self, request: JsonRpcRequest, answer: HttpResponse) -> None:
        """Handle the status and headers of a successful response before its body is read."""
        ...

    def on_abandoned(self, request: JsonRpcRequest) -> None:
        """Handle an exchange whose `async with` block was left before the response arrived."""
        ...

    def on_answered(self, request: JsonRpcRequest) -> None:
        """Handle the end of an exchange whose request has been answered or refused, and need not be cancelled."""
        ...

    def is_unknown_session(self, status: int, session: str, body: bytes) -> bool:
        """Return whether an error response means that the server no longer knows the session."""
        ...

    def is_current_session(self, session: str) -> bool:
        """Return whether *session* is the current session, and has not expired.

        Always True if *session* is "", which means that the server uses no sessions.
        """
        ...

    def expire_session(self, session: str) -> SessionExpired:
        """Record that the server no longer knows a session, and return the error to raise."""
        ...

    def confirm_session(self, session: str) -> None:
        """Record that the server still knows a session, although it seemed to have expired."""
        ...

    async def resume(self, last_id: str, session: str) -> HttpResponse | None:
        """Request the events of *session* that follow the event *last_id*; return None if that is not possible."""
        ...


class HttpExchange:
    """One request over HTTP: the context manager and iterator that `Channel.exchange` returns.

    Leaving the `async with` block before the response arrives closes the stream. In revisions before 2026-07-28, it
    also sends a notification that cancels the request.
    """

    __slots__ = (
        "_channel",
        "_decoder",
        "_done",
        "_has_mismatched_id",
        "_headers",
        "_messages",
        "_request",
        "_response",
        "_session",
        "_silent_resumes",
        "_throttle",
    )

    def __init__(self, channel: PostChannel, request: JsonRpcRequest, headers: Mapping[str, str]) -> None:
        self._channel = channel
        self._request = request
        self._headers = headers
        self._messages: deque[JsonRpcMessage] = deque()
        self._response: HttpResponse | None = None
        self._decoder = EventDecoder(channel.message_limit)
        self._done = False
        self._session = ""  # id of the session in which the request was sent
        self._has_mismatched_id = False  # whether a response had the right id with another JSON type
        self._throttle = Throttle()
        self._silent_resumes = 0  # number of times that the stream was resumed without a new event

    async def __aenter__(self) -> "HttpExchange":
        try:
            await self._open()
        except BaseException:
            self._close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()

    def __aiter__(self) -> "HttpExchange":
        return self

    async def __anext__(self) -> JsonRpcMessage:
        while not self._messages:
            if self._done or self._response is None:
                raise StopAsyncIteration
            try:
                chunk = await self._response.read_chunk()
            except ConnectionLost as error:
                await self._resume(error)
                continue
            if chunk is None:
                closed = f"The server {self._channel.name!r} closed the stream before it answered"
                lost = ResponseInterrupted(
                    f"{closed} {self._request.method}.", MAY_HAVE_RUN_HINT, server=self._channel.name
                )
                await self._resume(lost)
                continue
            known = self._decoder.last_id
            events = self._decode_events(chunk)
            if events or self._decoder.last_id != known:
                self._silent_resumes = 0
            for event in events:
                if self._throttle.is_due:
                    await self._throttle.yield_control()
                for message in await self._channel.parse_event(event):
                    self._accept_message(message)
        return self._messages.popleft()

    def _decode_events(self, chunk: bytes) -> list[ServerSentEvent]:
        try:
            return self._decoder.feed(chunk)
        except MalformedMessage as error:
            raise MalformedMessage(
                f"The server {self._channel.name!r} sent {error.message}.", MAY_HAVE_RUN_HINT, server=self._channel.name
            ) from error

    async def _resume(self, error: ConnectionLost) -> None:
        """Request the remaining events of a stream that ended early. Raises *error* if that is not possible.

        The request is a GET. Specification 2025-11-25, basic/transports: a server may close the stream after an event
        with an id, and the client reconnects after `retry` milliseconds.
        """
        before, answer = self._decoder, self._response
        if answer is not None:
            answer.close()
        if self._has_mismatched_id:
            self._done = True
            raise self._mismatched_id_error() or error
        while before.last_id and self._silent_resumes < MAX_SILENT_RESUMES:
            # The server determines the first delay; as long as there are no new events, the delays increase.
            least = (
                2.0**self._silent_resumes
                if self._silent_resumes
                else FIRST_RESUME_DELAY
                if before.retry is None
                else MIN_RESUME_DELAY
            )
            self._silent_resumes += 1
            await anyio.sleep(min(max(before.retry or 0.0, least), MAX_RESUME_DELAY))
            try:
                answer = await self._channel.resume(before.last_id, self._session)
            except SignInRequired as refused:
                # Not raised: the caller would sign in and send the request again, although the server accepted it.
                self._done = True
                raise error from refused
            except ConnectionLost:
                continue
            if answer is None or answer.status != 200 or answer.content_type != EVENT_STREAM:
                if answer is not None:
                    answer.close()
                break
            self._response = answer
            self._decoder = EventDecoder(self._channel.message_limit)
            self._decoder.last_id, self._decoder.retry = before.last_id, before.retry
            return
        self._done = True
        raise error

    def _mismatched_id_error(self) -> MalformedMessage | None:
        return mismatched_id_error(self._channel.name, self._request) if self._has_mismatched_id else None

    async def _open(self) -> None:
        channel, method = self._channel, self._request.method
        headers = channel.headers_for(self._request, self._headers)
        self._session = headers.get(SESSION_ID_HEADER, "")
        seemed_expired = not channel.is_current_session(self._session)
        is_repeatable = method not in EFFECTFUL_METHODS
        body = serialize_message(self._request)
        try:
            answer = await channel.request("POST", body, headers, is_repeatable=is_repeatable)
        except (SignInRequired, RequestNotSent):
            self._done = True  # the request did not run, so there is nothing to cancel
            raise
        self._response = answer
        if not 200 <= answer.status < 300:
            await self._handle_error_status(answer, headers)
            return
        if seemed_expired:
            channel.confirm_session(self._session)
        if answer.content_type == EVENT_STREAM:
            channel.on_opened(self._request, answer)
        elif answer.content_type == JSON and answer.status == 200:
            channel.on_opened(self._request, answer)
            for message in await channel.parse_body(await answer.read_body(channel.message_limit)):
                self._accept_message(message)
            if not self._done:
                raise self._mismatched_id_error() or MalformedMessage(
                    f"The server {channel.name!r} sent no response to {method} in the body."
                )
        else:
            self._done = True
            raise answer.status_error(await answer.read_error_body(), method)

    async def _handle_error_status(self, answer: HttpResponse, headers: Mapping[str, str]) -> None:
        channel, method, session = self._channel, self._request.method, headers.get(SESSION_ID_HEADER, "")
        self._done = True  # the request did not run, so there is nothing to cancel
        body = await answer.read_error_body()
        if channel.message_log is not None:
            channel.message_log.add("received", body)
        if channel.is_unknown_session(answer.status, session, body):
            raise channel.expire_session(session)
        error = answer.parse_error(body)
        if error is None:
            failure = answer.status_error(body, method)
            if answer.status == 400 and not failure.hint:
                version = headers.get(PROTOCOL_VERSION_HEADER, "none")
                failure.hint = (
                    f"We sent {PROTOCOL_VERSION_HEADER}: {version}, and {'a' if session else 'no'} session id."
                )
            raise failure
        self._messages.append(JsonRpcErrorResponse(self._request.id, error.error))

    def _accept_message(self, message: JsonRpcMessage) -> None:
        if self._done:
            return
        if isinstance(message, JsonRpcResponse | JsonRpcErrorResponse):
            # An error without an id belongs to the only request of this POST.
            if message.id != self._request.id and not (
                isinstance(message, JsonRpcErrorResponse) and message.id is None
            ):
                self._channel.unmatched_count += 1
                if str(message.id) == str(self._request.id):
                    self._has_mismatched_id = True  # raised if no valid response follows
                return  # late or forged
            self._done = True
        elif refers_to_request(message) and not self._channel.is_current_session(self._session):
            self._channel.unmatched_count += 1
            return  # another request may have the same id in the new session, where the answer would be sent
        self._messages.append(message)

    def _close(self) -> None:
        if not self._done:
            self._done = True
            self._channel.on_abandoned(self._request)
        else:
            self._channel.on_answered(self._request)
        if self._response is not None:
            self._response.close()


def refers_to_request(message: JsonRpcMessage) -> bool:
    """Return whether a message from the server is a request, or a notification that cancels a request."""
    return isinstance(message, JsonRpcRequest) or (
        isinstance(message, JsonRpcNotification) and message.method == "notifications/cancelled"
    )
