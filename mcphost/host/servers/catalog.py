"""Functions that list a server's tools, resources, prompts and skills, and compare tool lists."""

import hashlib
import json
import time
from collections.abc import Awaitable, Callable, Generator, Iterable, Sequence
from typing import Any, TypeVar, cast

import anyio
import anyio.lowlevel

from mcphost.client.pagination import (
    SEPARATOR,
    LazySequence,
    ListEntry,
    Listing,
    list_prompts,
    list_resource_templates,
    list_resources,
    list_skills,
    list_tools,
)
from mcphost.client.session import Session
from mcphost.config.schema import ServerConfig
from mcphost.config.server_restrictions import target_digest
from mcphost.errors import MalformedMessage, McpHostError, RequestRefused, RequestTimeout
from mcphost.host.server_views import Catalog
from mcphost.json_limits import has_only_small_values
from mcphost.protocol import skills
from mcphost.protocol.apps import DEFAULT_TOOL_PAGE, ToolPage, parse_tool_page
from mcphost.protocol.skills import Skill
from mcphost.protocol.tools import Tool
from mcphost.sandbox import schema_limits
from mcphost.serialization import Raw, Struct, decode, encode_sorted, loads, replace

INSTRUCTIONS_LIMIT = 4_000
"""Maximum length of a server's instructions in the system prompt, in characters."""
_MAX_INSTRUCTIONS = 5
_MAX_INSTRUCTIONS_SIZE = 200_000
"""Maximum number of remembered instructions of one server, and maximum total length of those of all servers."""
_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=True)
# Maps bytes: digits to "0"; ".", "e" and "E", which occur in non-integers, to "e"; all others to a space.
_DIGITS = bytes(0x30 if byte in b"0123456789" else 0x65 if byte in b".eE" else 0x20 for byte in range(256))
_MANY_DIGITS = b"0" * 18
NAME_LIMIT = 1_000
SLICE_SECONDS = 0.005
_GROUP_SIZE = 64
_GROUP_BYTES = 64 * 1024
DEFINITION_LIMIT = 1024 * 1024
KINDS = ("tools", "resources", "templates", "prompts", "skills")
T = TypeVar("T")


def _decode_tool(raw: bytes | Raw) -> Tool:
    return decode(raw, Tool)


class ToolDefinition(Struct, frozen=True):
    """A valid tool definition from a server: the tool's name, the JSON as received, and the tool's page settings."""

    name: str
    raw: Raw
    page: ToolPage = DEFAULT_TOOL_PAGE

    @property
    def tool(self) -> Tool:
        """The decoded definition; not cached, because decoded tools use twice the memory."""
        return _decode_tool(self.raw)

    @property
    def digest(self) -> str:
        """The SHA-256 of the definition's canonical JSON; computed on demand, because most tools are never called."""
        return fingerprint(self.raw)


class ServerListing(Struct, frozen=True):
    """Everything that a server lists: the catalog, the tools by name, and the problems found in each list.

    `problems` maps each kind of list (see KINDS) to sentences about the problems in that list. `tools_ttl` is how long
    the tool list is valid according to the server, in seconds; 0 if the server does not say.
    """

    catalog: Catalog = Catalog()
    tools: dict[str, ToolDefinition] = {}  # noqa: RUF012
    problems: dict[str, tuple[str, ...]] = {}  # noqa: RUF012
    tools_ttl: float = 0


class KnownInstructions:
    """Record of all instructions from servers that the model may have received in this run.

    Instructions stay in the record after the server's session has ended. Their number and total size are limited;
    `left_out` names the servers of which instructions are missing because of these limits.
    """

    def __init__(self) -> None:
        self.texts: dict[tuple[str, str, str], None] = {}
        """The server, its target and the text of all remembered instructions, oldest first; see `target_digest`."""

        self.left_out: set[str] = set()
        self._latest: dict[str, tuple[ServerConfig, str]] = {}

    def remember(self, server: ServerConfig, text: str) -> None:
        """Remember *text*, a server's instructions, up to the length that is sent to the model.

        If a limit on the number or size of the texts is reached, only the server's name is remembered, in `left_out`.
        """
        latest = self._latest.get(server.name)
        if not text or (latest is not None and latest[0] is server and latest[1] == text):
            return
        self._latest[server.name] = (server, text)
        known = (server.name, target_digest(server), text[:INSTRUCTIONS_LIMIT])
        if known in self.texts:
            return
        count = sum(name == server.name for name, _, _ in self.texts)
        size = sum(len(text) for _, _, text in self.texts)
        if count < _MAX_INSTRUCTIONS and size + len(known[2]) <= _MAX_INSTRUCTIONS_SIZE:
            self.texts[known] = None
        else:
            self.left_out.add(server.name)


class ToolListDiff(Struct, frozen=True):
    """Names of the tools that were added, removed or changed between two listings."""

    added: tuple[str, ...]
    removed: tuple[str, ...]
    changed: tuple[str, ...]

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.changed)


