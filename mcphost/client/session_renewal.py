"""A session that an HTTP server forgot, opened anew on the same channel, and what was refused said once more.

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
# What a server keeps in its session, said again in the next one.
_STATEFUL_METHODS = frozenset({"resources/subscribe", "resources/unsubscribe", "logging/setLevel"})
_MAX_STATE_REQUESTS = 10_000

RenewFn = Callable[[], Awaitable[ServerFacts]]


class SessionRenewal:
    """One session after the other; all calls that find it gone share the next one.

    `renew` is the handshake. `renewed` hears what was learnt from it, and may raise ServerError; `ended` hears that
    the connection is of no use any more.
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
        self._is_interrupted = (
            False  # opening one was broken off: nobody knows what the server makes of the next request
        )
        self._state_requests: dict[str, ClientRequest[Any]] = {}

    async def send(self, send: Callable[[], Awaitable[T]]) -> T:
        """What `send` gives; sent once more when the session was forgotten. Raises what `repeat` raises."""
        count = self.generation or await self.wait_for_renewal()
        try:
            return await send()
        except SessionExpired:
            return await self.resend(count, send)

    @property
    def generation(self) -> int:
        """Which session this is, from 1 on; 0 while a new one is being opened, or has to be."""
        return 0 if self._is_interrupted or self._lock.locked() else self._generation

    async def wait_for_renewal(self) -> int:
        """The same, once the new one is open. Raises ConnectionLost when that fails."""
        async with self._lock:
            count, torn = self._generation, self._is_interrupted
        if torn:
            await self._renew_once(count)
        return self._generation

    async def resend(self, generation: int, send: Callable[[], Awaitable[T]]) -> T:
        """What was refused in session `count`, sent in the next one.

        Raises ConnectionLost when that is forgotten, too, and whatever `send` raises.
        """
        await self._renew_once(generation)
        try:
            return await send()
        except SessionExpired as error:
            raise self._fail(error) from error

    def remember_state(self, call: ClientRequest[Any]) -> None:
        """A call that succeeded; what it set must hold in the next session, too."""
        if call.METHOD not in _STATEFUL_METHODS:
            return
        uri = getattr(call, "uri", "")
        if call.METHOD == "resources/unsubscribe":
            self._state_requests.pop("resources/subscribe" + uri, None)
        elif len(self._state_requests) < _MAX_STATE_REQUESTS:
            self._state_requests[call.METHOD + uri] = call

    async def renew(self) -> None:
        """Open a new session, or wait for the one that is being opened. Raises ConnectionLost when that fails."""
        await self._renew_once(self._generation)

    async def _renew_once(self, generation: int) -> None:
        """Open a new session, unless somebody did since `count`."""
        async with self._lock:
            if generation != self._generation or self._renew is None:
                return
            self._is_interrupted = True
            try:
                facts = await self._renew()
                for call in tuple(self._state_requests.values()):
                    with suppress(RequestRefused):  # the server changed; the others still count
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
