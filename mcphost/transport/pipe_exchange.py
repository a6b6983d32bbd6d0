"""One request on a pipe and what belongs to it, with the deadline of whoever waits."""

import asyncio
import math
from collections import deque
from collections.abc import Mapping
from types import TracebackType
from typing import Protocol

import anyio

from mcphost.errors import ServerError
from mcphost.protocol.jsonrpc import JsonRpcMessage, JsonRpcRequest, RequestId
from mcphost.transport.bounded_queue import MAX_QUEUED_BYTES, message_size
from mcphost.transport.channel import mismatched_id_error
from mcphost.transport.wakeup import WakeupFuture

MAX_QUEUED_MESSAGES = 10_000
# How long the right answer may still come after one whose id has another type.
MISMATCH_GRACE_SECONDS = 1.0


class PipeChannel(Protocol):
    """What an exchange needs of its channel."""

    name: str
    deadline_timer: "DeadlineTimer"

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The event loop, known once a request was written."""
        ...

    async def open(self, request: JsonRpcRequest, exchange: "PipeExchange") -> None:
        """Register and write a request."""
        ...

    def abandon(self, request: JsonRpcRequest) -> None:
        """Nobody waits any more."""
        ...


class ExchangeTimeout(Exception):
    """The deadline of an exchange passed."""


class DeadlineTimer:
    """One timer for the deadlines of all exchanges of a pipe: a timer of its own is a sixth of a call's cost."""

    __slots__ = ("_next_deadline", "_pending", "_timer")

    def __init__(self, pending: Mapping[RequestId, "PipeExchange"]) -> None:
        """`pending` are the exchanges that wait for their answer, kept by their pipe."""
        self._pending = pending
        self._timer: asyncio.TimerHandle | None = None
        self._next_deadline = math.inf

    def schedule(self, exchange: "PipeExchange") -> None:
        """Expire it at its deadline; to be called again when that was moved to an earlier time."""
        if exchange.deadline < self._next_deadline:
            self._reschedule(exchange.deadline)

    def stop(self) -> None:
        """The pipe is gone, and with it everything that could expire."""
        if self._timer is not None:
            self._timer.cancel()

    def _reschedule(self, at: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._next_deadline = at
        self._timer = None if at == math.inf else asyncio.get_running_loop().call_at(at, self._expire_exchanges)

    def _expire_exchanges(self) -> None:
        now = asyncio.get_running_loop().time()
        later = math.inf
        for exchange in tuple(self._pending.values()):
            if exchange.deadline > now:
                later = min(later, exchange.deadline)
            else:
                exchange.expire()
        self._timer = None
        self._reschedule(later)


class PipeExchange(WakeupFuture):
    """One request and what belongs to it; the async context manager and the iterator of `Channel.exchange`.

    `deadline`, on the event loop's clock, makes waiting raise Expired. It is here because a cancel scope around each
    call costs as much CPU as the rest of the call.
    """

    __slots__ = (
        "_channel",
        "_deadline",
        "_done",
        "_error",
        "_failure_timer",
        "_items",
        "_queued_bytes",
        "_request",
        "_response",
        "write_scope",
    )

    def __init__(self, channel: PipeChannel, request: JsonRpcRequest) -> None:
        self._waiter = None  # as Waited does it; calling that costs more
        self._channel = channel
        self._request = request
        self._items: deque[JsonRpcMessage] | None = None  # what came before the answer
        self._response: JsonRpcMessage | None = None
        self._queued_bytes = 0  # of what was queued since the queue was last empty
        self._error: ServerError | ExchangeTimeout | None = None
        self._done = False
        self._deadline = math.inf
        self._failure_timer: asyncio.TimerHandle | None = None
        self.write_scope: anyio.CancelScope | None = None
        """While it waits for room to be written."""

    @property
    def deadline(self) -> float:
        """When waiting ends; infinite unless it was set."""
        return self._deadline

    @deadline.setter
    def deadline(self, value: float) -> None:
        self._deadline = value
        self._channel.deadline_timer.schedule(self)

    def expire(self) -> None:
        """The deadline passed."""
        if not self._done:
            self._error = ExchangeTimeout()
            self._wake()

    async def __aenter__(self) -> "PipeExchange":
        try:
            await self._channel.open(self._request, self)
        except BaseException:
            self._cancel_failure_timer()
            raise
        return self

    def _cancel_failure_timer(self) -> None:
        if self._failure_timer is not None:
            self._failure_timer.cancel()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._cancel_failure_timer()
        if not self._done:
            self._done = True
            self._channel.abandon(self._request)

    def __aiter__(self) -> "PipeExchange":
        return self

    async def __anext__(self) -> JsonRpcMessage:
        while True:
            if self._items:
                item = self._items.popleft()
                if not self._items:
                    self._queued_bytes = 0
                return item
            if self._response is not None:
                item, self._response = self._response, None
                return item
            if self._error is not None:
                raise self._error
            if self._done:
                raise StopAsyncIteration
            self._waiter = self._channel.loop.create_future()  # as `_woken` does, without a coroutine of its own
            try:
                await self._waiter
            finally:
                self._waiter = None

    def put(self, message: JsonRpcMessage, *, last: bool) -> None:
        """Hand over a message; `last` ends the iteration after it."""
        if last:
            self._done = True
            self._response = message
        else:
            size = message_size(message)
            if self._items is None:
                self._items = deque()
            if len(self._items) >= MAX_QUEUED_MESSAGES or self._queued_bytes + size > MAX_QUEUED_BYTES:
                return  # nobody reads this fast; the answer itself always gets through
            self._queued_bytes += size
            self._items.append(message)
        self._wake()

    def fail(self, error: ServerError) -> None:
        """End the iteration with an error, after what is queued."""
        self._done = True
        self._error = error
        self._wake()
        if self.write_scope is not None:
            self.write_scope.cancel()

    @property
    def error(self) -> ServerError | ExchangeTimeout | None:
        """What ended it, if it was no answer."""
        return self._error

    def fail_later(self, error: ServerError | None = None) -> None:
        """An answer came that does not count, and waiting on would be in vain.

        Without an `error` it was one under an id of another type.
        """
        if self._failure_timer is None and not self._done:
            error = error or mismatched_id_error(self._channel.name, self._request)
            self._failure_timer = asyncio.get_running_loop().call_later(
                MISMATCH_GRACE_SECONDS, self._fail_if_pending, error
            )

    def _fail_if_pending(self, error: ServerError) -> None:
        if not self._done:
            self._error = self._error or error
            self._wake()
