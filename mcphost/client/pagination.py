"""Functions that list all tools, resources, prompts or skills of a server, page by page, within limits.

The limits apply to the numbers of pages and entries, and to their size in bytes. Malformed entries are skipped. If the
server did not declare the capability for a list, no request is sent, and the list is empty.
"""

import zlib
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from itertools import accumulate
from typing import Any, Generic, TypeVar, overload

from mcphost.client.session import Session
from mcphost.errors import MalformedMessage, RequestRefused
from mcphost.json_limits import check_plain_value, has_only_small_values
from mcphost.protocol.base import ClientRequest
from mcphost.protocol.jsonrpc import INVALID_PARAMS, METHOD_NOT_FOUND
from mcphost.protocol.prompts import ListPrompts, Prompt
from mcphost.protocol.resources import ListResources, ListResourceTemplates, Resource, ResourceTemplate
from mcphost.protocol.skills import ListSkills, Skill, has_skills
from mcphost.protocol.tools import ListTools, Tool
from mcphost.serialization import Raw, Struct, WireStruct, decode, decode_or_none, make_decoder
from mcphost.transport.flow_control import Throttle

SEPARATOR = b",\n"
"""Separator of the JSON texts in a block: valid in a JSON array, and with a line break to count the texts."""
MIN_COMPRESSED_BLOCK = 64 * 1024
"""Minimum size in bytes of a block that is compressed."""
MAX_COMPRESSED_BLOCK = 256 * 1024
"""Maximum size in bytes of a block that is compressed; compressing a larger one would block the event loop."""
MIN_COMPRESSION_RATIO = 4
"""Minimum compression ratio; text with less repetition takes ten times as much CPU time."""
_MEMORY_LEVEL = 5
T = TypeVar("T")


class PackedJsonList(Sequence[bytes]):
    """Append-only sequence of JSON texts, stored in compressed blocks.

    The tool definitions from one server are similar: ten thousand of them are compressed to a thirtieth of their size.
    To read an item, the block that contains it is decompressed. The last decompressed block is cached, so that an
    iteration over all items decompresses each block only once.
    """

    __slots__ = ("_blocks", "_first_indexes", "_is_compressing", "_last_expanded", "_next_offsets")

    def __init__(self) -> None:
        self._blocks: list[tuple[bytes, bool]] = []  # the block, and whether it is compressed
        self._first_indexes: list[int] = []  # index of each block's first text
        self._next_offsets = array("I")  # end of each item in its block, with the separator
        self._is_compressing = True
        self._last_expanded = (-1, b"")

    def extend(self, texts: Sequence[bytes | Raw]) -> None:
        """Append *texts*, which are stored together as one block."""
        self.append_block(SEPARATOR.join(texts), map(len, texts))

    def append_block(self, block: bytes, lengths: Iterator[int]) -> None:
        """Append texts that are already joined with SEPARATOR; *lengths* are their sizes in bytes."""
        first = len(self._next_offsets)
        self._next_offsets.extend(accumulate(map(len(SEPARATOR).__add__, lengths)))
        if len(self._next_offsets) == first:
            return
        self._first_indexes.append(first)
        packed = self._compress(block)
        self._blocks.append((block, False) if packed is None else (packed, True))

    def _compress(self, block: bytes) -> bytes | None:
        """Return the compressed block, or None if it should be stored uncompressed.

        Once a block compresses poorly, no later block is compressed.
        """
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
        return len(self._next_offsets)

    def __iter__(self) -> Iterator[bytes]:
        firsts = [*self._first_indexes, len(self._next_offsets)]
        for number in range(len(self._blocks)):
            block, start = self._expand(number), 0
            for following in self._next_offsets[firsts[number] : firsts[number + 1]]:
                yield block[start : following - len(SEPARATOR)]
                start = following

    @overload
    def __getitem__(self, index: int) -> bytes: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[bytes]: ...
    def __getitem__(self, index: int | slice) -> bytes | Sequence[bytes]:
        if isinstance(index, slice):
            return tuple(self[one] for one in range(*index.indices(len(self))))
        index = range(len(self))[index]  # handles negative indexes and raises IndexError
        number = bisect_right(self._first_indexes, index) - 1
        start = 0 if index == self._first_indexes[number] else self._next_offsets[index - 1]
        return self._expand(number)[start : self._next_offsets[index] - len(SEPARATOR)]


