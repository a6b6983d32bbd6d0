"""Compact storage for long lists of JSON texts, and sequences that decode values on access."""

import zlib
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from typing import TypeVar, overload

from mcphost.serialization import Raw

SEPARATOR = b",\n"
"""Separates the texts of a block. JSON allows line breaks only as white space, so lines can be counted."""
MIN_COMPRESSED_BLOCK = 64 * 1024
"""Smallest block in bytes that is compressed."""
MAX_COMPRESSED_BLOCK = 256 * 1024
"""Largest block in bytes that is compressed; larger ones would block the event loop."""
MIN_COMPRESSION_RATIO = 4
"""Smallest useful compression ratio. Text with less repetition costs ten times the CPU time to compress."""
_MEMORY_LEVEL = 5
T = TypeVar("T")


class PackedJsonList(Sequence[bytes]):
    """An append-only sequence of JSON texts, stored in blocks.

    Definitions of one server are similar: ten thousand take a thirtieth of their text. Reading a text decompresses its
    block; the last decompressed block is cached, so sequential reading decompresses each block once.
    """

    __slots__ = ("_blocks", "_end_offsets", "_first_indexes", "_is_compressing", "_last_expanded")

    def __init__(self) -> None:
        self._blocks: list[tuple[bytes, bool]] = []  # the block, and whether it is compressed
        self._first_indexes: list[int] = []  # index of each block's first text
        self._end_offsets = array("I")  # end of each text in its block
        self._is_compressing = True
        self._last_expanded = (-1, b"")

    def extend(self, texts: Sequence[bytes | Raw]) -> None:
        """Append texts as one block."""
        self.append_block(SEPARATOR.join(texts), map(len, texts))

    def append_block(self, block: bytes, lengths: Iterator[int]) -> None:
        """Append texts joined with SEPARATOR; *lengths* are their sizes in bytes."""
        first = len(self._end_offsets)
        self._end_offsets.extend(accumulate(lengths, lambda end, length: end + len(SEPARATOR) + length))
        if len(self._end_offsets) == first:
            return
        self._first_indexes.append(first)
        packed = self._compress(block)
        self._blocks.append((block, False) if packed is None else (packed, True))

    def _compress(self, block: bytes) -> bytes | None:
        """Return the compressed block; None, also for later blocks, if compression does not pay."""
        if not self._is_compressing or not MIN_COMPRESSED_BLOCK <= len(block) <= MAX_COMPRESSED_BLOCK:
            return None
        compressor = zlib.compressobj(1, zlib.DEFLATED, -zlib.MAX_WBITS, _MEMORY_LEVEL)
        packed = compressor.compress(block) + compressor.flush()
        self._is_compressing = len(packed) * MIN_COMPRESSION_RATIO <= len(block)
        return packed if self._is_compressing else None

    def _expand(self, number: int) -> bytes:
        block, is_compressed = self._blocks[number]
        if not is_compressed:
            return block
        known, text = self._last_expanded  # read once: other threads may replace it
        if known != number:
            text = zlib.decompress(block, -zlib.MAX_WBITS)
            self._last_expanded = (number, text)
        return text

    def __len__(self) -> int:
        return len(self._end_offsets)

    def __iter__(self) -> Iterator[bytes]:
        firsts = [*self._first_indexes, len(self._end_offsets)]
        for number in range(len(self._blocks)):
            block, start = self._expand(number), 0
            for end in self._end_offsets[firsts[number] : firsts[number + 1]]:
                yield block[start:end]
                start = end + len(SEPARATOR)

    @overload
    def __getitem__(self, index: int) -> bytes: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[bytes]: ...
    def __getitem__(self, index: int | slice) -> bytes | Sequence[bytes]:
        if isinstance(index, slice):
            return tuple(self[one] for one in range(*index.indices(len(self))))
        index = range(len(self))[index]  # handles negative indexes and raises IndexError
        number = bisect_right(self._first_indexes, index) - 1
        start = 0 if index == self._first_indexes[number] else self._end_offsets[index - 1] + len(SEPARATOR)
        return self._expand(number)[start : self._end_offsets[index]]


class LazySequence(Sequence[T]):
    """Values decoded from their JSON on each access.

    Ten thousand definitions as objects would double the memory of their text. *make* must accept every text.
    """

    __slots__ = ("_make", "_texts")

    def __init__(self, texts: Sequence[bytes | Raw], make: Callable[[bytes | Raw], T]) -> None:
        self._texts = texts
        self._make = make

    def __len__(self) -> int:
        return len(self._texts)

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[T]: ...
    def __getitem__(self, index: int | slice) -> T | Sequence[T]:
        if isinstance(index, slice):
            return LazySequence(self._texts[index], self._make)
        return self._make(self._texts[index])

    def __iter__(self) -> Iterator[T]:
        return map(self._make, self._texts)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and tuple(self) == tuple(other)  # pyright: ignore[reportUnknownArgumentType]

    __hash__ = None  # pyright: ignore[reportAssignmentType]