async def fetch_listing(
    session: Session, before: ServerListing | None = None, kinds: Iterable[str] = KINDS
) -> ServerListing:
    """Fetch those lists in *kinds* that the server supports; copy all other lists from *before*.

    The lists are fetched concurrently, with all their pages. If a list other than the tools cannot be fetched, because
    the server rejects the request, does not respond in time or sends an invalid response, this list is left empty, and
    the error is added to `problems`. All other errors from `Session.request` are raised.
    """
    capabilities = session.facts.capabilities
    offers = before or ServerListing()
    catalog, named, problems, ttl = offers.catalog, offers.tools, dict(offers.problems), offers.tools_ttl

    async def tools() -> None:
        nonlocal catalog, named, ttl
        listing = await list_tools(session)
        named, faults = await run_in_slices(parse_tools(listing))
        problems["tools"], ttl = (*listing.problems, *faults), max(0.0, listing.ttl_ms / 1000)
        catalog = replace(catalog, tools=LazySequence(tuple(listed.raw for listed in named.values()), _decode_tool))

    async def resources() -> None:
        nonlocal catalog
        listing = await _list_optional(list_resources, session, "resources")
        problems["resources"] = listing.problems
        catalog = replace(catalog, resources=listing.values)

    async def templates() -> None:
        nonlocal catalog
        listing = await _list_optional(list_resource_templates, session, "templates")
        problems["templates"] = listing.problems
        catalog = replace(catalog, templates=listing.values)

    async def prompts() -> None:
        nonlocal catalog
        listing = await _list_optional(list_prompts, session, "prompts")
        problems["prompts"] = listing.problems
        catalog = replace(catalog, prompts=listing.values)

    async def listed_skills() -> None:
        nonlocal catalog
        loadable, faults = await run_in_slices(_parse_skills(await _list_optional(list_skills, session, "skills")))
        problems["skills"] = faults
        catalog = replace(catalog, skills=loadable)

    declared = {
        "tools": (tools, capabilities.tools is not None),
        "resources": (resources, capabilities.resources is not None),
        "templates": (templates, capabilities.resources is not None),
        "prompts": (prompts, capabilities.prompts is not None),
        "skills": (listed_skills, skills.has_skills(capabilities)),
    }
    await _run_concurrently([read for kind, (read, offered) in declared.items() if offered and kind in kinds])
    left_out = tuple(text for kind in KINDS for text in problems.get(kind, ()))
    return ServerListing(replace(catalog, left_out=left_out), named, problems, ttl)


async def _run_concurrently(reads: Sequence[Callable[[], Awaitable[None]]]) -> None:
    """Run async functions concurrently; on an McpHostError, cancel the others and raise that error.

    Unlike a task group, this raises the error itself rather than an exception group.
    """
    if len(reads) == 1:  # the common case
        await reads[0]()
        return
    failed: list[McpHostError] = []

    async def one(read: Callable[[], Awaitable[None]]) -> None:
        try:
            await read()
        except McpHostError as error:
            failed.append(error)
            tasks.cancel_scope.cancel()

    async with anyio.create_task_group() as tasks:
        for read in reads:
            tasks.start_soon(one, read)
    if failed:
        raise failed[0]


async def run_in_slices(steps: Generator[None, None, T]) -> T:
    """Run a generator to completion and return its result; let other tasks run every 5 milliseconds."""
    deadline = time.perf_counter() + SLICE_SECONDS
    while True:
        try:
            next(steps)
        except StopIteration as done:
            return cast("T", done.value)
        if time.perf_counter() > deadline:
            await anyio.lowlevel.checkpoint()
            deadline = time.perf_counter() + SLICE_SECONDS


def parse_tools(listing: Listing[Tool]) -> Generator[None, None, tuple[dict[str, ToolDefinition], list[str]]]:
    """Check a tool list in steps for `run_in_slices`; return the valid tools by name, and messages about problems.

    There is a message for each invalid tool, and for each tool whose page settings are invalid and ignored.
    """
    named: dict[str, ToolDefinition] = {}
    left_out: list[str] = []
    for group in _group_entries(listing.entries):
        yield
        schemas = _decode_together([entry.value.input_schema for entry in group]) or [None] * len(group)
        for entry, schema in zip(group, schemas, strict=True):
            tool = entry.value
            name = tool.name
            fault = "a second one has that name" if name in named else _definition_error(tool, entry.raw, schema)
            if fault:
                left_out.append(f"The tool {name[:200]!r} was left out: {fault}.")
            else:
                page = parse_tool_page(entry.raw) if b'"_meta"' in bytes(entry.raw) else DEFAULT_TOOL_PAGE
                named[name] = ToolDefinition(name, entry.raw, page)
                if page.fault:
                    left_out.append(f"The page of the tool {name[:200]!r} was ignored: {page.fault}.")
            yield
    return named, left_out


def _group_entries(entries: Iterable[ListEntry[Tool]]) -> Generator[list[ListEntry[Tool]]]:
    """Yield the entries in groups that can be decoded together within milliseconds.

    A group ends when it has the maximum number of entries or bytes.
    """
    group: list[ListEntry[Tool]] = []
    size = 0
    for entry in entries:
        group.append(entry)
        size += len(entry.raw)
        if len(group) == _GROUP_SIZE or size >= _GROUP_BYTES:
            yield group
            group, size = [], 0
    if group:
        yield group


