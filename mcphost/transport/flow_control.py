"""Flow control: a bounded message queue, and processing in steps so that other tasks can run."""

import asyncio
from collections import deque
from collections.abc import Callable, Generator
from time import perf_counter
from typing import TypeVar, cast

from mcphost.errors import ConnectionLost
from mcphost.protocol.jsonrpc import JsonRpcMessage, JsonRpcNotification, JsonRpcRequest, JsonRpcResponse


class WakeupFuture:
    """Base class for objects that one task at a time can wait for.

    `_wake` has no effect if no task is waiting at that moment. A task must therefore check, before each wait, whether
    it still needs to wait.
    """

    __slots__ = ("_waiter",)

    def __init__(self) -> None:
        self._waiter: asyncio.Future[None] | None = None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def _wait_for_wakeup(self) -> None:
        """Wait until `_wake` is called. Safe to cancel."""
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None


MAX_QUEUED = 1_000
MAX_QUEUED_BYTES = 16 * 1024 * 1024
MESSAGE_OVERHEAD = 500
"""Approximate memory in bytes that the objects of a message need in addition to its text."""


class BoundedQueue(WakeupFuture):
    """Bounded queue of messages; a single reader iterates over it.

    After `close` is called, the iteration ends by raising the error that was passed to `close`. Queuing and reading a
    message costs half as much as with an anyio memory stream.
    """

    __slots__ = ("_bytes", "_error", "_items")

    def __init__(self) -> None:
        super().__init__()
        self._items: deque[tuple[JsonRpcMessage | ConnectionLost, int]] = deque()
        self._bytes = 0
        self._error: ConnectionLost | None = None

    @property
    def is_full(self) -> bool:
        """Whether the queue has reached its maximum number of messages; `put` then rejects every message."""
        return len(self._items) >= MAX_QUEUED

    def put(self, message: JsonRpcMessage) -> bool:
        """Add a message and return True; drop the message and return False if it would exceed a limit of the queue.

        There is a limit for the number of messages, and one for their total size. The first message may be of any size.
        """
        size = message_size(message)
        # The first message is accepted regardless of its size.
        if len(self._items) >= MAX_QUEUED or (self._items and self._bytes + size > MAX_QUEUED_BYTES):
            return False
        self._bytes += size
        self._items.append((message, size))
        self._wake()
        return True

    def put_error(self, error: ConnectionLost) -> None:
        """Queue an error, which is raised by the iteration after it has returned all earlier messages.

        The queue stays open.
        """
        self._items.append((error, 0))
        self._wake()

    def discard(self, is_obsolete: Callable[[JsonRpcMessage], bool]) -> None:
        """Remove the messages for which *is_obsolete* returns True; errors queued by `put_error` remain."""
        kept = [item for item in self._items if isinstance(item[0], ConnectionLost) or not is_obsolete(item[0])]
        self._items = deque(kept)
        self._bytes = sum(size for _, size in kept)

    def close(self, error: ConnectionLost) -> None:
        """Close the queue. After the messages that are already queued, the iteration raises *error*."""
        if self._error is None:
            self._error = error
            self._wake()

    def __aiter__(self) -> "BoundedQueue":
        return self

    async def __anext__(self) -> JsonRpcMessage:
        while not self._items:
            if self._error is not None:
                raise ConnectionLost(self._error.message, self._error.hint, server=self._error.server)
            await self._wait_for_wakeup()
        item, size = self._items.popleft()
        if isinstance(item, ConnectionLost):
            raise item
        self._bytes -= size
        return item


def message_size(message: JsonRpcMessage) -> int:
    """Return the approximate memory use of a message in bytes."""
    if isinstance(message, JsonRpcNotification | JsonRpcRequest):
        return MESSAGE_OVERHEAD + len(message.method) + len(message.params)
    if isinstance(message, JsonRpcResponse):
        return MESSAGE_OVERHEAD + len(message.result)
    return MESSAGE_OVERHEAD + len(message.error.data) + 4 * len(message.error.message)


TIME_SLICE = 0.008
LONG_MESSAGE = 64 * 1024
"""Size in bytes above which lines and messages are parsed in steps."""
T = TypeVar("T")


class Throttle:
    """Timer that tells a loop over many small items when to let other tasks run, which is every few milliseconds.

    After each item, the loop must await `yield_control()` if `is_due` is True.
    """

    __slots__ = ("_until",)

    def __init__(self) -> None:
        self._until = 0.0

    @property
    def is_due(self) -> bool:
        """Whether it is time to let other tasks run."""
        if not self._until:
            self._until = perf_counter() + TIME_SLICE
        return perf_counter() > self._until

    async def yield_control(self) -> None:
        """Let other tasks run."""
        await asyncio.sleep(0)
        self._until = perf_counter() + TIME_SLICE


async def run_steps_cooperatively(steps: Generator[None, None, T]) -> T:
    """Run a generator to its end, letting other tasks run after each step; return the generator's result."""
    while True:
        try:
            next(steps)
        except StopIteration as done:
            return cast("T", done.value)
        await asyncio.sleep(0)
