"""Limits on the raw bytes of a provider's response, enforced before they are parsed.

This module runs in the worker process. litellm and the providers' own libraries create about ten Python objects for
each JSON object in an event, which takes 20 microseconds per object; their event stream decoders take a third of a
microsecond for each empty line. A hostile response must therefore be stopped before it reaches these libraries. All
these libraries read through `httpx.Response.aiter_bytes`, which `limit_responses` wraps; `disable_compression` requests
uncompressed responses.
"""

import zlib
from collections.abc import AsyncIterator, Iterator
from typing import Any

import anyio.lowlevel

from mcphost.json_limits import count_objects
from mcphost.llm.answer_limits import AnswerTooLong, CompressionRefused, ErrorInAnswer
from mcphost.serialization import as_object, loads_or_none

MAX_EVENT_BYTES = 16_000_000
"""Maximum size in bytes of a line in a provider's response."""
MAX_RESPONSE_BYTES = 512_000_000
"""Maximum size in bytes of a response; 250,000 events in large frames are smaller."""
MAX_LINE_OBJECTS = 4_000
"""Maximum number of JSON objects in a line; 256 tool calls and their arguments have fewer."""

EXTRA_LINES = 10_000
BYTES_PER_LINE = 8
"""A response may have one line per 8 bytes, plus 10,000."""
MAX_EVENT_LINES = 500
"""Maximum number of lines in an event; the library openai 2 copies the event once per line."""
DECOMPRESSION_ALLOWANCE = 1_000_000
MAX_DECOMPRESSION_RATIO = 3
"""A response that is compressed although that was not requested may expand to 1 MB plus three times its size."""
_DECOMPRESSION_CHUNK = 64 * 1024
MAX_PIECE_BYTES = 4 * 1024
"""Number of bytes that the libraries parse before other tasks run; an event of 100 bytes may take a millisecond."""
MAX_ERROR_BYTES = 64 * 1024
"""Maximum size in bytes of a body in which an error is looked for; a longer body of a failed request is cut off."""
MAX_LINES = 2_000_000
"""Maximum number of lines in a response; an answer of 250,000 events has up to four for each."""
_LINE_ENDS = b"\n\r\x0b\x0c\x1c\x1d\x1e"
_MULTIBYTE_LINE_ENDS = ("\x85".encode(), "\u2028".encode(), "\u2029".encode())
"""Together with _LINE_ENDS, the separators of `str.splitlines`, which httpx uses."""


