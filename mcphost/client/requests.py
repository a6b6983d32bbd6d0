"""Sends one Call over a Channel: encode, stamp, deadline, notices, one decode."""

import asyncio
import itertools
import secrets
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from functools import cached_property
from typing import Any, Protocol, TypeVar

import anyio

from mcphost.client.error_mapping import refused
from mcphost.client.progress import ProgressMeter
from mcphost.client.retries import Retries
from mcphost.client.session import AgainFn, AskContext, NoticeFn
from mcphost.client.timeouts import Clock, Patience, Pauses, Waiting, unhurried
from mcphost.errors import DeadlinePassed, MalformedMessage, NotSent, Refused, ServerError
from mcphost.protocol.base import Call
from mcphost.protocol.jsonrpc import ErrorResponse, Message, Notification, Request, Response, RpcError
from mcphost.protocol.lifecycle import Ping
from mcphost.protocol.notifications import LogMessage, Progress, notice
from mcphost.serialization import Raw, decode, encode
from mcphost.transport.channel import NO_HEADERS, Channel, HttpStatus, Interrupted, Refusal, Unauthorized
from mcphost.transport.pipe_exchange import Exchange, Expired

R = TypeVar("R")


class SignIn(Protocol):
    """See auth.oauth_provider.OAuth.sign_in."""

    async def __call__(self, refusal: Refusal, attempt: int) -> None:
        """Have a person sign in, so that the request may be sent again. Raises SignInNeeded."""
        ...


async def repeated(again: AgainFn | None, *, doubtful: bool = False) -> None:
    """A request is about to be sent, or sent again; see Session.request. Raises what `again` raises."""
    if again is not None:
        await again(doubtful)


def _ignore(message: Message, context: AskContext) -> None:
    """Before the handshake nothing but answers counts."""


def _silent(text: str) -> None:
    """Nobody listens."""


def _unheard(number: int) -> None:
    """Nobody wants to know."""


class Caller:
    """Turns calls into exchanges for one channel. `stray` gets what arrives inside an exchange but is no notice.

    `tell` hears that a busy server makes a call wait.
    """

    def __init__(
        self,
        channel: Channel,
        server: str,
        patience: Patience,
        stray: Callable[[Message, AskContext], None] = _ignore,
        tell: Callable[[str], None] = _silent,
    ) -> None:
        self._channel = channel
        self.server = server
        self.patience = patience
        self.stray = stray
        self._tell = tell
        # A stale answer from an earlier process or connection cannot fit by chance.
        self._ids = itertools.count(secrets.randbelow(1_000_000) + 1)
        self.running: dict[int, Attempt] = {}
        self.pauses = Pauses(self.running, hard=patience.hard)
        self.sign_in: SignIn | None = None
        """What has a person sign in; None while somebody else does that. It takes no time of a call's deadline."""
        self.over: Callable[[int], None] = _unheard
        """Hears the number of each request that is over, however it ended; returns at once."""
        self.heard_at = 0.0  # when the server last said something, on the event loop's clock
        self.dropped_progress = 0

    @cached_property
    def _now(self) -> Callable[[], float]:
        """The clock of the event loop, kept: asking for the running loop is a system call each time."""
        return asyncio.get_running_loop().time

    def next_id(self) -> int:
        """A fresh request id; never used again in this session."""
        return next(self._ids)

    async def call(
        self,
        call: Call[R],
        *,
        deadline: float | None = None,
        on_notice: NoticeFn | None = None,
        again: AgainFn | None = None,
        stamp: bytes = b"",
        headers: Mapping[str, str] = NO_HEADERS,
        extra: Mapping[str, Any] | None = None,
    ) -> R:
        """See Session.request. `stamp` is JSON members for `_meta`, `extra` are further members of params."""
        raw = await self.raw_call(
            call, deadline=deadline, on_notice=on_notice, again=again, stamp=stamp, headers=headers, extra=extra
        )
        return self.decode(raw, call)

    def end(self, error: Callable[[], ServerError]) -> None:
        """End every call in flight with such an error, each with one of its own; returns at once."""
        for attempt in tuple(self.running.values()):
            attempt.end(error())

    def decode(self, raw: Raw, call: Call[R]) -> R:
        """The result of `call`. Raises MalformedMessage naming server and method."""
        try:
            return decode(raw, call.RESULT, f"result of {call.METHOD}")
        except MalformedMessage as error:
            raise MalformedMessage(f"{self.server}: {error.message}", server=self.server) from error

    async def raw_call(
        self,
        call: Call[Any],
        *,
        deadline: float | None = None,
        on_notice: NoticeFn | None = None,
        again: AgainFn | None = None,
        stamp: bytes = b"",
        headers: Mapping[str, str] = NO_HEADERS,
        extra: Mapping[str, Any] | None = None,
        token: int | None = None,
    ) -> Raw:
        """The same, with the result still as JSON. `token`: a `next_id()` taken before, to be the progress token.

        `again` is awaited last before each sending: whoever calls may have waited for a person since it was allowed.
        """
        ident = token
        retries: Retries | None = None
        refusals = 0
        await repeated(again)
        while True:
            try:
                return await self._attempt(call, deadline, on_notice, stamp, headers, extra, ident, token)
            except Unauthorized as error:
                if self.sign_in is None:
                    raise
                refusals += 1
                with unhurried():
                    await self.sign_in(error.refusal, refusals)
                await repeated(again, doubtful=True)
                ident = None
            except (HttpStatus, Interrupted, NotSent) as error:
                retries = retries or Retries(self.server, call.METHOD, self._tell, on_notice)
                await retries.pause(error)
                await repeated(again)
                ident = None

    async def _attempt(
        self,
        call: Call[Any],
        deadline: float | None,
        on_notice: NoticeFn | None,
        stamp: bytes,
        headers: Mapping[str, str],
        extra: Mapping[str, Any] | None,
        ident: int | None,
        token: int | None,
    ) -> Raw:
        ident = self.next_id() if ident is None else ident
        request = Request(ident, call.METHOD, self._params(call, (token or ident) if on_notice else None, stamp, extra))
        start = self._now()
        until = start + (self.patience.base if deadline is None else deadline)
        most = start + self.patience.most if deadline is None else until
        exchange = self._channel.exchange(request, headers=headers)
        clock = exchange if isinstance(exchange, Exchange) else anyio.CancelScope()
        attempt = self.running[ident] = Attempt(clock, until, most, self.patience.base, call, ident, on_notice)
        try:
            clock.deadline = until
            if isinstance(clock, Exchange):
                return await self._converse(exchange, attempt)
            with clock:
                return await self._converse(exchange, attempt)
        except Expired:
            pass  # the same as a scope that was cancelled
        except ServerError as error:
            error.server = error.server or self.server
            raise
        finally:
            del self.running[ident]
            self.over(ident)
            if on_notice is not None:
                self.dropped_progress += attempt.close()
        if attempt.error is not None:
            raise attempt.error
        raise DeadlinePassed(
            f"The server {self.server!r} did not answer {call.METHOD} within {self._now() - start:.0f} s.",
            "It was told that nobody waits any more.",
            server=self.server,
        )

    async def _converse(self, exchange: AbstractAsyncContextManager[AsyncIterator[Message]], attempt: "Attempt") -> Raw:
        """Read one exchange to its answer; progress gives it more time."""
        method = attempt.call.METHOD
        async with exchange as messages:
            async for message in messages:
                self.heard_at = self._now()
                if isinstance(message, Response):
                    return message.result
                if isinstance(message, ErrorResponse):
                    raise self.refused(message.error, method)
                if not isinstance(message, Notification) or not attempt.take(message, self.heard_at):
                    self.stray(message, attempt.context)
        raise MalformedMessage(
            f"The server {self.server!r} ended its answer to {method} without a result.", server=self.server
        )

    def context(self, call: Call[Any]) -> AskContext:
        """What belongs to that call belongs to this."""
        return AskContext(call.METHOD, _detail(call))

    def only_context(self) -> AskContext:
        """The one running call, when there is exactly one; on a pipe nothing else ties an ask to a call."""
        calls = [attempt.context for attempt in self.running.values() if attempt.call.METHOD != Ping.METHOD]
        return calls[0] if len(calls) == 1 else AskContext(running=tuple(call.number for call in calls))

    def _params(self, call: Call[Any], token: int | None, stamp: bytes, extra: Mapping[str, Any] | None) -> Raw:
        body = encode(call)
        if extra:
            body = _splice(body, encode(extra)[1:-1])
        if token is not None:
            progress = b'"progressToken":%d' % token
            stamp = progress + b"," + stamp if stamp else progress
        if stamp:
            body = _splice(body, b'"_meta":{' + stamp + b"}")
        return Raw() if body == b"{}" else Raw(body)

    def refused(self, error: RpcError, method: str) -> Refused:
        """The error of a server as ours; not raised."""
        return refused(self.server, method, error)


