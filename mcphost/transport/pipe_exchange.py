"""One request on a pipe and what belongs to it, with the deadline of whoever waits."""

import asyncio
import math
from collections import deque
from collections.abc import Mapping
from types import TracebackType
from typing import Protocol

import anyio

from mcphost.errors import ServerError
from mcphost.protocol.jsonrpc import Message, Request, RequestId
from mcphost.transport.bounded_queue import INBOX_BYTES, size_of
from mcphost.transport.channel import id_of_another_type
from mcphost.transport.wakeup import Waited

EXCHANGE_LIMIT = 10_000
# How long the right answer may still come after one whose id has another type.
DOUBT = 1.0


class Pipe(Protocol):
    """What an exchange needs of its channel."""

    name: str
    alarm: "Alarm"

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The event loop, known once a request was written."""
        ...

    async def open(self, request: Request, exchange: "Exchange") -> None:
        """Register and write a request."""
        ...

    def abandon(self, request: Request) -> None:
        """Nobody waits any more."""
        ...


class Expired(Exception):
    """The deadline of an exchange passed."""


class Alarm:
    """One timer for the deadlines of all exchanges of a pipe: a timer of its own is a sixth of a call's cost."""

    __slots__ = ("_at", "_pending", "_timer")

    def __init__(self, pending: Mapping[RequestId, "Exchange"]) -> None:
        """`pending` are the exchanges that wait for their answer, kept by their pipe."""
        self._pending = pending
        self._timer: asyncio.TimerHandle | None = None
        self._at = math.inf

    def watch(self, exchange: "Exchange") -> None:
        """Expire it at its deadline; to be called again when that was moved to an earlier time."""
        if exchange.deadline < self._at:
            self._set(exchange.deadline)

    def stop(self) -> None:
        """The pipe is gone, and with it everything that could expire."""
        if self._timer is not None:
            self._timer.cancel()

    def _set(self, at: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._at = at
        self._timer = None if at == math.inf else asyncio.get_running_loop().call_at(at, self._ring)

    def _ring(self) -> None:
        now = asyncio.get_running_loop().time()
        later = math.inf
        for exchange in tuple(self._pending.values()):
            if exchange.deadline > now:
                later = min(later, exchange.deadline)
            else:
                exchange.expire()
        self._timer = None
        self._set(later)


class Exchange(Waited):
    """One request and what belongs to it; the async context manager and the iterator of `Channel.exchange`.

    `deadline`, on the event loop's clock, makes waiting raise Expired. It is here because a cancel scope around each
    call costs as much CPU as the rest of the call.
    """

    __slots__ = ("_answer", "_bytes", "_deadline", "_done", "_doubt", "_error", "_items", "_mux", "_request", "opening")

    def __init__(self, mux: Pipe, request: Request) -> None:
        self._waiter = None  # as Waited does it; calling that costs more
        self._mux = mux
        self._request = request
        self._items: deque[Message] | None = None  # what came before the answer
        self._answer: Message | None = None
        self._bytes = 0  # of what was queued since the queue was last empty
        self._error: ServerError | Expired | None = None
        self._done = False
        self._deadline = math.inf
        self._doubt: asyncio.TimerHandle | None = None
        self.opening: anyio.CancelScope | None = None
        """While it waits for room to be written."""

    @property
    def deadline(self) -> float:
        """When waiting ends; infinite unless it was set."""
        return self._deadline

    @deadline.setter
    def deadline(self, value: float) -> None:
        self._deadline = value
        self._mux.alarm.watch(self)

    def expire(self) -> None:
        """The deadline passed."""
        if not self._done:
            self._error = Expired()
            self._wake()

    async def __aenter__(self) -> "Exchange":
        try:
            await self._mux.open(self._request, self)
        except BaseException:
            self._stop_doubt()
            raise
        return self

    def _stop_doubt(self) -> None:
        if self._doubt is not None:
            self._doubt.cancel()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop_doubt()
        if not self._done:
            self._done = True
            self._mux.abandon(self._request)

    def __aiter__(self) -> "Exchange":
        return self

    async def __anext__(self) -> Message:
        while True:
            if self._items:
                item = self._items.popleft()
                if not self._items:
                    self._bytes = 0
                return item
            if self._answer is not None:
                item, self._answer = self._answer, None
                return item
            if self._error is not None:
                raise self._error
            if self._done:
                raise StopAsyncIteration
            self._waiter = self._mux.loop.create_future()  # as `_woken` does, without a coroutine of its own
            try:
                await self._waiter
            finally:
                self._waiter = None

    def put(self, message: Message, *, last: bool) -> None:
        """Hand over a message; `last` ends the iteration after it."""
        if last:
            self._done = True
            self._answer = message
        else:
            size = size_of(message)
            if self._items is None:
                self._items = deque()
            if len(self._items) >= EXCHANGE_LIMIT or self._bytes + size > INBOX_BYTES:
                return  # nobody reads this fast; the answer itself always gets through
            self._bytes += size
            self._items.append(message)
        self._wake()

    def fail(self, error: ServerError) -> None:
        """End the iteration with an error, after what is queued."""
        self._done = True
        self._error = error
        self._wake()
        if self.opening is not None:
            self.opening.cancel()

    @property
    def error(self) -> ServerError | Expired | None:
        """What ended it, if it was no answer."""
        return self._error

    def doubt(self, error: ServerError | None = None) -> None:
        """An answer came that does not count, and waiting on would be in vain.

        Without an `error` it was one under an id of another type.
        """
        if self._doubt is None and not self._done:
            error = error or id_of_another_type(self._mux.name, self._request)
            self._doubt = asyncio.get_running_loop().call_later(DOUBT, self._end, error)

    def _end(self, error: ServerError) -> None:
        if not self._done:
            self._error = self._error or error
            self._wake()
