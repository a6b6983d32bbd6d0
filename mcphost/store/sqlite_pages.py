"""Reader of the rows in the pages of an SQLite file, for files that are too damaged for SQLite itself.

SQLite cannot open a file whose header, schema or page tree is damaged. This reader needs none of them: it reads
each page independently and returns the rows that it can decode. It also reads the committed pages of the
write-ahead log. The format is described at https://www.sqlite.org/fileformat2.html. The file may be untrusted:
the reader never writes, allocates at most MAX_ROW_BYTES for a row, and reads no page more than a few times on
average.
"""

import os
import stat
import struct
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import NamedTuple

Value = None | int | float | str | bytes

MAX_FILE_BYTES = 16 * 1024**3
MAX_LOG_BYTES = 1024**3
"""Maximum number of bytes read from a write-ahead log; all its checksums are computed in one step."""
MAX_ROW_BYTES = 128 * 1024**2
_MAGIC = b"SQLite format 3\0"
_HEADER_BYTES = 100
_DEFAULT_SIZE = 4096
_INTERIOR_INDEX, _LEAF_INDEX, _LEAF_TABLE = 2, 10, 13
_CELLS_START = {_INTERIOR_INDEX: 12, _LEAF_INDEX: 8, _LEAF_TABLE: 8}
_MAX_COLUMNS = 32
_MAX_READS = 4
"""Maximum reads of overflow pages, as a multiple of the number of pages.

In a damaged file, many rows may refer to the same page.
"""
_SAMPLED_BYTES = 4 * 1024**2
_LOG_MAGIC = {0x377F0682: "<", 0x377F0683: ">"}
"""The first number of a write-ahead log, and the byte order of its checksums."""
_LOG_HEADER, _FRAME_HEADER = 32, 24


class Place(NamedTuple):
    """The location of a row in the file: its page number, from 1, and its index in the page, from 0."""

    page: int
    cell: int


class StoredRow(NamedTuple):
    """A row, or an entry of an index.

    - `is_table`: True for a row of a table with row ids; False for an index entry, and for a row of a table without row
      ids.
    - `columns`: the number of columns.
    - `values`: the values; shorter than `columns` if only the first values can be read.
    """

    place: Place
    is_table: bool
    rowid: int
    columns: int
    values: tuple[Value, ...]

    @property
    def is_complete(self) -> bool:
        """Whether all values could be read."""
        return len(self.values) == self.columns


class PageFormat(NamedTuple):
    """The size of each page in bytes, and the number of unused bytes at the end of each page."""

    size: int = _DEFAULT_SIZE
    reserved: int = 0

    @property
    def usable(self) -> int:
        """The number of bytes in a page that SQLite uses."""
        return self.size - self.reserved


ShapeFilter = Callable[[bool, str], bool]
"""Function that decides by `is_table` and the types of the columns whether a row is read.

A type is one letter: n (NULL), i (integer), r (real), t (text) or b (blob).
"""


