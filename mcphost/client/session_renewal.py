"""Renewal of an HTTP session that the server forgot, with retry of refused requests.

Specification 2025-11-25, basic/transports, "Session Management": a 404 to a request with a session id means that the
session is over and the request was not read.
"""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, TypeVar

import anyio

from mcphost.client.requests import RequestSender
from mcphost.client.session import ServerFacts
from mcphost.errors import ConnectionLost, RequestRefused, ServerError
from mcphost.protocol.base import ClientRequest
from mcphost.transport.channel import SessionExpired

T = TypeVar("T")
# These set state of the server's session and are repeated in the next one.
_STATEFUL_METHODS = frozenset({"resources/subscribe", "resources/unsubscribe", "logging/setLevel"})
_MAX_STATE_REQUESTS = 10_000

RenewFn = Callable[[], Awaitable[ServerFacts]]


class SessionRenewal:
    """The successive sessions of a connection; all calls that find one expired share the next one.

    *renew* is the handshake. *on_renewed* receives its facts and may raise ServerError; *on_failed* is called when the
    connection cannot be used any more.
    """

    def __init__(
        self,
        sender: RequestSender,
        renew: RenewFn | None,
        on_renewed: Callable[[ServerFacts], None],
        on_failed: Callable[[ConnectionLost], None],
    ) -> None:
        self._sender = sender
        self._renew = renew
        self._on_renewed = on_renewed
        self._on_failed = on_failed
        self._lock = anyio.Lock()
        self._generation: int = 1
        self._is_interrupted = False  # a renewal was cancelled: the server's state is unknown
        self._state_requests: dict[str, ClientRequest[Any]] = {}

    async def send(self, send: Callable[[], Awaitable[T]]) -> T:
        """Return the result of *send*, called again if the session expired. Raises the errors of `resend`."""
        generation = self.generation or await self.wait_for_renewal()
        try:
            return await send()
        except SessionExpired:
            return await self.resend(generation, send)

    @property
    def generation(self) -> int:
        """The number of the current session, from 1; 0 while a renewal runs or is needed."""
        return 0 if self._is_interrupted or self._lock.locked() else self._generation

    async def wait_for_renewal(self) -> int:
        """Wait for a running renewal and return the generation. Raises ConnectionLost if it fails."""
        async with self._lock:
            generation, is_interrupted = self._generation, self._is_interrupted
        if is_interrupted:
            await self._renew_once(generation)
        return self._generation

    async def resend(self, generation: int, send: Callable[[], Awaitable[T]]) -> T:
        """Call *send* in the session after *generation*.

        Raises ConnectionLost if that session expires too, and the errors of *send*.
        """
        await self._renew_once(generation)
        try:
            return await send()
        except SessionExpired as error:
            raise self._fail(error) from error

    def remember_state(self, call: ClientRequest[Any]) -> None:
        """Remember a successful call whose effect must also hold in the next session."""
        if call.METHOD not in _STATEFUL_METHODS:
            return
        uri = getattr(call, "uri", "")
        if call.METHOD == "resources/unsubscribe":
            self._state_requests.pop("resources/subscribe" + uri, None)
        elif len(self._state_requests) < _MAX_STATE_REQUESTS:
            self._state_requests[call.METHOD + uri] = call

    async def renew(self) -> None:
        """Open a new session, or wait for a running renewal. Raises ConnectionLost if it fails."""
        await self._renew_once(self._generation)

    async def _renew_once(self, generation: int) -> None:
        """Open a new session, unless another one was opened since *generation*."""
        async with self._lock:
            if generation != self._generation or self._renew is None:
                return
            self._is_interrupted = True
            try:
                facts = await self._renew()
                for call in tuple(self._state_requests.values()):
                    with suppress(RequestRefused):  # the server changed; the others still apply
                        await self._sender.send(call)
                self._generation += 1
                self._is_interrupted = False
                self._on_renewed(facts)
            except ServerError as error:
                raise self._fail(error) from error

    def _fail(self, error: ServerError) -> ConnectionLost:
        text = f"The server {self._sender.server!r} forgot our session, and a new one did not last: {error.message}"
        lost = ConnectionLost(text, error.hint, server=self._sender.server)
        self._on_failed(lost)
        return lost
