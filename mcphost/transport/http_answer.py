"""One HTTP answer: its status, and its body decoded within a limit; turns refusals into errors people understand."""

import zlib
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING

import anyio

from mcphost.errors import ConnectionLost, MalformedMessage, ServerError
from mcphost.protocol.jsonrpc import ErrorResponse, read
from mcphost.transport.channel import HttpStatus
from mcphost.transport.lines import MESSAGE_LIMIT

if TYPE_CHECKING:
    import httpx

SHOWN_BODY = 200
ERROR_BODY = 64 * 1024


class Answer:
    """A response whose head was read; `close` must be awaited, by whoever asked."""

    __slots__ = ("_name", "_response", "kind", "status")

    def __init__(self, response: "httpx.Response", name: str) -> None:
        self._response = response
        self._name = name
        self.status = response.status_code
        self.kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()

    def header(self, name: str) -> str:
        """One header, "" when absent."""
        return self._response.headers.get(name, "")

    async def chunks(self) -> AsyncGenerator[bytes]:
        """The body as it comes, decompressed in bounded steps. Raises ConnectionLost, MalformedMessage."""
        import httpx

        encoding = self.header("content-encoding").strip().lower()
        inflate = None
        if encoding in ("gzip", "x-gzip", "deflate"):
            # We ask for identity; a server that compresses all the same is read, but never trusted with our memory.
            inflate = zlib.decompressobj(zlib.MAX_WBITS | 32)
        elif encoding not in ("", "identity"):
            raise MalformedMessage(f"The server {self._name!r} answered in the encoding {encoding[:50]!r}.")
        try:
            async for chunk in self._response.stream:  # pyright: ignore[reportUnknownVariableType, reportGeneralTypeIssues]
                data = bytes(chunk)  # pyright: ignore[reportUnknownArgumentType]
                if inflate is None:
                    yield data
                    continue
                while data:
                    yield inflate.decompress(data, 256 * 1024)
                    data = inflate.unconsumed_tail
        except httpx.TransportError as error:
            raise ConnectionLost(
                f"The answer of the server {self._name!r} broke off: {_reason(error)}.",
                "If a tool was running, it may have done its work.", server=self._name,
            ) from error
        except zlib.error as error:
            raise MalformedMessage(f"The server {self._name!r} sent broken {encoding} data.") from error

    async def body(self, limit: int = MESSAGE_LIMIT) -> bytes:
        """The whole body. Raises MalformedMessage when it is over `limit` bytes."""
        chunks: list[bytes] = []
        size = 0
        async for chunk in self.chunks():
            size += len(chunk)
            if size > limit:
                raise MalformedMessage(f"The server {self._name!r} sent a body over {limit // (1024 * 1024)} MB.")
            chunks.append(chunk)
        return chunks[0] if len(chunks) == 1 else b"".join(chunks)

    async def close(self) -> None:
        """Close it; a connection whose body was not read to its end is dropped, which tells the server."""
        with anyio.CancelScope(shield=True):
            await self._response.aclose()

    async def start_of_body(self) -> bytes:
        """As much of a refusal's body as is worth looking at; never raises."""
        chunks: list[bytes] = []
        size = 0
        try:
            async for chunk in self.chunks():
                chunks.append(chunk)
                size += len(chunk)
                if size >= ERROR_BODY:
                    break
        except ServerError:
            pass  # what arrived is enough
        return b"".join(chunks)[:ERROR_BODY]

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
        after = self.header("retry-after")
        what = f"HTTP {self.status} ({self.kind or 'no content type'})"
        error = HttpStatus(
            f"The server {self._name!r} answered {method} with {what}: {shown or 'an empty body'}",
            status=self.status, retry_after=float(after) if after.isdigit() and len(after) < 6 else None,
        )
        error.server = self._name
        return error


def _reason(error: BaseException) -> str:
    return str(error) or type(error).__name__
