"""HTTP requests to one server: authorization, redirects within the origin, and readable errors."""

import copy
from collections.abc import Callable, Mapping
from shlex import quote

import anyio.lowlevel

from mcphost.errors import ConnectionLost, MalformedMessage, RequestNotSent, StartupError
from mcphost.serialization import Struct
from mcphost.transport.channel import NO_HEADERS, Authorizer, ResponseInterrupted, Unauthorized
from mcphost.transport.http_pool import HttpConnectionPool
from mcphost.transport.http_response import MAY_HAVE_RUN_HINT, HttpResponse
from mcphost.transport.mcp_headers import is_loopback, parse_origin
from mcphost.transport.proxies import proxy_for
from mcphost.unicode_forms import join_url

MAX_REDIRECTS = 5
MAX_RECOVERIES = 2
"""Maximum number of times a request is resent with new credentials before the user must sign in."""
# 303 is missing: it asks for a GET of another URL after a POST, which MCP does not use.
_REDIRECT_STATUSES = frozenset({301, 302, 307, 308})
EVENT_STREAM = "text/event-stream"


class HttpAuthChallenge(Struct, frozen=True):
    """The AuthChallenge of an HTTP response."""

    status: int
    www_authenticate: str
    authorization: str
    dpop_nonce: str

    def __repr__(self) -> str:
        return f"HttpAuthChallenge({self.status})"


