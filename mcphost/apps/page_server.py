"""HTTP server on 127.0.0.1 for one interactive page, the document in which it is embedded, and their messages.

Every path begins with a random token. The paths of the messages between page and host have another token than those of
the page, which cannot learn it. Requests from other sites, for other host names (DNS rebinding) and from other users of
the machine are refused.
"""

import hmac
import logging
import secrets
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import NamedTuple, Protocol

import anyio
import anyio.to_thread
from anyio.abc import SocketAttribute, SocketStream

from mcphost.apps.outer_page import PagePaths, build_outer_page, read_script, read_style
from mcphost.apps.page_policy import build_outer_policy, build_page_policy
from mcphost.auth.loopback_listener import LOOPBACK_HOST, listen_on_loopback
from mcphost.auth.loopback_peers import is_refused_connection
from mcphost.auth.loopback_requests import BrowserRequest, RequestRejected, read_request
from mcphost.protocol.apps import PageOrigins

MAX_CONNECTIONS = 32
MAX_CONCURRENT_REQUESTS = 8
REQUEST_TIMEOUT = 10.0
PING_SECONDS = 15.0
"""Seconds after which an idle event stream gets a comment, so that mcphost notices if the browser has disconnected."""
MAX_QUEUED_MESSAGES = 1_000
MAX_QUEUED_BYTES = 32 * 1024 * 1024
RATE = 50.0
BURST = 200
"""Number of messages that a page may send at once; it may send RATE more each second."""
BYTES_PER_MESSAGE = 1_000_000
"""Number of received bytes that count as one message of the page: a short request can have a long response."""
MAX_WIDTH = 10_000
_HTML = "text/html; charset=utf-8"
_ONE_LINE = bytes.maketrans(b"\r\n", b"  ")
_log = logging.getLogger(__name__)
_REASONS = {
    200: "OK", 202: "Accepted", 400: "Bad request", 403: "Forbidden", 404: "Not found", 405: "Method not allowed",
    410: "Gone", 411: "Length required", 413: "Content too large", 415: "Unsupported media type",
    421: "Misdirected request", 429: "Too many requests", 431: "Request header fields too large",
}  # fmt: skip
# No response may be stored, framed or read by another site, or tell another site the address of the page.
_HEADERS = (
    "cache-control: no-store\r\nx-content-type-options: nosniff\r\nreferrer-policy: no-referrer\r\n"
    "cross-origin-resource-policy: same-origin\r\ncross-origin-opener-policy: same-origin\r\n"
    "x-dns-prefetch-control: off\r\npermissions-policy: camera=(), microphone=(), geolocation=(), clipboard-read=(), "
    "clipboard-write=(), display-capture=(), usb=(), serial=(), hid=(), midi=(), payment=()\r\nconnection: close\r\n"
)


class MessageReceiver(Protocol):
    """Interface of the object that receives the messages of a page; its methods do not block."""

    def start(self) -> None:
        """Start a new exchange of messages; called each time that a browser loads the page."""
        ...

    def receive(self, message: bytes) -> bool:
        """Handle one message from the page, which is untrusted; return False if the page sends too many messages."""
        ...


class PageDocument(NamedTuple):
    """The content to serve: the page's HTML, the origins that it may use, and the names in the heading above it."""

    html: bytes
    origins: PageOrigins
    server: str
    tool: str


