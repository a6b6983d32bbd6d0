"""Bounded HTTP/1.1 requests of a browser on this machine, and the responses to them."""

from typing import NamedTuple

import h11
from anyio.abc import ByteReceiveStream

from mcphost.unicode_forms import split_url

HEAD_LIMIT = 16 * 1024
BODY_LIMIT = 1024 * 1024
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


class RequestRejected(Exception):
    """Raised if a request is answered with an error; `status` is the HTTP status."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


class PageRequest(NamedTuple):
    """A request of a browser; the names of `headers` are in lower case, and none of them is repeated."""

    method: str
    path: str
    query: str
    headers: dict[str, str]
    body: bytes = b""


async def read_request(stream: ByteReceiveStream) -> PageRequest:
    """Read one request with its body.

    Raises RequestRejected if the request is invalid or too large. A header that is repeated is invalid, because
    programs disagree about which one counts.
    """
    connection = h11.Connection(h11.SERVER, max_incomplete_event_size=HEAD_LIMIT)
    try:
        head = await _next_event(connection, stream, 4096)
        if not isinstance(head, h11.Request):
            raise RequestRejected(400)
        method, headers = head.method.decode("ascii"), _read_headers(head)
        length = _body_length(method, headers)
        body = bytearray()
        while len(body) < length and isinstance(event := await _next_event(connection, stream, 64 * 1024), h11.Data):
            body += event.data
        parts = split_url(head.target.decode("ascii"))
    except h11.RemoteProtocolError as error:
        raise RequestRejected(error.error_status_hint if error.error_status_hint in _REASONS else 400) from error
    except ValueError as error:
        raise RequestRejected(400) from error
    return PageRequest(method, parts.path, parts.query, headers, bytes(body))


async def _next_event(connection: h11.Connection, stream: ByteReceiveStream, size: int) -> h11.Event:
    """Return the next event of the request, and read at most *size* bytes at a time.

    Raises h11.RemoteProtocolError if the request is invalid or its head is too long.
    """
    while (event := connection.next_event()) is h11.NEED_DATA:
        connection.receive_data(await stream.receive(size))
    if not isinstance(event, h11.Event):
        raise RequestRejected(400)
    return event


def _read_headers(head: h11.Request) -> dict[str, str]:
    if not head.target.startswith(b"/"):
        raise RequestRejected(400)
    headers = {name.decode("ascii"): value.decode("latin-1") for name, value in head.headers}
    if len(headers) != len(head.headers):
        raise RequestRejected(400)
    return headers


def _body_length(method: str, headers: dict[str, str]) -> int:
    if "transfer-encoding" in headers:
        raise RequestRejected(411)
    text = headers.get("content-length", "0" if method != "POST" else "")
    if not text:
        raise RequestRejected(411)
    if not (text.isascii() and text.isdecimal()) or len(text) > 12:
        raise RequestRejected(400)
    length = int(text)
    if length > BODY_LIMIT:
        raise RequestRejected(413)
    return length


def make_response(
    status: int, body: bytes = b"", *, kind: str = "text/plain; charset=utf-8", policy: str = "default-src 'none'"
) -> bytes:
    """Return a complete response; *policy* is its Content-Security-Policy."""
    return make_head(status, kind, policy, f"content-length: {len(body)}\r\n") + body


def make_head(status: int, kind: str, policy: str, more: str = "") -> bytes:
    """Return the head of a response of the content type *kind*; *more* are further header lines."""
    return (
        f"HTTP/1.1 {status} {_REASONS[status]}\r\ncontent-type: {kind}\r\ncontent-security-policy: {policy}\r\n"
        f"{_HEADERS}{more}\r\n"
    ).encode("ascii")
