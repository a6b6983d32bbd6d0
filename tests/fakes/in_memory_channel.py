"""Connection between a client and a server in the same process."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

from mcphost.errors import ConnectionLost
from mcphost.protocol.jsonrpc import JsonRpcMessage, parse_message, serialize_message
from mcphost.transport.channel import Channel
from mcphost.transport.flow_control import BoundedQueue
from mcphost.transport.multiplexer import Multiplexer


def _ignore_warning(text: str) -> None:
    """Discard a warning."""


class InMemoryChannel:
    """A connection inside one process.

    The client uses `channel`; the server side uses `requests`, `send` and `send_raw`.
    """

    def __init__(
        self,
        warn: Callable[[str], None] = _ignore_warning,
        *,
        wait_writable: Callable[[], Awaitable[None] | None] | None = None,
    ) -> None:
        self.requests = BoundedQueue()
        self.multiplexer = Multiplexer(self._receive, wait_writable, warn, "memory")

    @property
    def channel(self) -> Channel:
        """The client's channel."""
        return self.multiplexer

    def _receive(self, line: bytes) -> None:
        self.requests.put(parse_message(line))

    def send(self, message: JsonRpcMessage) -> None:
        """Send a message from the server to the client."""
        self.multiplexer.receive_line(serialize_message(message))

    def send_raw(self, raw: bytes) -> None:
        """Send unchecked bytes to the client, so that a test can send malformed messages."""
        self.multiplexer.receive_line(raw)

    def disconnect(self, why: str = "The server left.") -> None:
        """Close the connection from the server's side; the client receives a ConnectionLost with the message *why*."""
        self.multiplexer.connection_lost(ConnectionLost(why))
        self.requests.close(ConnectionLost("The client was told."))

    @asynccontextmanager
    async def connect(self) -> AsyncGenerator[Channel]:
        """Yield the client's channel, as `Connector.connect` does."""
        try:
            yield self.multiplexer
        finally:
            self.disconnect("The connection was closed.")
            self.requests.close(ConnectionLost("The client left."))