class PageServer:
    """HTTP server for one page, used by one browser window at a time: the one that loaded the page last."""

    def __init__(self, port: int, document: PageDocument, receiver: MessageReceiver) -> None:
        self._origin = f"http://{LOOPBACK_HOST}:{port}"
        self._host = f"{LOOPBACK_HOST}:{port}"
        self.port = port
        self._document = document
        self._receiver = receiver
        self._token, self._page_token = secrets.token_urlsafe(32), secrets.token_urlsafe(32)
        self._session = ""
        self.url = f"{self._origin}/{self._token}/"
        self.width = 0
        """The width of the frame in pixels, as the browser reported it; 0 if it is unknown."""

        self.stream_count = 0
        self.last_seen = anyio.current_time()
        """The time when a browser was last connected."""

        self._queue: deque[bytes] = deque()
        self._queued_bytes = 0
        self._wakeup = anyio.Event()
        self._stream: anyio.CancelScope | None = None
        self._slots = anyio.Semaphore(MAX_CONCURRENT_REQUESTS)
        self._connection_count = 0
        self._tokens, self._refilled_at = float(BURST), anyio.current_time()
        self._is_ending = False
        self._gone = anyio.Event()
        self.overflow = anyio.Event()
        """Set if the browser does not read the messages; the page must then be closed."""

    @property
    def is_shown(self) -> bool:
        """Whether a browser shows the page now."""
        return self.stream_count > 0

    def send(self, message: bytes) -> None:
        """Queue a message (JSON) for the page."""
        # Raw JSON of a server may have line breaks between its tokens, which would end the event.
        message = message.translate(_ONE_LINE)
        if len(self._queue) >= MAX_QUEUED_MESSAGES or self._queued_bytes + len(message) > MAX_QUEUED_BYTES:
            self.overflow.set()
            return
        self._queue.append(message)
        self._queued_bytes += len(message)
        self._tokens -= len(message) / BYTES_PER_MESSAGE
        self._wakeup.set()

    async def end(self, seconds: float = 1.0) -> None:
        """Send the queued messages, and then tell the browser that the page is closed; wait at most *seconds*."""
        self._is_ending = True
        self._wakeup.set()
        if self.is_shown:
            self._gone = anyio.Event()
            with anyio.move_on_after(seconds):
                await self._gone.wait()

    async def serve(self, stream: SocketStream) -> None:
        """Handle one connection; close it without a response if too many others are open."""
        if self._connection_count >= MAX_CONNECTIONS:
            await stream.aclose()
            return
        self._connection_count += 1
        try:
            async with stream:
                is_events = False
                with anyio.move_on_after(REQUEST_TIMEOUT):
                    async with self._slots:
                        is_events = await self._handle_request(stream)
                if is_events:
                    await self._stream_events(stream)
        except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
            return  # the peer disconnected
        except Exception:  # noqa: BLE001 - a bug in one request must end neither the page nor the program
            _log.exception("a request for a page failed")
        finally:
            self._connection_count -= 1

    async def _handle_request(self, stream: SocketStream) -> bool:
        """Respond to one request and return False, or return True if the request opens the event stream.

        In the second case, nothing has been sent yet; the caller must call `_stream_events`.
        """
        try:
            client = stream.extra(SocketAttribute.remote_address)  # noqa: S610 - no Django here
            server = (LOOPBACK_HOST, self.port)
            if not isinstance(client, tuple) or await anyio.to_thread.run_sync(
                is_refused_connection, server, client[:2]
            ):
                raise RequestRejected(403)
            request = await read_request(stream)
            self._check_sender(request)
            if self._is_events(request):
                return True
            await stream.send(self._answer(request))
        except RequestRejected as error:
            await stream.send(make_response(error.status))
        return False

    def _check_sender(self, request: BrowserRequest) -> None:
        """Raise RequestRejected for a wrong Host header, and for requests from other sites."""
        headers = request.headers
        if headers.get("host") != self._host:
            raise RequestRejected(421)  # a sign of DNS rebinding: a web page sent the request
        origin = headers.get("origin")
        if origin not in (None, self._origin) or (request.method == "POST" and origin is None):
            raise RequestRejected(403)
        if headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
            raise RequestRejected(403)

    def _is_events(self, request: BrowserRequest) -> bool:
        if not self._session or not _is_equal(request.path, f"/{self._token}/{self._session}/events"):
            return False
        if request.method != "GET":
            raise RequestRejected(405)
        name, _, width = request.query.partition("=")
        width = width if name == "width" else ""
        if width.isascii() and width.isdecimal() and len(width) < 6:
            self.width = min(int(width), MAX_WIDTH)
        return True

    def _answer(self, request: BrowserRequest) -> bytes:
        path = request.path
        start = f"/{self._token}/"
        if _is_equal(path, f"/{self._page_token}/"):
            return self._answer_page(request)
        if not _is_equal(path[: len(start)], start):
            raise RequestRejected(404)
        rest = path[len(start) :]
        if rest.endswith("/messages"):
            return self._answer_message(request, rest.removesuffix("/messages"))
        if request.method != "GET":
            raise RequestRejected(405)
        if rest == "":
            return self._answer_outer_page(request)
        if rest == "bridge.js":
            return make_response(200, read_script(), kind="text/javascript; charset=utf-8")
        if rest == "page.css":
            return make_response(200, read_style(), kind="text/css; charset=utf-8")
        raise RequestRejected(410 if rest.endswith("/events") else 404)

    def _answer_page(self, request: BrowserRequest) -> bytes:
        """Return the page's own document; refuse a request that does not load it into a frame."""
        if request.method != "GET":
            raise RequestRejected(405)
        if request.headers.get("sec-fetch-dest", "iframe") != "iframe" or not self._session:
            raise RequestRejected(404)
        policy = build_page_policy(self._document.origins, self._origin)
        return make_response(200, self._document.html, kind=_HTML, policy=policy)

    def _answer_outer_page(self, request: BrowserRequest) -> bytes:
        """Return the document around the page, and disconnect the browser window that loaded it before.

        Messages that are queued for the earlier window are dropped.
        """
        if request.headers.get("sec-fetch-dest", "document") != "document":
            raise RequestRejected(404)
        self._session = secrets.token_urlsafe(16)
        self._queue.clear()
        self._queued_bytes = 0
        if self._stream is not None:
            self._stream.cancel()
        self._receiver.start()
        start, page = f"/{self._token}/", f"/{self._page_token}/"
        own = f"{start}{self._session}"
        paths = PagePaths(page, f"{own}/messages", f"{own}/events", f"{start}bridge.js", f"{start}page.css")
        body = build_outer_page(self._document.server, self._document.tool, paths)
        return make_response(200, body, kind=_HTML, policy=build_outer_policy(f"{self._origin}{page}"))

    def _answer_message(self, request: BrowserRequest, session: str) -> bytes:
        if request.method != "POST":
            raise RequestRejected(405)
        if not self._session or not _is_equal(session, self._session) or self._is_ending:
            raise RequestRejected(410)
        if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            raise RequestRejected(415)
        now = anyio.current_time()
        self._tokens = min(BURST, self._tokens + (now - self._refilled_at) * RATE)
        self._refilled_at = now
        if self._tokens < 1 or not self._receiver.receive(request.body):
            raise RequestRejected(429)
        self._tokens -= 1
        return make_response(202)

    async def _stream_events(self, stream: SocketStream) -> None:
        """Send the queued messages and all later ones as server-sent events, until a newer event stream is opened."""
        if self._stream is not None:
            self._stream.cancel()
        self.stream_count += 1
        try:
            with anyio.CancelScope() as scope:
                self._stream = scope
                await stream.send(make_head(200, "text/event-stream", "default-src 'none'"))
                await self._send_messages(stream)
        finally:
            self.stream_count -= 1
            self.last_seen = anyio.current_time()
            if not self.is_shown:
                self._gone.set()

    async def _send_messages(self, stream: SocketStream) -> None:
        while True:
            self._wakeup = anyio.Event()
            while self._queue:
                message = self._queue.popleft()
                self._queued_bytes -= len(message)
                await stream.send(b"data: " + message + b"\n\n")
            if self._is_ending:
                await stream.send(b"event: end\ndata: {}\n\n")
                return
            with anyio.move_on_after(PING_SECONDS):
                await self._wakeup.wait()
                continue
            await stream.send(b": ping\n\n")


