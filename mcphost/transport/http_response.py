"""One HTTP answer: its status, and its body decoded within a limit; turns refusals into errors people understand."""

import time
import zlib
from email.utils import parsedate_to_datetime
from typing import Any, Final

import anyio

from mcphost.errors import ConnectionLost, MalformedMessage, ServerError
from mcphost.protocol.jsonrpc import ErrorResponse, read
from mcphost.transport.channel import HttpStatus, Interrupted
from mcphost.transport.http1 import Connection
from mcphost.transport.http_pool import Origin
from mcphost.transport.line_splitter import MESSAGE_LIMIT

SHOWN_BODY = 200
ERROR_BODY = 64 * 1024
_INFLATE_STEP = 256 * 1024
# JSON shrinks to a tenth, so a large honest answer passes; the largest message is 16 MB in any case.
INFLATED_FREE = 12 * 1024 * 1024
INFLATED_FACTOR = 4
MAY_HAVE_RUN: Final = "If a tool was running, it may have done its work."


class Answer:
    """A response whose head was read; whoever asked must `close` it."""

    __slots__ = ("_connection", "_headers", "_inflate", "_name", "_packed", "_pool", "_unpacked", "kind", "status")

    def __init__(self, connection: Connection, pool: Origin, name: str) -> None:
        self._connection: Connection | None = connection
        self._pool = pool
        self._name = name
        self._headers = connection.headers
        self._inflate: Any = None
        self._packed = self._unpacked = 0
        self.status = connection.status
        self.kind = self._headers.get("content-type", "").partition(";")[0].strip().lower()

    def header(self, name: str) -> str:
        """One header, "" when absent."""
        return self._headers.get(name.lower(), "")

    async def chunk(self) -> bytes | None:
        """The next piece of the body, decompressed in bounded steps; None at its end.

        Raises Interrupted, MalformedMessage.
        """
        connection = self._connection
        if connection is None:
            return None
        if self._inflate is not None and self._inflate.unconsumed_tail:
            await anyio.lowlevel.checkpoint()  # a bomb of zeros must not hold up everybody else
            return self._inflated(self._inflate.unconsumed_tail)
        try:
            data = await connection.chunk()
        except ConnectionLost as error:
            raise Interrupted(
                f"The answer of the server {self._name!r} broke off: {error.message}.",
                MAY_HAVE_RUN,
                server=self._name,
            ) from error
        except MalformedMessage as error:
            raise MalformedMessage(
                f"The answer of the server {self._name!r} is broken: {error.message}.", MAY_HAVE_RUN
            ) from error
        if data is None:
            self._check_end()
            return None
        return self._inflated(data) if self._encoded() else data

    def _encoded(self) -> bool:
        encoding = self.header("content-encoding").strip().lower()
        if encoding in ("", "identity"):
            return False
        if encoding not in ("gzip", "x-gzip", "deflate"):
            raise MalformedMessage(f"The server {self._name!r} answered in the encoding {encoding[:50]!r}.")
        return True

    def _inflated(self, data: bytes) -> bytes:
        # We ask for identity; a server that compresses all the same is read, but never trusted with our memory.
        inflate = self._inflate
        if inflate is None:
            inflate = self._inflate = zlib.decompressobj(zlib.MAX_WBITS | 32)
        if inflate.eof:
            raise MalformedMessage(f"The server {self._name!r} sent data behind the end of its compressed answer.")
        self._packed += len(data) - len(inflate.unconsumed_tail)
        try:
            plain = inflate.decompress(data, _INFLATE_STEP)
        except zlib.error as error:
            raise MalformedMessage(f"The server {self._name!r} sent broken compressed data.") from error
        if inflate.unused_data:
            raise MalformedMessage(f"The server {self._name!r} sent data behind the end of its compressed answer.")
        self._unpacked += len(plain)
        if self._unpacked > INFLATED_FREE + INFLATED_FACTOR * self._packed:
            raise MalformedMessage(
                f"The server {self._name!r} sent an answer that is compressed too well: over "
                f"{INFLATED_FREE // 1024**2} MB and {INFLATED_FACTOR} times its size.",
                "It must send it without content-encoding, as it was asked to.",
            )
        return plain

    def _check_end(self) -> None:
        if self._inflate is not None and not self._inflate.eof:
            raise MalformedMessage(f"The compressed answer of the server {self._name!r} has no end.", MAY_HAVE_RUN)

    async def body(self, limit: int = MESSAGE_LIMIT) -> bytes:
        """The whole body. Raises MalformedMessage when it is over `limit` bytes."""
        chunks: list[bytes] = []
        size = 0
        while (chunk := await self.chunk()) is not None:
            size += len(chunk)
            if size > limit:
                raise MalformedMessage(f"The server {self._name!r} sent a body over {limit // (1024 * 1024)} MB.")
            chunks.append(chunk)
        return chunks[0] if len(chunks) == 1 else b"".join(chunks)

    def close(self) -> None:
        """Give the connection back; one whose body was not read to its end is dropped, which tells the server."""
        connection, self._connection = self._connection, None
        if connection is not None:
            self._pool.release(connection)

    async def start_of_body(self) -> bytes:
        """As much of a refusal's body as is worth looking at; never raises."""
        chunks: list[bytes] = []
        size = 0
        try:
            while (chunk := await self.chunk()) is not None:
                chunks.append(chunk)
                size += len(chunk)
                if size >= ERROR_BODY:
                    break
        except ServerError:
            pass  # what arrived is enough
        return b"".join(chunks)[:ERROR_BODY]

    async def skip(self) -> None:
        """Read a short body that means nothing, so that the connection can be used again; never raises."""
        if self.header("content-length"):
            await self.start_of_body()

    def rpc_error(self, body: bytes) -> ErrorResponse | None:
        """The JSON-RPC error in a refusal's body, whatever its id: servers put null or a fixed text there."""
        if self.kind != "application/json":
            return None
        try:
            message = read(body)
        except MalformedMessage:
            return None
        return message if isinstance(message, ErrorResponse) else None

    def failure(self, body: bytes, method: str) -> HttpStatus:
        """The error that says what came instead of an answer."""
        shown = " ".join(body[: SHOWN_BODY * 4].decode(errors="replace").split())[:SHOWN_BODY]
        what = f"HTTP {self.status} ({self.kind or 'no content type'})"
        error = HttpStatus(
            f"The server {self._name!r} answered {method} with {what}: {shown or 'an empty body'}",
            _what_to_do(self.status),
            status=self.status,
            retry_after=_seconds(self.header("retry-after")),
        )
        error.server = self._name
        return error


def _what_to_do(status: int) -> str:
    if status == 503 or 400 <= status < 500:
        return ""
    return MAY_HAVE_RUN


def _seconds(after: str) -> float | None:
    """How long a Retry-After asks to wait: seconds, or until a date (RFC 9110, 10.2.3)."""
    if after.isascii() and after.isdigit():
        return float(after) if len(after) < 10 else None
    try:
        return max(0.0, parsedate_to_datetime(after).timestamp() - time.time())
    except (ValueError, OverflowError):
        return None
