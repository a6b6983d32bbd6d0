"""Walks every page of a list within limits of pages and items; one broken entry never hides the others.

A list the server did not declare is empty and not asked for.
"""

from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from typing import Any, Generic, TypeVar, overload

from mcphost.client.session import Session
from mcphost.data import Data, Raw, Wire, decode
from mcphost.errors import MalformedMessage, Refused
from mcphost.json_bounds import check_value
from mcphost.protocol.jsonrpc import INVALID_PARAMS, METHOD_NOT_FOUND
from mcphost.protocol.prompts import ListPrompts, Prompt
from mcphost.protocol.resources import ListResources, ListTemplates, Resource, ResourceTemplate
from mcphost.protocol.skills import ListSkills, Skill, declared
from mcphost.protocol.tasks import ListTasks, Task
from mcphost.protocol.tools import ListTools, Tool
from mcphost.protocol.wire import Call
from mcphost.transport.pace import Pace

MAX_PAGES = 1_000
MAX_ITEMS = 10_000
MAX_BYTES = 16 * 1024 * 1024
"""Of all entries of a list together, with 200 bytes for each."""
ENTRY_BYTES = 200
CURSOR_LIMIT = 64 * 1024
_RESTARTS = 2
T = TypeVar("T")


class Entry(Data, Generic[T], frozen=True):
    """One decoded entry and the bytes it came from; fingerprints are taken from `raw`."""

    value: T
    raw: Raw


class OnDemand(Sequence[T]):
    """Values that are made from their JSON whenever they are looked at.

    Ten thousand definitions as objects take as much memory again as their text. `make` must not fail for any text.
    """

    __slots__ = ("_make", "_texts")

    def __init__(self, texts: tuple[bytes | Raw, ...], make: Callable[[bytes | Raw], T]) -> None:
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
            return OnDemand(self._texts[index], self._make)
        return self._make(self._texts[index])

    def __iter__(self) -> Iterator[T]:
        return map(self._make, self._texts)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and tuple(self) == tuple(other)  # pyright: ignore[reportUnknownArgumentType]

    __hash__ = None  # pyright: ignore[reportAssignmentType]


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
    texts: list[bytes] = []
    problems: list[str] = []
    seen: set[bytes] = set()
    cursor: str | None = None
    room, pace = MAX_BYTES, Pace()
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
        for raw in getattr(page, member):
            if len(texts) + len(problems) >= MAX_ITEMS:
                problems.append(f"The list of {noun}s is longer than {MAX_ITEMS:,}; the rest was left out.")
                return Listing(_entries(texts, kind), tuple(problems), ttl)
            room -= len(raw) + ENTRY_BYTES
            if room < 0:
                problems.append(f"The list of {noun}s has over {MAX_BYTES // 1024**2} MB; the rest was left out.")
                return Listing(_entries(texts, kind), tuple(problems), ttl)
            _take(raw, kind, noun, texts, problems)
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
    return Listing(_entries(texts, kind), tuple(problems), ttl)


def _wrong_cursor(cursor: str, seen: set[bytes], noun: str) -> str:
    """Why a cursor is not followed, "" when it is; remembers its digest."""
    if len(cursor) > CURSOR_LIMIT:
        return f"A cursor of the list of {noun}s has {len(cursor):,} characters; the rest was left out."
    digest = sha256(cursor.encode()).digest()
    if digest in seen:
        return f"The list of {noun}s repeats its cursor and never ends; reading stopped there."
    seen.add(digest)
    return ""


def _entries(texts: list[bytes], kind: type[T]) -> Sequence[Entry[T]]:
    return OnDemand(tuple(texts), lambda text: Entry(decode(text, kind), Raw(bytes(text))))


def _take(raw: Raw, kind: type[T], noun: str, texts: list[bytes], problems: list[str]) -> None:
    """Keep the text of an entry that can be decoded, and name one that cannot."""
    try:
        # A copy: a view of the page would keep all of it alive for as long as one entry lives.
        text = bytes(raw)
        check_value(text)
        decode(text, kind, noun)
        texts.append(text)
    except MalformedMessage as error:
        try:
            name = decode(raw, _Name).name
        except MalformedMessage:
            name = ""
        label = f"The {noun} {name[:200]!r}" if name else f"A {noun} without a readable name"
        problems.append(f"{label} was left out: {error.message[:500]}")
