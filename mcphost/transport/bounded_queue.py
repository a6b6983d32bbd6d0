"""A bounded queue with one reader, for messages that belong to no exchange."""

from collections import deque

from mcphost.errors import ConnectionLost
from mcphost.protocol.jsonrpc import Message, Notification, Request, Response
from mcphost.transport.wakeup import Waited

INBOX_LIMIT = 1_000
INBOX_BYTES = 16 * 1024 * 1024
OBJECT_BYTES = 500
"""About what the objects of a message take beside its text."""


class Inbox(Waited):
    """Messages in order; iterating ends with the ConnectionLost that closed it.

    Futures and a deque instead of a memory stream: half the cost for each message.
    """

    __slots__ = ("_bytes", "_error", "_items", "_limit")

    def __init__(self, limit: int = INBOX_LIMIT) -> None:
        super().__init__()
        self._items: deque[tuple[Message | ConnectionLost, int]] = deque()
        self._limit = limit
        self._bytes = 0
        self._error: ConnectionLost | None = None

    @property
    def is_full(self) -> bool:
        """Whether no more messages are taken, however small."""
        return len(self._items) >= self._limit

    def put(self, message: Message) -> bool:
        """Add one message; False when the queue is full and the message was not taken."""
        size = size_of(message)
        # A first one is always taken, whatever its size.
        if len(self._items) >= self._limit or (self._items and self._bytes + size > INBOX_BYTES):
            return False
        self._bytes += size
        self._items.append((message, size))
        self._wake()
        return True

    def interrupt(self, error: ConnectionLost) -> None:
        """The reader gets this error once, in its turn, and may read on."""
        self._items.append((error, 0))
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
        item, size = self._items.popleft()
        if isinstance(item, ConnectionLost):
            raise item
        self._bytes -= size
        return item


def size_of(message: Message) -> int:
    """Return about how many bytes a message keeps in memory."""
    if isinstance(message, Notification | Request):
        return OBJECT_BYTES + len(message.method) + len(message.params)
    if isinstance(message, Response):
        return OBJECT_BYTES + len(message.result)
    return OBJECT_BYTES + len(message.error.data) + 4 * len(message.error.message)
