"""Streamable HTTP: one POST for each exchange, JSON or event stream; sessions and the GET stream of older revisions."""

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from urllib.parse import urljoin

import anyio
from anyio.abc import TaskGroup

from mcphost.data import Data, Raw, encode
from mcphost.errors import CannotStart, ConnectionLost, MalformedMessage, McpHostError, ServerError, SignInNeeded
from mcphost.protocol.jsonrpc import Message, Notification, Request, read, split_batch, write
from mcphost.protocol.revisions import Revision
from mcphost.transport.channel import NO_HEADERS, Authorizer, Channel, SessionExpired
from mcphost.transport.eventstream import EventDecoder
from mcphost.transport.headers import METHOD, SESSION, VERSION, header_value, origin
from mcphost.transport.http1 import Origin
from mcphost.transport.http_answer import Answer, Road
from mcphost.transport.http_exchange import EVENTS, HttpExchange
from mcphost.transport.inbox import Inbox
from mcphost.transport.lines import MESSAGE_LIMIT
from mcphost.transport.proxies import proxy_for
from mcphost.transport.tasks import Tasks

MAX_REDIRECTS = 5
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_GOODBYE = 1.0
_CANCEL_WAIT = 2.0
_LONGEST_WAIT = 60.0
_SILENT_STREAMS = 5


class HttpRefusal(Data, frozen=True):
    """The Refusal of channel.Authorizer."""

    status: int
    challenge: str


class HttpDialer:
    """Reaches one address; `headers` are the configured ones, already expanded."""

    def __init__(
        self,
        name: str,
        url: str,
        headers: Mapping[str, str],
        *,
        warn: Callable[[str], None],
        authorizer: Authorizer | None = None,
        message_limit: int = MESSAGE_LIMIT,
    ) -> None:
        self._name = name
        self._url = url
        self._headers = dict(headers)
        self._warn = warn
        self._authorizer = authorizer
        self._limit = message_limit

    @asynccontextmanager
    async def dial(self) -> AsyncGenerator[Channel]:
        """A channel to the address; nothing is sent before the first exchange. Raises CannotStart."""
        async with Tasks() as tasks:
            pool = road_to(self._name, self._url, self._headers, tasks)
            channel = HttpChannel(self._name, self._url, self._headers, pool, tasks, self._warn)
            channel.authorizer = self._authorizer
            channel.message_limit = self._limit
            try:
                yield channel
            finally:
                await channel.close()
                await pool.close()


def road_to(name: str, url: str, headers: Mapping[str, str], tasks: TaskGroup) -> Road:
    """The connections to an address, through a proxy when the environment has one. Raises CannotStart."""
    try:
        origin(url)  # an address that cannot be one is told before anything starts
        for header, value in headers.items():
            if any(character in header + value for character in "\r\n\0"):
                raise MalformedMessage(f"The header {header!r} holds a line break.")
        if proxy := proxy_for(url):
            from mcphost.transport.proxied import Proxied

            return Proxied(proxy, tasks)
        return Origin(url)
    except MalformedMessage as error:
        raise CannotStart(
            f"The server {name!r} cannot be reached. {error.message}", "Correct it in mcp.json.", server=name
        ) from error


