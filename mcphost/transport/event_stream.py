"""Incremental decoder for server-sent events (WHATWG HTML, "interpreting an event stream"). No I/O."""

from mcphost.errors import MalformedMessage
from mcphost.serialization import Struct

EVENT_LIMIT = 16 * 1024 * 1024
SHORT_LINE_ALLOWANCE = 10_000
BYTES_PER_LINE = 8
_JOIN_THRESHOLD = 256


class ServerSentEvent(Struct, frozen=True):
    """One server-sent event; `data` contains its data lines as bytes, joined with LF."""

    event: str
    data: bytes
    id: str


class EventDecoder:
    """Incremental decoder for a stream of server-sent events, which can be fed in chunks of any size.

    Two limits apply: the size of an event in bytes, including line endings and field names, and the number of
    lines (one for every 8 bytes received, plus 10,000). `feed` raises MalformedMessage if either is exceeded.
    Decoding time is linear in the size of the stream, because an unfinished line is stored as a list of chunks
    that is joined only once.
    """

    def __init__(self, limit: int = EVENT_LIMIT) -> None:
        self._limit = limit
        self._chunks: list[bytes] = []
        self._size = 0
        self._unfinished_bytes = 0
        self._after_cr = False
        self._at_start = True
        self._event = ""
        self._data: list[bytes] = []
        self._joined = bytearray()
        self._lines_left = SHORT_LINE_ALLOWANCE
        self.last_id = ""
        self.retry: float | None = None

    def feed(self, chunk: bytes) -> list[ServerSentEvent]:
        """Add bytes from the stream, and return the events that are now complete."""
        if self._after_cr and chunk:
            self._after_cr = False
            if chunk.startswith(b"\n"):
                chunk = chunk[1:]
        if b"\r" in chunk:
            self._after_cr = chunk.endswith(b"\r")  # an LF that follows belongs to this line end
            chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        lines = chunk.split(b"\n")
        rest = lines.pop()
        if lines and self._chunks:
            self._chunks.append(lines[0])
            lines[0] = b"".join(self._chunks)
            self._chunks = []
            self._unfinished_bytes = 0
        if rest:
            self._chunks.append(rest)
            self._unfinished_bytes += len(rest)
            self._check_size()
        self._lines_left = min(SHORT_LINE_ALLOWANCE, self._lines_left + len(chunk) // BYTES_PER_LINE + 8 - len(lines))
        if self._lines_left < 0:
            raise MalformedMessage("an event stream of almost empty lines")
        events: list[ServerSentEvent] = []
        for line in lines:
            event = self._feed_line(line)
            if event is not None:
                events.append(event)
        return events

    def _check_size(self) -> None:
        if self._size + self._unfinished_bytes > self._limit:
            raise MalformedMessage(f"an event over {self._limit // (1024 * 1024)} MB")

    def _feed_line(self, line: bytes) -> ServerSentEvent | None:
        if self._at_start:
            self._at_start = False
            line = line.removeprefix(b"\xef\xbb\xbf")
        if not line:
            return self._dispatch()
        name, colon, value = line.partition(b":")
        if colon and not name:
            return None  # a comment, used as a keep-alive
        value = value.removeprefix(b" ")
        if name == b"data":
            self._size += len(line) + 1
            self._check_size()
            self._data.append(value)
            if len(self._data) >= _JOIN_THRESHOLD:
                # A list of short lines takes ten times as much memory as their bytes.
                self._joined += b"\n".join(self._data) + b"\n"
                self._data = []
        elif name == b"event":
            self._event = value[:4000].decode(errors="replace")[:1000]
        elif name == b"id":
            if b"\0" not in value and len(value) <= 1000:
                self.last_id = value.decode(errors="replace")
        elif name == b"retry" and value.isdigit() and len(value) < 10:
            self.retry = int(value) / 1000
        return None

    def _dispatch(self) -> ServerSentEvent | None:
        self._size = 0
        kind, self._event = self._event, ""
        if not self._data and not self._joined:
            return None
        lines, self._data = self._data, []
        if not self._joined:
            data = lines[0] if len(lines) == 1 else b"\n".join(lines)
        else:
            folded, self._joined = self._joined, bytearray()
            folded += b"\n".join(lines)
            data = bytes(folded if lines else folded[:-1])
        return ServerSentEvent(kind or "message", data, self.last_id)
