"""Turns one duplex pipe of messages into a Channel: correlation, progress, cancel notices, hostile lines."""

import asyncio
import math
import re
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from types import TracebackType

import anyio

from mcphost.data import Raw, Wire, decode, encode
from mcphost.errors import ConnectionLost, MalformedMessage, ServerError
from mcphost.protocol.jsonrpc import (
    INTERNAL_ERROR,
    ErrorResponse,
    Message,
    Notification,
    Request,
    RequestId,
    Response,
    RpcError,
    read,
    read_batch,
    write,
)
from mcphost.protocol.revisions import Revision
from mcphost.transport.channel import NO_HEADERS
from mcphost.transport.inbox import Inbox

KEPT_LINES = 20
KEPT_CHARACTERS = 500
EXCHANGE_LIMIT = 10_000
REFUSAL_LIMIT = 1_000
# The specification forbids cancelling `initialize`, and a server that is silent on the probe must not be told
# about it before its handshake.
_NEVER_CANCELLED = frozenset({"initialize", "server/discover"})
_SUBSCRIPTION = b"io.modelcontextprotocol/subscriptionId"


_FIRST_ID = re.compile(rb'\{\s?(?:"jsonrpc"\s?:\s?"2\.0"\s?,\s?)?"id"\s?:\s?(\d{1,18})\s?,')
_LAST_ID = re.compile(rb',\s?"id"\s?:\s?(\d{1,18})\s?\}$')


class _Token(Wire, frozen=True):
    progress_token: int | str | None = None


class _Ended(Wire, frozen=True):
    request_id: int | str | None = None


class _Subscription(Wire, frozen=True, rename={"ident": "io.modelcontextprotocol/subscriptionId"}):
    ident: int | str | None = None


class _Meta(Wire, frozen=True, rename={"meta": "_meta"}):
    meta: _Subscription = _Subscription()


class _Ident(Wire, frozen=True):
    id: int | str | None = None


class Expired(Exception):
    """The deadline of an exchange passed."""


