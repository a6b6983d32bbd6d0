"""Turns one duplex pipe of messages into a Channel: correlation, progress, cancel notices, hostile lines."""

import asyncio
import re
import sys
from codecs import getincrementaldecoder
from collections.abc import Awaitable, Callable, Generator, Mapping

import anyio

from mcphost.errors import ConnectionLost, InputNotRead, MalformedMessage, NotSent, ServerError
from mcphost.json_limits import OverBound, finished
from mcphost.protocol.jsonrpc import (
    BATCH_LIMIT,
    INTERNAL_ERROR,
    ErrorResponse,
    Message,
    Notification,
    Request,
    RequestId,
    Response,
    RpcError,
    read,
    reading,
    split_batch,
    write,
)
from mcphost.protocol.revisions import Revision
from mcphost.serialization import Raw, Wire, decode, encode
from mcphost.transport.bounded_queue import Inbox
from mcphost.transport.channel import NO_HEADERS
from mcphost.transport.pipe_exchange import Alarm, Exchange, Expired
from mcphost.transport.throttle import LONG

KEPT_LINES = 20
KEPT_CHARACTERS = 500
REFUSAL_LIMIT = 1_000
NOISE_LIMIT = 1_000
STRAY_LIMIT = 10_000
_MARK = b"\xef\xbb\xbf"
# The specification forbids cancelling `initialize`, and a server that is silent on the probe must not be told
# about it before its handshake.
_NEVER_CANCELLED = frozenset({"initialize", "server/discover"})
_SUBSCRIPTION = b"io.modelcontextprotocol/subscriptionId"


_FIRST_ID = re.compile(rb'\{\s?(?:"jsonrpc"\s?:\s?"2\.0"\s?,\s?)?"id"\s?:\s?(\d{1,18})\s?,', re.IGNORECASE)
_LAST_ID = re.compile(rb',\s?"id"\s?:\s?(\d{1,18})\s?\}$', re.IGNORECASE)
_OWN_LINE_ID = re.compile(rb'"id"\s?:\s?(\d{1,18}),?$')


def _may_count(line: bytes) -> bool:
    """Whether a line of a flood may be an answer, a request or a notification of MCP."""
    return b'"id"' in line or b"notifications/" in line or b"\\" in line


class _Token(Wire, frozen=True):
    progress_token: int | str | None = None


class _Ended(Wire, frozen=True):
    request_id: int | str | None = None


class _Subscription(Wire, frozen=True, rename={"ident": "io.modelcontextprotocol/subscriptionId"}):
    ident: int | str | None = None


class _Meta(Wire, frozen=True, rename={"meta": "_meta"}):
    meta: _Subscription = _Subscription()


class _Ident(Wire, frozen=True):
    id: int | str | float | None = None
    method: str | None = None


