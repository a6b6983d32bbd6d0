"""The HTTP+SSE transport of 2024-11-05: one event stream for everything that arrives, a POST for all that leaves.

The server names the address for POSTs in its first event; it must be on the same origin (specification 2024-11-05,
basic/transports). Deprecated since 2025-03-26, and still what many servers speak.
"""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

import anyio
from anyio.abc import TaskGroup

from mcphost.errors import CannotStart, ConnectionLost, MalformedMessage, ServerError
from mcphost.protocol.jsonrpc import Request, RequestId, read
from mcphost.transport.channel import Channel, Interrupted
from mcphost.transport.event_stream import Event, EventDecoder
from mcphost.transport.http import SEND_SECONDS, HttpDialer
from mcphost.transport.http_client import EVENTS, HttpClient
from mcphost.transport.http_response import MAY_HAVE_RUN, Answer
from mcphost.transport.mcp_headers import origin
from mcphost.transport.multiplexer import Mux
from mcphost.transport.task_group import Tasks
from mcphost.transport.throttle import LONG, Pace, at_leisure
from mcphost.unicode_forms import join_url

ENDPOINT_SECONDS = 10.0
_QUEUE = 10_000
QUEUE_BYTES = 64 * 1024 * 1024
"""Of messages that wait to be posted; the server takes them one after the other."""


class SseDialer(HttpDialer):
    """Reaches one address, as HttpDialer does."""

    @asynccontextmanager
    async def dial(self) -> AsyncGenerator[Channel]:
        """Open the stream and learn the address of POSTs. Raises CannotStart, SignInNeeded."""
        async with Tasks() as tasks:
            client = self._client()
            try:
                answer = await self._open(client)
                try:
                    decoder = EventDecoder(self._limit)
                    endpoint, early = await self._endpoint(answer, decoder)
                    sender = _Sender(client.at(endpoint), tasks, self._warn)
                    mux = Mux(sender.put, None, self._warn, self._name)
                    self._warn(
                        f"The server {self._name!r} speaks HTTP+SSE, a transport that is deprecated since 2025-03-26. "
                        "It works; ask its makers for Streamable HTTP."
                    )
                    tasks.start_soon(self._receive, answer, decoder, early, mux)
                    tasks.start_soon(sender.run, mux)
                    try:
                        yield mux
                    finally:
                        mux.lost(ConnectionLost(f"The connection to {self._name!r} was closed.", server=self._name))
                finally:
                    answer.close()
            finally:
                await client.close()

    async def _open(self, client: HttpClient) -> Answer:
        try:
            answer = await client.ask("GET", b"", {})
        except (ConnectionLost, MalformedMessage) as error:
            raise CannotStart(error.message, error.hint, server=self._name) from error
        if answer.status == 200 and answer.kind == EVENTS:
            return answer
        body = await answer.start_of_body()
        answer.close()
        raise CannotStart(answer.failure(body, "the GET of an event stream").message, server=self._name)

    async def _endpoint(self, answer: Answer, decoder: EventDecoder) -> tuple[str, list[bytes]]:
        """The address of POSTs, and messages that came in the same piece after it."""
        early: list[bytes] | None = None
        endpoint = ""
        with anyio.move_on_after(ENDPOINT_SECONDS):
            while early is None:
                chunk = await self._chunk(answer)
                for event in self._events(decoder, chunk):
                    if early is not None:
                        early.append(event.data)
                    elif event.kind == "endpoint":
                        endpoint, early = self._checked(event.data), []
        if early is None:
            raise self._cannot(f"named no address for messages within {ENDPOINT_SECONDS:.0f} s")
        return endpoint, early

    def _events(self, decoder: EventDecoder, chunk: bytes) -> list[Event]:
        try:
            return decoder.feed(chunk)
        except MalformedMessage as error:
            raise self._cannot(f"sent {error.message}") from error

    async def _chunk(self, answer: Answer) -> bytes:
        try:
            chunk = await answer.chunk()
        except ServerError as error:
            raise CannotStart(error.message, server=self._name) from error
        if chunk is None:
            raise self._cannot("ended its event stream before it named an address for messages")
        return chunk

    def _checked(self, data: bytes) -> str:
        try:
            url = join_url(self._url, data.decode().strip())
            same = origin(url) == origin(self._url)
        except (ValueError, MalformedMessage) as error:
            raise self._cannot("named an address for messages that is none") from error
        if not same:
            raise self._cannot(f"wants messages at {url[:200]}: endpoint is on another origin")
        return url

    def _cannot(self, what: str) -> CannotStart:
        return CannotStart(f"The server {self._name!r} at {self._url} {what}.", server=self._name)

    async def _receive(self, answer: Answer, decoder: EventDecoder, early: list[bytes], mux: Mux) -> None:
        pace = Pace()
        for data in early:
            await at_leisure(mux.receiving(data))
        try:
            while (chunk := await answer.chunk()) is not None:
                for event in decoder.feed(chunk):
                    if event.kind == "message" and len(event.data) > LONG:
                        await at_leisure(mux.receiving(event.data))
                    elif event.kind == "message":
                        mux.received(event.data)
                    if pace.due:
                        await pace.rest()
        except ServerError as error:
            why = error.message if self._name in error.message else f"The server {self._name!r} sent {error.message}."
            mux.lost(ConnectionLost(why, error.hint, server=self._name))
        else:
            mux.lost(ConnectionLost(f"The server {self._name!r} ended its event stream.", server=self._name))