class HttpClient:
    """Sends requests to one URL; *headers* are the configured ones, already expanded."""

    def __init__(
        self,
        name: str,
        url: str,
        headers: Mapping[str, str],
        *,
        pool: HttpConnectionPool,
        warn: Callable[[str], None],
        authorizer: Authorizer | None = None,
    ) -> None:
        self.name = name
        self.url = url
        self.warn = warn
        self._configured_headers = {name.lower(): value for name, value in headers.items()}
        self._pool = pool
        self._origin = parse_origin(url)
        self._authorizer = authorizer

    async def request(self, verb: str, body: bytes, headers: Mapping[str, str]) -> HttpResponse:
        """Send one HTTP request with authorization, redirects within the origin and recovery from 401 or 403.

        A resent request has identical bytes and the current credentials; nothing is resent after cancellation. Raises
        RequestNotSent, ResponseInterrupted, Unauthorized, SignInRequired, MalformedMessage.
        """
        recoveries = 0
        while True:
            identity = NO_HEADERS
            if self._authorizer is not None:
                identity = await self._authorizer.headers(verb, self.url)
                # A token refresh is not interrupted, so the caller may have been cancelled meanwhile; send nothing
                # then.
                await anyio.lowlevel.checkpoint_if_cancelled()
            answer = await self._follow_redirects(verb, body, {**headers, **identity})
            if answer.status not in (401, 403):
                return answer
            challenge = answer.header("www-authenticate")
            if answer.status == 403 and not challenge:
                return answer  # an Origin check or a firewall, not a matter of credentials
            sent = identity.get("authorization", "")
            refusal = HttpAuthChallenge(answer.status, challenge, sent, answer.header("dpop-nonce"))
            text = await answer.read_error_body()
            answer.close()
            recoveries += 1
            if recoveries > MAX_RECOVERIES or self._authorizer is None or not await self._authorizer.recover(refusal):
                shown = " ".join(text[:800].decode(errors="replace").split())[:200]
                raise Unauthorized(
                    f"The server {self.name!r} requires a sign-in (HTTP {answer.status}). {shown}".rstrip(),
                    f"Sign in: mcphost login {quote(self.name)}"
                    if self._authorizer
                    else "Check its headers in mcp.json.",
                    server=self.name,
                    challenge=refusal,
                )

    async def request_without_recovery(self, verb: str, body: bytes, headers: Mapping[str, str]) -> HttpResponse:
        """Send a final request like `request`, with the current credentials, without refresh and recovery."""
        identity = NO_HEADERS if self._authorizer is None else self._authorizer.current_headers(verb, self.url)
        return await self._follow_redirects(verb, body, {**headers, **identity})

    def copy_with_url(self, url: str) -> "HttpClient":
        """Return a client with the same credentials for another URL of the same origin."""
        other = copy.copy(self)
        other.url = url
        return other

    async def close(self) -> None:
        """Close every connection."""
        await self._pool.close()

    async def _follow_redirects(self, verb: str, body: bytes, headers: Mapping[str, str]) -> HttpResponse:
        full = {
            "accept": "application/json, text/event-stream" if verb == "POST" else EVENT_STREAM,
            "accept-encoding": "identity",
            "user-agent": "mcphost",
        }
        if verb == "POST":
            full["content-type"] = "application/json"
        full |= self._configured_headers
        full |= {name.lower(): value for name, value in headers.items()}
        url = self.url
        for _ in range(MAX_REDIRECTS + 1):
            answer = await self._send_once(verb, url, body, full)
            if answer.status not in _REDIRECT_STATUSES or not answer.header("location"):
                return answer
            answer.close()
            url = self._resolve_redirect(url, answer.header("location"))
        raise MalformedMessage(f"The server {self.name!r} redirects more than {MAX_REDIRECTS} times.", server=self.name)

    def _resolve_redirect(self, url: str, location: str) -> str:
        try:
            url = join_url(url, location)
            same = parse_origin(url) == self._origin
        except (ValueError, MalformedMessage) as error:
            raise MalformedMessage(
                f"The server {self.name!r} redirects to {location[:200]!r}, which is not a valid address.",
                server=self.name,
            ) from error
        if not same:
            raise MalformedMessage(
                f"The server {self.name!r} redirects to another origin ({url[:200]}), which is not followed.",
                "If that is the right address, configure it.",
                server=self.name,
            )
        return url

    async def _send_once(self, verb: str, url: str, body: bytes, headers: Mapping[str, str]) -> HttpResponse:
        try:
            return HttpResponse(await self._pool.request(verb, url, headers.items(), body), self._pool, self.name)
        except RequestNotSent as error:
            raise RequestNotSent(
                f"The server {self.name!r} at {url} cannot be reached: {error.message}.",
                error.hint or "Check the address and that the server runs.",
                server=self.name,
            ) from error
        except ConnectionLost as error:
            raise ResponseInterrupted(
                f"The server {self.name!r} at {url} closed the connection before it responded: {error.message}.",
                MAY_HAVE_RUN_HINT,
                server=self.name,
            ) from error
        except MalformedMessage as error:
            raise MalformedMessage(
                f"The server {self.name!r} sent an invalid HTTP response: {error.message}.",
                MAY_HAVE_RUN_HINT,
                server=self.name,
            ) from error


def create_client(
    name: str,
    url: str,
    headers: Mapping[str, str],
    *,
    warn: Callable[[str], None],
    authorizer: Authorizer | None = None,
    ca_file: str = "",
    ca_digest: str = "",
) -> HttpClient:
    """Return a client for *url*, through a proxy if the environment has one. Raises StartupError."""
    try:
        scheme, host, _ = parse_origin(url)  # report an invalid URL before anything starts
        for header, value in headers.items():
            if any(character in header + value for character in "\r\n\0"):
                raise MalformedMessage(f"The header {header!r} holds a line break.")
        pool = HttpConnectionPool(url, proxy=proxy_for(url), ca_file=ca_file, ca_digest=ca_digest)
    except MalformedMessage as error:
        raise StartupError(
            f"The server {name!r} cannot be reached. {error.message}", "Correct it in mcp.json.", server=name
        ) from error
    if scheme == "http" and not is_loopback(host):
        warn(
            f"The server {name!r} is reached without encryption: everybody on the way can read and change what is said."
        )
    return HttpClient(name, url, headers, pool=pool, warn=warn, authorizer=authorizer)
