"""The road to a server through a proxy: httpx does what our own HTTP/1.1 client leaves out, at a library's price.

`proxies` decides whether it is taken.
"""

from collections.abc import AsyncIterator, Iterable
from typing import TYPE_CHECKING

import anyio
from anyio.abc import TaskGroup

from mcphost.errors import ConnectionLost, MalformedMessage
from mcphost.transport.http1 import CONNECT_SECONDS, IDLE_CONNECTIONS, IDLE_SECONDS

if TYPE_CHECKING:
    import httpx


class ProxiedAnswer:
    """An answer whose head was read; see http1.Connection."""

    def __init__(self, response: "httpx.Response") -> None:
        self.status = response.status_code
        self.headers = {name.lower(): value for name, value in response.headers.items()}
        self._response = response
        self._body: AsyncIterator[bytes] | None = None

    async def chunk(self) -> bytes | None:
        """The next piece of the body, undecoded; None at its end. Raises ConnectionLost."""
        import httpx

        if self._body is None:
            self._body = self._response.aiter_raw()
        try:
            return await anext(self._body, None)
        except httpx.HTTPError as error:
            raise ConnectionLost(str(error) or type(error).__name__) from error

    async def close(self) -> None:
        """Give the connection back, or drop it when the body was not read to its end."""
        with anyio.CancelScope(shield=True):
            await self._response.aclose()


class Proxied:
    """Connections to one origin through one proxy; see http1.Origin."""

    def __init__(self, proxy: str, tasks: TaskGroup) -> None:
        """`tasks` owns the closing of answers; it must outlive this."""
        import httpx

        self._tasks = tasks

        limits = httpx.Limits(max_keepalive_connections=IDLE_CONNECTIONS, keepalive_expiry=IDLE_SECONDS)
        # The transport alone: no redirects, cookies, or environment of httpx's own behind our back.
        self._transport = httpx.AsyncHTTPTransport(proxy=proxy, limits=limits)
        self._open: set[ProxiedAnswer] = set()

    async def request(self, verb: str, url: str, headers: Iterable[tuple[str, str]], body: bytes) -> ProxiedAnswer:
        """Send a request and wait for the head of its answer. Raises ConnectionLost, MalformedMessage."""
        import httpx

        timeouts = {"connect": CONNECT_SECONDS, "read": None, "write": None, "pool": CONNECT_SECONDS}
        try:
            request = httpx.Request(verb, url, headers=list(headers), content=body, extensions={"timeout": timeouts})
            answer = ProxiedAnswer(await self._transport.handle_async_request(request))
        except httpx.RemoteProtocolError as error:
            raise MalformedMessage(str(error)) from error
        except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
            raise ConnectionLost(f"through the proxy: {error or type(error).__name__}") from error
        self._open.add(answer)
        return answer

    def release(self, connection: ProxiedAnswer) -> None:
        """Take an answer back."""
        self._open.discard(connection)
        self._tasks.start_soon(connection.close)

    async def close(self) -> None:
        """Drop everything."""
        with anyio.CancelScope(shield=True):
            for answer in tuple(self._open):
                await answer.close()
            await self._transport.aclose()
