"""An in-process pair of pipes under mux, for tests and servers inside this process."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

from mcphost.errors import ConnectionLost
from mcphost.protocol.jsonrpc import Message, read, write
from mcphost.transport.bounded_queue import Inbox
from mcphost.transport.channel import Channel
from mcphost.transport.multiplexer import Mux


def _silent(text: str) -> None:
    """Nobody listens."""


class MemoryPipe:
    """Both ends: `channel` is the client's; the server reads `requests` and answers with `send` or raw `line`."""

    def __init__(self, warn: Callable[[str], None] = _silent) -> None:
        self.requests = Inbox()
        self.mux = Mux(self._take, None, warn, "memory")

    @property
    def channel(self) -> Channel:
        """The client's end."""
        return self.mux

    def _take(self, line: bytes) -> None:
        self.requests.put(read(line))

    def send(self, message: Message) -> None:
        """Say something to the client."""
        self.mux.received(write(message))

    def line(self, raw: bytes) -> None:
        """Say bytes to the client, as broken as you like."""
        self.mux.received(raw)

    def hang_up(self, why: str = "The server left.") -> None:
        """End the connection from the server's side."""
        self.mux.lost(ConnectionLost(why))
        self.requests.close(ConnectionLost("The client was told."))

    @asynccontextmanager
    async def dial(self) -> AsyncGenerator[Channel]:
        """A Dialer for this one pipe."""
        try:
            yield self.mux
        finally:
            self.hang_up("The connection was closed.")
            self.requests.close(ConnectionLost("The client left."))
