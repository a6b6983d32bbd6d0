"""Is a silent server still there? Pings of the handshake era, for as long as a session lasts."""

import asyncio
from collections.abc import Awaitable, Callable

import anyio

from mcphost.client.requests import Caller
from mcphost.client.session import Observer
from mcphost.errors import ConnectionLost, DeadlinePassed, ServerError
from mcphost.protocol.lifecycle import Ping
from mcphost.transport.channel import HttpStatus, SessionExpired

SHORTEST_WAIT = 1.0
LONGEST_WAIT = 10.0
MISSES = 3


class Pulse:
    """Pings after `interval` seconds of silence; three pings missed in a row end the session through `give_up`.

    Nothing is pinged while a call runs: the call has a deadline of its own, and many servers do one thing at a time,
    so that a ping behind a long tool would be missed by a server in good health (specification: basic/utilities/ping).
    """

    def __init__(
        self,
        caller: Caller,
        observer: Observer,
        interval: float,
        give_up: Callable[[ConnectionLost], None],
        renew: Callable[[], Awaitable[None]],
    ) -> None:
        """`renew` opens a new session where the old one was forgotten; it gives up itself when that fails."""
        self._caller = caller
        self._observer = observer
        self._interval = interval
        self._wait = max(SHORTEST_WAIT, min(LONGEST_WAIT, interval))
        self._give_up = give_up
        self._renew = renew
        self.missed = 0

    async def run(self) -> None:
        """Until cancelled, or until the connection is lost. An interval of 0 means never."""
        loop = asyncio.get_running_loop()
        missed = 0
        while self._interval > 0:
            if self._caller.running:
                missed = 0
                await anyio.sleep(self._interval)
                continue
            quiet = loop.time() - self._caller.heard_at
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
                self.missed += 1
                self._observer.warn(f"The server {self._caller.server!r} missed a ping ({missed} of {MISSES}): {why}")
            if missed == MISSES:
                self._give_up(self._lost())
                return
            if why:
                await anyio.sleep(self._wait)
            else:
                self._caller.heard_at = loop.time()

    async def _ping(self) -> str:
        """Why no answer came; empty when one did. Any answer counts, a refusal too: somebody is there."""
        try:
            await self._caller.call(Ping(), deadline=self._wait)
        except SessionExpired:
            raise
        except (DeadlinePassed, ConnectionLost) as error:
            return error.message
        except HttpStatus as error:
            return error.message if error.status >= 500 else ""  # a gateway answers for a server that is gone
        except ServerError:
            return ""
        return ""

    def _lost(self) -> ConnectionLost:
        name = self._caller.server
        return ConnectionLost(
            f"The server {name!r} did not answer {MISSES} pings in a row; its connection is taken for lost.",
            "Its log may say what it is doing.",
            server=name,
        )
