"""Streamable HTTP: one POST per request, with sessions and GET streams before revision 2026-07-28."""

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

import anyio
from anyio.abc import TaskGroup

from mcphost.errors import ConnectionLost, MalformedMessage, McpHostError, ServerError, SignInRequired
from mcphost.json_limits import JsonLimitExceeded, check_message
from mcphost.protocol.jsonrpc import (
    JsonRpcMessage,
    JsonRpcNotification,
    JsonRpcRequest,
    RequestId,
    parse_message,
    parse_message_in_steps,
    replace_invalid_utf8,
    serialize_message,
    split_batch_in_steps,
)
from mcphost.protocol.revisions import Revision
from mcphost.protocol.tasks import CancelTask
from mcphost.redact import register_server_secret
from mcphost.serialization import Raw, decode, encode
from mcphost.transport.channel import (
    NO_HEADERS,
    NOT_RUN_HINT,
    Authorizer,
    CancellingTaskGroup,
    Channel,
    ResponseInterrupted,
    SessionExpired,
)
from mcphost.transport.event_stream import EventDecoder, ServerSentEvent
from mcphost.transport.flow_control import LONG_MESSAGE, BoundedQueue, Throttle, run_steps_cooperatively
from mcphost.transport.http_client import EVENT_STREAM, HttpClient, HttpResponse, create_client
from mcphost.transport.http_exchange import HttpExchange, refers_to_request
from mcphost.transport.line_reader import MESSAGE_LIMIT
from mcphost.transport.mcp_headers import METHOD_HEADER, PROTOCOL_VERSION_HEADER, SESSION_ID_HEADER, encode_header_value
from mcphost.transport.reachability import ReachabilityFn, ignore_reachability

if TYPE_CHECKING:
    from mcphost.message_log import Direction, MessageLog

CONNECT_TIMEOUT = 30.0
SEND_TIMEOUT = 60.0
MAX_MALFORMED_MESSAGES = 10_000
_DELETE_TIMEOUT = 1.0
_CANCEL_ALL_TIMEOUT = 0.5
_CANCEL_TIMEOUT = 2.0
MAX_RECONNECT_DELAY = 60.0
_MAX_SILENT_STREAMS = 5
_STEADY_SECONDS = 30.0
_GET_STREAM_TIMEOUT = 1.0
_MAX_SESSION_ID_LENGTH = 4096
# Lowercase text of a 400 response when the server does not know the session.
_UNKNOWN_SESSION_WORDS = (b"session", b"not initialized")


class HttpConnector:
    """Connector for one URL over Streamable HTTP.

    References such as `${TOKEN}` in *headers* must already be expanded.
    """

    def __init__(
        self,
        name: str,
        url: str,
        headers: Mapping[str, str],
        *,
        warn: Callable[[str], None],
        authorizer: Authorizer | None = None,
        message_limit: int = MESSAGE_LIMIT,
        ca_file: str = "",
        ca_digest: str = "",
    ) -> None:
        self._name = name
        self._url = url
        self._headers = dict(headers)
        self._warn = warn
        self._authorizer = authorizer
        self._message_limit = message_limit
        self._ca_file = ca_file
        self._ca_digest = ca_digest
        self.message_log: MessageLog | None = None
        """The log to which messages are added, or None if they are not logged; set it before `connect`."""
        self.on_reachability_changed: ReachabilityFn = ignore_reachability
        """Called when the server can no longer be reached, or can be reached again; set it before `connect`."""
        self.connect_timeout = CONNECT_TIMEOUT
        """Time limit in seconds for requests that `connect` itself sends; set it before `connect`."""

    @asynccontextmanager
    async def connect(self) -> AsyncGenerator[Channel]:
        """Yield a channel to the URL; the channel connects when it first sends a request. Raises StartupError."""
        async with CancellingTaskGroup() as tasks:
            client = self._create_client()
            channel = HttpChannel(client, tasks, self._message_limit, self.message_log)
            tasks.start_soon(client.reachability.run)
            try:
                yield channel
            finally:
                await channel.close()
                await client.close()

    def _create_client(self) -> HttpClient:
        client = create_client(
            self._name,
            self._url,
            self._headers,
            warn=self._warn,
            authorizer=self._authorizer,
            ca_file=self._ca_file,
            ca_digest=self._ca_digest,
            on_reachability_changed=self.on_reachability_changed,
        )
        client.message_log = self.message_log
        if self.message_log is not None:
            self.message_log.hide_headers(self._headers)
        return client


