"""Splits a byte stream into lines in linear time and bounded memory; no I/O."""

import re

from mcphost.errors import MalformedMessage

MESSAGE_LIMIT = 16 * 1024 * 1024
_MANY_EMPTY = b"\n" * 16
_EMPTY_LINES = re.compile(rb"\n{16,}")


class LineSplitter:
    """Feed chunks, get the complete lines; raises MalformedMessage once an unfinished or finished line is too long.

    Chunks of an unfinished line wait in a list and are joined once: scanning or gluing the whole buffer again for
    every chunk makes a 50 MB line quadratic work.
    """

    __slots__ = ("_chunks", "_limit", "_size")

    def __init__(self, limit: int = MESSAGE_LIMIT) -> None:
        self._chunks: list[bytes] = []
        self._size = 0
        self._limit = limit

    def feed(self, data: bytes) -> list[bytes]:
        """The lines that `data` completes, without their line ends; of many empty ones in a row, one."""
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
        """What came after the last line end; empties the reader."""
        rest = b"".join(self._chunks)
        self._chunks = []
        self._size = 0
        return rest

    def _check(self, size: int) -> None:
        if size > self._limit:
            self._chunks = []
            self._size = 0
            raise MalformedMessage(f"message over {self._limit // (1024 * 1024)} MB")
