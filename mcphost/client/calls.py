"""Sends one Call over a Channel: encode, stamp, deadline, notices, one decode."""

import asyncio
import itertools
import secrets
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import anyio

from mcphost.client.session import AskContext, NoticeFn
from mcphost.data import Data, Raw, decode, encode, loads
from mcphost.errors import DeadlinePassed, MalformedMessage, Refused, ServerError
from mcphost.protocol.jsonrpc import ErrorResponse, Message, Notification, Request, Response
from mcphost.protocol.notices import LogMessage, Progress, notice
from mcphost.protocol.wire import Call
from mcphost.transport.channel import NO_HEADERS, Channel

R = TypeVar("R")
SHOWN_ERROR = 2_000
SHOWN_DATA = 64 * 1024


class Patience(Data, frozen=True):
    """How long a call may take: `base` seconds, again after each progress notice, never more than `most`."""

    base: float = 60
    most: float = 600


def _ignore(message: Message, context: AskContext) -> None:
    """Before the handshake nothing but answers counts."""


class Caller:
    """Turns calls into exchanges for one channel. `stray` gets what arrives inside an exchange but is no notice."""

    def __init__(
        self, channel: Channel, server: str, patience: Patience, stray: Callable[[Message, AskContext], None] = _ignore,
    ) -> None:
        self._channel = channel
        self.server = server
        self._patience = patience
        self.stray = stray
        # A stale answer from an earlier process or connection cannot fit by chance.
        self._ids = itertools.count(secrets.randbelow(1_000_000) + 1)
        self.running: dict[int, AskContext] = {}

    def next_id(self) -> int:
        """A fresh request id; never used again in this session."""
        return next(self._ids)

    async def call(
        self, call: Call[R], *, deadline: float | None = None, on_notice: NoticeFn | None = None,
        stamp: bytes = b"", headers: Mapping[str, str] = NO_HEADERS, extra: Mapping[str, Any] | None = None,
    ) -> R:
        """See Session.request. `stamp` is JSON members for `_meta`, `extra` are further members of params."""
        raw = await self.raw_call(
            call, deadline=deadline, on_notice=on_notice, stamp=stamp, headers=headers, extra=extra
        )
        return self.decode(raw, call)

    def decode(self, raw: Raw, call: Call[R]) -> R:
        """The result of `call`. Raises MalformedMessage naming server and method."""
        try:
            return decode(raw, call.RESULT, f"result of {call.METHOD}")
        except MalformedMessage as error:
            raise MalformedMessage(f"{self.server}: {error.message}", server=self.server) from error

    async def raw_call(
        self, call: Call[Any], *, deadline: float | None = None, on_notice: NoticeFn | None = None,
        stamp: bytes = b"", headers: Mapping[str, str] = NO_HEADERS, extra: Mapping[str, Any] | None = None,
    ) -> Raw:
        """The same, with the result still as JSON."""
        ident = self.next_id()
        request = Request(ident, call.METHOD, self._params(call, ident if on_notice else None, stamp, extra))
        context = AskContext(call.METHOD, _detail(call))
        self.running[ident] = context
        loop = asyncio.get_running_loop()
        start = loop.time()  # the clock of anyio's scopes too
        first = self._patience.base if deadline is None else deadline
        scope = anyio.CancelScope(deadline=start + first)
        try:
            with scope:
                async with self._channel.exchange(request, headers=headers) as messages:
                    async for message in messages:
                        if isinstance(message, Response):
                            return message.result
                        if isinstance(message, ErrorResponse):
                            raise self._refused(message, call.METHOD)
                        if isinstance(message, Notification) and self._notify(message, on_notice) and deadline is None:
                            most = start + self._patience.most
                            scope.deadline = min(loop.time() + self._patience.base, most)
                        elif isinstance(message, Request):
                            self.stray(message, context)
        except ServerError as error:
            error.server = error.server or self.server
            raise
        finally:
            del self.running[ident]
        if scope.cancelled_caught:
            waited = loop.time() - start
            raise DeadlinePassed(
                f"The server {self.server!r} did not answer {call.METHOD} within {waited:.0f} s.",
                "It was told that nobody waits any more.", server=self.server,
            )
        raise MalformedMessage(
            f"The server {self.server!r} ended its answer to {call.METHOD} without a result.", server=self.server
        )

    def only_context(self) -> AskContext:
        """The one running call, when there is exactly one; on a pipe nothing else ties an ask to a call."""
        if len(self.running) == 1:
            return next(iter(self.running.values()))
        return AskContext()

    def _params(
        self, call: Call[Any], token: int | None, stamp: bytes, extra: Mapping[str, Any] | None
    ) -> Raw:
        body = encode(call)
        if extra:
            body = _splice(body, encode(extra)[1:-1])
        if token is not None:
            progress = b'"progressToken":%d' % token
            stamp = progress + b"," + stamp if stamp else progress
        if stamp:
            body = _splice(body, b'"_meta":{' + stamp + b"}")
        return Raw() if body == b"{}" else Raw(body)

    def _notify(self, message: Notification, on_notice: NoticeFn | None) -> bool:
        """Hand a notice to the caller; whether it was progress."""
        try:
            said = notice(message.method, message.params)
        except MalformedMessage:
            return False
        if on_notice is not None and isinstance(said, Progress | LogMessage):
            on_notice(said)
        return isinstance(said, Progress)

    def _refused(self, message: ErrorResponse, method: str) -> Refused:
        error = message.error
        text = error.message[:SHOWN_ERROR] or f"no reason given ({method})"
        data: Any = None
        raw = bytes(error.data)
        if raw and len(raw) <= SHOWN_DATA:
            try:
                data = loads(raw)
            except MalformedMessage:
                data = None
        refused = Refused(text, code=error.code, data=data)
        refused.server = self.server
        return refused


def _splice(body: bytes, members: bytes) -> bytes:
    if not members:
        return body
    return b"{" + members + b"}" if body == b"{}" else body[:-1] + b"," + members + b"}"


def _detail(call: Call[Any]) -> str:
    return getattr(call, "name", None) or getattr(call, "uri", None) or ""