class Exchange:
    """One request and what belongs to it; the async context manager and the iterator of `Channel.exchange`.

    `deadline`, on the event loop's clock, makes waiting raise Expired. It is here because a cancel scope around each
    call costs as much CPU as the rest of the call.
    """

    __slots__ = ("_deadline", "_done", "_error", "_items", "_mux", "_request", "_timer", "_waiter")

    def __init__(self, mux: "Mux", request: Request) -> None:
        self._mux = mux
        self._request = request
        self._items: deque[Message] = deque()
        self._waiter: asyncio.Future[None] | None = None
        self._error: ServerError | Expired | None = None
        self._done = False
        self._deadline = math.inf
        self._timer: asyncio.TimerHandle | None = None

    @property
    def deadline(self) -> float:
        """When waiting ends; infinite unless it was set."""
        return self._deadline

    @deadline.setter
    def deadline(self, value: float) -> None:
        self._deadline = value
        if self._timer is None and value < math.inf:
            self._timer = asyncio.get_running_loop().call_at(value, self._ring)

    def _ring(self) -> None:
        self._timer = None
        if self._done:
            return
        if asyncio.get_running_loop().time() < self._deadline:
            self.deadline = self._deadline  # it was moved since
        else:
            self._error = Expired()
            self._wake()

    async def __aenter__(self) -> "Exchange":
        try:
            await self._mux.open(self._request, self)
        except BaseException:
            self._stop_timer()
            raise
        return self

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop_timer()
        if not self._done:
            self._done = True
            self._mux.abandon(self._request)

    def __aiter__(self) -> "Exchange":
        return self

    async def __anext__(self) -> Message:
        while not self._items:
            if self._error is not None:
                raise self._error
            if self._done:
                raise StopAsyncIteration
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        return self._items.popleft()

    def put(self, message: Message, *, last: bool) -> None:
        """Hand over a message; `last` ends the iteration after it."""
        if last:
            self._done = True
        elif len(self._items) >= EXCHANGE_LIMIT:
            return  # nobody reads this fast; the answer itself always gets through
        self._items.append(message)
        self._wake()

    def fail(self, error: ServerError) -> None:
        """End the iteration with an error, after what is queued."""
        self._done = True
        self._error = error
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class Mux:
    """A Channel over anything that takes lines with `write` and brings them with `received`.

    `write` must not block; `ready` gives something to wait for when the peer takes no more for now, so that a full
    pipe holds up its own callers only.
    """

    def __init__(
        self,
        write: Callable[[bytes], None],
        ready: Callable[[], Awaitable[None] | None] | None,
        warn: Callable[[str], None],
        name: str = "",
    ) -> None:
        self._write = write
        self._ready = ready
        self._warn = warn
        self._name = name
        self._pending: dict[RequestId, Exchange] = {}
        self._inbox = Inbox()
        self._lost: ConnectionLost | None = None
        self._revision: Revision | None = None
        self._warned: set[str] = set()
        self.odd_lines: list[str] = []
        self.odd_count = 0
        self.late_count = 0
        self.refused_count = 0

    # -- the Channel
    def exchange(self, request: Request, *, headers: Mapping[str, str] = NO_HEADERS) -> Exchange:
        """See Channel; headers mean nothing on a pipe."""
        return Exchange(self, request)

    async def send(self, message: Message) -> None:
        """See Channel."""
        self._check()
        room = None if self._ready is None else self._ready()
        if room is not None:
            await room
            self._check()
        self._write(write(message))

    def unsolicited(self) -> Inbox:
        """See Channel."""
        return self._inbox

    def speak(self, revision: Revision) -> None:
        """See Channel; only tells whether JSON arrays are read."""
        self._revision = revision

    # -- exchanges
    async def open(self, request: Request, exchange: Exchange) -> None:
        """Register and write a request."""
        self._check()
        room = None if self._ready is None else self._ready()
        if room is not None:
            with anyio.move_on_after(max(0.0, exchange.deadline - asyncio.get_running_loop().time())) as scope:
                await room
            if scope.cancelled_caught:
                raise Expired
            self._check()
        self._pending[request.id] = exchange
        self._write(write(request))

    def abandon(self, request: Request) -> None:
        """Nobody waits any more: tell the peer."""
        self._pending.pop(request.id, None)
        if self._lost is None and request.method not in _NEVER_CANCELLED:
            params = Raw(encode({"requestId": request.id}))
            self._write(write(Notification("notifications/cancelled", params)))

    # -- the pipe's side
    def received(self, line: bytes) -> None:
        """One line from the peer; never raises for what is in it."""
        if line.startswith(b"\xef\xbb\xbf"):
            line = line[3:]
        if not line.isascii():
            try:
                line.decode()
            except UnicodeDecodeError:
                self._once("utf8", "sent text that is not UTF-8; the broken characters were replaced.")
                line = line.decode(errors="replace").encode()
        try:
            message = read(line)
        except MalformedMessage as error:
            self._odd(line, error)
        else:
            self._sort(message)

    def lost(self, error: ConnectionLost) -> None:
        """The peer is gone; every exchange and the inbox end with `error`."""
        if self._lost is not None:
            return
        self._lost = error
        pending, self._pending = self._pending, {}
        for exchange in pending.values():
            exchange.fail(self._gone())
        self._inbox.close(error)

    def fail(self, ident: RequestId, error: ServerError) -> None:
        """End one exchange with an error; the others go on."""
        exchange = self._pending.pop(ident, None)
        if exchange is not None:
            exchange.fail(error)

    def _sort(self, message: Message) -> None:
        if isinstance(message, Response | ErrorResponse):
            exchange = None if message.id is None else self._pending.pop(message.id, None)
            if exchange is None:
                self.late_count += 1
            else:
                exchange.put(message, last=True)
            return
        if isinstance(message, Notification):
            owner = self._owner(message)
            if owner is not None:
                owner.put(message, last=False)
                return
        if not self._inbox.put(message):
            self._overflow(message)

    def _owner(self, message: Notification) -> Exchange | None:
        try:
            if message.method == "notifications/progress":
                token = decode(message.params, _Token).progress_token
            elif message.method == "notifications/cancelled" and self._revision and self._revision.era == "stateless":
                # In this era servers send no requests, so it can only be the end of a subscription.
                token = decode(message.params, _Ended).request_id
            elif self._pending and _SUBSCRIPTION in bytes(message.params):
                token = decode(message.params, _Meta).meta.ident
            else:
                return None
        except MalformedMessage:
            return None
        return None if token is None else self._pending.get(token)

    def _overflow(self, message: Message) -> None:
        self._once("flood", "sends messages faster than they can be handled; some were left out.")
        self.refused_count += 1
        # Who floods may not read either, and then even refusals pile up.
        if isinstance(message, Request) and self.refused_count <= REFUSAL_LIMIT:
            refusal = RpcError(INTERNAL_ERROR, "Too many requests are waiting.")
            self._write(write(ErrorResponse(message.id, refusal)))

    def _odd(self, line: bytes, error: MalformedMessage) -> None:
        text = line.strip()
        if not text:
            return
        if text.startswith(b"[") and self._revision is not None and self._revision.has_batches:
            try:
                for message in read_batch(text):
                    self._sort(message)
            except MalformedMessage as fault:
                error = fault
            else:
                return
        if self._salvage(text, error):
            return
        self.odd_count += 1
        shown = text[: KEPT_CHARACTERS * 4].decode(errors="replace")[:KEPT_CHARACTERS]
        if len(self.odd_lines) < KEPT_LINES:
            self.odd_lines.append(shown)
        if text in (b"{", b"["):
            self._once("lines", "printed JSON over several lines; an answer must be one line of JSON.")
        else:
            self._once("lines", f"printed a line on standard output that is no message: {shown[:200]!r}")

    def _salvage(self, line: bytes, error: MalformedMessage) -> bool:
        """A broken answer ends its own call at once instead of by its deadline."""
        ident: int | str | None
        try:
            ident = decode(line, _Ident).id
        except MalformedMessage:
            # Not even JSON: servers write the id first or last.
            found = _FIRST_ID.match(line) or _LAST_ID.search(line[-100:])
            ident = int(found.group(1)) if found else None
        exchange = None if ident is None or b'"method"' in line else self._pending.pop(ident, None)
        if exchange is None:
            return False
        exchange.fail(MalformedMessage(f"The server {self._name!r} sent a broken answer. {error.message}"))
        return True

    def _once(self, kind: str, text: str) -> None:
        if kind not in self._warned:
            self._warned.add(kind)
            self._warn(f"The server {self._name!r} {text}")

    def _check(self) -> None:
        if self._lost is not None:
            raise self._gone()

    def _gone(self) -> ConnectionLost:
        lost = self._lost or ConnectionLost("The connection is closed.")
        return ConnectionLost(lost.message, lost.hint, server=self._name)