def _parse_skills(listing: Listing[Skill]) -> Generator[None, None, tuple[tuple[Skill, ...], tuple[str, ...]]]:
    """Check a skill list in steps for `run_in_slices`; return the valid skills and messages about problems."""
    faults: dict[str, str] = {}
    for skill in listing.values:
        if fault := skills.find_skill_problem(skill):
            faults[skill.uri] = fault
        yield
    messages = (f"The skill {uri[:200]!r} was left out: {fault}." for uri, fault in faults.items())
    return tuple(skill for skill in listing.values if skill.uri not in faults), (*listing.problems, *messages)


def _decode_together(texts: Sequence[bytes | Raw]) -> list[Any] | None:
    """Decode several JSON texts at once, which is twice as fast as decoding them one by one.

    The values are the same as those returned by `loads`. Returns None if the texts must be decoded one by one, for
    example because one of them is invalid.
    """
    block = SEPARATOR.join(texts)
    if not has_only_small_values(block, len(texts)):
        return None
    try:
        values = decode(b"".join((b"[", block, b"]")), list[Any])
    except MalformedMessage:
        return None
    return values if len(values) == len(texts) else None


def _definition_error(tool: Tool, raw: Raw, decoded: object = None) -> str:
    """Return the reason why a tool cannot be offered to the model, or "" if it can be.

    A tool with an error is left out, because it would make every request to the model fail. *decoded* is the decoded
    input schema; if it is None, the schema is decoded here.
    """
    if not tool.name or len(tool.name) > NAME_LIMIT:
        return f"its name is over {NAME_LIMIT:,} characters" if tool.name else "it has no name"
    if len(raw) > DEFINITION_LIMIT:
        return f"its definition is over {DEFINITION_LIMIT // 1024**2} MB"
    schema = bytes(tool.input_schema)
    if not schema.lstrip().startswith(b"{"):
        return "its inputSchema is not an object"
    problem = schema_limits.find_size_problem(schema)
    if problem:
        return f"its inputSchema cannot be used: {problem}"
    root = cast("dict[str, object] | None", decoded)
    if root is None:
        try:
            root = cast("dict[str, object]", loads(schema, "schema"))  # also rejects 1e400, which is valid as raw JSON
        except MalformedMessage as error:
            return f"its inputSchema cannot be used: {error.message[:200]}"
    if root.get("type") != "object":
        return "its inputSchema is not of type object"
    outside = schema_limits.find_external_reference(schema)
    return f"its inputSchema refers to {outside[:200]!r}, and mcphost downloads no schemas" if outside else ""


async def _list_optional(read: Callable[[Session], Awaitable[Listing[T]]], session: Session, what: str) -> Listing[T]:
    try:
        return await read(session)
    except (RequestRefused, MalformedMessage, RequestTimeout) as error:
        return Listing[T](problems=(f"The list of {what} was left out: {error.message[:500]}",))


def diff_tools(before: ServerListing, after: ServerListing) -> ToolListDiff:
    """Return the names of the tools added, removed or changed between two listings of the same server."""
    old, new = before.tools, after.tools
    return ToolListDiff(
        added=tuple(name for name in new if name not in old),
        removed=tuple(name for name in old if name not in new),
        changed=tuple(
            name
            for name, tool in new.items()
            if name in old and bytes(old[name].raw) != bytes(tool.raw) and old[name].digest != tool.digest
        ),
    )


def fingerprint(definition: Raw | bytes) -> str:
    """Return the hex SHA-256 of a definition's canonical JSON (sorted keys), including unknown fields."""
    raw = bytes(definition)
    try:
        value = loads(raw)
        canonical = encode_sorted(value) if _is_fast_encodable(raw) else _CANONICAL.encode(value).encode()
    except (MalformedMessage, RecursionError, ValueError):
        # Invalid JSON: any change of the bytes is a change.
        canonical = raw
    return hashlib.sha256(canonical).hexdigest()


def fingerprints(definitions: Sequence[Raw | bytes]) -> list[str]:
    """Return the `fingerprint` of each definition, decoding simple definitions in groups for speed."""
    found: list[str] = []
    for start in range(0, len(definitions), _GROUP_SIZE):
        group = definitions[start : start + _GROUP_SIZE]
        values = _decode_together(group) if _is_fast_encodable(b"".join(group)) else None
        if values is None:
            found += map(fingerprint, group)
        else:
            found += [hashlib.sha256(encode_sorted(value)).hexdigest() for value in values]
    return found


def _is_fast_encodable(raw: bytes) -> bool:
    """Return whether `encode_sorted`, which is faster, gives the same output for this JSON as the canonical encoder.

    True only for ASCII text without escapes, and only if all numbers in it are short integers.
    """
    if not raw.isascii() or b"\\" in raw or b"\x7f" in raw:
        return False
    digits = raw.translate(_DIGITS)
    return b"0e" not in digits and _MANY_DIGITS not in digits
