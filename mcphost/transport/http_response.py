"""One HTTP response: its status, its body decoded within a limit, and readable errors for refusals."""

import time
import zlib
from email.utils import parsedate_to_datetime
from typing import Any, Final

import anyio

from mcphost.errors import ConnectionLost, MalformedMessage, ServerError
from mcphost.protocol.jsonrpc import JsonRpcErrorResponse, parse_message
from mcphost.transport.channel import HttpStatusError, ResponseInterrupted
from mcphost.transport.http1 import HttpConnection
from mcphost.transport.http_pool import HttpConnectionPool
from mcphost.transport.line_splitter import MESSAGE_LIMIT

SHOWN_BODY_LENGTH = 200
MAX_ERROR_BODY = 64 * 1024
_DECOMPRESSED_CHUNK = 256 * 1024
# JSON compresses to a tenth, so a large legitimate response passes; the largest message is 16 MB in any case.
DECOMPRESSED_ALLOWANCE = 12 * 1024 * 1024
DECOMPRESSED_FACTOR = 4
MAY_HAVE_RUN_HINT: Final = "If a tool was running, it may have done its work."


class HttpResponse:
    """A response whose head was read; the caller must `close` it."""

    __slots__ = (
        "_compressed_bytes",
        "_connection",
        "_decompressed_bytes",
        "_decompressor",
        "_headers",
        "_name",
        "_pool",
        "content_type",
        "status",
    )

    def __init__(self, connection: HttpConnection, pool: HttpConnectionPool, name: str) -> None:
        self._connection: HttpConnection | None = connection
        self._pool = pool
        self._name = name
        self._headers = connection.headers
        self._decompressor: Any = None
        self._compressed_bytes = self._decompressed_bytes = 0
        self.status = connection.status
        self.content_type = self._headers.get("content-type", "").partition(";")[0].strip().lower()

    def header(self, name: str) -> str:
        """Return one header, or ""."""
        return self._headers.get(name.lower(), "")

    async def read_chunk(self) -> bytes | None:
        """Return the next piece of the body, decompressed in bounded steps; None at its end.

        Raises ResponseInterrupted, MalformedMessage.
        """
        connection = self._connection
        if connection is None:
            return None
        if self._decompressor is not None and self._decompressor.unconsumed_tail:
            await anyio.lowlevel.checkpoint()  # a decompression bomb must not block other tasks
            return self._decompress(self._decompressor.unconsumed_tail)
        try:
            data = await connection.read_chunk()
        except ConnectionLost as error:
            raise ResponseInterrupted(
                f"The answer of the server {self._name!r} broke off: {error.message}.",
                MAY_HAVE_RUN_HINT,
                server=self._name,
            ) from error
        except MalformedMessage as error:
            raise MalformedMessage(
                f"The answer of the server {self._name!r} is broken: {error.message}.", MAY_HAVE_RUN_HINT
            ) from error
        if data is None:
            self._check_compressed_end()
            return None
        return self._decompress(data) if self._is_compressed() else data

    def _is_compressed(self) -> bool:
        encoding = self.header("content-encoding").strip().lower()
        if encoding in ("", "identity"):
            return False
        if encoding not in ("gzip", "x-gzip", "deflate"):
            raise MalformedMessage(f"The server {self._name!r} answered in the encoding {encoding[:50]!r}.")
        return True

    def _decompress(self, data: bytes) -> bytes:
        # We request identity encoding; compressed responses are accepted, within memory limits.
        inflate = self._decompressor
        if inflate is None:
            inflate = self._decompressor = zlib.decompressobj(zlib.MAX_WBITS | 32)
        if inflate.eof:
            raise MalformedMessage(f"The server {self._name!r} sent data behind the end of its compressed answer.")
        self._compressed_bytes += len(data) - len(inflate.unconsumed_tail)
        try:
            plain = inflate.decompress(data, _DECOMPRESSED_CHUNK)
        except zlib.error as error:
            raise MalformedMessage(f"The server {self._name!r} sent broken compressed data.") from error
        if inflate.unused_data:
            raise MalformedMessage(f"The server {self._name!r} sent data behind the end of its compressed answer.")
        self._decompressed_bytes += len(plain)
        if self._decompressed_bytes > DECOMPRESSED_ALLOWANCE + DECOMPRESSED_FACTOR * self._compressed_bytes:
            raise MalformedMessage(
                f"The server {self._name!r} sent a response that decompresses to over "
                f"{DECOMPRESSED_ALLOWANCE // 1024**2} MB and {DECOMPRESSED_FACTOR} times its size.",
                "It must respond without content-encoding, as requested.",
            )
        return plain

    def _check_compressed_end(self) -> None:
        if self._decompressor is not None and not self._decompressor.eof:
            raise MalformedMessage(f"The compressed answer of the server {self._name!r} has no end.", MAY_HAVE_RUN_HINT)

    async def read_body(self, limit: int = MESSAGE_LIMIT) -> bytes:
        """Return the whole body. Raises MalformedMessage if it exceeds *limit* bytes."""
        chunks: list[bytes] = []
        size = 0
        while (chunk := await self.read_chunk()) is not None:
            size += len(chunk)
            if size > limit:
                raise MalformedMessage(f"The server {self._name!r} sent a body over {limit // (1024 * 1024)} MB.")
            chunks.append(chunk)
        return chunks[0] if len(chunks) == 1 else b"".join(chunks)

    def close(self) -> None:
        """Return the connection; one whose body was not read to its end is closed, which notifies the server."""
        connection, self._connection = self._connection, None
        if connection is not None:
            self._pool.release(connection)

    async def read_error_body(self) -> bytes:
        """Return the start of a refusal's body, limited in size; never raise."""
        chunks: list[bytes] = []
        size = 0
        try:
            while (chunk := await self.read_chunk()) is not None:
                chunks.append(chunk)
                size += len(chunk)
                if size >= MAX_ERROR_BODY:
                    break
        except ServerError:
            pass  # the data received so far is enough
        return b"".join(chunks)[:MAX_ERROR_BODY]

    async def drain(self) -> None:
        """Read a short body and ignore it, so that the connection can be reused; never raise."""
        if self.header("content-length"):
            await self.read_error_body()

    def parse_error(self, body: bytes) -> JsonRpcErrorResponse | None:
        """Return the JSON-RPC error in a refusal's body, whatever its id: servers send null or a fixed text."""
        if self.content_type != "application/json":
            return None
        try:
            message = parse_message(body)
        except MalformedMessage:
            return None
        return message if isinstance(message, JsonRpcErrorResponse) else None

    def status_error(self, body: bytes, method: str) -> HttpStatusError:
        """Return the error that describes the response."""
        shown = " ".join(body[: SHOWN_BODY_LENGTH * 4].decode(errors="replace").split())[:SHOWN_BODY_LENGTH]
        what = f"HTTP {self.status} ({self.content_type or 'no content type'})"
        error = HttpStatusError(
            f"The server {self._name!r} answered {method} with {what}: {shown or 'an empty body'}",
            _status_hint(self.status),
            status=self.status,
            retry_after=_parse_retry_after(self.header("retry-after")),
        )
        error.server = self._name
        return error


def _status_hint(status: int) -> str:
    if status == 503 or 400 <= status < 500:
        return ""
    return MAY_HAVE_RUN_HINT


def _parse_retry_after(after: str) -> float | None:
    """Return the delay of a Retry-After in seconds: a number, or until a date (RFC 9110, 10.2.3)."""
    if after.isascii() and after.isdigit():
        return float(after) if len(after) < 10 else None
    try:
        return max(0.0, parsedate_to_datetime(after).timestamp() - time.time())
    except (ValueError, OverflowError):
        return None