class HttpChannel:
    """See Channel."""

    def __init__(
        self,
        name: str,
        url: str,
        headers: Mapping[str, str],
        pool: Road,
        tasks: TaskGroup,
        warn: Callable[[str], None],
    ) -> None:
        self.name = name
        self.session_id = ""
        self.message_limit = MESSAGE_LIMIT
        self.authorizer: Authorizer | None = None
        self._url = url
        self._origin = origin(url)
        self._configured = {name.lower(): value for name, value in headers.items()}
        self._pool = pool
        self._tasks = tasks
        self._warn = warn
        self._warned = False
        self.odd_count = 0
        self.late_count = 0
        self._inbox = Inbox()
        self._revision: Revision | None = None
        self._closed = False

    # -- the Channel
    def exchange(self, request: Request, *, headers: Mapping[str, str] = NO_HEADERS) -> HttpExchange:
        """See Channel."""
        return HttpExchange(self, request, headers)

    async def send(self, message: Message) -> None:
        """See Channel; in the stateless era nothing but requests is ever posted."""
        if self._stateless:
            return
        answer = await self.ask("POST", write(message), self._common())
        try:
            if not 200 <= answer.status < 300:
                what = message.method if isinstance(message, Notification | Request) else "an answer"
                raise answer.failure(await answer.start_of_body(), what)
        finally:
            answer.close()
        if isinstance(message, Notification) and message.method == "notifications/initialized":
            self._tasks.start_soon(self._listen)

    def unsolicited(self) -> Inbox:
        """See Channel."""
        return self._inbox

    @property
    def counts(self) -> Mapping[str, int]:
        """See Channel."""
        return {"broken messages": self.odd_count, "answers nobody waits for": self.late_count}

    def speak(self, revision: Revision) -> None:
        """See Channel."""
        self._revision = revision

    async def close(self) -> None:
        """End the session at the server, if there is one; a second at most."""
        self._closed = True
        self._inbox.close(ConnectionLost(f"The connection to {self.name!r} was closed.", server=self.name))
        if not self.session_id:
            return
        with anyio.CancelScope(shield=True), anyio.move_on_after(_GOODBYE, shield=True):
            try:
                answer = await self.ask("DELETE", b"", self._common())
                answer.close()
            except McpHostError:
                return  # it is gone either way

    # -- for exchanges
    def headers_for(self, request: Request, given: Mapping[str, str]) -> dict[str, str]:
        """The protocol's headers for one request."""
        if request.method == "initialize":
            return {}
        headers = self._common()
        if self._stateless:
            headers[METHOD] = header_value(request.method)
            for name, value in given.items():
                headers[name] = header_value(value)
        return headers

    def opened(self, request: Request, answer: Answer) -> None:
        """The head of a good answer arrived."""
        if request.method == "initialize":
            ident = answer.header(SESSION)
            # Visible ASCII, says the specification; anything else could not go back in a header.
            if len(ident) <= 4096 and all("!" <= character <= "~" for character in ident):
                self.session_id = ident

    def expired(self) -> SessionExpired:
        """The server forgot the session: whoever reads `unsolicited` hears of it, and a new dial starts a new one."""
        self.session_id = ""
        error = SessionExpired(f"The server {self.name!r} forgot our session.", "Connect again.", server=self.name)
        self._inbox.close(error)
        return error

    async def resume(self, last_id: str) -> Answer | None:
        """A GET for what came after that event; None in the stateless era, which has no such thing."""
        if self._stateless or not (last_id.isascii() and last_id.isprintable()):
            return None
        return await self.ask("GET", b"", self._common() | {"Last-Event-ID": last_id})

    def abandoned(self, request: Request) -> None:
        """An exchange was left before its answer."""
        if not self._stateless and request.method not in ("initialize", "server/discover") and not self._closed:
            self._tasks.start_soon(self._cancel, request)

    def messages(self, data: bytes) -> list[Message]:
        """The messages in one body or event; broken ones are counted and left out."""
        members: list[bytes | Raw] = [data]
        if data[:1] == b"[" and self._revision is not None and self._revision.has_batches:
            try:
                members = list(split_batch(data))
            except MalformedMessage as error:
                members = self._odd(data, error)
        found: list[Message] = []
        for member in members:
            try:
                found.append(read(member))
            except MalformedMessage as error:
                self._odd(member, error)
        return found

    def _odd(self, data: bytes | Raw, error: MalformedMessage) -> list[bytes | Raw]:
        """Something that is no message: said once, and left out."""
        if bytes(data).strip():
            self.odd_count += 1
            if not self._warned:
                self._warned = True
                self._warn(f"The server {self.name!r} sent something that is no message: {error.message[:300]}")
        return []

    async def ask(self, verb: str, body: bytes, headers: Mapping[str, str]) -> Answer:
        """Send one HTTP request with identity, redirects inside the origin, and one recovery from 401 or 403.

        Raises ConnectionLost, SignInNeeded, MalformedMessage.
        """
        answer = await self._follow(verb, body, headers)
        if answer.status not in (401, 403):
            return answer
        if answer.status == 403 and not answer.header("www-authenticate"):
            return answer  # an Origin check or a firewall, not a question of who we are
        refusal = HttpRefusal(answer.status, answer.header("www-authenticate"))
        text = await answer.start_of_body()
        answer.close()
        if self.authorizer is not None and await self.authorizer.recover(refusal):
            answer = await self._follow(verb, body, headers)
            if answer.status not in (401, 403):
                return answer
            text = await answer.start_of_body()
            answer.close()
        shown = " ".join(text[:800].decode(errors="replace").split())[:200]
        raise SignInNeeded(
            f"The server {self.name!r} wants an account (HTTP {answer.status}). {shown}".rstrip(),
            "Add an Authorization header for it in mcp.json.",
            server=self.name,
        )

    # -- inside
    @property
    def _stateless(self) -> bool:
        return self._revision is not None and self._revision.era == "stateless"

    def _common(self) -> dict[str, str]:
        headers: dict[str, str] = {}
        if self._revision is not None and self._revision.has_version_header:
            headers[VERSION] = self._revision.value
        if self.session_id and not self._stateless:
            headers[SESSION] = self.session_id
        return headers

    async def _follow(self, verb: str, body: bytes, headers: Mapping[str, str]) -> Answer:
        full = {
            "accept": "application/json, text/event-stream" if verb == "POST" else EVENTS,
            "accept-encoding": "identity",
            "user-agent": "mcphost",
        }
        if verb == "POST":
            full["content-type"] = "application/json"
        full |= self._configured
        if self.authorizer is not None:
            full |= await self.authorizer.headers()
        full |= {name.lower(): value for name, value in headers.items()}
        url = self._url
        for _ in range(MAX_REDIRECTS + 1):
            answer = await self._once(verb, url, body, full)
            if answer.status not in _REDIRECTS or not answer.header("location"):
                return answer
            answer.close()
            url = urljoin(url, answer.header("location"))
            if origin(url) != self._origin:
                raise MalformedMessage(
                    f"The server {self.name!r} redirects to another origin ({url[:200]}), which is not followed.",
                    "If that is the right address, configure it.",
                    server=self.name,
                )
        raise MalformedMessage(f"The server {self.name!r} redirects more than {MAX_REDIRECTS} times.", server=self.name)

    async def _once(self, verb: str, url: str, body: bytes, headers: Mapping[str, str]) -> Answer:
        try:
            return Answer(await self._pool.request(verb, url, headers.items(), body), self._pool, self.name)
        except ConnectionLost as error:
            raise ConnectionLost(
                f"The server {self.name!r} at {url} cannot be reached: {error.message}.",
                "Check the address and that the server runs.",
                server=self.name,
            ) from error
        except MalformedMessage as error:
            raise MalformedMessage(
                f"The server {self.name!r} sent a broken HTTP answer: {error.message}.", server=self.name
            ) from error

    async def _cancel(self, request: Request) -> None:
        params = Raw(encode({"requestId": request.id}))
        with anyio.move_on_after(_CANCEL_WAIT):
            try:
                await self.send(Notification("notifications/cancelled", params))
            except ServerError:
                return  # it goes on or not; nobody waits for it

    async def _listen(self) -> None:
        """The GET stream; a server that has none is left alone, one that drops it is asked again, later and later."""
        wait, silent, last_id = 1.0, 0, ""
        while silent < _SILENT_STREAMS:
            decoder = EventDecoder(self.message_limit)
            decoder.last_id = last_id
            heard = False
            try:
                headers = self._common() | ({"Last-Event-ID": last_id} if last_id else {})
                answer = await self.ask("GET", b"", headers)
                try:
                    if answer.status != 200 or answer.kind != EVENTS:
                        return
                    while (chunk := await answer.chunk()) is not None:
                        for event in decoder.feed(chunk):
                            heard = True
                            for message in self.messages(event.data):
                                self._inbox.put(message)
                finally:
                    answer.close()
            except ConnectionLost:
                pass  # asked again below
            except ServerError:
                return
            last_id = decoder.last_id
            wait, silent = (1.0, 0) if heard else (min(wait * 2, _LONGEST_WAIT), silent + 1)
            await anyio.sleep(max(wait, min(decoder.retry or 0.0, _LONGEST_WAIT)))