class PageReader:
    """Reader of the rows in one SQLite file.

    Use the reader as a context manager. It must not be used by several threads at once.
    """

    def __init__(self, file: Path, is_wanted: ShapeFilter) -> None:
        """Open *file* and its write-ahead log, if any; only rows that *is_wanted* accepts are read.

        Raises OSError if *file* cannot be opened, is not a regular file, or is larger than MAX_FILE_BYTES.
        """
        self._is_wanted = is_wanted
        self._file, self._size = _open_regular(file)
        self._log: int | None = None
        self._logged: dict[int, int] = {}
        self._file_pages = last = self._local_left = 0
        try:
            self._log, size = _open_regular(file.with_name(f"{file.name}-wal"))
            self._logged, last, log_page_size = _read_log(self._log, min(size, MAX_LOG_BYTES))
        except OSError:
            log_page_size = 0
        self._format = PageFormat()
        self._format = self._choose_format(log_page_size)
        if self._format.size != log_page_size:
            self._logged, last = {}, 0
        self._file_pages = -(-self._size // self._format.size)
        self._last_page = last or 2**32
        self.reset_reads()

    def __enter__(self) -> "PageReader":
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._file)
        if self._log is not None:
            os.close(self._log)

    def list_pages(self) -> Iterator[int]:
        """Yield the numbers of all pages."""
        added = sorted(page for page in self._logged if page > self._file_pages)
        return (page for page in chain(range(1, self._file_pages + 1), added) if page <= self._last_page)

    def read_rows(self, page: int) -> Iterator[StoredRow]:
        """Yield the wanted rows of a page, or nothing if the page has no rows or is damaged.

        The total size of the rows is limited to the size of the page, because thousands of pointers in a damaged page
        may refer to the same row.
        """
        content = self._read_page(page)
        self._local_left = self._format.usable
        for cell in range(_count_cells(content)):
            row = self._read_row(content, page, cell)
            if row is not None:
                yield row

    def read_row(self, place: Place) -> StoredRow | None:
        """Return the row at *place*, or None if the row can no longer be read because the file has changed.

        *place* comes from a row that `read_rows` returned.
        """
        content = self._read_page(place.page)
        self._local_left = self._format.usable
        return self._read_row(content, *place) if place.cell < _count_cells(content) else None

    def reset_reads(self) -> None:
        """Reset the counter that limits the number of overflow pages to read."""
        self._reads_left = _MAX_READS * (self._file_pages + len(self._logged)) + 100

    def _choose_format(self, log_page_size: int) -> PageFormat:
        """Return the page format with which the largest number of rows can be read.

        The format in the file's header is only one of several candidates, because the header may be damaged.
        *log_page_size* is the page size that the write-ahead log specifies, or 0 if there is no such log.
        """
        head = os.pread(self._file, _HEADER_BYTES, 0).ljust(_HEADER_BYTES, b"\0")
        size = int.from_bytes(head[16:18]) or _DEFAULT_SIZE
        size = 65_536 if size == 1 else size
        is_known = head.startswith(_MAGIC) and 512 <= size <= 65_536 and not size & (size - 1)
        stated = PageFormat(size, head[20]) if is_known and size - head[20] >= 480 else PageFormat()
        formats = dict.fromkeys((stated, PageFormat(stated.size), PageFormat(log_page_size or _DEFAULT_SIZE)))
        return next(iter(formats)) if len(formats) == 1 else max(formats, key=self._count_sampled_rows)

    def _count_sampled_rows(self, page_format: PageFormat) -> int:
        pages = -(-min(self._size, _SAMPLED_BYTES) // page_format.size)
        self._format, self._reads_left, self._file_pages = page_format, pages, pages
        return sum(row.is_complete for page in range(1, pages + 1) for row in self.read_rows(page))

    def _read_page(self, page: int) -> bytes:
        size = self._format.size
        if self._log is not None and page in self._logged:
            return os.pread(self._log, size, self._logged[page]).ljust(size, b"\0")
        return os.pread(self._file, size, (page - 1) * size).ljust(size, b"\0")

    def _read_row(self, content: bytes, page: int, cell: int) -> StoredRow | None:
        """Return the row at index *cell* of a page, or None if the row is damaged or not wanted.

        *content* contains the bytes of the page, and *page* is its number.
        """
        kind = content[0]
        pointer = _CELLS_START[kind] + 2 * cell
        at = int.from_bytes(content[pointer : pointer + 2]) + (4 if kind == _INTERIOR_INDEX else 0)
        rowid = 0
        payload_size, at = _read_varint(content, at)
        if kind == _LEAF_TABLE:
            rowid, at = _read_varint(content, at)
        local = _count_local_bytes(payload_size, self._format.usable, is_table=kind == _LEAF_TABLE)
        payload = content[at : min(at + local, self._format.usable)]
        header_size, start = _read_varint(payload, 0)
        if not 2 <= header_size <= min(len(payload), payload_size) or payload_size > MAX_ROW_BYTES:
            return None
        serials: list[int] = []
        while start < header_size and len(serials) <= _MAX_COLUMNS:
            serial, start = _read_varint(payload, start)
            serials.append(serial)
        types = "".join(map(_type_of, serials))
        if start != header_size or not self._is_wanted(kind == _LEAF_TABLE, types):
            return None
        self._local_left -= len(payload)
        if self._local_left < 0:
            return None
        if payload_size > local:
            payload += self._read_overflow(int.from_bytes(content[at + local : at + local + 4]), payload_size - local)
        values = _decode_values(payload, header_size, serials)
        return StoredRow(Place(page, cell), kind == _LEAF_TABLE, _signed(rowid), len(serials), tuple(values))

    def _read_overflow(self, page: int, needed: int) -> bytes:
        """Return the remaining bytes of a payload from its chain of overflow pages, which begins at *page*.

        Returns fewer than *needed* bytes if the chain is broken or the limit on reads is reached.
        """
        pieces: list[bytes] = []
        while needed > 0 and (1 <= page <= self._file_pages or page in self._logged) and self._reads_left > 0:
            self._reads_left -= 1
            content = self._read_page(page)[: self._format.usable]
            piece = content[4 : 4 + needed]
            pieces.append(piece)
            needed -= len(piece)
            page = int.from_bytes(content[:4])
        return b"".join(pieces)


def _open_regular(file: Path) -> tuple[int, int]:
    """Open a file for reading; return its descriptor and size. Raises OSError for a device, pipe or huge file."""
    opened = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    status = os.fstat(opened)
    if stat.S_ISREG(status.st_mode) and status.st_size <= MAX_FILE_BYTES:
        return opened, status.st_size
    os.close(opened)
    is_file = stat.S_ISREG(status.st_mode)
    raise OSError(f"{file} is over {MAX_FILE_BYTES // 1024**3} GB" if is_file else f"{file} is not a file")


def _count_cells(content: bytes) -> int:
    """Return the number of rows that the page header specifies, or 0 if the page is too small for them."""
    start = _CELLS_START.get(content[0])
    if start is None:
        return 0
    count = int.from_bytes(content[3:5])
    return count if start + 2 * count <= len(content) else 0


def _read_varint(content: bytes, at: int) -> tuple[int, int]:
    """Return the variable-length integer at position *at*, and the position after it."""
    value = 0
    for byte in content[at : at + 8]:
        value, at = value << 7 | byte & 0x7F, at + 1
        if byte < 0x80:
            return value, at
    return (value << 8 | content[at], at + 1) if at < len(content) else (0, at + 1)


def _signed(value: int) -> int:
    return value - 2**64 if value >= 2**63 else value


def _count_local_bytes(payload_size: int, usable: int, *, is_table: bool) -> int:
    """Return the number of bytes of a payload that are stored in the page itself.

    The other bytes are in overflow pages. *payload_size* is the size of the payload, and *usable* is the number
    of bytes that SQLite uses in each page. *is_table* means that the page belongs to a table with row ids, not
    to an index.
    """
    most = usable - 35 if is_table else (usable - 12) * 64 // 255 - 23
    if payload_size <= most:
        return payload_size
    least = (usable - 12) * 32 // 255 - 23
    local = least + (payload_size - least) % (usable - 4)
    return local if local <= most else least


def _type_of(serial: int) -> str:
    if serial >= 12:
        return "t" if serial % 2 else "b"
    return "niiiiiiriixx"[serial]


def _decode_values(payload: bytes, at: int, serials: list[int]) -> Iterator[Value]:
    """Yield the values of a record, stopping at the first one that is incomplete in *payload*.

    The values begin at position *at*. *serials* are the serial types of the values, as defined by the SQLite
    file format.
    """
    for serial in serials:
        size = (serial - 12) // 2 if serial >= 12 else (0, 1, 2, 3, 4, 6, 8, 8, 0, 0, 0, 0)[serial]
        if size > len(payload) - at:
            return
        raw, at = payload[at : at + size], at + size
        if serial >= 12:
            yield raw.decode(errors="replace") if serial % 2 else raw
        elif serial == 7:
            yield struct.unpack(">d", raw)[0]
        else:
            yield None if serial in (0, 10, 11) else serial - 8 if serial >= 8 else int.from_bytes(raw, signed=True)


def _read_log(log: int, size: int) -> tuple[dict[int, int], int, int]:
    """Read a write-ahead log, and return the location of the last committed version of each page.

    The first result maps page numbers to offsets in the log; the others are the number of pages in the database
    after the last commit, and the size of a page in bytes. The mapping is empty and the size is 0 if the log has no
    commit. Each frame is verified with the checksum of the frame before it, so a damaged frame does not hide the
    frames after it.
    """
    head = os.pread(log, _LOG_HEADER, 0)
    if len(head) < _LOG_HEADER:
        return {}, 0, 0
    magic, _, page_size, _, *salts, first, second = struct.unpack(">8I", head)
    order = _LOG_MAGIC.get(magic)
    if order is None or not 512 <= page_size <= 65_536 or page_size & (page_size - 1):
        return {}, 0, 0
    committed: dict[int, int] = {}
    uncommitted: dict[int, int] = {}
    pages = 0
    before = first, second
    for at in range(_LOG_HEADER, size - _FRAME_HEADER - page_size + 1, _FRAME_HEADER + page_size):
        frame = os.pread(log, _FRAME_HEADER + page_size, at)
        number, count, *frame_salts, first, second = struct.unpack(">6I", frame[:_FRAME_HEADER])
        # Frames with other salts are left over from before the log was last reset.
        if frame_salts == salts and _add_checksum(frame[:8] + frame[_FRAME_HEADER:], before, order) == (first, second):
            uncommitted[number] = at + _FRAME_HEADER
            if count:
                committed.update(uncommitted)
                uncommitted.clear()
                pages = count
        before = first, second
    return committed, pages, page_size if committed else 0


def _add_checksum(content: bytes, before: tuple[int, int], order: str) -> tuple[int, int]:
    first, second = before
    for left, right in struct.iter_unpack(f"{order}II", content):
        first = (first + left + second) & 0xFFFFFFFF
        second = (second + right + first) & 0xFFFFFFFF
    return first, second
