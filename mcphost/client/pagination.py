"""Walks every page of a list within limits of pages and items; one broken entry never hides the others.

A list the server did not declare is empty and not asked for.
"""

from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from typing import Any, Generic, TypeVar

from mcphost.client.packed_json import SEPARATOR, OnDemand, PackedTexts
from mcphost.client.session import Session
from mcphost.errors import MalformedMessage, Refused
from mcphost.json_limits import are_small_values, check_value
from mcphost.protocol.base import Call
from mcphost.protocol.jsonrpc import INVALID_PARAMS, METHOD_NOT_FOUND
from mcphost.protocol.prompts import ListPrompts, Prompt
from mcphost.protocol.resources import ListResources, ListTemplates, Resource, ResourceTemplate
from mcphost.protocol.skills import ListSkills, Skill, declared
from mcphost.protocol.tasks import ListTasks, Task
from mcphost.protocol.tools import ListTools, Tool
from mcphost.serialization import Data, Raw, Wire, decode, decoder
from mcphost.transport.throttle import Pace

MAX_PAGES = 1_000
MAX_ITEMS = 10_000
MAX_BYTES = 16 * 1024 * 1024
"""Of all entries of a list together, with 200 bytes for each."""
ENTRY_BYTES = 200
CURSOR_LIMIT = 64 * 1024
_RESTARTS = 2
_GROUP = 128
_GROUP_BYTES = 192 * 1024
"""Entries are decoded in groups of so many, and of at most so many bytes."""
T = TypeVar("T")


class Entry(Data, Generic[T], frozen=True):
    """One decoded entry and the bytes it came from; fingerprints are taken from `raw`."""

    value: T
    raw: Raw


class Listing(Data, Generic[T], frozen=True):
    """All pages together; `problems` names what was left out and why, one sentence each."""

    entries: Sequence[Entry[T]] = ()
    problems: tuple[str, ...] = ()
    ttl_ms: float = 0

    @property
    def values(self) -> tuple[T, ...]:
        """The decoded entries alone."""
        return tuple(entry.value for entry in self.entries)


class _Name(Wire, frozen=True):
    name: str = ""


async def list_tools(session: Session) -> Listing[Tool]:
    """Every tool. Raises what `Session.request` raises."""
    if session.facts.capabilities.tools is None:
        return Listing()
    return await _walk(session, lambda cursor: ListTools(cursor=cursor), "tools", Tool, "tool")


async def list_resources(session: Session) -> Listing[Resource]:
    """Every resource. Raises what `Session.request` raises."""
    if session.facts.capabilities.resources is None:
        return Listing()
    return await _walk(session, lambda cursor: ListResources(cursor=cursor), "resources", Resource, "resource")


async def list_templates(session: Session) -> Listing[ResourceTemplate]:
    """Every resource template; a server that does not know the method has none. Raises as `Session.request` does."""
    if session.facts.capabilities.resources is None:
        return Listing()
    try:
        return await _walk(
            session, lambda cursor: ListTemplates(cursor=cursor), "resource_templates", ResourceTemplate, "template"
        )
    except Refused as error:
        if error.code == METHOD_NOT_FOUND:
            return Listing()
        raise


async def list_prompts(session: Session) -> Listing[Prompt]:
    """Every prompt. Raises what `Session.request` raises."""
    if session.facts.capabilities.prompts is None:
        return Listing()
    return await _walk(session, lambda cursor: ListPrompts(cursor=cursor), "prompts", Prompt, "prompt")


async def list_tasks(session: Session) -> Listing[Task]:
    """Every task of ours at a server of 2025-11-25. Raises what `Session.request` raises; NotOffered without a list."""
    return await _walk(session, lambda cursor: ListTasks(cursor=cursor), "tasks", Task, "task")


async def list_skills(session: Session) -> Listing[Skill]:
    """Every skill the server lists; it may have more. Raises what `Session.request` raises."""
    if not declared(session.facts.capabilities):
        return Listing()
    return await _walk(session, lambda cursor: ListSkills(cursor=cursor), "skills", Skill, "skill")


async def _walk(
    session: Session, page_call: Callable[[str | None], Call[Any]], member: str, kind: type[T], noun: str
) -> Listing[T]:
    """Page by page; from the start again, a few times, when pages of two lists would be mixed."""
    for _ in range(_RESTARTS):
        listing = await _pages(session, page_call, member, kind, noun)
        if listing is not None:
            return listing
        session.forget(page_call(None).METHOD)
    return await _pages(session, page_call, member, kind, noun, last=True) or Listing()


