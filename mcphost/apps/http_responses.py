"""HTTP responses to a browser that loads an interactive page."""

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


def make_response(
    status: int, body: bytes = b"", *, kind: str = "text/plain; charset=utf-8", policy: str = "default-src 'none'"
) -> bytes:
    """Return a complete response; *policy* is its Content-Security-Policy."""
    return make_head(status, kind, policy, f"content-length: {len(body)}\r\n") + body


def make_head(status: int, kind: str, policy: str, more: str = "") -> bytes:
    """Return the head of a response with the content type *kind*; *more* contains additional header lines."""
    return (
        f"HTTP/1.1 {status} {_REASONS[status]}\r\ncontent-type: {kind}\r\ncontent-security-policy: {policy}\r\n"
        f"{_HEADERS}{more}\r\n"
    ).encode("ascii")
