"""Channel that exchanges JSON-RPC messages as lines over a pipe, and matches responses to requests."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Generator, Mapping

import anyio

from mcphost.errors import ConnectionLost, MalformedMessage, RequestNotSent, ServerError, UnreadInputError
from mcphost.json_limits import JsonLimitExceeded, find_item_end, run_steps
from mcphost.protocol.jsonrpc import (
    BATCH_LIMIT,
    INTERNAL_ERROR,
    ErrorData,
    JsonRpcErrorResponse,
    JsonRpcMessage,
    JsonRpcNotification,
    JsonRpcRequest,
    JsonRpcResponse,
    RequestId,
    parse_message,
    parse_message_in_steps,
    replace_invalid_utf8,
    serialize_message,
    split_batch_in_steps,
)
from mcphost.protocol.revisions import Revision
from mcphost.serialization import Raw, WireStruct, decode, encode
from mcphost.transport.channel import NO_HEADERS
from mcphost.transport.flow_control import LONG_MESSAGE, BoundedQueue
from mcphost.transport.pipe_exchange import DeadlineTimer, PipeExchange, UnsentExchangeTimeout

MAX_KEPT_LINES = 20
KEPT_LINE_LENGTH = 500
MAX_REFUSED_REQUESTS = 1_000
FLOOD_THRESHOLD = 1_000
MAX_MALFORMED_LINES = 10_000
_MAX_QUEUED_LINE = 16_384
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
# The specification forbids cancelling `initialize`, and a server that has not answered `server/discover` must not
# receive a cancellation before its handshake.
_NEVER_CANCELLED = frozenset({"initialize", "server/discover"})
# mcphost sends these itself while it connects, so that no request of the user or the model is lost with them.
_SENT_BY_HOST = _NEVER_CANCELLED | {
    "notifications/initialized", "ping", "logging/setLevel", "tools/list", "prompts/list", "resources/list",
    "resources/templates/list", "tasks/get", "tasks/result",
}  # fmt: skip
_SUBSCRIPTION_ID = b"io.modelcontextprotocol/subscriptionId"


_FIRST_ID = re.compile(rb'\{\s?(?:"jsonrpc"\s?:\s?"2\.0"\s?,\s?)?"id"\s?:\s?(\d{1,18})\s?,', re.IGNORECASE)
_LAST_ID = re.compile(rb',\s?"id"\s?:\s?(\d{1,18})\s?\}$', re.IGNORECASE)
_OWN_LINE_ID = re.compile(rb'"id"\s?:\s?(\d{1,18}),?$')


def _is_possible_message(line: bytes) -> bool:
    """Return whether a line may be an MCP message, according to a quick check.

    The check is used while the server is sending a flood of lines.
    """
    return b'"id"' in line or b"notifications/" in line or b"\\" in line


class _ProgressParams(WireStruct, frozen=True):
    progress_token: int | str | None = None


class _CancelledParams(WireStruct, frozen=True):
    request_id: int | str | None = None


class _SubscriptionMeta(WireStruct, frozen=True, rename={"subscription_id": "io.modelcontextprotocol/subscriptionId"}):
    subscription_id: int | str | None = None


class _SubscriptionParams(WireStruct, frozen=True, rename={"meta": "_meta"}):
    meta: _SubscriptionMeta = _SubscriptionMeta()


class _MessageKeys(WireStruct, frozen=True):
    id: int | str | float | None = None
    method: str | None = None


class Multiplexer:
    """Channel over a transport that carries lines.

    The transport passes each received line to `receive_line`. *name* is the server's name, and *warn* is called with
    warnings about the server. The other arguments are functions of the transport:

    - *write* queues a line for writing, and must not block.
    - *write_now* immediately writes all queued lines and one more line. It is used for a long line, and for the request
      that is expected to be the last of several concurrent ones.
    - *wait_writable* returns None if the pipe to the server has room, otherwise an awaitable that completes when it has
      room. A full pipe thus delays only the tasks that write to it.
    - *is_drained* returns whether the server has read everything that was written.
    - *may_have_been_read* returns whether the server may have read something that was written.
    """

    def __init__(
        self,
        write: Callable[[bytes], None],
        wait_writable: Callable[[], Awaitable[None] | None] | None,
        warn: Callable[[str], None],
        name: str = "",
        *,
        is_drained: Callable[[], bool] = lambda: True,
        may_have_been_read: Callable[[], bool] = lambda: True,
        write_now: Callable[[bytes], None] | None = None,
    ) -> None:
        self._write = write
        self._write_now = write_now or write
        self._is_drained = is_drained
        self._may_have_been_read = may_have_been_read
        self._wait_writable = wait_writable
        self._warn = warn
        self.name = name
        self._loop: asyncio.AbstractEventLoop | None = None
        self._pending: dict[RequestId, PipeExchange] = {}
        self.deadline_timer = DeadlineTimer(self._pending)
        self._usual_in_flight = 1  # requests in flight when the last responses began to arrive
        self._has_received = False  # whether a response has arrived since the last request was sent
        self._unsolicited = BoundedQueue()
        self._connection_error: ConnectionLost | None = None
        self._revision: Revision | None = None
        self._warned_kinds: set[str] = set()
        self._is_in_multiline_json = False  # whether multiline JSON has begun
        self._malformed_streak = 0
        self.malformed_lines: list[str] = []
        self.malformed_count = 0
        self.unmatched_count = 0
        self.refused_count = 0
        self.dropped_count = 0

    # -- the Channel
    def exchange(self, request: JsonRpcRequest, *, headers: Mapping[str, str] = NO_HEADERS) -> PipeExchange:
        """Return an exchange that sends the request; see `Channel.exchange`.

        *headers* are ignored, because a pipe has none.
        """
        return PipeExchange(self, request)

    async def send(self, message: JsonRpcMessage) -> None:
        """Send a notification or response; see `Channel.send`."""
        method = message.method if isinstance(message, JsonRpcNotification) else ""
        self._check_connected(method)
        room = None if self._wait_writable is None else self._wait_writable()
        if room is not None:
            await room
            self._check_connected(method)
        self._write(serialize_message(message))

    def unsolicited(self) -> BoundedQueue:
        """Return the queue of messages that do not belong to a request; see `Channel.unsolicited`."""
        return self._unsolicited

    @property
    def anomaly_counts(self) -> Mapping[str, int]:
        """Counts of dropped messages, keyed by the reason; see `Channel.anomaly_counts`."""
        return {
            "broken messages": self.malformed_count,
            "answers nobody waits for": self.unmatched_count,
            "requests refused in a flood": self.refused_count,
            "messages left out in a flood": self.dropped_count,
        }

    @property
    def is_drained(self) -> bool:
        """Whether the server has read everything that was sent to it; see `Channel.is_drained`."""
        return self._is_drained()

    @property
    def may_have_been_read(self) -> bool:
        """Whether the server may have read something; see `Channel.may_have_been_read`."""
        return self._may_have_been_read()

    @property
    def is_closed(self) -> bool:
        """Whether the connection is known to be lost; see `Channel.is_closed`."""
        return self._connection_error is not None

    def set_revision(self, revision: Revision) -> None:
        """Set the protocol revision; only revision 2025-03-26 allows batches (JSON arrays of messages)."""
        self._revision = revision

    # -- exchanges
    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The event loop, cached because each lookup of the running loop costs a system call."""
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
        return self._loop

    def open(
        self, request: JsonRpcRequest, exchange: PipeExchange, *, is_writable: bool = False
    ) -> Awaitable[None] | None:
        """Register an exchange, and write its request to the pipe.

        If the pipe is full, return an awaitable that does both when there is room. *is_writable* means that the caller
        has already waited for room.
        """
        self._check_connected(request.method)
        room = None if is_writable or self._wait_writable is None else self._wait_writable()
        if room is not None:
            return self._open_when_writable(request, exchange, room)
        self._pending[request.id] = exchange
        self._has_received = False
        # After several simultaneous responses, as many requests usually follow together. They fit into one write,
        # and writing with the last of them saves an iteration of the event loop. A long line may fill the pipe, which
        # the next request must know.
        line = serialize_message(request)
        if len(self._pending) == self._usual_in_flight or len(line) > _MAX_QUEUED_LINE:
            self._write_now(line)
        else:
            self._write(line)
        return None

    async def _open_when_writable(self, request: JsonRpcRequest, exchange: PipeExchange, room: Awaitable[None]) -> None:
        """Wait for room in the pipe, at most until the exchange's deadline, and send the request.

        Raises UnsentExchangeTimeout at the deadline. If the exchange fails during the wait, its error is raised.
        """
        with anyio.move_on_after(max(0.0, exchange.deadline - asyncio.get_running_loop().time())) as scope:
            exchange.write_scope = scope
            await room
        exchange.write_scope = None
        if scope.cancelled_caught or exchange.error is not None:  # there may have been room at the same moment
            raise exchange.error or UnsentExchangeTimeout
        self.open(request, exchange, is_writable=True)
        self.deadline_timer.schedule(exchange)  # the timer may have fired before this exchange was pending

    def abandon(self, request: JsonRpcRequest) -> None:
        """Stop waiting for a response, and cancel the request with `notifications/cancelled`.

        `initialize` and `server/discover` are not cancelled.
        """
        self._pending.pop(request.id, None)
        if self._connection_error is None and request.method not in _NEVER_CANCELLED:
            params = Raw(encode({"requestId": request.id}))
            self._write(serialize_message(JsonRpcNotification("notifications/cancelled", params)))

    # -- input
    def receive_line(self, line: bytes) -> None:
        """Handle one line from the server. Never raises an error, regardless of what the line contains."""
        if len(line) > LONG_MESSAGE:
            run_steps(self.receive_line_in_steps(line))
            return
        if self._connection_error is not None:
            return
        if len(line) < 100 and not line.strip():
            self._malformed_streak += 1
            return
        if self._unsolicited.is_full and b'"id"' not in line and not self._has_exchange_key(line):
            self._drop()  # before decoding, which costs several times as much
            return
        if line.startswith(_BYTE_ORDER_MARK):
            line = line[3:]
        if not line.isascii():
            try:
                line.decode()
            except UnicodeDecodeError:
                self._warn_of_invalid_utf8()
                line = line.decode(errors="replace").encode()
        try:
            message = parse_message(line)
        except MalformedMessage as error:
            run_steps(self._handle_malformed(line, error))
        else:
            self._dispatch(message)

    def filter_flood(self, lines: list[bytes]) -> list[bytes]:
        """Drop lines that cannot be messages, but only while the server is sending a flood of lines.

        Handling a line costs more than sending it, so a flood would otherwise keep mcphost busy. If there is no flood,
        all lines are returned, so that problems in them are reported.
        """
        if self._malformed_streak <= FLOOD_THRESHOLD and len(lines) <= FLOOD_THRESHOLD:
            return lines
        result = [line for line in lines if b'"jsonrpc"' in line and _is_possible_message(line)]
        if self._malformed_streak <= FLOOD_THRESHOLD:
            result = lines[:FLOOD_THRESHOLD] + [
                line for line in lines[FLOOD_THRESHOLD:] if b'"jsonrpc"' in line and _is_possible_message(line)
            ]
        self.malformed_count += sum(map(bool, lines)) - sum(map(bool, result))
        return result

    def receive_line_in_steps(self, line: bytes) -> Generator[None]:
        """Handle one long line as `receive_line` does, but yield every few milliseconds."""
        if self._connection_error is not None:
            return
        if line.startswith(_BYTE_ORDER_MARK):
            line = line[3:]
        try:
            if not line.isascii():
                mended = yield from replace_invalid_utf8(line)
                if mended is not line:
                    self._warn_of_invalid_utf8()
                line = mended
            message = yield from parse_message_in_steps(line)
        except MalformedMessage as error:
            yield
            yield from self._handle_malformed(line, error)
        else:
            yield
            self._dispatch(message)

    def _warn_of_invalid_utf8(self) -> None:
        self._warn_once("utf8", "sent text that is not UTF-8; the broken characters were replaced.")

    def connection_lost(self, error: ConnectionLost) -> None:
        """End all open exchanges and the iteration over `unsolicited` with *error*."""
        if self._connection_error is not None:
            return
        self._connection_error = error
        self.deadline_timer.stop()
        pending = self._pending.copy()
        self._pending.clear()
        for exchange in pending.values():
            exchange.fail(self._lost_error())
        self._unsolicited.close(error)

    def fail_exchange(self, request_id: RequestId, error: ServerError) -> None:
        """End the exchange of the request with this id with *error*; other exchanges continue."""
        exchange = self._pending.pop(request_id, None)
        if exchange is not None:
            exchange.fail(error)

    def _dispatch(self, message: JsonRpcMessage) -> None:
        if isinstance(
            message, (JsonRpcResponse, JsonRpcErrorResponse)
        ):  # `JsonRpcResponse | JsonRpcErrorResponse` would be built again each time
            exchange = None if message.id is None else self._pending.pop(message.id, None)
            if exchange is None:
                self._handle_unmatched(message)
            else:
                self._malformed_streak = 0
                if not self._has_received:
                    self._has_received = True
                    self._usual_in_flight = len(self._pending) + 1
                exchange.put(message, last=True)
            return
        if isinstance(message, JsonRpcNotification):
            owner = self._find_exchange(message)
            if owner is not None:
                owner.put(message, last=False)
                return
        if not self._unsolicited.put(message):
            self._handle_overflow(message)

    def _handle_unmatched(self, message: JsonRpcResponse | JsonRpcErrorResponse) -> None:
        """Count a response that matches no pending request; warn the user if it indicates a bug in the server."""
        self.unmatched_count += 1
        if message.id is None:
            what = f"{message.error.code}: {message.error.message[:200]}"
            self._warn_once("no id", f"sent an error that belongs to none of our messages: {what!r}")
        elif isinstance(message.id, str) and message.id.isascii() and message.id.isdecimal():
            self._fail_later(int(message.id[:20]))

    def _fail_later(self, request_id: int, error: ServerError | None = None) -> None:
        exchange = self._pending.get(request_id)
        if exchange is not None:
            if error is None:
                self._warn_once(
                    "id", "sends responses whose ids have another type than the requests; they are ignored."
                )
            exchange.fail_later(error)

    def _multiline_error(self) -> MalformedMessage:
        return MalformedMessage(
            f"The response of the server {self.name!r} is not one line of JSON.",
            "It must print each message on a line of its own, without line breaks in it.",
            server=self.name,
        )

    def _has_exchange_key(self, line: bytes) -> bool:
        """Return whether the notification in *line* may belong to a request, and must therefore be decoded."""
        if b"progressToken" in line or _SUBSCRIPTION_ID in line or b"\\" in line:
            return True
        return b"requestId" in line and self._revision is not None and self._revision.era == "stateless"

    def _find_exchange(self, message: JsonRpcNotification) -> PipeExchange | None:
        if not self._pending or not self._has_exchange_key(bytes(message.params)):
            return None
        try:
            if message.method == "notifications/progress":
                token = decode(message.params, _ProgressParams).progress_token
            elif message.method == "notifications/cancelled" and self._revision and self._revision.era == "stateless":
                # From 2026-07-28 on, servers send no requests, so this can only be the end of a subscription.
                token = decode(message.params, _CancelledParams).request_id
            elif _SUBSCRIPTION_ID in bytes(message.params):
                token = decode(message.params, _SubscriptionParams).meta.subscription_id
            else:
                return None
        except MalformedMessage:
            return None
        return None if token is None else self._pending.get(token)

    def _drop(self) -> None:
        self.dropped_count += 1
        self._warn_of_flood()

    def _warn_of_flood(self) -> None:
        self._warn_once("flood", "sends messages faster than they can be handled; some were dropped.")

    def _handle_overflow(self, message: JsonRpcMessage) -> None:
        if not isinstance(message, JsonRpcRequest):
            self._drop()
            return
        self._warn_of_flood()
        self.refused_count += 1
        # A server that sends a flood may not read anything, so that even refusals would accumulate.
        if self.refused_count <= MAX_REFUSED_REQUESTS:
            refusal = ErrorData(INTERNAL_ERROR, "Too many requests are waiting.")
            self._write(serialize_message(JsonRpcErrorResponse(message.id, refusal)))
        else:
            self.connection_lost(ConnectionLost(f"The server {self.name!r} sends too many requests; it was stopped."))

    def _handle_malformed(self, line: bytes, error: MalformedMessage) -> Generator[None]:
        text = line.strip()
        if not text:
            return
        self._malformed_streak += 1
        if self._malformed_streak > MAX_MALFORMED_LINES:
            self._stop_malformed_flood()
            return
        if isinstance(error, JsonLimitExceeded):
            if not self._fail_broken_response(text, error):
                self.malformed_count += 1
                self._warn_once("bound", f"sent a message that was ignored. {error.message}")
            return
        if text.startswith(b"[") and text != b"[" and (yield from self._handle_batch(text)):
            return
        if self._fail_broken_response(text, error):
            return
        self.malformed_count += 1
        shown = text[: KEPT_LINE_LENGTH * 4].decode(errors="replace")[:KEPT_LINE_LENGTH]
        if len(self.malformed_lines) < MAX_KEPT_LINES:
            self.malformed_lines.append(shown)
        if text in (b"{", b"["):
            self._is_in_multiline_json = True
            self._warn_once("pretty", "prints JSON over several lines: its response is not one line of JSON.")
        elif self._is_in_multiline_json:
            self._is_in_multiline_json = line.rstrip() not in (b"}", b"]")
            if found := _OWN_LINE_ID.match(text):
                self._fail_later(int(found.group(1)), self._multiline_error())
        else:
            self._warn_once("lines", f"printed a line on standard output that is not a message: {shown[:200]!r}")

    def _stop_malformed_flood(self) -> None:
        why = f"The server {self.name!r} sent {MAX_MALFORMED_LINES:,} invalid messages and no response; it was stopped."
        self.connection_lost(ConnectionLost(why, "It must write its log to standard error.", server=self.name))

    def _handle_batch(self, text: bytes) -> Generator[None, None, bool]:
        """Handle a batch, a JSON array of messages (revision 2025-03-26); return False if *text* is not one."""
        revision = self._revision
        end = yield from find_item_end(text, BATCH_LIMIT)
        try:
            members = yield from split_batch_in_steps(text if end < 0 else text[:end] + b"]")
        except MalformedMessage:
            return False
        if end >= 0:
            why = f"sent a JSON array of more than {BATCH_LIMIT:,} messages, which is not read."
        elif revision is not None and revision.has_batches:
            for member in members:
                try:
                    self._dispatch(parse_message(member))
                except MalformedMessage as error:
                    if not self._fail_broken_response(bytes(member), error):
                        self.malformed_count += 1
            return True
        else:
            why = f"sent a JSON array of messages, which {revision or 'no revision we offered'} does not have."
        self.malformed_count += 1
        self._warn_once("batch", why)
        for member in members:
            self._fail_broken_response(bytes(member), MalformedMessage(f"It {why}"))
        return True

    def _fail_broken_response(self, line: bytes, error: MalformedMessage) -> bool:
        """Fail the request that a malformed response belongs to, and return whether the request was found.

        Without this, the request would wait for a valid response until its deadline. *error* describes the problem with
        the response.
        """
        if b":" not in line:
            return False
        message_id: int | str | float | None
        try:
            found = decode(line, _MessageKeys)
            message_id = None if found.method is not None else found.id
        except MalformedMessage:
            message_id = None
        if message_id is None and b'"method"' not in line:
            # Invalid JSON, or keys in the wrong case: servers write the id first or last.
            match = _FIRST_ID.match(line) or _LAST_ID.search(line[-100:])
            message_id = int(match.group(1)) if match else None
        if isinstance(message_id, float):
            if message_id.is_integer():
                self._fail_later(int(message_id))
            return False
        exchange = None if message_id is None else self._pending.pop(message_id, None)
        if exchange is None:
            return False
        exchange.fail(MalformedMessage(f"The server {self.name!r} sent an invalid response. {error.message}"))
        return True

    def _warn_once(self, kind: str, text: str) -> None:
        if kind not in self._warned_kinds:
            self._warned_kinds.add(kind)
            self._warn(f"The server {self.name!r} {text}")

    def _check_connected(self, method: str) -> None:
        if self._connection_error is not None:
            # Messages that were waiting for a server that does not read its input must not be sent a second time.
            error = self._lost_error(
                RequestNotSent if isinstance(self._connection_error, UnreadInputError) else ConnectionLost
            )
            error.may_have_run = False
            if method not in _SENT_BY_HOST:
                unsent = "It was not sent: the connection had ended."
                error.hint = f"{error.hint} ({unsent.rstrip('.')})" if error.hint else unsent
            raise error

    def _lost_error(self, kind: type[ConnectionLost] = ConnectionLost) -> ConnectionLost:
        lost = self._connection_error or ConnectionLost("The connection is closed.")
        return kind(lost.message, lost.hint, server=self.name)
