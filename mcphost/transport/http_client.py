"""HTTP requests to one server: identity, redirects inside the origin, and errors that people understand."""

import copy
from collections.abc import Callable, Mapping
from shlex import quote

import anyio.lowlevel

from mcphost.errors import CannotStart, ConnectionLost, MalformedMessage, NotSent
from mcphost.serialization import Data
from mcphost.transport.channel import NO_HEADERS, Authorizer, Interrupted, Unauthorized
from mcphost.transport.http_pool import Origin
from mcphost.transport.http_response import MAY_HAVE_RUN, Answer
from mcphost.transport.mcp_headers import is_loopback, origin
from mcphost.transport.proxies import proxy_for
from mcphost.unicode_forms import join_url

MAX_REDIRECTS = 5
MAX_RECOVERIES = 2
"""How often one request is sent again with another identity before a person is needed."""
# 303 is missing: it says that the answer to what was posted is to be fetched elsewhere, which MCP does not know.
_REDIRECTS = frozenset({301, 302, 307, 308})
EVENTS = "text/event-stream"


class HttpRefusal(Data, frozen=True):
    """The Refusal of channel.Authorizer."""

    status: int
    challenge: str
    sent: str
    nonce: str

    def __repr__(self) -> str:
        return f"HttpRefusal({self.status})"


class HttpClient:
    """Asks one address; `headers` are the configured ones, already expanded."""

    def __init__(
        self,
        name: str,
        url: str,
        headers: Mapping[str, str],
        *,
        pool: Origin,
        warn: Callable[[str], None],
        authorizer: Authorizer | None = None,
    ) -> None:
        self.name = name
        self.url = url
        self.warn = warn
        self._configured = {name.lower(): value for name, value in headers.items()}
        self._pool = pool
        self._origin = origin(url)
        self._authorizer = authorizer

    async def ask(self, verb: str, body: bytes, headers: Mapping[str, str]) -> Answer:
        """Send one HTTP request with identity, redirects inside the origin, and quiet recovery from 401 or 403.

        What is sent again is the same to the byte, as whoever we are by then; nothing is once this was cancelled.

        Raises NotSent, Interrupted, Unauthorized, SignInNeeded, MalformedMessage.
        """
        recoveries = 0
        while True:
            identity = NO_HEADERS
            if self._authorizer is not None:
                identity = await self._authorizer.headers(verb, self.url)
                # A renewal is not broken off, so whoever waits may have been cancelled in it; then nothing is sent.
                await anyio.lowlevel.checkpoint_if_cancelled()
            answer = await self._follow(verb, body, {**headers, **identity})
            if answer.status not in (401, 403):
                return answer
            challenge = answer.header("www-authenticate")
            if answer.status == 403 and not challenge:
                return answer  # an Origin check or a firewall, not a question of who we are
            sent = identity.get("authorization", "")
            refusal = HttpRefusal(answer.status, challenge, sent, answer.header("dpop-nonce"))
            text = await answer.start_of_body()
            answer.close()
            recoveries += 1
            if recoveries > MAX_RECOVERIES or self._authorizer is None or not await self._authorizer.recover(refusal):
                shown = " ".join(text[:800].decode(errors="replace").split())[:200]
                raise Unauthorized(
                    f"The server {self.name!r} wants an account (HTTP {answer.status}). {shown}".rstrip(),
                    f"Sign in: mcphost login {quote(self.name)}"
                    if self._authorizer
                    else "Check its headers in mcp.json.",
                    server=self.name,
                    refusal=refusal,
                )

    async def ask_once(self, verb: str, body: bytes, headers: Mapping[str, str]) -> Answer:
        """As `ask`, for a last word: whoever we are now, without renewal and without recovery from a refusal."""
        identity = NO_HEADERS if self._authorizer is None else self._authorizer.current(verb, self.url)
        return await self._follow(verb, body, {**headers, **identity})

    def at(self, url: str) -> "HttpClient":
        """The same identity at another address of the same origin."""
        other = copy.copy(self)
        other.url = url
        return other

    async def close(self) -> None:
        """Drop every connection."""
        await self._pool.close()

    async def _follow(self, verb: str, body: bytes, headers: Mapping[str, str]) -> Answer:
        full = {
            "accept": "application/json, text/event-stream" if verb == "POST" else EVENTS,
            "accept-encoding": "identity",
            "user-agent": "mcphost",
        }
        if verb == "POST":
            full["content-type"] = "application/json"
        full |= self._configured
        full |= {name.lower(): value for name, value in headers.items()}
        url = self.url
        for _ in range(MAX_REDIRECTS + 1):
            answer = await self._once(verb, url, body, full)
            if answer.status not in _REDIRECTS or not answer.header("location"):
                return answer
            answer.close()
            url = self._redirected(url, answer.header("location"))
        raise MalformedMessage(f"The server {self.name!r} redirects more than {MAX_REDIRECTS} times.", server=self.name)

    def _redirected(self, url: str, location: str) -> str:
        try:
            url = join_url(url, location)
            same = origin(url) == self._origin
        except (ValueError, MalformedMessage) as error:
            raise MalformedMessage(
                f"The server {self.name!r} redirects to {location[:200]!r}, which is no address.", server=self.name
            ) from error
        if not same:
            raise MalformedMessage(
                f"The server {self.name!r} redirects to another origin ({url[:200]}), which is not followed.",
                "If that is the right address, configure it.",
                server=self.name,
            )
        return url

    async def _once(self, verb: str, url: str, body: bytes, headers: Mapping[str, str]) -> Answer:
        try:
            return Answer(await self._pool.request(verb, url, headers.items(), body), self._pool, self.name)
        except NotSent as error:
            raise NotSent(
                f"The server {self.name!r} at {url} cannot be reached: {error.message}.",
                error.hint or "Check the address and that the server runs.",
                server=self.name,
            ) from error
        except ConnectionLost as error:
            raise Interrupted(
                f"The server {self.name!r} at {url} broke off before it answered: {error.message}.",
                MAY_HAVE_RUN,
                server=self.name,
            ) from error
        except MalformedMessage as error:
            raise MalformedMessage(
                f"The server {self.name!r} sent a broken HTTP answer: {error.message}.", MAY_HAVE_RUN, server=self.name
            ) from error


def client_for(
    name: str,
    url: str,
    headers: Mapping[str, str],
    *,
    warn: Callable[[str], None],
    authorizer: Authorizer | None = None,
    ca_file: str = "",
    ca_digest: str = "",
) -> HttpClient:
    """A client of an address, through a proxy when the environment has one. Nothing is sent. Raises CannotStart."""
    try:
        scheme, host, _ = origin(url)  # an address that cannot be one is told before anything starts
        for header, value in headers.items():
            if any(character in header + value for character in "\r\n\0"):
                raise MalformedMessage(f"The header {header!r} holds a line break.")
        pool = Origin(url, proxy=proxy_for(url), ca_file=ca_file, ca_digest=ca_digest)
    except MalformedMessage as error:
        raise CannotStart(
            f"The server {name!r} cannot be reached. {error.message}", "Correct it in mcp.json.", server=name
        ) from error
    if scheme == "http" and not is_loopback(host):
        warn(
            f"The server {name!r} is reached without encryption: everybody on the way can read and change what is said."
        )
    return HttpClient(name, url, headers, pool=pool, warn=warn, authorizer=authorizer)
