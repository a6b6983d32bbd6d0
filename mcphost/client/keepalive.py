"""Keepalive pings of the handshake era."""

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
    """Pings after *interval* seconds of silence; three missed pings in a row call *abort*.

    No ping is sent while a call runs: the call has its own deadline, and many servers handle one request at a time, so
    a healthy server would miss a ping behind a long tool call (specification: basic/utilities/ping).
    """

    def __init__(
        self,
        sender: RequestSender,
        observer: SessionObserver,
        interval: float,
        abort: Callable[[ConnectionLost], None],
        renew: Callable[[], Awaitable[None]],
    ) -> None:
        """Create the keepalive; *renew* opens a new session after SessionExpired and aborts if that fails."""
        self._sender = sender
        self._observer = observer
        self._interval = interval
        self._timeout = max(MIN_PING_TIMEOUT, min(MAX_PING_TIMEOUT, interval))
        self._abort = abort
        self._renew = renew
        self.missed_count = 0

    async def run(self) -> None:
        """Ping until cancelled or until the connection is lost. An interval of 0 disables pings."""
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
                failure = await self._ping()
            except SessionExpired:
                try:
                    await self._renew()
                except ConnectionLost:
                    return  # the session was already aborted
                continue
            missed = missed + 1 if failure else 0
            if failure:
                self.missed_count += 1
                self._observer.warn(
                    f"The server {self._sender.server!r} missed a ping ({missed} of {MAX_MISSED_PINGS}): {failure}"
                )
            if missed == MAX_MISSED_PINGS:
                self._abort(self._lost_error())
                return
            if failure:
                await anyio.sleep(self._timeout)
            else:
                self._sender.last_received_at = loop.time()

    async def _ping(self) -> str:
        """Return why no response came, or "". Any response counts, including an error."""
        try:
            await self._sender.send(Ping(), deadline=self._timeout)
        except SessionExpired:
            raise
        except (RequestTimeout, ConnectionLost) as error:
            return error.message
        except HttpStatusError as error:
            return error.message if error.status >= 500 else ""  # a gateway responds for an unreachable server
        except ServerError:
            return ""
        return ""

    def _lost_error(self) -> ConnectionLost:
        name = self._sender.server
        return ConnectionLost(
            f"The server {name!r} did not answer {MAX_MISSED_PINGS} pings in a row; the connection is considered lost.",
            "Check its log.",
            server=name,
        )
