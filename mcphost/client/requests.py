"""Sender for the requests of a session.

It encodes requests, applies time limits, retries requests, and decodes the results.
"""

import asyncio
import itertools
import math
import secrets
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from contextvars import copy_context
from functools import cached_property
from typing import Any, Protocol, TypeVar

import anyio

from mcphost.client.error_mapping import map_error
from mcphost.client.session import BeforeSendFn, NotificationFn, ServerRequestContext
from mcphost.client.timeouts import DeadlineTarget, PausableDeadline, Timeouts, UserPauses, pause_time_limits
from mcphost.errors import ConnectionLost, MalformedMessage, RequestNotSent, RequestRefused, RequestTimeout, ServerError
from mcphost.protocol.base import ClientRequest
from mcphost.protocol.jsonrpc import (
    ErrorData,
    JsonRpcErrorResponse,
    JsonRpcMessage,
    JsonRpcNotification,
    JsonRpcRequest,
    JsonRpcResponse,
)
from mcphost.protocol.lifecycle import Ping
from mcphost.protocol.notifications import LoggingMessageNotification, ProgressNotification, parse_notification
from mcphost.protocol.revisions import Era
from mcphost.serialization import Raw, decode, encode, replace
from mcphost.sign_in_types import AuthChallenge
from mcphost.transport.channel import (
    NO_HEADERS,
    Channel,
    HttpStatusError,
    ResponseInterrupted,
    SessionExpired,
    Unauthorized,
)
from mcphost.transport.pipe_exchange import ExchangeTimeout, PipeExchange, UnsentExchangeTimeout

MIN_INTERVAL = 0.1


class ProgressThrottle:
    """Throttle that passes on at most ten progress notifications per second for one request.

    The progress value must increase (basic/utilities/progress). If the value of a notification does not increase, but
    its message or total is new, the notification is passed on with the highest value so far, so that progress bars
    never move backwards. Other notifications whose value does not increase are dropped.
    """

    __slots__ = ("_closed", "_last", "_on_notification", "_pending", "_sent_at", "_timer", "dropped_count")

    def __init__(self, on_notification: NotificationFn) -> None:
        self._on_notification = on_notification
        self._last: ProgressNotification | None = None
        self._pending: ProgressNotification | None = None
        self._sent_at = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False
        self.dropped_count = 0

    def put(self, progress: ProgressNotification) -> None:
        """Pass on a progress notification from the server, immediately or soon; return without waiting."""
        last = self._last
        if last is not None and progress.progress <= last.progress:
            if (progress.message or last.message) == last.message and progress.total in (None, last.total):
                self.dropped_count += 1
                return
            progress = replace(progress, progress=last.progress, message=progress.message or last.message)
        self._last = progress
        loop = asyncio.get_running_loop()
        now = loop.time()
        if self._timer is None and now - self._sent_at >= MIN_INTERVAL:
            self._sent_at = now
            self._on_notification(progress)
            return
        self.dropped_count += self._pending is not None
        self._pending = progress
        if self._timer is None:
            self._timer = loop.call_at(self._sent_at + MIN_INTERVAL, self._flush)

    def close(self) -> None:
        """Pass on the delayed notification, if any, and ignore all later notifications."""
        if self._timer is not None:
            self._timer.cancel()
        if self._pending is not None and not self._closed:
            self._on_notification(self._pending)
            self._pending = None
        self._closed = True

    def _flush(self) -> None:
        self._timer = None
        progress, self._pending = self._pending, None
        if progress is not None and not self._closed:
            self._sent_at = asyncio.get_running_loop().time()
            self._on_notification(progress)


MAX_TRIES = 3
MAX_TOTAL_WAIT = 60.0
MIN_WAIT = 1.0
FIRST_DELAY = 0.5
_OPENING_METHODS = frozenset({"initialize", "server/discover"})
_LIST_METHODS = frozenset({"tools/list", "resources/list", "resources/templates/list", "prompts/list"})
_BUSY_STATUSES = frozenset({429, 503})
_TRANSIENT_STATUSES = frozenset({408, 425, 429, 500, 502, 503, 504})


