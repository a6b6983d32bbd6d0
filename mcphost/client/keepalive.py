"""Is a silent server still there? Pings of the handshake era, for as long as a session lasts."""

import asyncio
from collections.abc import Awaitable, Callable

import anyio

from mcphost.client.requests import RequestSender
from mcphost.client.session import SessionObserver
from mcphost.errors import ConnectionLost, RequestTimeout, ServerError
from mcphost.protocol.lifecycle import Ping
from mcphost.transport.channel import HttpStatusError, SessionExpired

MIN_PING_TIMEOUT = 1.0
MAX_PING_TIMEOUT = 10.0
MAX_MISSED_PINGS = 3


class Keepalive:
    """Pings after `interval` seconds of silence; three pings missed in a row end the session through `give_up`.

    Nothing is pinged while a call runs: the call has a deadline of its own, and many servers do one thing at a time,
    so that a ping behind a long tool would be missed by a server in good health (specification: basic/utilities/ping).
    """

    def __init__(
        self,
        sender: RequestSender,
        observer: SessionObserver,
        interval: float,
        abort: Callable[[ConnectionLost], None],
        renew: Callable[[], Awaitable[None]],
    ) -> None:
        """`renew` opens a new session where the old one was forgotten; it gives up itself when that fails."""
        self._sender = sender
        self._observer = observer
        self._interval = interval
        self._timeout = max(MIN_PING_TIMEOUT, min(MAX_PING_TIMEOUT, interval))
        self._abort = abort
        self._renew = renew
        self.missed_count = 0

    async def run(self) -> None:
        """Until cancelled, or until the connection is lost. An interval of 0 means never."""
        loop = asyncio.get_running_loop()
        missed = 0
        while self._interval > 0:
            if self._sender.in_flight:
                missed = 0
                await anyio.sleep(self._interval)
                continue
            quiet = loop.time() - self._sender.last_received_at
            if quiet < self._interval:
                await anyio.sleep(self._interval - quiet)
                continue
            try:
                why = await self._ping()
            except SessionExpired:
                try:
                    await self._renew()
                except ConnectionLost:
                    return  # it was given up
                continue
            missed = missed + 1 if why else 0
            if why:
                self.missed_count += 1
                self._observer.warn(
                    f"The server {self._sender.server!r} missed a ping ({missed} of {MAX_MISSED_PINGS}): {why}"
                )
            if missed == MAX_MISSED_PINGS:
                self._abort(self._lost_error())
                return
            if why:
                await anyio.sleep(self._timeout)
            else:
                self._sender.last_received_at = loop.time()

    async def _ping(self) -> str:
        """Why no answer came; empty when one did. Any answer counts, a refusal too: somebody is there."""
        try:
            await self._sender.send(Ping(), deadline=self._timeout)
        except SessionExpired:
            raise
        except (RequestTimeout, ConnectionLost) as error:
            return error.message
        except HttpStatusError as error:
            return error.message if error.status >= 500 else ""  # a gateway answers for a server that is gone
        except ServerError:
            return ""
        return ""

    def _lost_error(self) -> ConnectionLost:
        name = self._sender.server
        return ConnectionLost(
            f"The server {name!r} did not answer {MAX_MISSED_PINGS} pings in a row; its connection is taken for lost.",
            "Its log may say what it is doing.",
            server=name,
        )