class Mux:
    """A Channel over anything that takes lines with `write` and brings them with `received`.

    `write` must not block; `ready` gives something to wait for when the peer takes no more for now, so that a full
    pipe holds up its own callers only. `drained` tells whether the peer has read everything that was written.
    `write_at_once` takes a request that no other one waits beside, so that waiting for more of them gains nothing.
    """

    def __init__(
        self,
        write: Callable[[bytes], None],
        ready: Callable[[], Awaitable[None] | None] | None,
        warn: Callable[[str], None],
        name: str = "",
        *,
        drained: Callable[[], bool] = lambda: True,
        write_at_once: Callable[[bytes], None] | None = None,
    ) -> None:
        self._write = write
        self._write_at_once = write_at_once or write
        self._drained = drained
        self._ready = ready
        self._warn = warn
        self.name = name
        self._loop: asyncio.AbstractEventLoop | None = None
        self._pending: dict[RequestId, Exchange] = {}
        self.alarm = Alarm(self._pending)
        self._answers = 0  # that came since the last request left
        self._inbox = Inbox()
        self._lost: ConnectionLost | None = None
        self._revision: Revision | None = None
        self._warned: set[str] = set()
        self._pretty = False  # whether JSON over several lines began
        self._stray_lines = 0
        self.odd_lines: list[str] = []
        self.odd_count = 0
        self.late_count = 0
        self.refused_count = 0
        self.dropped_count = 0

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

    @property
    def counts(self) -> Mapping[str, int]:
        """See Channel."""
        return {
            "broken messages": self.odd_count,
            "answers nobody waits for": self.late_count,
            "requests refused in a flood": self.refused_count,
            "messages left out in a flood": self.dropped_count,
        }

    @property
    def is_drained(self) -> bool:
        """See Channel."""
        return self._drained()

    @property
    def is_over(self) -> bool:
        """See Channel."""
        return self._lost is not None

    def speak(self, revision: Revision) -> None:
        """See Channel; only tells whether JSON arrays are read."""
        self._revision = revision

    # -- exchanges
    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The event loop; asking for the running one is a system call each time."""
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
        return self._loop

    async def open(self, request: Request, exchange: Exchange) -> None:
        """Register and write a request."""
        self._check()
        room = None if self._ready is None else self._ready()
        if room is not None:
            with anyio.move_on_after(max(0.0, exchange.deadline - asyncio.get_running_loop().time())) as scope:
                exchange.opening = scope
                await room
            exchange.opening = None
            if scope.cancelled_caught:
                raise exchange.error or Expired
            self._check()
            self.alarm.watch(exchange)  # it may have rung while this one was not pending
        self._pending[request.id] = exchange
        # After several answers at once the next requests come together, too, and leave in one write.
        if len(self._pending) == 1 and self._answers <= 1:
            self._write_at_once(write(request))
        else:
            self._write(write(request))
        self._answers = 0

    def abandon(self, request: Request) -> None:
        """Nobody waits any more: tell the peer."""
        self._pending.pop(request.id, None)
        if self._lost is None and request.method not in _NEVER_CANCELLED:
            params = Raw(encode({"requestId": request.id}))
            self._write(write(Notification("notifications/cancelled", params)))

    # -- the pipe's side
    def received(self, line: bytes) -> None:
        """One line from the peer; never raises for what is in it."""
        if len(line) > LONG:
            finished(self.receiving(line))
            return
        if self._lost is not None:
            return
        if len(line) < 100 and not line.strip():
            self._stray_lines += 1
            return
        if self._inbox.is_full and b'"id"' not in line and not self._may_have_owner(line):
            self._drop()  # before it is decoded, which costs several times as much
            return
        if line.startswith(_MARK):
            line = line[3:]
        if not line.isascii():
            try:
                line.decode()
            except UnicodeDecodeError:
                self._broken_text()
                line = line.decode(errors="replace").encode()
        try:
            message = read(line)
        except MalformedMessage as error:
            self._odd(line, error)
        else:
            self._sort(message)

    def worth_reading(self, lines: list[bytes]) -> list[bytes]:
        """The lines that may be messages, once a flood of others came: looking at each costs more than it did to send.

        Without a flood all of them, so that people are told what is wrong.
        """
        if self._stray_lines <= NOISE_LIMIT and len(lines) <= NOISE_LIMIT:
            return lines
        kept = [line for line in lines if b'"jsonrpc"' in line and _may_count(line)]
        if self._stray_lines <= NOISE_LIMIT:
            kept = lines[:NOISE_LIMIT] + [
                line for line in lines[NOISE_LIMIT:] if b'"jsonrpc"' in line and _may_count(line)
            ]
        self.odd_count += sum(map(bool, lines)) - sum(map(bool, kept))
        return kept

    def receiving(self, line: bytes) -> Generator[None]:
        """Take one long line in steps of a few milliseconds; never raises for what is in it."""
        if self._lost is not None:
            return
        if line.startswith(_MARK):
            line = line[3:]
        try:
            if not line.isascii():
                line = yield from self._utf8(line)
            message = yield from reading(line)
        except MalformedMessage as error:
            yield
            self._odd(line, error)
        else:
            yield
            self._sort(message)

    def _utf8(self, line: bytes) -> Generator[None, None, bytes]:
        """The line with U+FFFD for what is no UTF-8. Raises MalformedMessage for too much of it."""
        strict = getincrementaldecoder("utf-8")()
        try:
            for start in range(0, len(line), LONG):
                strict.decode(line[start : start + LONG])
                yield
            strict.decode(b"", final=True)
        except UnicodeDecodeError:
            self._broken_text()
        else:
            return line
        decoder = getincrementaldecoder("utf-8")("replace")
        parts: list[bytes] = []
        grown = 0
        for start in range(0, len(line), LONG):
            parts.append(decoder.decode(line[start : start + LONG], start + LONG >= len(line)).encode())
            grown += len(parts[-1])
            if grown - start > 2 * LONG:  # U+FFFD takes three bytes
                raise MalformedMessage("The message is not UTF-8.")
            yield
        return b"".join(parts)

    def _broken_text(self) -> None:
        self._once("utf8", "sent text that is not UTF-8; the broken characters were replaced.")

    def lost(self, error: ConnectionLost) -> None:
        """The peer is gone; every exchange and the inbox end with `error`."""
        if self._lost is not None:
            return
        self._lost = error
        self.alarm.stop()
        pending = self._pending.copy()
        self._pending.clear()
        for exchange in pending.values():
            exchange.fail(self._gone())
        self._inbox.close(error)

    def fail(self, ident: RequestId, error: ServerError) -> None:
        """End one exchange with an error; the others go on."""
        exchange = self._pending.pop(ident, None)
        if exchange is not None:
            exchange.fail(error)

    def _sort(self, message: Message) -> None:
        if isinstance(message, (Response, ErrorResponse)):  # `Response | ErrorResponse` would be built anew each time
            exchange = None if message.id is None else self._pending.pop(message.id, None)
            if exchange is None:
                self._unmatched(message)
            else:
                self._stray_lines = 0
                self._answers += 1
                exchange.put(message, last=True)
            return
        if isinstance(message, Notification):
            owner = self._owner(message)
            if owner is not None:
                owner.put(message, last=False)
                return
        if not self._inbox.put(message):
            self._overflow(message)

    def _unmatched(self, message: Response | ErrorResponse) -> None:
        """No exchange waits under this id: counted; said when it tells of a fault."""
        self.late_count += 1
        if message.id is None:
            what = f"{message.error.code}: {message.error.message[:200]}"
            self._once("no id", f"sent an error that names none of our messages: {what!r}")
        elif isinstance(message.id, str) and message.id.isascii() and message.id.isdecimal():
            self._doubt(int(message.id[:20]))

    def _doubt(self, ident: int, error: ServerError | None = None) -> None:
        exchange = self._pending.get(ident)
        if exchange is not None:
            if error is None:
                self._once("id", "answers under ids of another type than ours; such answers do not count.")
            exchange.doubt(error)

    def _several_lines(self) -> MalformedMessage:
        return MalformedMessage(
            f"The answer of the server {self.name!r} is not one line of JSON.",
            "It must print each message on a line of its own, without line breaks in it.",
            server=self.name,
        )

    def _may_have_owner(self, line: bytes) -> bool:
        """Return whether a notification may hold a key that names an exchange; what lacks it costs no decoding."""
        if b"progressToken" in line or _SUBSCRIPTION in line or b"\\" in line:
            return True
        return b"requestId" in line and self._revision is not None and self._revision.era == "stateless"

    def _owner(self, message: Notification) -> Exchange | None:
        if not self._pending or not self._may_have_owner(bytes(message.params)):
            return None
        try:
            if message.method == "notifications/progress":
                token = decode(message.params, _Token).progress_token
            elif message.method == "notifications/cancelled" and self._revision and self._revision.era == "stateless":
                # In this era servers send no requests, so it can only be the end of a subscription.
                token = decode(message.params, _Ended).request_id
            elif _SUBSCRIPTION in bytes(message.params):
                token = decode(message.params, _Meta).meta.ident
            else:
                return None
        except MalformedMessage:
            return None
        return None if token is None else self._pending.get(token)

    def _drop(self) -> None:
        self.dropped_count += 1
        self._warn_of_flood()

    def _warn_of_flood(self) -> None:
        self._once("flood", "sends messages faster than they can be handled; some were left out.")

    def _overflow(self, message: Message) -> None:
        if not isinstance(message, Request):
            self._drop()
            return
        self._warn_of_flood()
        self.refused_count += 1
        # Who floods may not read either, and then even refusals pile up.
        if self.refused_count <= REFUSAL_LIMIT:
            refusal = RpcError(INTERNAL_ERROR, "Too many requests are waiting.")
            self._write(write(ErrorResponse(message.id, refusal)))
        else:
            self.lost(ConnectionLost(f"The server {self.name!r} floods us with requests; it was stopped."))

    def _odd(self, line: bytes, error: MalformedMessage) -> None:
        text = line.strip()
        if not text:
            return
        self._stray_lines += 1
        if self._stray_lines > STRAY_LIMIT:
            self._broken_without_end()
            return
        if isinstance(error, OverBound):
            if not self._salvage(text, error):
                self.odd_count += 1
                self._once("bound", f"sent a message that was left out. {error.message}")
            return
        if text.startswith(b"[") and text != b"[" and self._batch(text):
            return
        if self._salvage(text, error):
            return
        self.odd_count += 1
        shown = text[: KEPT_CHARACTERS * 4].decode(errors="replace")[:KEPT_CHARACTERS]
        if len(self.odd_lines) < KEPT_LINES:
            self.odd_lines.append(shown)
        if text in (b"{", b"["):
            self._pretty = True
            self._once("pretty", "prints JSON over several lines: its answer is not one line of JSON.")
        elif self._pretty:
            self._pretty = line.rstrip() not in (b"}", b"]")
            if found := _OWN_LINE_ID.match(text):
                self._doubt(int(found.group(1)), self._several_lines())
        else:
            self._once("lines", f"printed a line on standard output that is no message: {shown[:200]!r}")

    def _broken_without_end(self) -> None:
        why = f"The server {self.name!r} sent {STRAY_LIMIT:,} broken messages and no answer; it was stopped."
        self.lost(ConnectionLost(why, "It must write its log to standard error.", server=self.name))

    def _batch(self, text: bytes) -> bool:
        """A JSON array (2025-03-26 alone has them); False when it is none at all."""
        revision = self._revision
        try:
            members = split_batch(text, sys.maxsize)
        except MalformedMessage:
            return False
        if len(members) > BATCH_LIMIT:
            why = f"sent a JSON array of {len(members):,} messages; at most {BATCH_LIMIT:,} are read."
        elif revision is not None and revision.has_batches:
            for member in members:
                try:
                    self._sort(read(member))
                except MalformedMessage as error:
                    if not self._salvage(bytes(member), error):
                        self.odd_count += 1
            return True
        else:
            why = f"sent a JSON array of messages, which {revision or 'no revision we offered'} does not have."
        self.odd_count += 1
        self._once("batch", why)
        for member in members[:BATCH_LIMIT]:
            self._salvage(bytes(member), MalformedMessage(f"It {why}"))
        return True

    def _salvage(self, line: bytes, error: MalformedMessage) -> bool:
        """A broken answer ends its own call at once instead of by its deadline."""
        if b":" not in line:
            return False
        ident: int | str | float | None
        try:
            found = decode(line, _Ident)
            ident = None if found.method is not None else found.id
        except MalformedMessage:
            ident = None
        if ident is None and b'"method"' not in line:
            # Not even JSON, or keys in the wrong case: servers write the id first or last.
            match = _FIRST_ID.match(line) or _LAST_ID.search(line[-100:])
            ident = int(match.group(1)) if match else None
        if isinstance(ident, float):
            if ident.is_integer():
                self._doubt(int(ident))
            return False
        exchange = None if ident is None else self._pending.pop(ident, None)
        if exchange is None:
            return False
        exchange.fail(MalformedMessage(f"The server {self.name!r} sent a broken answer. {error.message}"))
        return True

    def _once(self, kind: str, text: str) -> None:
        if kind not in self._warned:
            self._warned.add(kind)
            self._warn(f"The server {self.name!r} {text}")

    def _check(self) -> None:
        if self._lost is not None:
            # What waited for a server that does not read is not sent to it a second time.
            error = self._gone(NotSent if isinstance(self._lost, InputNotRead) else ConnectionLost)
            error.may_have_run = False
            unsent = "It was not sent: the connection had ended."
            error.hint = f"{error.hint} ({unsent.rstrip('.')})" if error.hint else unsent
            raise error

    def _gone(self, kind: type[ConnectionLost] = ConnectionLost) -> ConnectionLost:
        lost = self._lost or ConnectionLost("The connection is closed.")
        return kind(lost.message, lost.hint, server=self.name)