class _Sender:
    """Posts what leaves. Requests run side by side; a notice or an answer is delivered before anything after it."""

    def __init__(self, client: HttpClient, tasks: TaskGroup, warn: Callable[[str], None]) -> None:
        self._client = client
        self._tasks = tasks
        self._warn = warn
        self._mux: Mux | None = None
        self._put, self._queue = anyio.create_memory_object_stream[bytes](_QUEUE)
        self._waiting = 0
        """Bytes in the queue."""

    def put(self, line: bytes) -> None:
        """Queue one message; never blocks."""
        try:
            # A first one is always taken, whatever its size.
            if self._waiting and self._waiting + len(line) > QUEUE_BYTES:
                raise anyio.WouldBlock
            self._put.send_nowait(line)
            self._waiting += len(line)
        except anyio.WouldBlock:
            if self._mux is not None:
                self._mux.lost(ConnectionLost(f"The server {self._client.name!r} takes no messages any more."))

    async def run(self, mux: Mux) -> None:
        """Send until cancelled."""
        self._mux = mux
        with self._put, self._queue:
            async for line in self._queue:
                self._waiting -= len(line)
                message = read(line)
                if isinstance(message, Request):
                    self._tasks.start_soon(self._request, message.id, line, mux)
                else:
                    await self._notice(line)

    async def _request(self, ident: RequestId, line: bytes, mux: Mux) -> None:
        # A request whose POST was refused would wait for an answer that never comes.
        try:
            await self._post(line)
        except ServerError as error:
            mux.fail(ident, error)

    async def _notice(self, line: bytes) -> None:
        try:
            await self._post(line)
        except ServerError as error:
            self._warn(error.message)

    async def _post(self, line: bytes) -> None:
        """Raises ServerError; a server that takes nothing must not hold up what comes after for ever."""
        try:
            with anyio.fail_after(SEND_SECONDS):
                answer = await self._client.ask("POST", line, {})
                try:
                    if not 200 <= answer.status < 300:
                        raise answer.failure(await answer.start_of_body(), "a message")
                    await answer.skip()
                finally:
                    answer.close()
        except TimeoutError as error:
            raise Interrupted(
                f"The server {self._client.name!r} did not take a message within {SEND_SECONDS:.0f} s.",
                MAY_HAVE_RUN,
                server=self._client.name,
            ) from error
