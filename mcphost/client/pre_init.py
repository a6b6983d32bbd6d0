"""What a server says before its session stands: its pings are answered, its logs are told, its questions wait."""

import anyio
from anyio.abc import TaskGroup

from mcphost.client.session import AskContext, Observer
from mcphost.errors import ConnectionLost, McpHostError
from mcphost.protocol.jsonrpc import INTERNAL_ERROR, ErrorResponse, Message, Notification, Request, Response, RpcError
from mcphost.protocol.lifecycle import Ping
from mcphost.protocol.notifications import (
    LogMessage,
    PromptsListChanged,
    ResourcesListChanged,
    ToolsListChanged,
    notice,
)
from mcphost.serialization import Raw
from mcphost.transport.bounded_queue import INBOX_BYTES, size_of
from mcphost.transport.channel import Channel

HELD_LIMIT = 100
# Over HTTP each answer is a request of its own; a flood of questions must not become one of connections.
SENDING_LIMIT = 16
PONG_LIMIT = 1_000
_LISTS = (ToolsListChanged, PromptsListChanged, ResourcesListChanged)


class Early:
    """Reads the channel while it is negotiated (specification 2025-11-25: basic/lifecycle, initialization).

    A server may ping and log before we said `initialized`, and may wait for the pong before it answers. Some ask
    for roots as soon as they have answered `initialize`; that is kept in `held` for the session, and so is, once for
    each list, that it changed.
    """

    def __init__(self, channel: Channel, observer: Observer, tasks: TaskGroup) -> None:
        self._channel = channel
        self._observer = observer
        self._tasks = tasks
        self._pongs = 0
        self._sending = anyio.Semaphore(SENDING_LIMIT)
        self.held: list[tuple[Message, AskContext]] = []
        self._held_bytes = 0

    async def serve(self) -> None:
        """Read until cancelled, or until the connection is lost, which whoever negotiates hears of."""
        try:
            async for message in self._channel.unsolicited():
                self.take(message, AskContext())
        except ConnectionLost:
            return

    def take(self, message: Message, context: AskContext) -> None:
        """One message that is no answer; returns at once."""
        if isinstance(message, Request):
            if message.method == Ping.METHOD:
                self._answer(Response(message.id, Raw(b"{}")))
            elif self._has_room(message):
                self._held_bytes += size_of(message)
                self.held.append((message, context))
            else:
                error = RpcError(INTERNAL_ERROR, "Too many requests are waiting.")
                self._answer(ErrorResponse(message.id, error))
        elif isinstance(message, Notification):
            said = notice(message.method, message.params)
            if isinstance(said, LogMessage):
                self._observer.log(said)
            elif isinstance(said, _LISTS) and all(one.method != message.method for one, _ in self._notices()):
                self.held.append((Notification(message.method), context))

    def _has_room(self, request: Request) -> bool:
        # A first one is always taken, whatever its size.
        fits = not self.held or self._held_bytes + size_of(request) <= INBOX_BYTES
        return len(self.held) < HELD_LIMIT and fits

    def _notices(self) -> list[tuple[Notification, AskContext]]:
        return [(one, context) for one, context in self.held if isinstance(one, Notification)]

    def _answer(self, answer: Response | ErrorResponse) -> None:
        """Send an answer, unless the server reads none of those that wait already."""
        if self._pongs < PONG_LIMIT:
            self._pongs += 1
            self._tasks.start_soon(self._send, answer)

    async def _send(self, answer: Response | ErrorResponse) -> None:
        try:
            async with self._sending:
                await self._channel.send(answer)
        except McpHostError:
            return  # whoever negotiates hears of it
        finally:
            self._pongs -= 1
