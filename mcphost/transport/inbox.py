"""A bounded queue with one reader, for messages that belong to no exchange."""

from collections import deque

from mcphost.errors import ConnectionLost
from mcphost.protocol.jsonrpc import Message
from mcphost.transport.waiting import Waited

INBOX_LIMIT = 1_000


class Inbox(Waited):
    """Messages in order; iterating ends with the ConnectionLost that closed it.

    Futures and a deque instead of a memory stream: half the cost for each message.
    """

    __slots__ = ("_error", "_items", "_limit")

    def __init__(self, limit: int = INBOX_LIMIT) -> None:
        super().__init__()
        self._items: deque[Message | ConnectionLost] = deque()
        self._limit = limit
        self._error: ConnectionLost | None = None

    def put(self, message: Message) -> bool:
        """Add one message; False when the queue is full and the message was not taken."""
        if len(self._items) >= self._limit:
            return False
        self._items.append(message)
        self._wake()
        return True

    def interrupt(self, error: ConnectionLost) -> None:
        """The reader gets this error once, in its turn, and may read on."""
        self._items.append(error)
        self._wake()

    def close(self, error: ConnectionLost) -> None:
        """Say why nothing more will come; what is queued is still read first."""
        if self._error is None:
            self._error = error
            self._wake()

    def __aiter__(self) -> "Inbox":
        return self

    async def __anext__(self) -> Message:
        while not self._items:
            if self._error is not None:
                raise ConnectionLost(self._error.message, self._error.hint, server=self._error.server)
            await self._woken()
        item = self._items.popleft()
        if isinstance(item, ConnectionLost):
            raise item
        return item
