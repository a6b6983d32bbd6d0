"""Renewal of expired HTTP sessions; the requests that failed because of the expiry are then sent again.

Specification 2025-11-25, basic/transports, "Session Management": status 404 in response to a request with a session id
means that the session has ended, and that the server did not process the request.
"""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, TypeVar

import anyio

from mcphost.client.requests import RequestSender
from mcphost.client.session import ServerFacts
from mcphost.errors import ConnectionLost, RequestNotSent, RequestRefused, ServerError
from mcphost.protocol.base import ClientRequest
from mcphost.transport.channel import NOT_RUN_HINT, SessionExpired

T = TypeVar("T")
# These requests change the state of the session on the server, so they are repeated in a new session.
_STATEFUL_METHODS = frozenset({"resources/subscribe", "resources/unsubscribe", "logging/setLevel"})
_MAX_STATE_REQUESTS = 10_000

RenewFn = Callable[[], Awaitable[ServerFacts]]


class SessionRenewal:
    """HTTP session of a connection; if it expires, it is renewed once for all affected requests.

    A renewal calls *on_expired* and then *renew*, which repeats the handshake. *on_renewed* receives the ServerFacts of
    the new session, and may raise ServerError. *on_failed* is called if the renewal fails; the connection can then no
    longer be used.
    """

    def __init__(
        self,
        sender: RequestSender,
        renew: RenewFn | None,
        on_expired: Callable[[], None],
        on_renewed: Callable[[ServerFacts], None],
        on_failed: Callable[[ConnectionLost], None],
    ) -> None:
        self._sender = sender
        self._renew = renew
        self._on_expired = on_expired
        self._on_renewed = on_renewed
        self._on_failed = on_failed
        self._lock = anyio.Lock()
        self._generation: int = 1
        self._is_interrupted = False  # whether a renewal was cancelled, so that the state of the server is unknown
        self._state_requests: dict[str, ClientRequest[Any]] = {}

    async def send(self, send: Callable[[], Awaitable[T]]) -> T:
        """Call *send* and return its result; if it raises SessionExpired, renew the session and call *send* once more.

        Other errors raised by *send* propagate. Raises ConnectionLost if the renewal fails, or if the new session
        expires as well.
        """
        generation = self.generation or await self.wait_for_renewal()
        try:
            return await send()
        except SessionExpired:
            return await self.resend(generation, send)

    @property
    def generation(self) -> int:
        """Number of the current session, starting with 1; 0 while a renewal is running or needed."""
        return 0 if self._is_interrupted or self._lock.locked() else self._generation

    async def wait_for_renewal(self) -> int:
        """Wait for a running renewal to finish, and return the new `generation`.

        If the task that was renewing the session was cancelled, this renews the session itself. Raises ConnectionLost
        if the renewal fails.
        """
        async with self._lock:
            generation, is_interrupted = self._generation, self._is_interrupted
        if is_interrupted:
            await self._renew_once(generation)
        return self._generation

    async def resend(self, generation: int, send: Callable[[], Awaitable[T]]) -> T:
        """Renew the session if its number is still *generation*, then call *send* and return its result.

        Errors raised by *send* propagate. Raises ConnectionLost if the renewal fails, or if the new session expires as
        well.
        """
        await self._renew_once(generation)
        try:
            return await send()
        except SessionExpired as error:
            raise self._fail(error) from error

    def remember_state(self, call: ClientRequest[Any]) -> None:
        """Record a successful *call* that must be repeated in a new session, such as a subscription.

        Calls that change no state on the server are ignored.
        """
        if call.METHOD not in _STATEFUL_METHODS:
            return
        uri = getattr(call, "uri", "")
        if call.METHOD == "resources/unsubscribe":
            self._state_requests.pop("resources/subscribe" + uri, None)
        elif len(self._state_requests) < _MAX_STATE_REQUESTS:
            self._state_requests[call.METHOD + uri] = call

    async def renew(self) -> None:
        """Open a new session, or wait for a running renewal. Raises ConnectionLost if that fails."""
        await self._renew_once(self._generation)

    async def _renew_once(self, generation: int) -> None:
        """Open a new session, unless session number *generation* has already been replaced."""
        async with self._lock:
            if generation != self._generation or self._renew is None:
                return
            self._is_interrupted = True
            self._on_expired()
            try:
                facts = await self._renew()
                for call in tuple(self._state_requests.values()):
                    with suppress(RequestRefused):  # the server has changed, but the other requests may still be valid
                        await self._sender.send(call)
                self._generation += 1
                self._is_interrupted = False
                self._on_renewed(facts)
            except ServerError as error:
                raise self._fail(error) from error

    def _fail(self, error: ServerError) -> RequestNotSent:
        """End the connection because of *error*, and return the error to raise for the request that found it.

        The server rejected that request, so it did not run; other requests of the connection may have run.
        """
        text = (
            f"The server {self._sender.server!r} no longer knows the session, and a new one did not last: "
            f"{error.message}"
        )
        hint = "" if isinstance(error, SessionExpired) else error.hint  # a hint about the rejected request
        self._on_failed(ConnectionLost(text, hint, server=self._sender.server))
        not_run = NOT_RUN_HINT if error.may_have_run else error.hint  # *error* may be about the handshake
        return RequestNotSent(text, not_run, server=self._sender.server)
