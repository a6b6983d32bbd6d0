"""One POST and its answer, JSON or event stream, as the exchange of an HTTP channel."""

from collections import deque
from collections.abc import Mapping
from types import TracebackType
from typing import Protocol

import anyio

from mcphost.errors import ConnectionLost, MalformedMessage, SignInNeeded
from mcphost.protocol.jsonrpc import ErrorResponse, Message, Request, Response, write
from mcphost.transport.channel import Interrupted, SessionExpired, id_of_another_type
from mcphost.transport.event_stream import Event, EventDecoder
from mcphost.transport.http_client import EVENTS
from mcphost.transport.http_response import MAY_HAVE_RUN, Answer
from mcphost.transport.mcp_headers import SESSION, VERSION
from mcphost.transport.throttle import Pace

JSON = "application/json"
SILENT_RESUMES = 5
FIRST_WAIT = 1.0
LEAST_WAIT = 1.0  # whatever `retry` says: a server must not make us ask in a loop
LONGEST_WAIT = 60.0


class Post(Protocol):
    """What an exchange needs of its channel: how to ask, and whom to tell what came of it."""

    name: str
    message_limit: int
    late_count: int

    async def ask(self, verb: str, body: bytes, headers: Mapping[str, str]) -> Answer:
        """Send one HTTP request; its answer, whatever the status."""
        ...

    def headers_for(self, request: Request, given: Mapping[str, str]) -> dict[str, str]:
        """The headers of one request."""
        ...

    async def read(self, data: bytes) -> list[Message]:
        """The messages in a body."""
        ...

    async def messages(self, event: Event) -> list[Message]:
        """The messages in an event."""
        ...

    def opened(self, request: Request, answer: Answer) -> None:
        """The server took the request."""
        ...

    def abandoned(self, request: Request) -> None:
        """Nobody waits for the answer any more."""
        ...

    def answered(self, request: Request) -> None:
        """Nothing runs for it any more."""
        ...

    def forgot(self, status: int, session: str, body: bytes) -> bool:
        """Whether that refusal means that the session is over."""
        ...

    def expired(self, session: str) -> SessionExpired:
        """The server forgot this session."""
        ...

    async def resume(self, last_id: str) -> Answer | None:
        """Ask for what came after that event; None where streams cannot be resumed."""
        ...