def _is_equal(one: str, other: str) -> bool:
    """Compare two paths in constant time, so that the duration does not reveal where they differ."""
    return hmac.compare_digest(one.encode("utf-8", "replace"), other.encode())


@asynccontextmanager
async def run_page_server(document: PageDocument, receiver: MessageReceiver) -> AsyncGenerator[PageServer]:
    """Serve a page on a free port of 127.0.0.1 until the `async with` block ends.

    Raises OSError if no port can be opened.
    """
    listener = await listen_on_loopback()
    server = PageServer(listener.port, document, receiver)
    async with listener.serve(server.serve):
        yield server


def make_response(
    status: int, body: bytes = b"", *, kind: str = "text/plain; charset=utf-8", policy: str = "default-src 'none'"
) -> bytes:
    """Return a complete response with the content type *kind* and the Content-Security-Policy *policy*."""
    return make_head(status, kind, policy, f"content-length: {len(body)}\r\n") + body


def make_head(status: int, kind: str, policy: str, more: str = "") -> bytes:
    """Return the head of a response; *more* contains additional header lines. See `make_response`."""
    return (
        f"HTTP/1.1 {status} {_REASONS[status]}\r\ncontent-type: {kind}\r\ncontent-security-policy: {policy}\r\n"
        f"{_HEADERS}{more}\r\n"
    ).encode("ascii")
