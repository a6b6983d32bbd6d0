"""The HTTP+SSE transport of revision 2024-11-05: the client reads an event stream and sends with POST."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from urllib.parse import unquote

import anyio
from anyio.abc import TaskGroup

from mcphost.errors import ConnectionLost, MalformedMessage, ServerError, StartupError
from mcphost.protocol.jsonrpc import JsonRpcRequest, parse_message
from mcphost.redact import register_server_secret
from mcphost.transport.channel import CancellingTaskGroup, Channel, ResponseInterrupted, Unauthorized
from mcphost.transport.event_stream import EventDecoder, ServerSentEvent
from mcphost.transport.flow_control import LONG_MESSAGE, Throttle, run_steps_cooperatively
from mcphost.transport.http_client import EVENT_STREAM, MAY_HAVE_RUN_HINT, HttpClient, HttpResponse
from mcphost.transport.http_exchange import EFFECTFUL_METHODS
from mcphost.transport.mcp_headers import parse_origin
from mcphost.transport.multiplexer import Multiplexer
from mcphost.transport.streamable_http import SEND_TIMEOUT, HttpConnector
from mcphost.unicode_forms import join_url, split_url

ENDPOINT_TIMEOUT = 10.0
_MAX_ENDPOINT_BYTES = 16 * 1024
_MAX_PARAMETERS = 100
_MAX_SESSION_ID_LENGTH = 4_096
_MAX_QUEUED_MESSAGES = 10_000
MAX_QUEUED_BYTES = 64 * 1024 * 1024
"""Maximum total size in bytes of messages waiting to be posted; some servers accept only one at a time."""


class SseConnector(HttpConnector):
    """Connector for one URL over HTTP+SSE."""

    _spent_seconds = 0.0
    """Seconds of `connect_timeout` that were spent before the server required a sign-in."""

    @asynccontextmanager
    async def connect(self) -> AsyncGenerator[Channel]:
        """Open the event stream, and wait until the server sends the URL for POST requests.

        Both steps together must finish within `connect_timeout`. If the server requires a sign-in, Unauthorized is
        raised. The caller can let the user sign in and call `connect` again; the time limit applies to the sum of both
        calls. Raises StartupError or SignInRequired for other failures.
        """
        started = anyio.current_time()
        deadline = started + max(0.0, self.connect_timeout - self._spent_seconds)
        async with CancellingTaskGroup() as tasks:
            client = self._create_client()
            tasks.start_soon(client.reachability.run)
            try:
                try:
                    answer = await self._open_stream(client, deadline)
                except Unauthorized:
                    self._spent_seconds += anyio.current_time() - started
                    raise
                try:
                    decoder = EventDecoder(self._message_limit)
                    endpoint, early_messages = await self._wait_for_endpoint(answer, decoder, deadline)
                    self._spent_seconds = 0.0
                    sender = _MessagePoster(client.copy_with_url(endpoint), tasks, self._warn)
                    log = self.message_log
                    put = sender.put if log is None else log.log_sent(sender.put)
                    mux = Multiplexer(put, None, self._warn, self._name)
                    self._warn(
                        f"The server {self._name!r} uses HTTP+SSE, a transport deprecated since 2025-03-26. "
                        "It works; ask its developers for Streamable HTTP."
                    )
                    tasks.start_soon(self._receive, answer, decoder, early_messages, mux)
                    tasks.start_soon(sender.run, mux)
                    try:
                        yield mux
                    finally:
                        mux.connection_lost(
                            ConnectionLost(f"The connection to {self._name!r} was closed.", server=self._name)
                        )
                finally:
                    answer.close()
            finally:
                await client.close()

    async def _open_stream(self, client: HttpClient, deadline: float) -> HttpResponse:
        answer: HttpResponse | None = None
        body = b""
        with anyio.move_on_after(deadline - anyio.current_time()):
            try:
                answer = await client.request("GET", b"", {})
            except (ConnectionLost, MalformedMessage) as error:
                raise StartupError(error.message, error.hint, server=self._name) from error
            if answer.status == 200 and answer.content_type == EVENT_STREAM:
                return answer
            body = await answer.read_error_body()
        if answer is None:
            raise StartupError(
                f"The server {self._name!r} did not answer within {self.connect_timeout:.0f} s.",
                "Check its log.",
                server=self._name,
            )
        answer.close()
        raise StartupError(answer.status_error(body, "the GET of an event stream").message, server=self._name)

    async def _wait_for_endpoint(
        self, answer: HttpResponse, decoder: EventDecoder, deadline: float
    ) -> tuple[str, list[bytes]]:
        """Return the URL for POST requests, and any messages that arrived after it in the same chunk.

        *answer* is the response with the event stream, and *decoder* decodes its events. *deadline* is an event
        loop time.
        """
        early_messages: list[bytes] | None = None
        endpoint = ""
        seconds = min(ENDPOINT_TIMEOUT, max(0.0, deadline - anyio.current_time()))
        with anyio.move_on_after(seconds):
            while early_messages is None:
                chunk = await self._read_chunk(answer)
                for event in self._decode_events(decoder, chunk):
                    if early_messages is not None:
                        early_messages += [event.data] if event.event == "message" else []
                    elif event.event == "endpoint":
                        endpoint, early_messages = self._resolve_endpoint(event.data), []
        if early_messages is None:
            raise self._startup_error(f"sent no endpoint address within {seconds:.0f} s")
        return endpoint, early_messages

    def _decode_events(self, decoder: EventDecoder, chunk: bytes) -> list[ServerSentEvent]:
        try:
            return decoder.feed(chunk)
        except MalformedMessage as error:
            raise self._startup_error(f"sent {error.message}") from error

    async def _read_chunk(self, answer: HttpResponse) -> bytes:
        try:
            chunk = await answer.read_chunk()
        except ServerError as error:
            raise StartupError(error.message, server=self._name) from error
        if chunk is None:
            raise self._startup_error("closed its event stream before it sent an endpoint address")
        return chunk

    def _resolve_endpoint(self, data: bytes) -> str:
        if len(data) > _MAX_ENDPOINT_BYTES:  # it is a part of every request, and of messages for the user
            raise self._startup_error(f"sent an endpoint address over {_MAX_ENDPOINT_BYTES:,} bytes")
        try:
            url = join_url(self._url, data.decode().strip())
            same = parse_origin(url) == parse_origin(self._url)
        except (ValueError, MalformedMessage) as error:
            raise self._startup_error("sent an invalid endpoint address") from error
        if not same:
            raise self._startup_error(f"sent the endpoint address {url[:200]}, which is on another origin")
        for parameter in split_url(url).query.split("&", _MAX_PARAMETERS):
            name, _, value = parameter.partition("=")
            if "session" in name.lower() and len(value) <= _MAX_SESSION_ID_LENGTH:
                # Whoever has it can use the session. Servers repeat it as it is in the URL, or decoded.
                register_server_secret(value, self._name)
                register_server_secret(unquote(value), self._name)
        return url

    def _startup_error(self, what: str) -> StartupError:
        return StartupError(f"The server {self._name!r} at {self._url} {what}.", server=self._name)

    async def _receive(self, answer: HttpResponse, decoder: EventDecoder, early: list[bytes], mux: Multiplexer) -> None:
        pace, log = Throttle(), self.message_log
        receive = mux.receive_line if log is None else log.log_received(mux.receive_line)
        receive_long = (
            mux.receive_line_in_steps if log is None else log.log_received_in_steps(mux.receive_line_in_steps)
        )
        for data in early:
            await run_steps_cooperatively(receive_long(data))
        try:
            while (chunk := await answer.read_chunk()) is not None:
                for event in decoder.feed(chunk):
                    if event.event == "message" and len(event.data) > LONG_MESSAGE:
                        await run_steps_cooperatively(receive_long(event.data))
                    elif event.event == "message":
                        receive(event.data)
                    if pace.is_due:
                        await pace.yield_control()
        except ServerError as error:
            why = error.message if self._name in error.message else f"The server {self._name!r} sent {error.message}."
            mux.connection_lost(ConnectionLost(why, error.hint, server=self._name))
        else:
            mux.connection_lost(ConnectionLost(f"The server {self._name!r} ended its event stream.", server=self._name))


class _MessagePoster:
    """Queue of outgoing messages, each of which is sent with a POST.

    Requests are sent concurrently. The message after a notification or a response is sent only when the server has
    accepted that notification or response.
    """

    def __init__(self, client: HttpClient, tasks: TaskGroup, warn: Callable[[str], None]) -> None:
        self._client = client
        self._tasks = tasks
        self._warn = warn
        self._multiplexer: Multiplexer | None = None
        self._send_stream, self._receive_stream = anyio.create_memory_object_stream[bytes](_MAX_QUEUED_MESSAGES)
        self._queued_bytes = 0
        """Total bytes of the queued messages."""

    def put(self, line: bytes) -> None:
        """Queue one message without blocking; a full queue ends the connection."""
        try:
            # The first message is accepted regardless of its size.
            if self._queued_bytes and self._queued_bytes + len(line) > MAX_QUEUED_BYTES:
                raise anyio.WouldBlock
            self._send_stream.send_nowait(line)
            self._queued_bytes += len(line)
        except anyio.WouldBlock:
            if self._multiplexer is not None:
                self._multiplexer.connection_lost(
                    ConnectionLost(f"The server {self._client.name!r} no longer accepts messages.")
                )

    async def run(self, mux: Multiplexer) -> None:
        """Send the queued messages with POST until cancelled."""
        self._multiplexer = mux
        with self._send_stream, self._receive_stream:
            async for line in self._receive_stream:
                self._queued_bytes -= len(line)
                message = parse_message(line)
                if isinstance(message, JsonRpcRequest):
                    self._tasks.start_soon(self._post_request, message, line, mux)
                else:
                    await self._post_notification(line)

    async def _post_request(self, request: JsonRpcRequest, line: bytes, mux: Multiplexer) -> None:
        # Without this, a request whose POST was refused would wait for a response that never comes.
        try:
            await self._post(line, is_repeatable=request.method not in EFFECTFUL_METHODS)
        except ServerError as error:
            mux.fail_exchange(request.id, error)

    async def _post_notification(self, line: bytes) -> None:
        try:
            await self._post(line)
        except ServerError as error:
            self._warn(error.message)

    async def _post(self, line: bytes, *, is_repeatable: bool = True) -> None:
        """Send one message, with a time limit so that a slow server does not block later messages.

        *is_repeatable* is False if the server must not handle the message twice. Raises ServerError if the server
        rejects the message or does not accept it in time.
        """
        try:
            with anyio.fail_after(SEND_TIMEOUT):
                answer = await self._client.request("POST", line, {}, is_repeatable=is_repeatable)
                try:
                    if not 200 <= answer.status < 300:
                        raise answer.status_error(await answer.read_error_body(), "a message")
                    await answer.drain()
                finally:
                    answer.close()
        except TimeoutError as error:
            raise ResponseInterrupted(
                f"The server {self._client.name!r} did not accept a message within {SEND_TIMEOUT:.0f} s.",
                MAY_HAVE_RUN_HINT,
                server=self._client.name,
            ) from error
