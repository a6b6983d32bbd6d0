"""Bounded HTTP/1.1 requests of a browser on this machine, and the responses to them."""

from typing import NamedTuple

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
    data = b""
    while b"\r\n\r\n" not in data:
        if len(data) > HEAD_LIMIT:
            raise RequestRejected(431)
        data += await stream.receive(4096)
    head, _, body = data.partition(b"\r\n\r\n")
    if len(head) > HEAD_LIMIT:
        raise RequestRejected(431)
    method, target, headers = _parse_head(head)
    length = _body_length(method, headers)
    chunks, received = [body], len(body)
    while received < length:
        chunks.append(await stream.receive(min(64 * 1024, length - received)))
        received += len(chunks[-1])
    try:
        parts = split_url(target)
    except ValueError as error:
        raise RequestRejected(400) from error
    return PageRequest(method, parts.path, parts.query, headers, b"".join(chunks)[:length])


def _parse_head(head: bytes) -> tuple[str, str, dict[str, str]]:
    lines = head.decode("latin-1").split("\r\n")
    method, _, rest = lines[0].partition(" ")
    target, _, version = rest.partition(" ")
    if version not in ("HTTP/1.1", "HTTP/1.0") or not target.startswith("/"):
        raise RequestRejected(400)
    headers: dict[str, str] = {}
    for line in lines[1:]:
        name, colon, value = line.partition(":")
        name = name.lower()
        if not colon or not name or name in headers or name != name.strip():
            raise RequestRejected(400)
        headers[name] = value.strip()
    return method, target, headers


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