class HttpChannel:
    """Channel to a server over Streamable HTTP."""

    def __init__(
        self,
        client: HttpClient,
        tasks: TaskGroup,
        message_limit: int = MESSAGE_LIMIT,
        message_log: "MessageLog | None" = None,
    ) -> None:
        self.name = client.name
        self.message_log = message_log
        self.message_limit = message_limit
        self._client = client
        self._tasks = tasks
        self._session_id = ""
        self._expired_session_id: str = ""  # id of an expired session, which is sent until a new session is open
        self._streaming_session_id: str = ""  # the session that had a GET stream
        self._confirmed_session_id: str = ""  # the session in which a request has succeeded
        self._is_stream_unauthorized = False  # whether the GET stream waits for a sign-in
        self._stream_reopen_count = 0
        self._warned_kinds: set[str] = set()
        self.malformed_count = 0
        self.unmatched_count = 0
        self._dropped_count = 0
        self._in_flight: dict[RequestId, JsonRpcRequest] = {}  # requests that the server may still process
        self._request_done: anyio.Event | None = None  # set when a request has ended, if a task waits for it
        self._received_count = 0  # messages received on GET streams
        self._unsolicited = BoundedQueue()
        self._revision: Revision | None = None
        self._is_closed = False
        self._get_stream_scope = anyio.CancelScope()
        self._get_stream_opened = anyio.Event()  # the GET stream is open, or there is none

    # -- the Channel
    def exchange(self, request: JsonRpcRequest, *, headers: Mapping[str, str] = NO_HEADERS) -> HttpExchange:
        """Return an exchange that sends the request; see `Channel.exchange`."""
        if not self._is_stateless and request.method not in ("initialize", "server/discover"):
            self._in_flight[request.id] = request
        return HttpExchange(self, request, headers)

    async def send(self, message: JsonRpcMessage) -> None:
        """Send a notification or response; see `Channel.send`.

        In protocol revision 2026-07-28 and later, this does nothing, because clients send only requests.
        """
        if self._is_stateless:
            return
        what = message.method if isinstance(message, JsonRpcNotification | JsonRpcRequest) else "an answer"
        headers = self._common_headers()
        try:
            with anyio.fail_after(SEND_TIMEOUT):
                await self._post(serialize_message(message), headers, what)
        except TimeoutError as error:
            raise ResponseInterrupted(
                f"The server {self.name!r} did not accept {what} within {SEND_TIMEOUT:.0f} s.", server=self.name
            ) from error
        if isinstance(message, JsonRpcNotification) and message.method == "notifications/initialized":
            self._get_stream_scope.cancel()
            self._get_stream_scope = anyio.CancelScope()
            self._get_stream_opened = anyio.Event()
            self._tasks.start_soon(self._run_get_stream, self._get_stream_scope)
            # Requests that the server sends during the first client request arrive on this stream or not at all.
            with anyio.move_on_after(_GET_STREAM_TIMEOUT):
                await self._get_stream_opened.wait()

    def unsolicited(self) -> BoundedQueue:
        """Return the queue of messages that do not belong to a request; see `Channel.unsolicited`."""
        return self._unsolicited

    @property
    def anomaly_counts(self) -> Mapping[str, int]:
        """Counts of dropped messages, keyed by the reason; see `Channel.anomaly_counts`."""
        return {
            "broken messages": self.malformed_count,
            "answers nobody waits for": self.unmatched_count,
            "messages left out in a flood": self._dropped_count,
        }

    @property
    def is_drained(self) -> bool:
        """Always True, because a client cannot tell over HTTP what the server has read."""
        return True

    @property
    def may_have_been_read(self) -> bool:
        """Always True, because a client cannot tell over HTTP what the server has read."""
        return True

    @property
    def is_closed(self) -> bool:
        """Whether `close` was called.

        An unreachable server does not close the channel, because the server may become reachable again.
        """
        return self._is_closed

    def set_revision(self, revision: Revision) -> None:
        """Set the negotiated protocol revision; see `Channel.set_revision`."""
        self._revision = revision

    async def close(self) -> None:
        """Cancel pending requests and end the session on the server, within 1.5 seconds."""
        self._is_closed = True
        self._unsolicited.close(ConnectionLost(f"The connection to {self.name!r} was closed.", server=self.name))
        if self._is_stateless:
            return
        with anyio.move_on_after(_CANCEL_ALL_TIMEOUT, shield=True):
            async with anyio.create_task_group() as tasks:
                for request in self._in_flight.values():
                    if _is_cancellable(request):
                        tasks.start_soon(self._send_on_close, "POST", serialize_message(_cancellation(request)))
            while any(request.method == CancelTask.METHOD for request in self._in_flight.values()):
                self._request_done = anyio.Event()
                await self._request_done.wait()
        if self._session_id not in ("", self._expired_session_id):
            with anyio.move_on_after(_DELETE_TIMEOUT, shield=True):
                await self._send_on_close("DELETE", b"")

    async def _send_on_close(self, verb: str, body: bytes) -> None:
        """Send a final request before the channel is closed, and ignore the response and all errors.

        For example, status 405 means that the server does not let clients end sessions.
        """
        try:
            self._log_message("sent", body)
            answer = await self._client.request_without_recovery(verb, body, self._common_headers())
            answer.close()
        except McpHostError:
            return  # the session ends anyway

    # -- for exchanges
    async def request(
        self, verb: str, body: bytes, headers: Mapping[str, str], *, is_repeatable: bool = True
    ) -> HttpResponse:
        """Send an HTTP request; see `HttpClient.request`."""
        self._log_message("sent", body)
        return await self._client.request(verb, body, headers, is_repeatable=is_repeatable)

    def headers_for(self, request: JsonRpcRequest, extra: Mapping[str, str]) -> dict[str, str]:
        """Return the protocol's HTTP headers for a request.

        *extra* are additional headers, which are sent only in protocol revision 2026-07-28 and later.
        """
        if request.method == "initialize":
            return {}
        headers = self._common_headers()
        if self._is_stateless:
            headers[METHOD_HEADER] = encode_header_value(request.method)
            for name, value in extra.items():
                headers[name] = encode_header_value(value)
        return headers

    def on_opened(self, request: JsonRpcRequest, answer: HttpResponse) -> None:
        """Store the session id in the response to `initialize`; after any other request, confirm the session.

        If the GET stream was rejected as unauthorized, it is opened again after a request has succeeded.
        """
        if request.method != "initialize":
            self._confirmed_session_id = self._session_id
            if self._is_stream_unauthorized and self._stream_reopen_count < _MAX_SILENT_STREAMS:
                self._is_stream_unauthorized = False
                self._stream_reopen_count += 1
                self._get_stream_scope = anyio.CancelScope()
                self._tasks.start_soon(self._run_get_stream, self._get_stream_scope)
            return
        session_id = answer.header(SESSION_ID_HEADER)
        # The specification requires visible ASCII, because other characters cannot be sent in a header.
        if len(session_id) > _MAX_SESSION_ID_LENGTH or not all("!" <= character <= "~" for character in session_id):
            self._warn_once(
                "session", f"The server {self.name!r} sent a session id that is not visible ASCII; it was ignored."
            )
            return
        self._get_stream_scope.cancel()  # it would be reopened in the new session, which allows only one stream
        self._session_id = session_id
        self.confirm_session(session_id)  # some servers give every session of a user the same id
        register_server_secret(session_id, self.name)  # whoever has it can use the session

    def is_unknown_session(self, status: int, session: str, body: bytes) -> bool:
        """Return whether an error response means that the server no longer knows the session.

        The specification requires status 404. Common servers instead send 400 with the text "No valid session ID" or,
        after a restart, "Server not initialized". Status 400 counts only if an earlier request in *session* succeeded,
        or if *session* is no longer the current session.
        """
        refusal = body[:4096].lower()
        is_named = (
            status == 400
            and (session == self._confirmed_session_id or session != self._session_id)
            and any(word in refusal for word in _UNKNOWN_SESSION_WORDS)
        )
        return bool(session) and (status == 404 or is_named)

    def is_current_session(self, session: str) -> bool:
        """Return whether *session* is the current session, and has not expired; always True if it is ""."""
        return not session or (session == self._session_id and session != self._expired_session_id)

    def expire_session(self, session: str) -> SessionExpired:
        """Record that the server no longer knows a session, and return the error to raise.

        The caller can then open a new session on this channel. Until then, requests still contain the old session id:
        without an id, the server would reject them with an error that does not mean that the session has expired.
        """
        if session == self._session_id:  # otherwise, this is a late response in a session that was already replaced
            self._expired_session_id = session
            # An answer would be sent to the next session, where another request may have the same id.
            self._unsolicited.discard(refers_to_request)
        return SessionExpired(f"The server {self.name!r} no longer knows the session.", NOT_RUN_HINT, server=self.name)

    def confirm_session(self, session: str) -> None:
        """Record that the server still knows a session, although it seemed to have expired.

        Some servers send status 404 for a single message, such as the cancellation of a request that has ended.
        """
        if session == self._expired_session_id:
            self._expired_session_id = ""

    async def resume(self, last_id: str, session: str) -> HttpResponse | None:
        """Request the events of *session* that follow the event *last_id*, using GET.

        Returns None if another session has been opened (its events may have the same ids), if *last_id* cannot be sent
        in a header, or in protocol revision 2026-07-28 and later.
        """
        if session not in ("", self._session_id):
            return None
        if self._is_stateless or not (last_id.isascii() and last_id.isprintable()):
            return None
        return await self._client.request("GET", b"", self._common_headers() | {"Last-Event-ID": last_id})

    def on_abandoned(self, request: JsonRpcRequest) -> None:
        """Cancel a request whose `async with` block was left before the response arrived."""
        if request.id in self._in_flight and not self._is_closed:
            self._tasks.start_soon(self._cancel, request)

    def on_answered(self, request: JsonRpcRequest) -> None:
        """Handle the end of an exchange whose request has been answered or refused, and need not be cancelled."""
        self._in_flight.pop(request.id, None)
        if self._request_done is not None:
            self._request_done.set()

    async def parse_event(self, event: ServerSentEvent) -> list[JsonRpcMessage]:
        """Return the JSON-RPC messages in a server-sent event; none if the event's type is not `message`."""
        return await self.parse_body(event.data) if event.event == "message" else []

    async def parse_body(self, data: bytes) -> list[JsonRpcMessage]:
        """Return the JSON-RPC messages in a response body or event.

        Malformed messages are counted and dropped, and the user is warned about the first one. Other tasks can run
        while a long body is parsed. Raises JsonLimitExceeded for a body that is too large, and MalformedMessage after
        10,000 malformed messages.
        """
        self._log_message("received", data)
        if not data.isascii():
            data = await self._replace_invalid_utf8(data)
        members: list[bytes | Raw] = [data]
        if data[:1] == b"[" and self._revision is not None and self._revision.has_batches:
            try:
                if len(data) > LONG_MESSAGE:
                    await run_steps_cooperatively(check_message(data))
                members = list(await run_steps_cooperatively(split_batch_in_steps(data)))
            except JsonLimitExceeded as error:
                raise self._oversized_message(error) from error
            except MalformedMessage as error:
                members = self._count_malformed(data, error)
        messages: list[JsonRpcMessage] = []
        for member in members:
            try:
                messages.append(
                    await run_steps_cooperatively(parse_message_in_steps(bytes(member)))
                    if len(member) > LONG_MESSAGE
                    else parse_message(member)
                )
            except JsonLimitExceeded as error:
                raise self._oversized_message(error) from error
            except MalformedMessage as error:
                self._count_malformed(member, error)
        return messages

    async def _replace_invalid_utf8(self, data: bytes) -> bytes:
        """Replace invalid UTF-8 in a message; if too much of it is invalid, warn the user and return b""."""
        try:
            mended = await run_steps_cooperatively(replace_invalid_utf8(data))
        except MalformedMessage as error:
            self._count_malformed(data, error)
            return b""
        if mended is not data:
            self._warn_once(
                "utf8", f"The server {self.name!r} sent text that is not UTF-8; the broken characters were replaced."
            )
        return mended

    def _oversized_message(self, error: JsonLimitExceeded) -> JsonLimitExceeded:
        self.malformed_count += 1
        what = f"The server {self.name!r} sent a message that is too large. {error.message}"
        self._warn_once("over", what)
        return JsonLimitExceeded(what, server=self.name)

    def _count_malformed(self, data: bytes | Raw, error: MalformedMessage) -> list[bytes | Raw]:
        """Count a malformed message, warn the user about the first one, and return an empty list.

        Raises MalformedMessage if the server has sent more than 10,000 malformed messages.
        """
        if len(data) > 1000 or bytes(data).strip():
            self.malformed_count += 1
            self._warn_once("odd", f"The server {self.name!r} sent an invalid message: {error.message[:300]}")
            if self.malformed_count > MAX_MALFORMED_MESSAGES:
                raise MalformedMessage(
                    f"The server {self.name!r} sent {MAX_MALFORMED_MESSAGES:,} invalid messages.",
                    server=self.name,
                )
        return []

    # -- internals
    @property
    def _is_stateless(self) -> bool:
        return self._revision is not None and self._revision.era == "stateless"

    def _common_headers(self) -> dict[str, str]:
        headers: dict[str, str] = {}
        if self._revision is not None and self._revision.has_version_header:
            headers[PROTOCOL_VERSION_HEADER] = self._revision.value
        if self._session_id and not self._is_stateless:
            headers[SESSION_ID_HEADER] = self._session_id
        return headers

    def _queue_unsolicited(self, message: JsonRpcMessage) -> None:
        """Queue a message that does not belong to any request of the client."""
        if not self._unsolicited.put(message):
            self._dropped_count += 1
            self._warn_once("flood", f"The server {self.name!r} sends messages faster than they can be handled.")

    def _warn_once(self, kind: str, text: str) -> None:
        if kind not in self._warned_kinds:
            self._warned_kinds.add(kind)
            self._client.warn(text)

    def _log_message(self, direction: "Direction", body: bytes) -> None:
        if self.message_log is not None:
            self.message_log.add(direction, body)

    async def _post(self, body: bytes, headers: Mapping[str, str], what: str) -> None:
        self._log_message("sent", body)
        answer = await self._client.request("POST", body, headers)
        try:
            if answer.status == 404 and SESSION_ID_HEADER in headers:
                raise self.expire_session(headers[SESSION_ID_HEADER])
            if not 200 <= answer.status < 300:
                refusal = await answer.read_error_body()
                self._log_message("received", refusal)
                raise answer.status_error(refusal, what)
            await answer.drain()
        finally:
            answer.close()

    async def _cancel(self, request: JsonRpcRequest) -> None:
        """Send `notifications/cancelled` for a request."""
        with anyio.move_on_after(_CANCEL_TIMEOUT):
            with suppress(ServerError):  # the outcome does not matter
                await self.send(_cancellation(request))
        self._in_flight.pop(request.id, None)

    async def _run_get_stream(self, scope: anyio.CancelScope) -> None:
        """Read the GET stream, and reopen it with increasing delays when it ends.

        Returns if the server has no GET stream or repeatedly closes it soon after it was opened, and after any error
        except ConnectionLost.
        """
        silent, decoder = 0, EventDecoder(self.message_limit)
        with scope:
            while silent < _MAX_SILENT_STREAMS:
                opened = anyio.current_time()
                try:
                    has_messages = await self._read_get_stream(decoder)
                except SessionExpired as error:
                    self._unsolicited.put_error(error)
                    return
                except SignInRequired:
                    self._is_stream_unauthorized = True  # tried again when a call is authorized
                    return
                except ServerError:
                    return
                if has_messages is None:
                    return
                # Gateways close idle streams after a while, which is not a failure.
                silent = 0 if has_messages or anyio.current_time() - opened > _STEADY_SECONDS else silent + 1
                wait = 2.0 ** max(0, silent - 1)
                after = EventDecoder(self.message_limit)
                after.last_id, after.retry, decoder = decoder.last_id, decoder.retry, after
                await anyio.sleep(min(max(wait, decoder.retry or 0.0), MAX_RECONNECT_DELAY))
        if silent >= _MAX_SILENT_STREAMS:
            self._warn_once(
                "silent", f"The server {self.name!r} keeps closing its event stream; it will not be reopened."
            )

    async def _read_get_stream(self, decoder: EventDecoder) -> bool | None:
        """Read one GET stream to its end, and return whether it contained any messages.

        Returns None if the server has no GET stream. Raises SessionExpired if the server had a GET stream earlier in
        this session, but no longer knows the session.
        """
        headers = self._common_headers()
        if decoder.last_id and decoder.last_id.isascii() and decoder.last_id.isprintable():
            headers["Last-Event-ID"] = decoder.last_id
        count = self._received_count
        try:
            try:
                answer = await self._client.request("GET", b"", headers)
            finally:
                self._get_stream_opened.set()
            try:
                if not await self._is_get_stream(answer, headers.get(SESSION_ID_HEADER, "")):
                    return None
                await self._read_events(answer, decoder, headers.get(SESSION_ID_HEADER, ""))
            finally:
                answer.close()
        except SessionExpired:
            raise
        except ConnectionLost:
            pass  # retried later
        return self._received_count > count

    async def _is_get_stream(self, answer: HttpResponse, session: str) -> bool:
        """Return whether *answer*, the response to a GET request, is an event stream.

        Raises SessionExpired if the server earlier opened a GET stream in *session*, but no longer knows this
        session.
        """
        body = b"" if answer.status == 200 else await answer.read_error_body()
        # Servers without a GET stream send 405; some send 404, which does not mean that the session has expired.
        if session == self._streaming_session_id and self.is_unknown_session(answer.status, session, body):
            if self._session_id != self._streaming_session_id or self._expired_session_id == self._streaming_session_id:
                return False  # another task has detected this and opens the next session
            raise self.expire_session(self._streaming_session_id)
        if answer.status != 200 or answer.content_type != EVENT_STREAM:
            if answer.status != 405:
                self._warn_once("get", answer.status_error(body or await answer.read_error_body(), "the GET").message)
            return False
        self._streaming_session_id = self._confirmed_session_id = session
        return True

    async def _read_events(self, answer: HttpResponse, decoder: EventDecoder, session: str) -> None:
        pace = Throttle()
        while (chunk := await answer.read_chunk()) is not None:
            for event in decoder.feed(chunk):
                try:
                    messages = await self.parse_event(event)
                except JsonLimitExceeded:
                    continue
                if not self.is_current_session(session):
                    continue
                for message in messages:
                    self._received_count += 1
                    self._queue_unsolicited(message)
                if pace.is_due:
                    await pace.yield_control()


def _is_cancellable(request: JsonRpcRequest) -> bool:
    """Return whether `notifications/cancelled` can cancel *request*.

    The notification cannot cancel requests that create or cancel a task: tasks are cancelled with the request
    tasks/cancel (specification 2025-11-25, basic/utilities/tasks).
    """
    members = decode(request.params, dict[str, Raw]) if memoryview(request.params).nbytes else {}
    return request.method != CancelTask.METHOD and "task" not in members


def _cancellation(request: JsonRpcRequest) -> JsonRpcNotification:
    return JsonRpcNotification("notifications/cancelled", Raw(encode({"requestId": request.id})))