class RetryPolicy:
    """Rules for retrying one request after a temporary error.

    If the server is busy and states a delay (Retry-After), any request is retried after that delay. *warn* receives a
    message about each of these delays, and *on_notification* receives progress notifications that count the seconds
    down. After other temporary errors, only list requests are retried, at most twice.
    """

    def __init__(
        self, server: str, method: str, warn: Callable[[str], None], on_notification: NotificationFn | None
    ) -> None:
        self._server = server
        self._method = method
        self._warn = warn
        self._on_notification = on_notification
        self._waited_seconds = 0.0
        self._try_count = 1

    async def wait_before_retry(self, error: ServerError) -> None:
        """Wait until the request can be sent again, or raise *error* if it must not be repeated.

        Safe to cancel. The delays that a busy server demands are limited to 60 seconds in total. If a request that
        opens a session would time out during the delay, *error* is raised immediately, because it tells the user more
        than the timeout error would.
        """
        if isinstance(error, HttpStatusError) and error.status in _BUSY_STATUSES and error.retry_after is not None:
            wait = max(error.retry_after, MIN_WAIT)
            is_too_late = (
                self._method in _OPENING_METHODS and anyio.current_time() + wait > anyio.current_effective_deadline()
            )
            if is_too_late or self._waited_seconds + wait > MAX_TOTAL_WAIT:
                error.hint = f"Try again in {wait:.0f} s."
                raise error
            self._waited_seconds += wait
            await self._wait_with_progress(wait, error.status)
            return
        is_transient = isinstance(error, HttpStatusError) and error.status in _TRANSIENT_STATUSES
        is_interrupted = isinstance(error, ResponseInterrupted | RequestNotSent) and not isinstance(
            error, SessionExpired
        )
        if self._method not in _LIST_METHODS or not (is_transient or is_interrupted) or self._try_count >= MAX_TRIES:
            raise error
        await anyio.sleep(FIRST_DELAY * 2 ** (self._try_count - 1))
        self._try_count += 1

    async def _wait_with_progress(self, wait: float, status: int) -> None:
        self._warn(f"The server {self._server!r} is busy (HTTP {status}); retrying {self._method} in {wait:.0f} s.")
        until = anyio.current_time() + wait
        while (left := until - anyio.current_time()) > 0:
            if self._on_notification is not None:
                text = f"The server is busy (HTTP {status}); retrying in {math.ceil(left)} s."
                self._on_notification(
                    ProgressNotification(progress_token="", progress=wait - left, total=wait, message=text)
                )
            await anyio.sleep(min(1.0, left))


R = TypeVar("R")


class SignInCallback(Protocol):
    """Type of the callback for signing in; implemented by `OAuthProvider.sign_in_for_session`."""

    async def __call__(self, refusal: AuthChallenge, attempt: int) -> None:
        """Let the user sign in after the server has rejected a request as unauthorized. Raises SignInRequired.

        *refusal* is the authorization challenge in the server's response. *attempt* is the number of times that the
        server has rejected the request, starting with 1.
        """
        ...


async def run_before_send(before_send: BeforeSendFn | None, *, has_context_changed: bool = False) -> None:
    """Call and await *before_send*, the caller's check before each attempt to send a request; do nothing if it is None.

    Errors raised by *before_send* propagate. *has_context_changed* is passed to it: True if the user has signed in, a
    new session was opened, or the tools were listed again since the request was last attempted.
    """
    if before_send is not None:
        await before_send(has_context_changed)


_UNREAD_HINT = "It has not read all that was sent to it: see its log, and restart it if it does not continue."


def _make_unread_error(server: str, method: str, seconds: float) -> RequestTimeout:
    """Return the error for a request that could not be written to the pipe within *seconds* seconds."""
    return RequestTimeout(
        f"The server {server!r} does not read its input: {method} waited {seconds:.0f} s and was not sent.",
        _UNREAD_HINT,
        server=server,
    )


def make_follow_up_error(error: ConnectionLost) -> ConnectionLost:
    """Return the error to raise for a tool call whose connection was lost during a later request, such as a poll.

    The server has already answered the call's first request. In the returned error, `may_have_run` is therefore
    always True, even if *error* states that the later request was not sent.
    """
    if error.may_have_run:
        return error
    return ConnectionLost(error.message, error.hint, server=error.server)


def _ignore_message(message: JsonRpcMessage, context: ServerRequestContext) -> None:
    """Do nothing; this is the default for `on_unsolicited` in RequestSender."""


def _ignore_warning(text: str) -> None:
    """Do nothing; this is the default for `warn` in RequestSender."""


