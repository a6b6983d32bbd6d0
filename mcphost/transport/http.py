"""Streamable HTTP: one POST for each exchange, JSON or event stream; sessions and the GET stream of older revisions."""

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager, suppress

import anyio
from anyio.abc import TaskGroup

from mcphost.errors import ConnectionLost, MalformedMessage, McpHostError, ServerError, SignInNeeded
from mcphost.json_limits import OverBound, check_message
from mcphost.protocol.jsonrpc import Message, Notification, Request, RequestId, read, reading, split_batch, write
from mcphost.protocol.revisions import Revision
from mcphost.protocol.tasks import CancelTask
from mcphost.serialization import Raw, decode, encode
from mcphost.transport.bounded_queue import Inbox
from mcphost.transport.channel import NO_HEADERS, Authorizer, Channel, Interrupted, SessionExpired
from mcphost.transport.event_stream import Event, EventDecoder
from mcphost.transport.http_client import EVENTS, HttpClient, client_for
from mcphost.transport.http_exchange import HttpExchange
from mcphost.transport.http_response import Answer
from mcphost.transport.line_splitter import MESSAGE_LIMIT
from mcphost.transport.mcp_headers import METHOD, SESSION, VERSION, header_value
from mcphost.transport.task_group import Tasks
from mcphost.transport.throttle import LONG, Pace, at_leisure

SEND_SECONDS = 60.0
ODD_LIMIT = 10_000
_GOODBYE = 1.0
_LAST_WORDS = 0.5
_CANCEL_WAIT = 2.0
LONGEST_WAIT = 60.0
_SILENT_STREAMS = 5
_STEADY = 30.0
_HEAD_SECONDS = 1.0
_SESSION_LIMIT = 4096
# What a 400 says, in lower case, when the server does not know the session.
_REFUSALS = (b"session", b"not initialized")


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
        ca_file: str = "",
        ca_digest: str = "",
    ) -> None:
        self._name = name
        self._url = url
        self._headers = dict(headers)
        self._warn = warn
        self._authorizer = authorizer
        self._limit = message_limit
        self._ca_file = ca_file
        self._ca_digest = ca_digest

    @asynccontextmanager
    async def dial(self) -> AsyncGenerator[Channel]:
        """A channel to the address; nothing is sent before the first exchange. Raises CannotStart."""
        async with Tasks() as tasks:
            client = self._client()
            channel = HttpChannel(client, tasks, self._limit)
            try:
                yield channel
            finally:
                await channel.close()
                await client.close()

    def _client(self) -> HttpClient:
        return client_for(
            self._name,
            self._url,
            self._headers,
            warn=self._warn,
            authorizer=self._authorizer,
            ca_file=self._ca_file,
            ca_digest=self._ca_digest,
        )


