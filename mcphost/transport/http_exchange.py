"""One POST and its answer, JSON or event stream, as the exchange of an HTTP channel."""

from collections import deque
from collections.abc import Mapping
from types import TracebackType
from typing import Protocol

from mcphost.errors import ConnectionLost, MalformedMessage
from mcphost.protocol.jsonrpc import ErrorResponse, Message, Request, Response, write
from mcphost.transport.channel import SessionExpired
from mcphost.transport.eventstream import EventDecoder
from mcphost.transport.http_answer import Answer

JSON = "application/json"
EVENTS = "text/event-stream"


class Post(Protocol):
    """What an exchange needs of its channel: how to ask, and whom to tell what came of it."""

    name: str
    session_id: str
    message_limit: int

    async def ask(self, verb: str, body: bytes, headers: Mapping[str, str]) -> Answer:
        """Send one HTTP request; its answer, whatever the status."""
        ...

    def headers_for(self, request: Request, given: Mapping[str, str]) -> dict[str, str]:
        """The headers of one request."""
        ...

    def messages(self, data: bytes) -> list[Message]:
        """The messages in a body or an event."""
        ...

    def opened(self, request: Request, answer: Answer) -> None:
        """The server took the request."""
        ...

    def abandoned(self, request: Request) -> None:
        """Nobody waits for the answer any more."""
        ...

    def expired(self) -> SessionExpired:
        """The server forgot the session."""
        ...


class HttpExchange:
    """See Channel.exchange. Leaving early closes the stream and, in the handshake era, says so to the server."""

    __slots__ = ("_answer", "_channel", "_decoder", "_done", "_headers", "_messages", "_request")

    def __init__(self, channel: Post, request: Request, headers: Mapping[str, str]) -> None:
        self._channel = channel
        self._request = request
        self._headers = headers
        self._messages: deque[Message] = deque()
        self._answer: Answer | None = None
        self._decoder = EventDecoder(channel.message_limit)
        self._done = False

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
            chunk = await self._answer.chunk()
            if chunk is None:
                self._done = True
                raise ConnectionLost(
                    f"The server {self._channel.name!r} closed the stream before it answered {self._request.method}.",
                    "If a tool was running, it may have done its work.",
                    server=self._channel.name,
                )
            for event in self._decoder.feed(chunk):
                for message in self._channel.messages(event.data):
                    self._take(message)
        return self._messages.popleft()

    async def _open(self) -> None:
        channel, method = self._channel, self._request.method
        answer = await channel.ask("POST", write(self._request), channel.headers_for(self._request, self._headers))
        self._answer = answer
        if not 200 <= answer.status < 300:
            await self._refused(answer)
        elif answer.kind == EVENTS:
            channel.opened(self._request, answer)
        elif answer.kind == JSON and answer.status == 200:
            channel.opened(self._request, answer)
            for message in channel.messages(await answer.body(channel.message_limit)):
                self._take(message)
            if not self._done:
                raise MalformedMessage(f"The server {channel.name!r} sent no answer to {method} in its body.")
        else:
            self._done = True
            raise answer.failure(await answer.start_of_body(), method)

    async def _refused(self, answer: Answer) -> None:
        channel, method = self._channel, self._request.method
        self._done = True  # it was not run, so there is nothing to cancel
        body = await answer.start_of_body()
        if answer.status == 404 and channel.session_id and method != "initialize":
            raise channel.expired()
        error = answer.rpc_error(body)
        if error is None:
            raise answer.failure(body, method)
        self._messages.append(ErrorResponse(self._request.id, error.error))

    def _take(self, message: Message) -> None:
        if self._done:
            return
        if isinstance(message, Response | ErrorResponse):
            if message.id != self._request.id:
                return  # late or made up
            self._done = True
        self._messages.append(message)

    def _leave(self) -> None:
        if not self._done:
            self._done = True
            self._channel.abandoned(self._request)
        if self._answer is not None:
            self._answer.close()