async def _pages(
    session: Session,
    page_call: Callable[[str | None], Call[Any]],
    member: str,
    kind: type[T],
    noun: str,
    *,
    last: bool = False,
) -> Listing[T] | None:
    """One walk; None when a cursor is not good any more, unless it is the last try: then what there is."""
    gathered = _Gathered(kind, noun)
    problems = gathered.problems
    seen: set[bytes] = set()
    cursor: str | None = None
    pace = Pace()
    ttl = 0.0
    remembered = session.is_fresh(page_call(None))
    for number in range(MAX_PAGES):
        call = page_call(cursor)
        if remembered and not last and not session.is_fresh(call):
            return None  # the rest of what is remembered ran out; new pages may not fit behind old ones
        try:
            page = await session.request(call)
        except Refused as error:
            if cursor is None or error.code != INVALID_PARAMS:
                raise
            if not last:
                return None
            problems.append(f"The server refuses its own cursor for the list of {noun}s; the rest was left out.")
            break
        ttl = page.ttl_ms if number == 0 else min(ttl, page.ttl_ms)
        for group in _groups(getattr(page, member)):
            if not gathered.take(group):
                return gathered.listing(ttl)
            if pace.due:
                await pace.rest()
        cursor = page.next_cursor
        if cursor is None:
            break
        if wrong := _wrong_cursor(cursor, seen, noun):
            problems.append(wrong)
            break
    else:
        problems.append(f"The list of {noun}s has more than {MAX_PAGES:,} pages; the rest was left out.")
    return gathered.listing(ttl)


def _groups(entries: tuple[Raw, ...]) -> Iterator[tuple[Raw, ...]]:
    """Cut a page into what is decoded in a millisecond or two."""
    for start in range(0, len(entries), _GROUP):
        yield from _halves(entries[start : start + _GROUP])


def _halves(group: tuple[Raw, ...]) -> Iterator[tuple[Raw, ...]]:
    """Halve a group until each part has few enough bytes, or a single entry."""
    half = len(group) // 2
    if half == 0 or sum(map(len, group)) <= _GROUP_BYTES:
        yield group
    else:
        yield from _halves(group[:half])
        yield from _halves(group[half:])


class _Gathered(Generic[T]):
    """The entries of a list so far, within its limits, and what was left out."""

    def __init__(self, kind: type[T], noun: str) -> None:
        self._kind = kind
        self._noun = noun
        self._decode_all = decoder(tuple[kind, ...], noun)
        self._texts = PackedTexts()
        self._room = MAX_BYTES
        self.problems: list[str] = []

    def listing(self, ttl: float) -> Listing[T]:
        """Return what was gathered."""
        kind = self._kind
        entries = OnDemand(self._texts, lambda text: Entry(decode(text, kind), Raw(bytes(text))))
        return Listing(entries, tuple(self.problems), ttl)

    def take(self, group: tuple[Raw, ...]) -> bool:
        """Keep the entries that can be decoded, and name those that cannot; False when the list is too long."""
        size = sum(map(len, group)) + ENTRY_BYTES * len(group)
        if len(self._texts) + len(self.problems) + len(group) <= MAX_ITEMS and size <= self._room:
            block = SEPARATOR.join(group)
            if self._are_good(block, len(group)):
                self._room -= size
                self._texts.append_block(block, map(len, group))
                return True
        return self._take_singly(group)

    def _are_good(self, block: bytes, count: int) -> bool:
        """Whether all can be decoded, found out in one pass: that takes a third of the time."""
        if not are_small_values(block, count):
            return False
        try:
            self._decode_all(b"[" + block + b"]")
        except MalformedMessage:
            return False
        return True

    def _take_singly(self, group: tuple[Raw, ...]) -> bool:
        for raw in group:
            if len(self._texts) + len(self.problems) >= MAX_ITEMS:
                self.problems.append(f"The list of {self._noun}s is longer than {MAX_ITEMS:,}; the rest was left out.")
                return False
            self._room -= len(raw) + ENTRY_BYTES
            if self._room < 0:
                limit = f"{MAX_BYTES // 1024**2} MB"
                self.problems.append(f"The list of {self._noun}s has over {limit}; the rest was left out.")
                return False
            try:
                text = bytes(raw)
                check_value(text)
                decode(text, self._kind, self._noun)
            except MalformedMessage as error:
                self.problems.append(f"{self._label(raw)} was left out: {error.message[:500]}")
            else:
                self._texts.extend((text,))
        return True

    def _label(self, raw: Raw) -> str:
        try:
            name = decode(raw, _Name).name
        except MalformedMessage:
            name = ""
        return f"The {self._noun} {name[:200]!r}" if name else f"A {self._noun} without a readable name"


def _wrong_cursor(cursor: str, seen: set[bytes], noun: str) -> str:
    """Why a cursor is not followed, "" when it is; remembers its digest."""
    if len(cursor) > CURSOR_LIMIT:
        return f"A cursor of the list of {noun}s has {len(cursor):,} characters; the rest was left out."
    digest = sha256(cursor.encode()).digest()
    if digest in seen:
        return f"The list of {noun}s repeats its cursor and never ends; reading stopped there."
    seen.add(digest)
    return ""