class Attempt(Waiting):
    """One request in flight: its deadline, and what its server says beside the answer.

    It is one object for all of that because it is made for each request.
    """

    __slots__ = ("_meter", "_tell", "call", "error", "number")

    def __init__(
        self, clock: Clock, until: float, most: float, base: float, call: Call[Any], number: int, tell: NoticeFn | None
    ) -> None:
        super().__init__(clock, until, most, base)
        self.call = call
        self.number = number
        self.error: ServerError | None = None
        """What ended it, where a cancel scope did."""
        self._tell = tell
        self._meter = None if tell is None else ProgressMeter(tell)

    @property
    def context(self) -> AskContext:
        """What a server's ask belongs to when it belongs to this."""
        return AskContext(self.call.METHOD, _detail(self.call), self.number)

    def end(self, error: ServerError) -> None:
        """End it with that error; returns at once."""
        clock = self.clock
        if isinstance(clock, Exchange):
            clock.fail(error)
        elif isinstance(clock, anyio.CancelScope):
            self.error = error
            clock.cancel()

    def take(self, message: Notification, now: float) -> bool:
        """Pass progress and log messages on to whoever made the call; False for what is not for the call.

        Progress gives it more time, also when nobody is told of it.
        """
        said = notice(message.method, message.params)
        if said is None:
            return True
        is_progress = isinstance(said, Progress)
        if is_progress:
            self.progress(now)
        if is_progress and self._meter is not None:
            self._meter.put(said)
            return True
        if isinstance(said, LogMessage) and self._tell is not None:
            self._tell(said)
            return True
        return False

    def close(self) -> int:
        """Return how many values of progress nobody was told; the call is over."""
        if self._meter is None:
            return 0
        self._meter.close()
        return self._meter.dropped


def _splice(body: bytes, members: bytes) -> bytes:
    if not members:
        return body
    return b"{" + members + b"}" if body == b"{}" else body[:-1] + b"," + members + b"}"


def _detail(call: Call[Any]) -> str:
    return getattr(call, "name", None) or getattr(call, "uri", None) or ""