class HttpExchange:
    """See Channel.exchange. Leaving early closes the stream and, in the handshake era, says so to the server."""

    __slots__ = (
        "_answer",
        "_channel",
        "_decoder",
        "_done",
        "_headers",
        "_messages",
        "_pace",
        "_request",
        "_silent",
        "_typed",
    )

    def __init__(self, channel: Post, request: Request, headers: Mapping[str, str]) -> None:
        self._channel = channel
        self._request = request
        self._headers = headers
        self._messages: deque[Message] = deque()
        self._answer: Answer | None = None
        self._decoder = EventDecoder(channel.message_limit)
        self._done = False
        self._typed = False  # whether an answer came whose id has another JSON type
        self._pace = Pace()
        self._silent = 0  # times the stream was resumed without a new event

    async def __aenter__(self) -> "HttpExchange":
        try:
            await self._open()
        except BaseException:
            self._leave()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._leave()

    def __aiter__(self) -> "HttpExchange":
        return self

    async def __anext__(self) -> Message:
        while not self._messages:
            if self._done or self._answer is None:
                raise StopAsyncIteration
            try:
                chunk = await self._answer.chunk()
            except ConnectionLost as error:
                await self._resume(error)
                continue
            if chunk is None:
                closed = f"The server {self._channel.name!r} closed the stream before it answered"
                lost = Interrupted(f"{closed} {self._request.method}.", MAY_HAVE_RUN, server=self._channel.name)
                await self._resume(lost)
                continue
            known = self._decoder.last_id
            events = self._events(chunk)
            if events or self._decoder.last_id != known:
                self._silent = 0
            for event in events:
                if self._pace.due:
                    await self._pace.rest()
                for message in await self._channel.messages(event):
                    self._take(message)
        return self._messages.popleft()

    def _events(self, chunk: bytes) -> list[Event]:
        try:
            return self._decoder.feed(chunk)
        except MalformedMessage as error:
            raise MalformedMessage(
                f"The server {self._channel.name!r} sent {error.message}.", MAY_HAVE_RUN, server=self._channel.name
            ) from error

    async def _resume(self, error: ConnectionLost) -> None:
        """Go on after a stream that ended too early, always by GET; raises `error` when that is not possible.

        Specification 2025-11-25, basic/transports: a server may close the stream after an event with an id and wants
        to be asked again after `retry` milliseconds.
        """
        before, answer = self._decoder, self._answer
        if answer is not None:
            answer.close()
        if self._typed:
            self._done = True
            raise self._no_answer() or error
        while before.last_id and self._silent < SILENT_RESUMES:
            # The first wait is the server's; a stream that brings nothing is asked for later and later.
            least = 2.0**self._silent if self._silent else FIRST_WAIT if before.retry is None else LEAST_WAIT
            self._silent += 1
            await anyio.sleep(min(max(before.retry or 0.0, least), LONGEST_WAIT))
            try:
                answer = await self._channel.resume(before.last_id)
            except SignInNeeded as refused:
                # Not passed on: whoever signs in then sends the request again, and this one was taken already.
                self._done = True
                raise error from refused
            except ConnectionLost:
                continue
            if answer is None or answer.status != 200 or answer.kind != EVENTS:
                if answer is not None:
                    answer.close()
                break
            self._answer = answer
            self._decoder = EventDecoder(self._channel.message_limit)
            self._decoder.last_id, self._decoder.retry = before.last_id, before.retry
            return
        self._done = True
        raise error

    def _no_answer(self) -> MalformedMessage | None:
        return id_of_another_type(self._channel.name, self._request) if self._typed else None

    async def _open(self) -> None:
        channel, method = self._channel, self._request.method
        headers = channel.headers_for(self._request, self._headers)
        answer = await channel.ask("POST", write(self._request), headers)
        self._answer = answer
        if not 200 <= answer.status < 300:
            await self._refused(answer, headers)
        elif answer.kind == EVENTS:
            channel.opened(self._request, answer)
        elif answer.kind == JSON and answer.status == 200:
            channel.opened(self._request, answer)
            for message in await channel.read(await answer.body(channel.message_limit)):
                self._take(message)
            if not self._done:
                raise self._no_answer() or MalformedMessage(
                    f"The server {channel.name!r} sent no answer to {method} in its body."
                )
        else:
            self._done = True
            raise answer.failure(await answer.start_of_body(), method)

    async def _refused(self, answer: Answer, headers: Mapping[str, str]) -> None:
        channel, method, session = self._channel, self._request.method, headers.get(SESSION, "")
        self._done = True  # it was not run, so there is nothing to cancel
        body = await answer.start_of_body()
        if channel.forgot(answer.status, session, body):
            raise channel.expired(session)
        error = answer.rpc_error(body)
        if error is None:
            failure = answer.failure(body, method)
            if answer.status == 400 and not failure.hint:
                version = headers.get(VERSION, "none")
                failure.hint = f"We sent {VERSION}: {version}, and {'a' if session else 'no'} session id."
            raise failure
        self._messages.append(ErrorResponse(self._request.id, error.error))

    def _take(self, message: Message) -> None:
        if self._done:
            return
        if isinstance(message, Response | ErrorResponse):
            # An error without an id is about the one request of this POST.
            if message.id != self._request.id and not (isinstance(message, ErrorResponse) and message.id is None):
                self._channel.late_count += 1
                if str(message.id) == str(self._request.id):
                    self._typed = True  # told when nothing better comes
                return  # late or made up
            self._done = True
        self._messages.append(message)

    def _leave(self) -> None:
        if not self._done:
            self._done = True
            self._channel.abandoned(self._request)
        else:
            self._channel.answered(self._request)
        if self._answer is not None:
            self._answer.close()
