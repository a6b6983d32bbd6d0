"""HTTP/1.1 requests from a browser to a listener on 127.0.0.1, read within limits."""

from typing import NamedTuple

import h11
from anyio.abc import ByteReceiveStream

HEAD_LIMIT = 16 * 1024
BODY_LIMIT = 1024 * 1024
_STATUSES = frozenset({400, 411, 413, 431})
"""Statuses of rejected requests; any other one that h11 proposes becomes 400."""


class RequestRejected(Exception):
    """Raised when a request is answered with an error; `status` is the HTTP status."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


class BrowserRequest(NamedTuple):
    """A request from a browser; the names in `headers` are in lower case, and each occurs only once."""

    method: str
    path: str
    query: str
    headers: dict[str, str]
    body: bytes = b""


async def read_request(stream: ByteReceiveStream, *, body_limit: int = BODY_LIMIT) -> BrowserRequest:
    """Read one request with its body, which may have at most *body_limit* bytes.

    If *body_limit* is 0, a GET request with a body is rejected. The body of any other request is not read; the caller
    must reject its method. Bytes after the request are ignored.

    Raises RequestRejected if the request is invalid or too large. A repeated header is invalid, because programs
    disagree about which of its values to use.
    """
    connection = h11.Connection(h11.SERVER, max_incomplete_event_size=HEAD_LIMIT)
    try:
        head = await _next_event(connection, stream, 4096)
        if not isinstance(head, h11.Request):
            raise RequestRejected(400)
        method, headers = head.method.decode("ascii"), _read_headers(head)
        length = _body_length(method, headers, body_limit)
        body = bytearray()
        while len(body) < length and isinstance(event := await _next_event(connection, stream, 64 * 1024), h11.Data):
            body += event.data
        # Not as a URL: in "//host/path", the host would be missing from the path.
        path, _, query = head.target.decode("ascii").partition("?")
    except h11.RemoteProtocolError as error:
        raise RequestRejected(error.error_status_hint if error.error_status_hint in _STATUSES else 400) from error
    except ValueError as error:
        raise RequestRejected(400) from error
    return BrowserRequest(method, path, query, headers, bytes(body))


async def _next_event(connection: h11.Connection, stream: ByteReceiveStream, size: int) -> h11.Event:
    """Return the next event of the request, reading at most *size* bytes at a time.

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
    # h11 counts only what is incomplete, so the last piece that was read may exceed the limit.
    if len(head.target) + sum(len(name) + len(value) for name, value in head.headers) > HEAD_LIMIT:
        raise RequestRejected(431)
    headers = {name.decode("ascii"): value.decode("latin-1") for name, value in head.headers}
    if len(headers) != len(head.headers):
        raise RequestRejected(400)
    return headers


def _body_length(method: str, headers: dict[str, str], limit: int) -> int:
    if not limit and method != "GET":
        return 0  # the caller rejects the method
    if "transfer-encoding" in headers:
        raise RequestRejected(411)
    text = headers.get("content-length", "0" if method != "POST" else "")
    if not text:
        raise RequestRejected(411)
    if not (text.isascii() and text.isdecimal()) or len(text) > 12:
        raise RequestRejected(400)
    length = int(text)
    if length > limit:
        raise RequestRejected(413)
    return length