def _ignore_end(number: int) -> None:
    """Do nothing; this is the default for `on_request_end` in RequestSender."""


class RequestSender:
    """Sender for the requests of one session over a channel.

    *on_unsolicited* receives messages that arrive on the stream of a response but do not belong to its request, such as
    requests from the server. *warn* receives a message if a busy server delays a request.
    """

    def __init__(
        self,
        channel: Channel,
        server: str,
        timeouts: Timeouts,
        on_unsolicited: Callable[[JsonRpcMessage, ServerRequestContext], None] = _ignore_message,
        warn: Callable[[str], None] = _ignore_warning,
    ) -> None:
        self._channel = channel
        self.server = server
        self.timeouts = timeouts
        self.on_unsolicited = on_unsolicited
        self._warn = warn
        # A random start, so that a late response from an earlier process or connection is unlikely to match.
        self._ids = itertools.count(secrets.randbelow(1_000_000) + 1)
        self.in_flight: dict[int, InFlightRequest] = {}
        self.pauses = UserPauses(self.in_flight, includes_user_time=timeouts.includes_user_time)
        self.sign_in: SignInCallback | None = None
        """Lets the user sign in, which does not count towards time limits; None during negotiation."""
        self.on_request_end: Callable[[int], None] = _ignore_end
        """Called with the number of each request that has ended, with or without success; must not block."""
        self.era: Era | None = None
        """The negotiated era of the protocol; None during negotiation."""
        self.last_received_at = 0.0  # event loop time of the server's last message
        self.dropped_progress_count = 0

    @cached_property
    def _now(self) -> Callable[[], float]:
        """The event loop's `time` method, which is cached because looking up the loop costs a system call."""
        return asyncio.get_running_loop().time

    def next_id(self) -> int:
        """Return a new request id, unique in this session."""
        return next(self._ids)

    async def send(
        self,
        call: ClientRequest[R],
        *,
        deadline: float | None = None,
        on_notification: NotificationFn | None = None,
        before_send: BeforeSendFn | None = None,
        meta: bytes = b"",
        headers: Mapping[str, str] = NO_HEADERS,
        extra_params: Mapping[str, Any] | None = None,
    ) -> R:
        """Send a request and return its decoded result; see `Session.request`.

        *meta* contains encoded JSON members for `_meta`, *headers* contains additional HTTP headers, and *extra_params*
        contains additional members for the params.
        """
        raw = await self.send_raw(
            call,
            deadline=deadline,
            on_notification=on_notification,
            before_send=before_send,
            meta=meta,
            headers=headers,
            extra_params=extra_params,
        )
        return self.decode_result(raw, call)

    def fail_all(self, make_error: Callable[[], ServerError]) -> None:
        """End every request in flight with a new error from *make_error*; return without waiting."""
        for attempt in tuple(self.in_flight.values()):
            attempt.fail(make_error())

    def decode_result(self, raw: Raw, call: ClientRequest[R]) -> R:
        """Decode the result of *call*. Raises MalformedMessage, whose message names the server and the method."""
        try:
            return decode(raw, call.RESULT, f"result of {call.METHOD}")
        except MalformedMessage as error:
            raise MalformedMessage(f"{self.server}: {error.message}", server=self.server) from error

    async def send_raw(
        self,
        call: ClientRequest[Any],
        *,
        deadline: float | None = None,
        on_notification: NotificationFn | None = None,
        before_send: BeforeSendFn | None = None,
        meta: bytes = b"",
        headers: Mapping[str, str] = NO_HEADERS,
        extra_params: Mapping[str, Any] | None = None,
        progress_token: int | None = None,
    ) -> Raw:
        """Send a request and return its result as undecoded JSON; see `send`.

        *progress_token* is an id from `next_id`, which becomes the progress token of every attempt and the request id
        of the first one. By default, each attempt uses its own request id as progress token. *before_send* is awaited
        again before each retry, because minutes may have passed since the last attempt.
        """
        request_id = progress_token
        retries: RetryPolicy | None = None
        refusals = 0
        if before_send is not None:
            await run_before_send(before_send)
        while True:
            try:
                return await self._send_once(
                    call, deadline, on_notification, meta, headers, extra_params, request_id, progress_token
                )
            except Unauthorized as error:
                if self.sign_in is None:
                    raise
                refusals += 1
                with pause_time_limits():
                    await self.sign_in(error.challenge, refusals)
                await run_before_send(before_send, has_context_changed=True)
                request_id = None
            except (HttpStatusError, ResponseInterrupted, RequestNotSent) as error:
                retries = retries or RetryPolicy(self.server, call.METHOD, self._warn, on_notification)
                await retries.wait_before_retry(error)
                await run_before_send(before_send)
                request_id = None

    async def _send_once(
        self,
        call: ClientRequest[Any],
        deadline: float | None,
        on_notification: NotificationFn | None,
        meta: bytes,
        headers: Mapping[str, str],
        extra_params: Mapping[str, Any] | None,
        request_id: int | None,
        progress_token: int | None,
    ) -> Raw:
        request_id = self.next_id() if request_id is None else request_id
        request = JsonRpcRequest(
            request_id,
            call.METHOD,
            self._build_params(call, (progress_token or request_id) if on_notification else None, meta, extra_params),
        )
        start = self._now()
        timeouts = self.timeouts
        end = start + (timeouts.request if deadline is None else deadline)
        max_deadline = start + timeouts.max_request if deadline is None else end
        exchange = self._channel.exchange(request, headers=headers)
        clock = exchange if isinstance(exchange, PipeExchange) else anyio.CancelScope()
        attempt = self.in_flight[request_id] = InFlightRequest(
            clock, end, max_deadline, timeouts.request, call, request_id, on_notification
        )
        try:
            clock.deadline = end
            if isinstance(clock, PipeExchange):
                return await self._read_pipe(clock, attempt)
            with clock:
                return await self._read_exchange(exchange, attempt)
        except UnsentExchangeTimeout:
            error = _make_unread_error(self.server, call.METHOD, self._now() - start)
            # A tool may have run before a poll, or before a later round of its call, which has extra parameters.
            error.may_have_run = call.METHOD != "tools/call" or extra_params is not None
            raise error from None
        except ExchangeTimeout:
            pass  # has the effect of a cancelled scope
        except ServerError as error:
            error.server = error.server or self.server
            raise
        finally:
            del self.in_flight[request_id]
            self.on_request_end(request_id)
            if on_notification is not None:
                self.dropped_progress_count += attempt.close()
        if attempt.error is not None:
            raise attempt.error
        raise RequestTimeout(
            f"The server {self.server!r} did not answer {call.METHOD} within {self._now() - start:.0f} s.",
            "The request was cancelled." if self._channel.is_drained else _UNREAD_HINT,
            server=self.server,
        )

    async def _read_pipe(self, exchange: PipeExchange, attempt: "InFlightRequest") -> Raw:
        """Read the messages of a pipe exchange, like `_read_exchange`, but with fewer coroutines.

        This reduces the cost of a request by a twentieth.
        """
        waiting = exchange.open()
        if waiting is not None:
            await waiting
        try:
            async for message in exchange:
                self.last_received_at = self._now()
                if isinstance(message, JsonRpcResponse):
                    return message.result
                self._handle_message(message, attempt)
        except (ExchangeTimeout, ServerError):
            response = exchange.take_response()
            if response is None:
                raise
            if isinstance(response, JsonRpcResponse):
                return response.result
            self._handle_message(response, attempt)
            raise
        finally:
            exchange.close()
        raise self._no_response_error(attempt)

    async def _read_exchange(
        self, exchange: AbstractAsyncContextManager[AsyncIterator[JsonRpcMessage]], attempt: "InFlightRequest"
    ) -> Raw:
        """Read the messages of *exchange* until the response arrives, and return its result.

        Progress notifications extend the deadline of *attempt*. Raises MalformedMessage if there is no response.
        """
        async with exchange as messages:
            async for message in messages:
                self.last_received_at = self._now()
                if isinstance(message, JsonRpcResponse):
                    return message.result
                self._handle_message(message, attempt)
        raise self._no_response_error(attempt)

    def _handle_message(self, message: JsonRpcMessage, attempt: "InFlightRequest") -> None:
        """Handle a message that is not a result; raise the exception for an error response."""
        if isinstance(message, JsonRpcErrorResponse):
            raise self.to_exception(message.error, attempt.call.METHOD)
        if not isinstance(message, JsonRpcNotification) or not attempt.handle_notification(
            message, self.last_received_at
        ):
            self.on_unsolicited(message, attempt.context)

    def _no_response_error(self, attempt: "InFlightRequest") -> MalformedMessage:
        """Return the error for an exchange that ended without a response."""
        return MalformedMessage(
            f"The server {self.server!r} ended its answer to {attempt.call.METHOD} without a result.",
            server=self.server,
        )

    def context_of(self, call: ClientRequest[Any]) -> ServerRequestContext:
        """Return a context for requests that the server sends during *call*.

        Its `call_number` is 0, because *call* may not have been sent yet.
        """
        return ServerRequestContext(call.METHOD, _call_detail(call))

    def single_context(self) -> ServerRequestContext:
        """Return the context for a server request that did not arrive as part of a response.

        Over stdio, such requests do not indicate which client request they belong to. If only one client request is in
        flight, its context is returned; otherwise, the context lists all client requests in flight as candidates.
        """
        calls = [attempt.context for attempt in self.in_flight.values() if attempt.call.METHOD != Ping.METHOD]
        if len(calls) == 1:
            return calls[0]
        return ServerRequestContext(
            candidate_calls=tuple(call.call_number for call in calls),
            task_contexts=tuple(one for call in calls for one in call.task_contexts),
        )

    def _build_params(
        self, call: ClientRequest[Any], token: int | None, meta: bytes, extra_params: Mapping[str, Any] | None
    ) -> Raw:
        body = encode(call)
        if extra_params:
            body = _insert_members(body, encode(extra_params)[1:-1])
        if token is not None:
            progress = b'"progressToken":%d' % token
            meta = progress + b"," + meta if meta else progress
        if meta:
            body = _insert_members(body, b'"_meta":{%b}' % meta)
        return Raw() if body == b"{}" else Raw(body)

    def to_exception(self, error: ErrorData, method: str) -> RequestRefused:
        """Return the exception for an error response to a request with the given *method*."""
        return map_error(self.server, method, error, self.era)


