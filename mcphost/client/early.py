"""What a server says before its session stands: its pings are answered, its logs are told, its questions wait."""

import anyio
from anyio.abc import TaskGroup

from mcphost.client.answering import SENDING_LIMIT
from mcphost.client.session import AskContext, Observer
from mcphost.data import Raw
from mcphost.errors import ConnectionLost, MalformedMessage, McpHostError
from mcphost.protocol.jsonrpc import Message, Notification, Request, Response
from mcphost.protocol.lifecycle import Ping
from mcphost.protocol.notices import LogMessage, PromptsListChanged, ResourcesListChanged, ToolsListChanged, notice
from mcphost.transport.channel import Channel

HELD_LIMIT = 100
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
                if self._pongs < PONG_LIMIT:
                    self._pongs += 1
                    self._tasks.start_soon(self._pong, message)
            elif len(self.held) < HELD_LIMIT:
                self.held.append((message, context))
        elif isinstance(message, Notification):
            try:
                said = notice(message.method, message.params)
            except MalformedMessage:
                return
            if isinstance(said, LogMessage):
                self._observer.log(said)
            elif isinstance(said, _LISTS) and all(one.method != message.method for one, _ in self._notices()):
                self.held.append((message, context))

    def _notices(self) -> list[tuple[Notification, AskContext]]:
        return [(one, context) for one, context in self.held if isinstance(one, Notification)]

    async def _pong(self, ping: Request) -> None:
        try:
            async with self._sending:
                await self._channel.send(Response(ping.id, Raw(b"{}")))
        except McpHostError:
            return  # whoever negotiates hears of it
        finally:
            self._pongs -= 1
