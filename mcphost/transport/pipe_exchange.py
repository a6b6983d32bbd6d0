"""One JSON-RPC request over a pipe, with a deadline for its response."""

import asyncio
import math
from collections import deque
from collections.abc import Awaitable, Mapping
from types import TracebackType
from typing import Protocol

import anyio

from mcphost.errors import ServerError
from mcphost.protocol.jsonrpc import JsonRpcMessage, JsonRpcRequest, RequestId
from mcphost.transport.channel import mismatched_id_error
from mcphost.transport.flow_control import MAX_QUEUED_BYTES, message_size

MAX_QUEUED_MESSAGES = 10_000
# Seconds in which the correct response can follow after a response whose id has the wrong type.
MISMATCH_GRACE_SECONDS = 1.0


class PipeChannel(Protocol):
    """The part of Multiplexer's interface that PipeExchange uses."""

    name: str
    deadline_timer: "DeadlineTimer"

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The running event loop."""
        ...

    def open(self, request: JsonRpcRequest, exchange: "PipeExchange") -> Awaitable[None] | None:
        """Register an exchange, and write its request; if the pipe is full, return an awaitable that does so later."""
        ...

    def abandon(self, request: JsonRpcRequest) -> None:
        """Stop waiting for a response, and cancel the request on the server."""
        ...


class ExchangeTimeout(Exception):
    """Raised when an exchange is not finished by its deadline."""


class UnsentExchangeTimeout(ExchangeTimeout):
    """Raised when there was no room in the pipe for the request by the deadline, so that it was not sent."""


class DeadlineTimer:
    """Timer that ends each exchange on a pipe at its deadline.

    All exchanges share one timer, because separate timers would add a sixth to the time of each request.
    """

    __slots__ = ("_pending", "_timer", "next_deadline")

    def __init__(self, pending: Mapping[RequestId, "PipeExchange"]) -> None:
        """Create a timer. *pending* contains the exchanges that have no response yet, keyed by request id."""
        self._pending = pending
        self._timer: asyncio.TimerHandle | None = None
        self.next_deadline = math.inf
        """Time on the event loop's clock at which the timer fires next; infinite if it is not set."""

    def schedule(self, exchange: "PipeExchange") -> None:
        """Make *exchange* end at its deadline; call this again if the deadline becomes earlier."""
        if exchange.deadline < self.next_deadline:
            self._reschedule(exchange.deadline)

    def stop(self) -> None:
        """Stop the timer; called when the connection is lost."""
        if self._timer is not None:
            self._timer.cancel()

    def _reschedule(self, at: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self.next_deadline = at
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


class PipeExchange:
    """One request over a pipe: the context manager and iterator that `Channel.exchange` returns.

    If `deadline` passes, the iteration raises ExchangeTimeout; a cancel scope around each request would double the CPU
    time of a request. `open` and `close` can be called instead of entering and leaving the context manager, which saves
    the cost of two coroutines.
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
        "_waiter",
        "write_scope",
    )

    def __init__(self, channel: PipeChannel, request: JsonRpcRequest) -> None:
        self._waiter: asyncio.Future[JsonRpcMessage] | None = None  # set while the iterator waits
        self._channel = channel
        self._request = request
        self._items: deque[JsonRpcMessage] | None = None  # messages before the response
        self._response: JsonRpcMessage | None = None
        self._queued_bytes = 0  # total since the queue was last empty
        self._error: ServerError | ExchangeTimeout | None = None
        self._done = False
        self._deadline = math.inf
        self._failure_timer: asyncio.TimerHandle | None = None
        self.write_scope: anyio.CancelScope | None = None
        """Set while the request waits for room in the pipe."""

    @property
    def deadline(self) -> float:
        """Time on the event loop's clock at which to stop waiting; infinite by default."""
        return self._deadline

    @deadline.setter
    def deadline(self, value: float) -> None:
        self._deadline = value
        timer = self._channel.deadline_timer
        if value < timer.next_deadline:  # rarely; checked here to save a function call
            timer.schedule(self)

    def expire(self) -> None:
        """End the exchange with ExchangeTimeout if it has not ended yet."""
        if not self._done:
            self._error = ExchangeTimeout()
            self._raise_in_waiter()

    def open(self) -> Awaitable[None] | None:
        """Write the request; if the pipe is full, return an awaitable that does so when there is room."""
        return self._channel.open(self._request, self)

    def close(self) -> None:
        """End the exchange; if there was no response, cancel the request on the server. Must follow `open`."""
        if self._failure_timer is not None:
            self._failure_timer.cancel()
        if not self._done:
            self._done = True
            self._channel.abandon(self._request)

    async def __aenter__(self) -> "PipeExchange":
        waiting = self.open()
        if waiting is not None:
            await waiting
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __aiter__(self) -> "PipeExchange":
        return self

    def __anext__(self) -> "asyncio.Future[JsonRpcMessage]":
        waiter: asyncio.Future[JsonRpcMessage] = self._channel.loop.create_future()
        if self._items:
            waiter.set_result(self._items.popleft())
            if not self._items:
                self._queued_bytes = 0
        elif self._response is not None:
            waiter.set_result(self._response)
            self._response = None
        elif self._error is not None:
            raise self._error
        elif self._done:
            raise StopAsyncIteration
        else:
            self._waiter = waiter
        return waiter

    def _raise_in_waiter(self) -> None:
        """Raise the exchange's error in the task that is waiting for the next message, if any."""
        waiter, self._waiter = self._waiter, None
        if waiter is not None and self._error is not None and not waiter.done():
            waiter.set_exception(self._error)
            waiter.exception()  # or asyncio logs it if the task is cancelled before it continues

    def put(self, message: JsonRpcMessage, *, last: bool) -> None:
        """Queue a message for the iterator; if *last* is True, the iteration ends after it.

        If too many messages are queued, the message is dropped, unless *last* is True.
        """
        waiter, self._waiter = self._waiter, None
        if last:
            self._done = True
        if waiter is not None and not waiter.done():
            waiter.set_result(message)
        elif last:
            self._response = message
        else:
            size = message_size(message)
            if self._items is None:
                self._items = deque()
            if len(self._items) >= MAX_QUEUED_MESSAGES or self._queued_bytes + size > MAX_QUEUED_BYTES:
                return  # the reader is too slow; only the response is always delivered
            self._queued_bytes += size
            self._items.append(message)

    def fail(self, error: ServerError) -> None:
        """End the iteration with *error*, after the messages that are already queued."""
        self._done = True
        self._error = error
        self._raise_in_waiter()
        if self.write_scope is not None:
            self.write_scope.cancel()

    def take_response(self) -> JsonRpcMessage | None:
        """Remove and return a response that arrived after the exchange had failed, or return None.

        Call this after the iteration has raised an error. The response can arrive between the failure and the moment at
        which the iterating task runs again, and is then used instead of the error.
        """
        response, self._response = self._response, None
        return response

    @property
    def error(self) -> ServerError | ExchangeTimeout | None:
        """The error that ended the exchange, or None if it has not failed."""
        return self._error

    def fail_later(self, error: ServerError | None = None) -> None:
        """Fail the exchange after MISMATCH_GRACE_SECONDS, unless a valid response arrives in that time.

        Called when an invalid response has arrived. *error* describes that response; by default, it states that the
        response's id has the wrong JSON type.
        """
        if self._failure_timer is None and not self._done:
            error = error or mismatched_id_error(self._channel.name, self._request)
            self._failure_timer = asyncio.get_running_loop().call_later(
                MISMATCH_GRACE_SECONDS, self._fail_if_pending, error
            )

    def _fail_if_pending(self, error: ServerError) -> None:
        if not self._done:
            self._error = self._error or error
            self._raise_in_waiter()
