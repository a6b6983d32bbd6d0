"""Walks every page of a list within limits of pages and items; one broken entry never hides the others.

A list the server did not declare is empty and not asked for.
"""

from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from typing import Any, Generic, TypeVar

from mcphost.client.packed_json import SEPARATOR, LazySequence, PackedJsonList
from mcphost.client.session import Session
from mcphost.errors import MalformedMessage, RequestRefused
from mcphost.json_limits import check_plain_value, has_only_small_values
from mcphost.protocol.base import ClientRequest
from mcphost.protocol.jsonrpc import INVALID_PARAMS, METHOD_NOT_FOUND
from mcphost.protocol.prompts import ListPrompts, Prompt
from mcphost.protocol.resources import ListResources, ListResourceTemplates, Resource, ResourceTemplate
from mcphost.protocol.skills import ListSkills, Skill, has_skills
from mcphost.protocol.tasks import ListTasks, Task
from mcphost.protocol.tools import ListTools, Tool
from mcphost.serialization import Raw, Struct, WireStruct, decode, make_decoder
from mcphost.transport.throttle import Throttle

MAX_PAGES = 1_000
MAX_ITEMS = 10_000
MAX_BYTES = 16 * 1024 * 1024
"""Of all entries of a list together, with 200 bytes for each."""
ENTRY_BYTES = 200
MAX_CURSOR_LENGTH = 64 * 1024
_MAX_RESTARTS = 2
_GROUP_SIZE = 128
_GROUP_BYTES = 192 * 1024
"""Entries are decoded in groups of so many, and of at most so many bytes."""
T = TypeVar("T")


class ListEntry(Struct, Generic[T], frozen=True):
    """One decoded entry and the bytes it came from; fingerprints are taken from `raw`."""

    value: T
    raw: Raw


class Listing(Struct, Generic[T], frozen=True):
    """All pages together; `problems` names what was left out and why, one sentence each."""

    entries: Sequence[ListEntry[T]] = ()
    problems: tuple[str, ...] = ()
    ttl_ms: float = 0

    @property
    def values(self) -> tuple[T, ...]:
        """The decoded entries alone."""
        return tuple(entry.value for entry in self.entries)


class _EntryName(WireStruct, frozen=True):
    name: str = ""


async def list_tools(session: Session) -> Listing[Tool]:
    """Every tool. Raises what `Session.request` raises."""
    if session.facts.capabilities.tools is None:
        return Listing()
    return await _list_all(session, lambda cursor: ListTools(cursor=cursor), "tools", Tool, "tool")


async def list_resources(session: Session) -> Listing[Resource]:
    """Every resource. Raises what `Session.request` raises."""
    if session.facts.capabilities.resources is None:
        return Listing()
    return await _list_all(session, lambda cursor: ListResources(cursor=cursor), "resources", Resource, "resource")


async def list_resource_templates(session: Session) -> Listing[ResourceTemplate]:
    """Every resource template; a server that does not know the method has none. Raises as `Session.request` does."""
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
    """Every prompt. Raises what `Session.request` raises."""
    if session.facts.capabilities.prompts is None:
        return Listing()
    return await _list_all(session, lambda cursor: ListPrompts(cursor=cursor), "prompts", Prompt, "prompt")


async def list_tasks(session: Session) -> Listing[Task]:
    """List all of our tasks on a server of 2025-11-25.

    Raises what `Session.request` raises, and UnsupportedCapability when the server cannot list tasks.
    """
    return await _list_all(session, lambda cursor: ListTasks(cursor=cursor), "tasks", Task, "task")


async def list_skills(session: Session) -> Listing[Skill]:
    """Every skill the server lists; it may have more. Raises what `Session.request` raises."""
    if not has_skills(session.facts.capabilities):
        return Listing()
    return await _list_all(session, lambda cursor: ListSkills(cursor=cursor), "skills", Skill, "skill")


async def _list_all(
    session: Session, page_request: Callable[[str | None], ClientRequest[Any]], member: str, kind: type[T], noun: str
) -> Listing[T]:
    """Page by page; from the start again, a few times, when pages of two lists would be mixed."""
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
    """One walk; None when a cursor is not good any more, unless it is the last try: then what there is."""
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
            return None  # the rest of what is remembered ran out; new pages may not fit behind old ones
        try:
            page = await session.request(call)
        except RequestRefused as error:
            if cursor is None or error.code != INVALID_PARAMS:
                raise
            if not is_last_try:
                return None
            problems.append(f"The server refuses its own cursor for the list of {noun}s; the rest was left out.")
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
    """Cut a page into what is decoded in a millisecond or two."""
    for start in range(0, len(entries), _GROUP_SIZE):
        yield from _split_by_bytes(entries[start : start + _GROUP_SIZE])


def _split_by_bytes(group: tuple[Raw, ...]) -> Iterator[tuple[Raw, ...]]:
    """Halve a group until each part has few enough bytes, or a single entry."""
    half = len(group) // 2
    if half == 0 or sum(map(len, group)) <= _GROUP_BYTES:
        yield group
    else:
        yield from _split_by_bytes(group[:half])
        yield from _split_by_bytes(group[half:])


class _EntryCollector(Generic[T]):
    """The entries of a list so far, within its limits, and what was left out."""

    def __init__(self, kind: type[T], noun: str) -> None:
        self._kind = kind
        self._noun = noun
        self._decode_all = make_decoder(tuple[kind, ...], noun)
        self._texts = PackedJsonList()
        self._remaining_bytes = MAX_BYTES
        self.problems: list[str] = []

    def listing(self, ttl: float) -> Listing[T]:
        """Return what was gathered."""
        kind = self._kind
        entries = LazySequence(self._texts, lambda text: ListEntry(decode(text, kind), Raw(bytes(text))))
        return Listing(entries, tuple(self.problems), ttl)

    def add(self, group: tuple[Raw, ...]) -> bool:
        """Keep the entries that can be decoded, and name those that cannot; False when the list is too long."""
        size = sum(map(len, group)) + ENTRY_BYTES * len(group)
        if len(self._texts) + len(self.problems) + len(group) <= MAX_ITEMS and size <= self._remaining_bytes:
            block = SEPARATOR.join(group)
            if self._is_decodable(block, len(group)):
                self._remaining_bytes -= size
                self._texts.append_block(block, map(len, group))
                return True
        return self._add_singly(group)

    def _is_decodable(self, block: bytes, count: int) -> bool:
        """Whether all can be decoded, found out in one pass: that takes a third of the time."""
        if not has_only_small_values(block, count):
            return False
        try:
            self._decode_all(b"[" + block + b"]")
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
        try:
            name = decode(raw, _EntryName).name
        except MalformedMessage:
            name = ""
        return f"The {self._noun} {name[:200]!r}" if name else f"A {self._noun} without a readable name"


def _find_cursor_problem(cursor: str, seen: set[bytes], noun: str) -> str:
    """Why a cursor is not followed, "" when it is; remembers its digest."""
    if len(cursor) > MAX_CURSOR_LENGTH:
        return f"A cursor of the list of {noun}s has {len(cursor):,} characters; the rest was left out."
    digest = sha256(cursor.encode()).digest()
    if digest in seen:
        return f"The list of {noun}s repeats its cursor and never ends; reading stopped there."
    seen.add(digest)
    return ""