class InFlightRequest(PausableDeadline):
    """A request in flight: its deadline, and the delivery of its notifications to the caller."""

    __slots__ = ("_meter", "_on_notification", "_task_context", "call", "error", "number")

    def __init__(
        self,
        clock: DeadlineTarget,
        deadline: float,
        max_deadline: float,
        extension: float,
        call: ClientRequest[Any],
        number: int,
        on_notification: NotificationFn | None,
    ) -> None:
        super().__init__(clock, deadline, max_deadline, extension)
        self.call = call
        self.number = number
        self.error: ServerError | None = None
        """The error with which `fail` ended the request, if its target is a cancel scope."""
        self._on_notification = on_notification
        self._task_context = copy_context()
        self._meter = None if on_notification is None else ProgressThrottle(on_notification)

    @property
    def context(self) -> ServerRequestContext:
        """The context for requests that the server sends during this request."""
        return ServerRequestContext(
            self.call.METHOD, _call_detail(self.call), self.number, task_contexts=(self._task_context,)
        )

    def fail(self, error: ServerError) -> None:
        """End the request with *error*; return without waiting."""
        clock = self.target
        if isinstance(clock, PipeExchange):
            clock.fail(error)
        elif isinstance(clock, anyio.CancelScope):
            self.error = error
            clock.cancel()

    def handle_notification(self, message: JsonRpcNotification, now: float) -> bool:
        """Pass a progress or log message on to the caller; return False if the notification was not handled.

        Notifications of other kinds are not handled. If the caller wants no notifications, none are handled, but
        progress still extends the deadline. *now* is the event loop's time. A notification with invalid params is
        dropped, which counts as handled.
        """
        notification = parse_notification(message.method, message.params)
        if notification is None:
            return True
        is_progress = isinstance(notification, ProgressNotification)
        if is_progress:
            self.extend(now)
        if is_progress and self._meter is not None:
            self._meter.put(notification)
            return True
        if isinstance(notification, LoggingMessageNotification) and self._on_notification is not None:
            self._on_notification(notification)
            return True
        return False

    def close(self) -> int:
        """Pass on the last progress notification if it was delayed; return how many notifications were dropped."""
        if self._meter is None:
            return 0
        self._meter.close()
        return self._meter.dropped_count


def _insert_members(body: bytes, members: bytes) -> bytes:
    if not members:
        return body
    return b"{%b}" % members if body == b"{}" else b"%b,%b}" % (body[:-1], members)


def _call_detail(call: ClientRequest[Any]) -> str:
    return getattr(call, "name", None) or getattr(call, "uri", None) or ""
