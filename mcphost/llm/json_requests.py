"""HTTP client for small JSON responses from model servers and providers, and validation of values in them."""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any, Self, cast

import anyio.to_thread

from mcphost.errors import MalformedMessage
from mcphost.http_limits import ResponseLimits
from mcphost.proxies import proxy_for
from mcphost.sanitize import is_sanitized
from mcphost.serialization import Struct, loads

if TYPE_CHECKING:
    import ssl

    import httpx

MAX_BODY_BYTES = 1_000_000
_MAX_NAME_LENGTH = 200
_MAX_COUNT = 10**9


class JsonAnswer(Struct, frozen=True):
    """An HTTP response to a request for JSON.

    `status` is 0 if no response arrived; `body` is set only for status 200.
    """

    status: int = 0
    body: dict[str, Any] | None = None


class JsonClient:
    """HTTP client for small JSON responses; use it in an `async with` block. It does not follow redirects.

    *uses_proxies* enables the proxies configured in the environment; it must be False for requests to this machine.
    *timeout* is in seconds and applies separately to connecting and to each read.
    """

    def __init__(self, *, uses_proxies: bool, timeout: float) -> None:
        self._uses_proxies = uses_proxies
        self._timeout = timeout
        self._clients: dict[str, httpx.AsyncClient] | None = None
        self._tls: ssl.SSLContext | None = None

    async def __aenter__(self) -> Self:
        # Importing httpx takes about 0.1 s, and loading the certificates of the system about 0.04 s.
        await anyio.to_thread.run_sync(import_module, "httpx")
        self._tls = await anyio.to_thread.run_sync(self._load_certificates)
        self._clients = {}
        return self

    def _load_certificates(self) -> "ssl.SSLContext":
        import httpx

        return httpx.create_ssl_context(trust_env=self._uses_proxies)

    def _open_client(self, url: str) -> "httpx.AsyncClient":
        """Return an HTTP client that uses the proxy configured for *url*, if any; create the client on first use.

        Raises MalformedMessage if the proxy cannot be used.
        """
        import httpx

        if self._clients is None or self._tls is None:
            raise RuntimeError("the client is not open")
        proxy = proxy_for(url) if self._uses_proxies else ""
        if proxy not in self._clients:
            self._clients[proxy] = httpx.AsyncClient(
                verify=self._tls,
                trust_env=False,
                proxy=proxy or None,
                follow_redirects=False,
                timeout=self._timeout,
                limits=httpx.Limits(max_keepalive_connections=0),  # ResponseLimits apply to the first request only
            )
        return self._clients[proxy]

    async def __aexit__(self, *_: object) -> None:
        clients, self._clients = self._clients or {}, None
        for client in clients.values():
            await client.aclose()

    async def request(
        self,
        method: str,
        url: str,
        body: Mapping[str, str] | None = None,
        *,
        headers: Mapping[str, str] | None = None,
        limit: int = MAX_BODY_BYTES,
    ) -> JsonAnswer:
        """Send a request and return the response, even if it reports an error. Safe to cancel.

        A body that exceeds *limit* bytes, exceeds the limits of ResponseLimits or is not a JSON object is discarded.
        """
        import httpx

        status = 0
        with suppress(httpx.HTTPError, httpx.InvalidURL, MalformedMessage, ValueError):
            own = {"accept-encoding": "identity", **(headers or {})}
            limits = ResponseLimits()
            extensions = {"trace": limits.trace}
            client = self._open_client(url)
            async with client.stream(method, url, json=body, headers=own, extensions=extensions) as response:
                status = response.status_code
                if status != 200 or "content-encoding" in response.headers:
                    return JsonAnswer(status)
                content = await limits.read_body(response.aiter_raw(), limit)
            answer = loads(content, "answer of a model server")
            return JsonAnswer(status, cast("dict[str, Any]", answer) if isinstance(answer, dict) else None)
        return JsonAnswer(status)


def list_objects(answer: Mapping[str, Any] | None, key: str, limit: int) -> list[dict[str, Any]]:
    """Return the objects among the first *limit* items of `answer[key]`, or [] if `answer[key]` is not a list."""
    entries = None if answer is None else answer.get(key)
    if not isinstance(entries, list):
        return []
    listed = cast("list[Any]", entries)[:limit]
    return [cast("dict[str, Any]", entry) for entry in listed if isinstance(entry, dict)]


def valid_names(names: Iterable[object]) -> list[str]:
    """Return the strings in *names* that can be displayed and used in settings without changes."""
    return [
        name
        for name in names
        if isinstance(name, str) and 0 < len(name) <= _MAX_NAME_LENGTH and name.isprintable() and is_sanitized(name)
    ]


def parse_count(value: object) -> int:
    """Return *value* if it is a positive integer of at most 10**9, else 0."""
    is_count = isinstance(value, int) and not isinstance(value, bool) and 0 < value <= _MAX_COUNT
    return cast("int", value) if is_count else 0