class LineMeter:
    """Counter for the lines in a response, and for the bytes and JSON objects in each line."""

    def __init__(self) -> None:
        self._lines_left = EXTRA_LINES
        self._total = self._line_count = 0
        self._pieces: list[bytes] = []
        self._size = 0
        self._brace_count = 0
        self._next_recount = MAX_LINE_OBJECTS

    def feed(self, data: bytes) -> None:
        """Count the next bytes of the response. Raises AnswerTooLong if a limit is exceeded."""
        self._total += len(data)
        if self._total > MAX_RESPONSE_BYTES:
            raise AnswerTooLong(f"The answer exceeded {MAX_RESPONSE_BYTES // 1000000} MB and was stopped.")
        lines = len(data) - len(data.translate(None, _LINE_ENDS)) + sum(map(data.count, _MULTIBYTE_LINE_ENDS))
        self._line_count += lines
        if self._line_count > MAX_LINES:
            raise AnswerTooLong(f"The answer has more than {MAX_LINES:,} lines; it was stopped.")
        self._lines_left = min(EXTRA_LINES, self._lines_left + len(data) // BYTES_PER_LINE + BYTES_PER_LINE - lines)
        if self._lines_left < 0:
            raise AnswerTooLong("The answer consists of almost empty lines; it was stopped.")
        start = 0
        # Most chunks are complete events with few objects: one count is enough.
        if not self._pieces and data.count(b"{") <= MAX_LINE_OBJECTS and b"\n" in data:
            start = data.rindex(b"\n") + 1
        while start < len(data):
            end = data.find(b"\n", start)
            if end < 0:
                self._add(data[start:])
                return
            self._add(data[start:end])
            self._start_line()
            start = end + 1

    def _start_line(self) -> None:
        self._pieces.clear()
        self._size = self._brace_count = 0
        self._next_recount = MAX_LINE_OBJECTS

    def _add(self, piece: bytes) -> None:
        self._pieces.append(piece)
        self._size += len(piece)
        self._brace_count += piece.count(b"{")
        if self._size > MAX_EVENT_BYTES:
            raise AnswerTooLong(f"One event of the answer exceeded {MAX_EVENT_BYTES // 1000000} MB; it was stopped.")
        if self._brace_count > self._next_recount:
            # Braces inside strings were counted as well; count again without them.
            count = count_objects(b"".join(self._pieces))
            if count > MAX_LINE_OBJECTS:
                raise AnswerTooLong(
                    f"One event of the answer has more than {MAX_LINE_OBJECTS:,} objects; it was stopped."
                )
            self._next_recount = 2 * self._brace_count


class EventLineBuffer:
    """Buffer that releases only complete lines of an event stream, and limits the number of lines in each event.

    Without the buffer, event stream decoders would copy an incomplete line each time another piece of it arrives.
    """

    def __init__(self) -> None:
        self._rest: list[bytes] = []
        self._line_count = 0

    def feed(self, data: bytes) -> bytes:
        """Add bytes, and return all lines that are now complete.

        Raises AnswerTooLong if an event has too many lines.
        """
        end = data.rfind(b"\n") + 1
        if not end:
            self._rest.append(data)
            return b""
        whole = b"".join([*self._rest, data[:end]])
        self._rest = [data[end:]] if end < len(data) else []
        # Add the end of the previous line, in case the data begins with an empty line.
        text = b"\n" + whole.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        first, *events = text.split(b"\n\n")
        self._check_line_count(self._line_count + first.count(b"\n") - 1)
        for event in events:
            self._check_line_count(event.count(b"\n"))
        return whole

    def flush(self) -> bytes:
        """Return the incomplete last line, or b"" if there is none."""
        return b"".join(self._rest)

    def _check_line_count(self, lines: int) -> None:
        self._line_count = lines
        if lines > MAX_EVENT_LINES:
            raise AnswerTooLong(f"One event of the answer has more than {MAX_EVENT_LINES} lines; it was stopped.")


def split_lines(data: bytes) -> Iterator[bytes]:
    """Split *data* at line ends into pieces of at least MAX_PIECE_BYTES; the last piece may be shorter."""
    start = 0
    while start < len(data):
        end = data.find(b"\n", start + MAX_PIECE_BYTES) + 1 or len(data)
        yield data[start:end]
        start = end


class Decompressor:
    """Incremental decompressor for gzip and deflate."""

    def __init__(self) -> None:
        self._decompressor = zlib.decompressobj(zlib.MAX_WBITS | 32)
        self._compressed_size = self._decompressed_size = 0

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield the decompressed *data* in small pieces. Raises AnswerTooLong or CompressionRefused."""
        self._compressed_size += len(data)
        while data and not self._decompressor.eof:
            try:
                plain = self._decompressor.decompress(data, _DECOMPRESSION_CHUNK)
            except zlib.error as error:
                raise CompressionRefused("The compressed answer cannot be read; it was stopped.") from error
            data = self._decompressor.unconsumed_tail
            self._decompressed_size += len(plain)
            if self._decompressed_size > DECOMPRESSION_ALLOWANCE + MAX_DECOMPRESSION_RATIO * self._compressed_size:
                raise AnswerTooLong(
                    f"The answer decompresses to over {DECOMPRESSION_ALLOWANCE // 1000000} MB and "
                    f"{MAX_DECOMPRESSION_RATIO} times its size; it was stopped."
                )
            if plain:
                yield plain


class ErrorFinder:
    """Collector for the body of a small JSON response, which may be an error instead of a stream of events."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._size = 0

    def feed(self, data: bytes) -> None:
        """Add bytes of the body."""
        self._size += len(data)
        if self._size <= MAX_ERROR_BYTES:
            self._pieces.append(data)

    def check(self, *, is_stream_expected: bool = False) -> None:
        """Raise ErrorInAnswer if the complete body is a JSON object with an error.

        If *is_stream_expected* is set, also raise it if the body is a complete answer: litellm expects a stream of
        events, and would treat this body as an empty answer.
        """
        if self._size > MAX_ERROR_BYTES:
            return
        body = as_object(loads_or_none(b"".join(self._pieces)))
        if is_stream_expected and body.get("object") == "chat.completion":
            raise ErrorInAnswer("The provider sent its answer as one JSON object, not as a stream of events.", None)
        error: Any = body.get("error")
        details = as_object(error)
        message = error if isinstance(error, str) else details.get("message")
        if isinstance(message, str) and message.strip():
            raise ErrorInAnswer(message.strip(), details.get("code"))


def _requests_stream(response: Any) -> bool:
    """Return whether the request asked for a stream of events; for a few models, litellm requests no stream."""
    try:
        content: bytes = response.request.content
    except RuntimeError:  # no request, or its content is not kept
        return False
    return as_object(loads_or_none(content)).get("stream") is True


async def _read_error(response: Any, data: AsyncIterator[bytes]) -> bytes:
    """Return the beginning of the body of a failed request, read from *data*.

    The rest is not read. The limits on answers do not apply, because the error for an exceeded limit would replace the
    provider's error.
    """
    body = bytearray()
    async for piece in data:
        body += piece
        if len(body) >= MAX_ERROR_BYTES:
            await response.aclose()
            break
    return bytes(body[:MAX_ERROR_BYTES])


async def _read_decoded(response: Any, plain: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Yield the body of *response*, decompressed within limits; *plain* reads a body that is not compressed."""
    encoding = response.headers.get("content-encoding", "").strip().lower()
    if encoding in ("", "identity") or response.is_stream_consumed:
        async for data in plain:
            yield data
        return
    if encoding not in ("gzip", "x-gzip", "deflate"):
        raise CompressionRefused(f"The answer came in the encoding {encoding[:50]!r}, which was not requested.")
    inflater = Decompressor()
    async for packed in response.aiter_raw():
        for data in inflater.feed(packed):
            await anyio.lowlevel.checkpoint()  # let the tasks of other answers run
            yield data


def limit_responses(response: Any) -> None:
    """Patch a response class (`httpx.Response`) to enforce the limits of this module on all reads."""
    read = response.aiter_bytes

    async def aiter_bytes(self: Any, chunk_size: int | None = None) -> AsyncIterator[bytes]:
        if self.is_error and not self.is_stream_consumed:
            yield await _read_error(self, _read_decoded(self, read(self, chunk_size)))
            return
        meter = LineMeter()
        kind = self.headers.get("content-type", "").lower()
        is_events = kind.startswith("text/event-stream")
        errors = ErrorFinder() if self.is_success and kind.startswith("application/json") else None
        events = EventLineBuffer() if is_events else None
        async for data in _read_decoded(self, read(self, chunk_size)):
            meter.feed(data)
            if errors is not None:
                errors.feed(data)
            for lines in split_lines(data if events is None else events.feed(data)):
                # litellm skips empty events without waiting, so that a cancelled answer would not end.
                await anyio.lowlevel.checkpoint()
                yield lines
        if events is not None and (rest := events.flush()):
            yield rest
        if errors is not None:
            errors.check(is_stream_expected=_requests_stream(self))

    response.aiter_bytes = aiter_bytes


def disable_compression(client: Any) -> None:
    """Patch a client class (`httpx.AsyncClient`) to request uncompressed responses."""
    send = client.send

    async def send_plain(self: Any, request: Any, **options: Any) -> Any:
        request.headers["accept-encoding"] = "identity"
        return await send(self, request, **options)

    client.send = send_plain
