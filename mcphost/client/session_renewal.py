"""A session that an HTTP server forgot, opened anew on the same channel, and what was refused said once more.

Specification 2025-11-25, basic/transports, "Session Management": a 404 to a request with a session id means that the
session is over and the request was not read.
"""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, TypeVar

import anyio

from mcphost.client.requests import Caller
from mcphost.client.session import ServerFacts
from mcphost.errors import ConnectionLost, Refused, ServerError
from mcphost.protocol.base import Call
from mcphost.transport.channel import SessionExpired

T = TypeVar("T")
# What a server keeps in its session, said again in the next one.
_SETTING = frozenset({"resources/subscribe", "resources/unsubscribe", "logging/setLevel"})
_KEPT_LIMIT = 10_000

Renew = Callable[[], Awaitable[ServerFacts]]


class Renewal:
    """One session after the other; all calls that find it gone share the next one.

    `renew` is the handshake. `renewed` hears what was learnt from it, and may raise ServerError; `ended` hears that
    the connection is of no use any more.
    """

    def __init__(
        self,
        caller: Caller,
        renew: Renew | None,
        renewed: Callable[[ServerFacts], None],
        ended: Callable[[ConnectionLost], None],
    ) -> None:
        self._caller = caller
        self._renew = renew
        self._renewed = renewed
        self._ended = ended
        self._lock = anyio.Lock()
        self._count: int = 1
        self._torn = False  # opening one was broken off: nobody knows what the server makes of the next request
        self._kept: dict[str, Call[Any]] = {}

    async def through(self, send: Callable[[], Awaitable[T]]) -> T:
        """What `send` gives; sent once more when the session was forgotten. Raises what `repeat` raises."""
        count = self.count or await self.settled()
        try:
            return await send()
        except SessionExpired:
            return await self.repeat(count, send)

    @property
    def count(self) -> int:
        """Which session this is, from 1 on; 0 while a new one is being opened, or has to be."""
        return 0 if self._torn or self._lock.locked() else self._count

    async def settled(self) -> int:
        """The same, once the new one is open. Raises ConnectionLost when that fails."""
        async with self._lock:
            count, torn = self._count, self._torn
        if torn:
            await self._again(count)
        return self._count

    async def repeat(self, count: int, send: Callable[[], Awaitable[T]]) -> T:
        """What was refused in session `count`, sent in the next one.

        Raises ConnectionLost when that is forgotten, too, and whatever `send` raises.
        """
        await self._again(count)
        try:
            return await send()
        except SessionExpired as error:
            raise self._over(error) from error

    def keep(self, call: Call[Any]) -> None:
        """A call that succeeded; what it set must hold in the next session, too."""
        if call.METHOD not in _SETTING:
            return
        uri = getattr(call, "uri", "")
        if call.METHOD == "resources/unsubscribe":
            self._kept.pop("resources/subscribe" + uri, None)
        elif len(self._kept) < _KEPT_LIMIT:
            self._kept[call.METHOD + uri] = call

    async def now(self) -> None:
        """Open a new session, or wait for the one that is being opened. Raises ConnectionLost when that fails."""
        await self._again(self._count)

    async def _again(self, count: int) -> None:
        """Open a new session, unless somebody did since `count`."""
        async with self._lock:
            if count != self._count or self._renew is None:
                return
            self._torn = True
            try:
                facts = await self._renew()
                for call in tuple(self._kept.values()):
                    with suppress(Refused):  # the server changed; the others still count
                        await self._caller.call(call)
                self._count += 1
                self._torn = False
                self._renewed(facts)
            except ServerError as error:
                raise self._over(error) from error

    def _over(self, error: ServerError) -> ConnectionLost:
        text = f"The server {self._caller.server!r} forgot our session, and a new one did not last: {error.message}"
        lost = ConnectionLost(text, error.hint, server=self._caller.server)
        self._ended(lost)
        return lost
