"""Incremental server-sent-events decoder, no I/O (WHATWG HTML, "interpreting an event stream")."""

from mcphost.data import Data
from mcphost.errors import MalformedMessage

EVENT_LIMIT = 16 * 1024 * 1024


class Event(Data, frozen=True):
    """One dispatched event; `data` is its lines joined with LF, as bytes."""

    kind: str
    data: bytes
    ident: str


class EventDecoder:
    """Feed chunks, split anywhere, and get complete events; raises MalformedMessage for an event over the limit.

    Linear: an unfinished line waits as a list of chunks and is joined once.
    """

    def __init__(self, limit: int = EVENT_LIMIT) -> None:
        self._limit = limit
        self._chunks: list[bytes] = []
        self._size = 0
        self._unfinished = 0
        self._after_cr = False
        self._at_start = True
        self._kind = ""
        self._data: list[bytes] = []
        self.last_id = ""
        self.retry: float | None = None

    def feed(self, chunk: bytes) -> list[Event]:
        """The events that `chunk` completes."""
        events: list[Event] = []
        if self._after_cr and chunk:
            self._after_cr = False
            if chunk.startswith(b"\n"):
                chunk = chunk[1:]
        start = 0
        while start < len(chunk):
            end, after = _line_end(chunk, start)
            if end < 0:
                piece = chunk[start:]
                self._chunks.append(piece)
                self._unfinished += len(piece)
                self._check()
                break
            if after > len(chunk):
                self._after_cr = True  # a CR at the very end; an LF may follow and belongs to it
                after = len(chunk)
            piece = chunk[start:end]
            start = after
            if self._chunks:
                self._chunks.append(piece)
                piece = b"".join(self._chunks)
                self._chunks = []
                self._unfinished = 0
            event = self._line(piece)
            if event is not None:
                events.append(event)
        return events

    def _check(self) -> None:
        if self._size + self._unfinished > self._limit:
            raise MalformedMessage(f"event over {self._limit // (1024 * 1024)} MB")

    def _line(self, line: bytes) -> Event | None:
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
            # One more for the LF that will join it: a million empty lines have a size too.
            self._size += len(value) + 1
            self._check()
            self._data.append(value)
        elif name == b"event":
            self._kind = value.decode(errors="replace")[:1000]
        elif name == b"id":
            if b"\0" not in value and len(value) <= 1000:
                self.last_id = value.decode(errors="replace")
        elif name == b"retry" and value.isdigit() and len(value) < 10:
            self.retry = int(value) / 1000
        return None

    def _dispatch(self) -> Event | None:
        self._size = 0
        kind, self._kind = self._kind, ""
        if not self._data:
            return None
        lines, self._data = self._data, []
        return Event(kind or "message", lines[0] if len(lines) == 1 else b"\n".join(lines), self.last_id)


def _line_end(chunk: bytes, start: int) -> tuple[int, int]:
    """Where the line that begins at `start` ends, and where the next begins (past the chunk: a final CR)."""
    lf = chunk.find(b"\n", start)
    # Looking for CR only up to the LF keeps this linear.
    cr = chunk.find(b"\r", start, lf if lf >= 0 else len(chunk))
    if cr < 0:
        return (lf, lf + 1) if lf >= 0 else (-1, -1)
    if cr + 1 == len(chunk):
        return cr, len(chunk) + 1
    return cr, cr + 2 if chunk[cr + 1 : cr + 2] == b"\n" else cr + 1
