"""Splitting of a byte stream into lines in linear time and bounded memory, without I/O."""

import re

from mcphost.errors import MalformedMessage

MESSAGE_LIMIT = 16 * 1024 * 1024
_MANY_EMPTY = b"\n" * 16
_EMPTY_LINES = re.compile(rb"\n{16,}")


class LineSplitter:
    """Splits chunks into complete lines; raises MalformedMessage if a line is too long, complete or not.

    Chunks of an unfinished line are kept in a list and joined once: scanning or joining the whole buffer for every
    chunk takes quadratic time for a 50 MB line.
    """

    __slots__ = ("_chunks", "_limit", "_size")

    def __init__(self, limit: int = MESSAGE_LIMIT) -> None:
        self._chunks: list[bytes] = []
        self._size = 0
        self._limit = limit

    def feed(self, data: bytes) -> list[bytes]:
        """Return the lines that *data* completes, without line ends; consecutive empty lines count as one."""
        if b"\n" not in data:  # most chunks of a long line: splitting would copy them
            self._size += len(data)
            self._check(self._size)
            self._chunks.append(data)
            return []
        if _MANY_EMPTY in data:
            data = _EMPTY_LINES.sub(b"\n\n", data)
        lines = data.split(b"\n")
        tail = lines.pop()
        if lines and self._chunks:
            self._check(self._size + len(lines[0]))
            self._chunks.append(lines[0])
            lines[0] = b"".join(self._chunks)
            self._chunks = []
            self._size = 0
        if tail:
            self._size += len(tail)
            self._check(self._size)
            self._chunks.append(tail)
        return lines

    def flush(self) -> bytes:
        """Return the data after the last line end and clear the buffer."""
        rest = b"".join(self._chunks)
        self._chunks = []
        self._size = 0
        return rest

    def _check(self, size: int) -> None:
        if size > self._limit:
            self._chunks = []
            self._size = 0
            raise MalformedMessage(f"message over {self._limit // (1024 * 1024)} MB")