class HttpChannel:
    """See Channel."""

    def __init__(self, client: HttpClient, tasks: TaskGroup, message_limit: int = MESSAGE_LIMIT) -> None:
        self.name = client.name
        self.message_limit = message_limit
        self._client = client
        self._tasks = tasks
        self._session = ""
        self._forgotten: str = ""  # what the server no longer knows; named until the next one is open
        self._streamed: str = ""  # the session that had a GET stream
        self._proven: str = ""  # the session in which something was answered
        self._locked_out = False  # whether the GET stream waits for somebody to sign in
        self._unlocked = 0
        self._warned: set[str] = set()
        self.odd_count = 0
        self.late_count = 0
        self._dropped = 0
        self._unfinished: dict[RequestId, Request] = {}  # the server may still work on these
        self._finished: anyio.Event | None = None  # one of them is over; while somebody waits for that
        self._heard = 0  # messages that came on GET streams
        self._inbox = Inbox()
        self._revision: Revision | None = None
        self._closed = False
        self._listening = anyio.CancelScope()
        self._heads = anyio.Event()  # the GET stream is open, or there is none

    # -- the Channel
    def exchange(self, request: Request, *, headers: Mapping[str, str] = NO_HEADERS) -> HttpExchange:
        """See Channel."""
        if not self._stateless and request.method not in ("initialize", "server/discover"):
            self._unfinished[request.id] = request
        return HttpExchange(self, request, headers)

    async def send(self, message: Message) -> None:
        """See Channel; in the stateless era nothing but requests is ever posted."""
        if self._stateless:
            return
        what = message.method if isinstance(message, Notification | Request) else "an answer"
        headers = self._common()
        try:
            with anyio.fail_after(SEND_SECONDS):
                await self._post(write(message), headers, what)
        except TimeoutError as error:
            raise Interrupted(
                f"The server {self.name!r} did not take {what} within {SEND_SECONDS:.0f} s.", server=self.name
            ) from error
        if isinstance(message, Notification) and message.method == "notifications/initialized":
            self._listening.cancel()
            self._listening = anyio.CancelScope()
            self._heads = anyio.Event()
            self._tasks.start_soon(self._listen, self._listening)
            # What the server asks by itself in the middle of a first call comes on that stream, or nowhere.
            with anyio.move_on_after(_HEAD_SECONDS):
                await self._heads.wait()

    def unsolicited(self) -> Inbox:
        """See Channel."""
        return self._inbox

    @property
    def counts(self) -> Mapping[str, int]:
        """See Channel."""
        return {
            "broken messages": self.odd_count,
            "answers nobody waits for": self.late_count,
            "messages left out in a flood": self._dropped,
        }

    @property
    def is_drained(self) -> bool:
        """See Channel."""
        return True

    @property
    def is_over(self) -> bool:
        """See Channel; a server that cannot be reached now may be in a moment."""
        return self._closed

    def speak(self, revision: Revision) -> None:
        """See Channel."""
        self._revision = revision

    async def close(self) -> None:
        """Cancel what still runs and end the session at the server, if there is one; a second and a half at most."""
        self._closed = True
        self._inbox.close(ConnectionLost(f"The connection to {self.name!r} was closed.", server=self.name))
        if self._stateless:
            return
        with anyio.move_on_after(_LAST_WORDS, shield=True):
            async with anyio.create_task_group() as tasks:
                for request in self._unfinished.values():
                    if _is_cancellable(request):
                        tasks.start_soon(self._send_last, "POST", write(_cancellation(request)))
            while any(request.method == CancelTask.METHOD for request in self._unfinished.values()):
                self._finished = anyio.Event()
                await self._finished.wait()
        if self._session not in ("", self._forgotten):
            with anyio.move_on_after(_GOODBYE, shield=True):
                await self._send_last("DELETE", b"")

    async def _send_last(self, verb: str, body: bytes) -> None:
        """Whatever the server answers: 405 says that it ends sessions by itself, and a refusal changes nothing."""
        try:
            answer = await self._client.ask_once(verb, body, self._common())
            answer.close()
        except McpHostError:
            return  # it is gone either way

    # -- for exchanges
    async def ask(self, verb: str, body: bytes, headers: Mapping[str, str]) -> Answer:
        """See HttpClient."""
        return await self._client.ask(verb, body, headers)

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
        if request.method != "initialize":
            self._proven = self._session
            if self._locked_out and self._unlocked < _SILENT_STREAMS:
                self._locked_out = False
                self._unlocked += 1
                self._listening = anyio.CancelScope()
                self._tasks.start_soon(self._listen, self._listening)
            return
        ident = answer.header(SESSION)
        # Visible ASCII, says the specification; anything else could not go back in a header.
        if len(ident) > _SESSION_LIMIT or not all("!" <= character <= "~" for character in ident):
            self._once(
                "session", f"The server {self.name!r} gave a session id that is no visible ASCII; it is not used."
            )
            return
        self._session = ident

    def forgot(self, status: int, session: str, body: bytes) -> bool:
        """Whether that refusal means that the server knows the session no more.

        404, says the specification. Widespread servers say 400 "No valid session ID", or "Server not initialized"
        after a restart: that counts for a session that was good before.
        """
        refusal = body[:4096].lower()
        said = status == 400 and session == self._proven and any(word in refusal for word in _REFUSALS)
        return bool(session) and (status == 404 or said)

    def expired(self, session: str) -> SessionExpired:
        """The server forgot this session; whoever opened it may open the next one on this channel.

        Until then requests go on naming it: without an id they would be refused as something else, and whoever can
        open the next session would not hear why.
        """
        self._forgotten = session
        return SessionExpired(
            f"The server {self.name!r} forgot our session.", "It was not run; repeat it.", server=self.name
        )

    async def resume(self, last_id: str) -> Answer | None:
        """A GET for what came after that event; None in the stateless era, which has no such thing."""
        if self._stateless or not (last_id.isascii() and last_id.isprintable()):
            return None
        return await self._client.ask("GET", b"", self._common() | {"Last-Event-ID": last_id})

    def abandoned(self, request: Request) -> None:
        """An exchange was left before its answer."""
        if request.id in self._unfinished and not self._closed:
            self._tasks.start_soon(self._cancel, request)

    def answered(self, request: Request) -> None:
        """An exchange has its answer."""
        self._unfinished.pop(request.id, None)
        if self._finished is not None:
            self._finished.set()

    async def messages(self, event: Event) -> list[Message]:
        """The messages in one event; those of kinds we do not know mean nothing."""
        return await self.read(event.data) if event.kind == "message" else []

    async def read(self, data: bytes) -> list[Message]:
        """The messages in one body; broken ones are counted, told once and left out.

        Others have their turn while a long one is read. Raises OverBound for what is too much to read, and
        MalformedMessage after 10,000 broken ones.
        """
        members: list[bytes | Raw] = [data]
        if data[:1] == b"[" and self._revision is not None and self._revision.has_batches:
            try:
                if len(data) > LONG:
                    await at_leisure(check_message(data))
                members = list(split_batch(data))
            except OverBound as error:
                raise self._over(error) from error
            except MalformedMessage as error:
                members = self._odd(data, error)
        found: list[Message] = []
        for member in members:
            try:
                found.append(await at_leisure(reading(bytes(member))) if len(member) > LONG else read(member))
            except OverBound as error:
                raise self._over(error) from error
            except MalformedMessage as error:
                self._odd(member, error)
        return found

    def _over(self, error: OverBound) -> OverBound:
        self.odd_count += 1
        what = f"The server {self.name!r} sent a message that is too much to read. {error.message}"
        self._once("over", what)
        return OverBound(what, server=self.name)

    def _odd(self, data: bytes | Raw, error: MalformedMessage) -> list[bytes | Raw]:
        """Something that is no message: said once, and left out."""
        if len(data) > 1000 or bytes(data).strip():
            self.odd_count += 1
            self._once("odd", f"The server {self.name!r} sent something that is no message: {error.message[:300]}")
            if self.odd_count > ODD_LIMIT:
                raise MalformedMessage(
                    f"The server {self.name!r} sent {ODD_LIMIT:,} messages that are none.", server=self.name
                )
        return []

    # -- inside
    @property
    def _stateless(self) -> bool:
        return self._revision is not None and self._revision.era == "stateless"

    def _common(self) -> dict[str, str]:
        headers: dict[str, str] = {}
        if self._revision is not None and self._revision.has_version_header:
            headers[VERSION] = self._revision.value
        if self._session and not self._stateless:
            headers[SESSION] = self._session
        return headers

    def _keep(self, message: Message) -> None:
        """Something that belongs to no request of ours."""
        if not self._inbox.put(message):
            self._dropped += 1
            self._once("flood", f"The server {self.name!r} sends messages faster than they can be handled.")

    def _once(self, kind: str, text: str) -> None:
        if kind not in self._warned:
            self._warned.add(kind)
            self._client.warn(text)

    async def _post(self, body: bytes, headers: Mapping[str, str], what: str) -> None:
        answer = await self._client.ask("POST", body, headers)
        try:
            if answer.status == 404 and SESSION in headers:
                raise self.expired(headers[SESSION])
            if not 200 <= answer.status < 300:
                raise answer.failure(await answer.start_of_body(), what)
            await answer.skip()
        finally:
            answer.close()

    async def _cancel(self, request: Request) -> None:
        """Tell the server. When the channel closes meanwhile, `close` does."""
        with anyio.move_on_after(_CANCEL_WAIT):
            with suppress(ServerError):  # it goes on or not; nobody waits for it
                await self.send(_cancellation(request))
        self._unfinished.pop(request.id, None)

    async def _listen(self, scope: anyio.CancelScope) -> None:
        """The GET stream; a server that has none is left alone, one that drops it is asked again, later and later."""
        silent, decoder = 0, EventDecoder(self.message_limit)
        with scope:
            while silent < _SILENT_STREAMS:
                opened = anyio.current_time()
                try:
                    heard = await self._stream(decoder)
                except SessionExpired as error:
                    self._inbox.interrupt(error)
                    return
                except SignInNeeded:
                    self._locked_out = True  # asked for again as soon as a call is let in
                    return
                except ServerError:
                    return
                if heard is None:
                    return
                # Gateways end quiet streams after a while; that is no reason to give up.
                silent = 0 if heard or anyio.current_time() - opened > _STEADY else silent + 1
                wait = 2.0 ** max(0, silent - 1)
                after = EventDecoder(self.message_limit)
                after.last_id, after.retry, decoder = decoder.last_id, decoder.retry, after
                await anyio.sleep(min(max(wait, decoder.retry or 0.0), LONGEST_WAIT))
        if silent >= _SILENT_STREAMS:
            self._once("silent", f"The server {self.name!r} ends its event stream again and again; it is left alone.")

    async def _stream(self, decoder: EventDecoder) -> bool | None:
        """One GET stream to its end: whether it brought a message; None when the server has no such stream.

        Raises SessionExpired when it once had one.
        """
        headers = self._common()
        if decoder.last_id and decoder.last_id.isascii() and decoder.last_id.isprintable():
            headers["Last-Event-ID"] = decoder.last_id
        heard = self._heard
        try:
            try:
                answer = await self._client.ask("GET", b"", headers)
            finally:
                self._heads.set()
            try:
                if not await self._streams(answer, headers.get(SESSION, "")):
                    return None
                await self._read_on(answer, decoder)
            finally:
                answer.close()
        except SessionExpired:
            raise
        except ConnectionLost:
            pass  # asked again, later
        return self._heard > heard

    async def _streams(self, answer: Answer, session: str) -> bool:
        """Whether this answer is the stream of that session. Raises SessionExpired when it once had one."""
        body = b"" if answer.status == 200 else await answer.start_of_body()
        # Servers without that stream say 405, and some 404, which then does not mean the session.
        if session == self._streamed and self.forgot(answer.status, session, body):
            if self._session != self._streamed or self._forgotten == self._streamed:
                return False  # somebody found out before, and opens the next one
            raise self.expired(self._streamed)
        if answer.status != 200 or answer.kind != EVENTS:
            if answer.status != 405:
                self._once("get", answer.failure(body or await answer.start_of_body(), "the GET").message)
            return False
        self._streamed = self._proven = session
        return True

    async def _read_on(self, answer: Answer, decoder: EventDecoder) -> None:
        pace = Pace()
        while (chunk := await answer.chunk()) is not None:
            for event in decoder.feed(chunk):
                try:
                    messages = await self.messages(event)
                except OverBound:
                    continue
                for message in messages:
                    self._heard += 1
                    self._keep(message)
                if pace.due:
                    await pace.rest()


def _is_cancellable(request: Request) -> bool:
    """Whether a notification may cancel it: a task is cancelled by a request (specification 2025-11-25, tasks)."""
    members = decode(request.params, dict[str, Raw]) if memoryview(request.params).nbytes else {}
    return request.method != CancelTask.METHOD and "task" not in members


def _cancellation(request: Request) -> Notification:
    return Notification("notifications/cancelled", Raw(encode({"requestId": request.id})))