class LazySequence(Sequence[T]):
    """Sequence that decodes an item from JSON whenever the item is accessed.

    This saves memory: ten thousand decoded tool definitions would take twice as much as their JSON texts. *make*
    decodes one JSON text, and must not raise an error.
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


MAX_PAGES = 1_000
MAX_ITEMS = 10_000
MAX_BYTES = 16 * 1024 * 1024
"""Maximum total size of the entries of a list in bytes, including ENTRY_BYTES of overhead for each."""
ENTRY_BYTES = 200
MAX_CURSOR_LENGTH = 64 * 1024
_MAX_RESTARTS = 2
_GROUP_SIZE = 128
_GROUP_BYTES = 192 * 1024
"""Maximum total size in bytes of the entries that are decoded together."""


class ListEntry(Struct, Generic[T], frozen=True):
    """A decoded entry of a list, with its original JSON, from which the host computes a digest to detect changes."""

    value: T
    raw: Raw


class Listing(Struct, Generic[T], frozen=True):
    """All valid entries of a list; `problems` has a sentence about each entry or part that was omitted.

    `ttl_ms` is the time, in milliseconds, for which the server declares the list to be valid.
    """

    entries: Sequence[ListEntry[T]] = ()
    problems: tuple[str, ...] = ()
    ttl_ms: float = 0

    @property
    def values(self) -> tuple[T, ...]:
        """The decoded entries; `entries` also has the JSON of each one."""
        return tuple(entry.value for entry in self.entries)


class _EntryName(WireStruct, frozen=True):
    name: str = ""


async def list_tools(session: Session) -> Listing[Tool]:
    """List all tools. Raises ServerError or ConsentDenied; see `Session.request`."""
    if session.facts.capabilities.tools is None:
        return Listing()
    return await _list_all(session, lambda cursor: ListTools(cursor=cursor), "tools", Tool, "tool")


async def list_resources(session: Session) -> Listing[Resource]:
    """List all resources. Raises ServerError or ConsentDenied; see `Session.request`."""
    if session.facts.capabilities.resources is None:
        return Listing()
    return await _list_all(session, lambda cursor: ListResources(cursor=cursor), "resources", Resource, "resource")


async def list_resource_templates(session: Session) -> Listing[ResourceTemplate]:
    """List all resource templates; return an empty list if the server does not support the method.

    Raises ServerError or ConsentDenied if the request fails for another reason; see `Session.request`.
    """
    if session.facts.capabilities.resources is None:
        return Listing()
    try:
        return await _list_all(
            session,
            lambda cursor: ListResourceTemplates(cursor=cursor),
            "resource_templates",
            ResourceTemplate,
            "template",
        )
    except RequestRefused as error:
        if error.code == METHOD_NOT_FOUND:
            return Listing()
        raise


async def list_prompts(session: Session) -> Listing[Prompt]:
    """List all prompts. Raises ServerError or ConsentDenied; see `Session.request`."""
    if session.facts.capabilities.prompts is None:
        return Listing()
    return await _list_all(session, lambda cursor: ListPrompts(cursor=cursor), "prompts", Prompt, "prompt")


async def list_skills(session: Session) -> Listing[Skill]:
    """List the skills in the result of skills/list; the server may offer others that are not listed.

    Raises ServerError or ConsentDenied; see `Session.request`.
    """
    if not has_skills(session.facts.capabilities):
        return Listing()
    return await _list_all(session, lambda cursor: ListSkills(cursor=cursor), "skills", Skill, "skill")


async def _list_all(
    session: Session, page_request: Callable[[str | None], ClientRequest[Any]], member: str, kind: type[T], noun: str
) -> Listing[T]:
    """Read all pages of a list; if the list changes while it is being read, start over (at most twice).

    *page_request* returns the request for the page at a cursor; None is the cursor of the first page. *member* is
    the name of the result's member that contains the entries, each of which is decoded as *kind*. *noun* is the
    word for an entry in error messages.
    """
    for _ in range(_MAX_RESTARTS):
        listing = await _read_pages(session, page_request, member, kind, noun)
        if listing is not None:
            return listing
        session.invalidate(page_request(None).METHOD)
    return await _read_pages(session, page_request, member, kind, noun, is_last_try=True) or Listing()


async def _read_pages(
    session: Session,
    page_request: Callable[[str | None], ClientRequest[Any]],
    member: str,
    kind: type[T],
    noun: str,
    *,
    is_last_try: bool = False,
) -> Listing[T] | None:
    """Read all pages of a list once; return None if a cursor or a cached page has expired.

    If *is_last_try* is true, an expired cursor ends the list, and the pages read so far are returned. For the other
    parameters, see `_list_all`.
    """
    gathered = _EntryCollector(kind, noun)
    problems = gathered.problems
    seen: set[bytes] = set()
    cursor: str | None = None
    pace = Throttle()
    ttl = 0.0
    remembered = session.is_cached(page_request(None))
    for number in range(MAX_PAGES):
        call = page_request(cursor)
        if remembered and not is_last_try and not session.is_cached(call):
            return None  # a cached page has expired, and new pages may be inconsistent with those read so far
        try:
            page = await session.request(call)
        except RequestRefused as error:
            if cursor is None or error.code != INVALID_PARAMS:
                raise
            if not is_last_try:
                return None
            problems.append(f"The server rejects its own cursor for the list of {noun}s; the rest was left out.")
            break
        ttl = page.ttl_ms if number == 0 else min(ttl, page.ttl_ms)
        for group in _split_page(getattr(page, member)):
            if not gathered.add(group):
                return gathered.listing(ttl)
            if pace.is_due:
                await pace.yield_control()
        cursor = page.next_cursor
        if cursor is None:
            break
        if wrong := _find_cursor_problem(cursor, seen, noun):
            problems.append(wrong)
            break
    else:
        problems.append(f"The list of {noun}s has more than {MAX_PAGES:,} pages; the rest was left out.")
    return gathered.listing(ttl)


def _split_page(entries: tuple[Raw, ...]) -> Iterator[tuple[Raw, ...]]:
    """Split the entries of a page into groups that each take one or two milliseconds to decode."""
    for start in range(0, len(entries), _GROUP_SIZE):
        yield from _split_by_bytes(entries[start : start + _GROUP_SIZE])


def _split_by_bytes(group: tuple[Raw, ...]) -> Iterator[tuple[Raw, ...]]:
    """Halve a group of entries until each part has at most 192 KiB or a single entry."""
    half = len(group) // 2
    if half == 0 or sum(map(len, group)) <= _GROUP_BYTES:
        yield group
    else:
        yield from _split_by_bytes(group[:half])
        yield from _split_by_bytes(group[half:])


class _EntryCollector(Generic[T]):
    """Collector of the valid entries of a list, up to the limits, and of the problems found in the list."""

    def __init__(self, kind: type[T], noun: str) -> None:
        self._kind = kind
        self._noun = noun
        self._decode_all = make_decoder(tuple[kind, ...], noun)
        self._texts = PackedJsonList()
        self._remaining_bytes = MAX_BYTES
        self.problems: list[str] = []

    def listing(self, ttl: float) -> Listing[T]:
        """Return the collected entries and problems as a Listing that is valid for *ttl* milliseconds."""
        kind = self._kind
        entries = LazySequence(self._texts, lambda text: ListEntry(decode(text, kind), Raw(bytes(text))))
        return Listing(entries, tuple(self.problems), ttl)

    def add(self, group: tuple[Raw, ...]) -> bool:
        """Add the valid entries of a group, and a problem for each invalid entry.

        Returns False if a limit has been reached.
        """
        size = sum(map(len, group)) + ENTRY_BYTES * len(group)
        if len(self._texts) + len(self.problems) + len(group) <= MAX_ITEMS and size <= self._remaining_bytes:
            block = SEPARATOR.join(group)
            if self._is_decodable(block, len(group)):
                self._remaining_bytes -= size
                self._texts.append_block(block, map(len, group))
                return True
        return self._add_singly(group)

    def _is_decodable(self, block: bytes, count: int) -> bool:
        """Return whether all entries of a block can be decoded.

        The block is decoded as one JSON array, which is three times as fast as decoding each entry separately.
        """
        if not has_only_small_values(block, count):
            return False
        try:
            self._decode_all(b"".join((b"[", block, b"]")))  # copies once; `+` would copy twice
        except MalformedMessage:
            return False
        return True

    def _add_singly(self, group: tuple[Raw, ...]) -> bool:
        for raw in group:
            if len(self._texts) + len(self.problems) >= MAX_ITEMS:
                self.problems.append(f"The list of {self._noun}s is longer than {MAX_ITEMS:,}; the rest was left out.")
                return False
            self._remaining_bytes -= len(raw) + ENTRY_BYTES
            if self._remaining_bytes < 0:
                limit = f"{MAX_BYTES // 1024**2} MB"
                self.problems.append(f"The list of {self._noun}s has over {limit}; the rest was left out.")
                return False
            try:
                text = bytes(raw)
                check_plain_value(text)
                decode(text, self._kind, self._noun)
            except MalformedMessage as error:
                self.problems.append(f"{self._describe(raw)} was left out: {error.message[:500]}")
            else:
                self._texts.extend((text,))
        return True

    def _describe(self, raw: Raw) -> str:
        entry = decode_or_none(raw, _EntryName)
        name = "" if entry is None else entry.name
        return f"The {self._noun} {name[:200]!r}" if name else f"A {self._noun} without a readable name"


def _find_cursor_problem(cursor: str, seen: set[bytes], noun: str) -> str:
    """Return a sentence that explains why a cursor must not be used, or "" if it can be used.

    The digest of the cursor is added to *seen*, to detect repetitions. *noun* is the word for a list entry in
    the sentence, such as "tool".
    """
    if len(cursor) > MAX_CURSOR_LENGTH:
        return f"A cursor in the list of {noun}s has {len(cursor):,} characters; the rest was left out."
    digest = sha256(cursor.encode()).digest()
    if digest in seen:
        return f"The list of {noun}s repeats its cursor and never ends; reading stopped there."
    seen.add(digest)
    return ""
