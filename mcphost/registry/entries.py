"""Entries of an MCP registry, decoded with size limits: the server.json and the registry's metadata.

The schema is version 2025-12-11 of server.json.
"""

import re
from collections.abc import Callable, Iterable
from typing import Any, Literal, cast

from mcphost.errors import MalformedMessage, RegistryError
from mcphost.protocol.base import Icon
from mcphost.registry.popularity import Popularity, read_popularity
from mcphost.sanitize import sanitize_line
from mcphost.serialization import Raw, Struct, WireStruct, as_object, convert, decode, decode_array, loads, replace
from mcphost.translation import N_
from mcphost.unicode_forms import describe_name_risk

MAX_ENTRIES = 500
"""Maximum number of entries read from one page or file; the rest are left out."""
MAX_ENTRY_BYTES = 128 * 1024
MAX_TEXT_LENGTH = 4_096
MAX_ITEMS = 200
"""Maximum number of items of each list, and of members of each object, in an entry."""
MAX_ICONS = 8
"""Maximum number of icons of an entry; the rest are left out."""
_MAX_DEPTH = 10
_MAX_NAME_LENGTH = 200
_MAX_VERSION_LENGTH = 255
_OFFICIAL = "io.modelcontextprotocol.registry/official"
_NAME = re.compile(r"[A-Za-z0-9.-]+/[A-Za-z0-9._-]+")
_SEMVER = re.compile(
    r"v?([0-9]{1,9})\.([0-9]{1,9})\.([0-9]{1,9})(?:-([0-9A-Za-z.-]{1,100}))?(?:\+[0-9A-Za-z.-]{1,100})?"
)

EntryStatus = Literal["active", "deprecated", "deleted"]


class InputVariable(WireStruct, frozen=True):
    """A value that the user enters, or a fixed value if `value` is set (`Input` in the schema).

    A fixed value may contain variables such as `{name}`.
    """

    description: str = ""
    is_required: bool = False
    is_secret: bool = False
    format: str = "string"
    value: str | None = None
    default: str | None = None
    placeholder: str = ""
    choices: tuple[str, ...] = ()


class RegistryInput(InputVariable, frozen=True, rename="camel", omit_defaults=True):
    """An argument, an environment variable or a header, with definitions of the variables in its value."""

    name: str = ""
    type: str = ""
    value_hint: str = ""
    is_repeated: bool = False
    variables: dict[str, InputVariable] = {}  # noqa: RUF012 - msgspec copies mutable defaults


class RegistryTransport(WireStruct, frozen=True):
    """The transport of a package or of a remote server: its URL template, headers and variables."""

    type: str = "stdio"
    url: str = ""
    headers: tuple[RegistryInput, ...] = ()
    variables: dict[str, InputVariable] = {}  # noqa: RUF012


class RegistryPackage(WireStruct, frozen=True):
    """A package from npm, PyPI, OCI, NuGet or MCPB, with its arguments and environment variables."""

    registry_type: str
    identifier: str
    registry_base_url: str = ""
    version: str = ""
    file_sha256: str = ""
    runtime_hint: str = ""
    transport: RegistryTransport = RegistryTransport()
    runtime_arguments: tuple[RegistryInput, ...] = ()
    package_arguments: tuple[RegistryInput, ...] = ()
    environment_variables: tuple[RegistryInput, ...] = ()


class SourceRepository(WireStruct, frozen=True):
    """The location of the source code, as stated by the publisher and not verified."""

    url: str = ""
    source: str = ""
    id: str = ""
    subfolder: str = ""


class _ServerDocument(WireStruct, frozen=True):
    name: str
    version: str
    description: str = ""
    title: str = ""
    status: str = ""
    website_url: str = ""
    repository: SourceRepository = SourceRepository()
    packages: tuple[RegistryPackage, ...] = ()
    remotes: tuple[RegistryTransport, ...] = ()


class _OfficialMetadata(WireStruct, frozen=True):
    status: str = ""
    status_message: str = ""
    published_at: str = ""
    updated_at: str = ""
    is_latest: bool | None = None


class RegistryEntry(Struct, frozen=True, kw_only=True):
    """One version of a server in a registry; the publisher's text is not sanitized for display."""

    name: str
    version: str
    description: str = ""
    title: str = ""
    website_url: str = ""
    repository: SourceRepository = SourceRepository()
    packages: tuple[RegistryPackage, ...] = ()
    remotes: tuple[RegistryTransport, ...] = ()
    icons: tuple[Icon, ...] = ()
    """At most MAX_ICONS icons; invalid ones are left out. Linked icons are never fetched."""

    status: EntryStatus = "active"
    status_message: str = ""
    published_at: str = ""
    updated_at: str = ""
    is_latest: bool | None = None
    """Whether the registry marks the entry as the latest version; None if it does not say."""

    popularity: Popularity = ()
    """Numbers of downloads, installations and stars, as the registry states them."""

    is_from_file: bool = False
    """Whether the entry is from a JSON file, which proves nothing about its publisher."""

    @property
    def namespace(self) -> str:
        """The part of the name whose ownership a registry verifies: a reversed domain name."""
        return self.name.partition("/")[0]

    @property
    def kinds(self) -> tuple[str, ...]:
        """The different ways to install the server, such as `npm` and `remote`."""
        kinds = [package.registry_type for package in self.packages] + ["remote"] * bool(self.remotes)
        return tuple(dict.fromkeys(kinds))


class RegistryPage(Struct, frozen=True):
    """A page of registry entries: the valid ones, a sentence about each invalid one, and the next cursor."""

    entries: tuple[RegistryEntry, ...]
    problems: tuple[str, ...] = ()
    next_cursor: str = ""


class _PageMetadata(WireStruct, frozen=True):
    next_cursor: str | None = None


class _PageDocument(WireStruct, frozen=True):
    servers: Raw = Raw()
    metadata: _PageMetadata | None = None


def decode_page(body: bytes, source: str) -> RegistryPage:
    """Decode a `ServerList` from the API; an invalid entry is left out and reported in `problems`.

    Raises RegistryError if the document is not a `ServerList`; *source* names the registry in the message.
    """
    try:
        page = decode(body, _PageDocument)
        raws, more = decode_array(page.servers or b"[]", MAX_ENTRIES)
    except MalformedMessage as error:
        raise RegistryError(
            f"The response of {source} is not a list of servers: {error.message[:300]}",
            "Is this the address of a registry?",
        ) from error
    problems: list[str] = []
    entries: list[RegistryEntry] = []
    for number, raw in enumerate(raws, 1):
        try:
            entries.append(decode_entry(bytes(raw)))
        except RegistryError as error:
            name = _find_name(bytes(raw))
            message = error.message
            problems.append(
                f"The entry {name} was left out. {message}" if name else f"Entry {number} was left out. {message}"
            )
    if more:
        problems.append(f"Only the first {MAX_ENTRIES} entries of an answer are read.")
    cursor = page.metadata.next_cursor if page.metadata is not None else None
    return RegistryPage(tuple(entries), tuple(problems), cursor or "")


class _NamedDocument(WireStruct, frozen=True):
    """Type for decoding only the name of an entry; its other members are skipped without creating objects."""

    name: str = ""


class _NamedResponse(_NamedDocument, frozen=True):
    server: _NamedDocument | None = None


def _find_name(raw: bytes) -> str:
    """Return the name of an invalid entry, for the message about it, or "" if the name is not valid, either."""
    try:
        found = decode(raw, _NamedResponse)
    except MalformedMessage:
        return ""
    name = found.name if found.server is None else found.server.name
    return name if len(name) <= _MAX_NAME_LENGTH and _NAME.fullmatch(name) else ""


def decode_entry(raw: bytes) -> RegistryEntry:
    """Decode one `ServerResponse` from the API, or a bare server.json.

    Raises RegistryError if it is invalid or exceeds a size limit.
    """
    if len(raw) > MAX_ENTRY_BYTES:
        raise RegistryError(f"It has more than {MAX_ENTRY_BYTES // 1024} KB.")
    try:
        value = loads(raw, "entry")
    except MalformedMessage as error:
        raise RegistryError(error.message[:300]) from error
    outer = as_object(value)
    server = outer.get("server", outer)
    if not isinstance(server, dict):
        raise RegistryError("It is not an object.")
    members = {key: member for key, member in cast("dict[str, Any]", server).items() if key not in ("_meta", "icons")}
    official = as_object(outer.get("_meta")).get(_OFFICIAL)
    try:
        document = convert(_check_value(members), _ServerDocument, "entry")
        about = convert(_check_value(official or {}), _OfficialMetadata, "registry's metadata")
    except MalformedMessage as error:
        raise RegistryError(error.message[:300]) from error
    check_name(document.name)
    _check_version(document)
    icons = _decode_icons(cast("dict[str, Any]", server).get("icons"))
    return replace(_make_entry(document, about, icons), popularity=read_popularity(outer.get("_meta")))


def _decode_icons(value: Any) -> tuple[Icon, ...]:
    """Return the valid icons of an entry; embedded images may be longer than other strings in the entry."""
    items = cast("list[Any]", value)[:MAX_ICONS] if isinstance(value, list) else []
    members = [cast("dict[str, Any]", item) for item in items if isinstance(item, dict)]
    return tuple(
        Icon(src, theme=theme if isinstance(theme := item.get("theme"), str) else None)
        for item in members
        if isinstance(src := item.get("src"), str)
    )


def _make_entry(document: _ServerDocument, about: _OfficialMetadata, icons: tuple[Icon, ...]) -> RegistryEntry:
    status = about.status or document.status or "active"
    return RegistryEntry(
        name=document.name,
        version=document.version,
        description=document.description,
        title=document.title,
        website_url=document.website_url,
        repository=document.repository,
        packages=document.packages,
        remotes=document.remotes,
        icons=icons,
        # A status from a later schema must not be treated as active.
        status=cast("EntryStatus", status) if status in ("active", "deleted") else "deprecated",
        status_message=about.status_message if status in ("active", "deleted", "deprecated") else f"Status: {status}",
        published_at=about.published_at,
        updated_at=about.updated_at,
        is_latest=about.is_latest,
    )


def check_name(name: str) -> None:
    """Check a server's name, such as `io.github.user/weather`. Raises RegistryError if it is invalid."""
    if 3 <= len(name) <= _MAX_NAME_LENGTH and _NAME.fullmatch(name):
        return
    shown = sanitize_line(name, _MAX_NAME_LENGTH)
    risk = describe_name_risk(name[:_MAX_NAME_LENGTH])
    raise RegistryError(
        f"The name {shown!r} is not valid.{f' It {risk}' if risk else ''}",
        "Names look like io.github.user/weather. Search for one: mcphost servers search WORD",
    )


def _check_version(document: _ServerDocument) -> None:
    version = document.version
    if not version or len(version) > _MAX_VERSION_LENGTH or not version.isprintable() or " " in version:
        raise RegistryError(f"The version of {document.name} is not valid.")


def _check_value(value: Any, depth: int = 0) -> Any:
    """Return JSON data without null members.

    Raises RegistryError if *value* exceeds the limits for an entry.
    """
    if depth > _MAX_DEPTH:
        raise RegistryError(f"It is nested deeper than {_MAX_DEPTH} levels.")
    match value:
        case str() if len(value) > MAX_TEXT_LENGTH:
            raise RegistryError(f"A text has more than {MAX_TEXT_LENGTH:,} characters.")
        case list() | dict() if len(cast("list[Any]", value)) > MAX_ITEMS:
            raise RegistryError(f"A list has more than {MAX_ITEMS} items.")
        case list():
            return [_check_value(item, depth + 1) for item in cast("list[Any]", value) if item is not None]
        case dict():
            members = cast("dict[str, Any]", value).items()
            return {key: _check_value(member, depth + 1) for key, member in members if member is not None}
        case _:
            return value


def describe_publisher(entry: RegistryEntry, translate: Callable[[str], str] = str) -> str:
    """Describe the owner of the entry's namespace, as `name_publisher` does.

    If the entry comes from a file, the description adds that the owner is only claimed by the file and not verified.
    *translate* is called with an English string and returns it in the language of the user interface.
    """
    name = name_publisher(entry, translate)
    if not entry.is_from_file:
        return name
    return translate(N_("{publisher} (claimed by the file, not verified)")).format(publisher=name)


def name_publisher(entry: RegistryEntry, translate: Callable[[str], str] = str) -> str:
    """Return the owner of the entry's namespace: a GitHub account, or a domain.

    *translate* is called with an English string and returns it in the language of the user interface.
    """
    labels = entry.namespace.split(".")
    if labels[:2] == ["io", "github"] and len(labels) == 3:
        return translate(N_("GitHub account {name}")).format(name=labels[2])
    return translate(N_("domain {name}")).format(name=".".join(reversed(labels)))


def version_key(version: str) -> tuple[Any, ...] | None:
    """Return a sort key for semantic versions (SemVer 2.0.0, section 11); None for any other version."""
    match = _SEMVER.fullmatch(version)
    if match is None:
        return None
    release = tuple(int(part) for part in match.groups()[:3])
    if match[4] is None:
        return (*release, 1, ())
    # The first item of each pair sorts numbers before words.
    parts = [(0, int(part), "") if part.isdigit() and part.isascii() else (1, 0, part) for part in match[4].split(".")]
    return (*release, 0, tuple(parts))


def is_newer(entry: RegistryEntry, version: str) -> bool:
    """Return whether an entry is newer than *version*.

    If the versions cannot be compared, the result is True unless they are equal.
    """
    own, other = version_key(entry.version), version_key(version)
    if own is None or other is None:
        return entry.version != version
    return own > other


def latest_entries(entries: Iterable[RegistryEntry]) -> tuple[RegistryEntry, ...]:
    """Return one entry for each server name: the one marked as latest, or else the newest.

    Names are in the order of their first occurrence.
    """
    chosen: dict[str, RegistryEntry] = {}
    for entry in entries:
        known = chosen.get(entry.name)
        if known is None or (not known.is_latest and (entry.is_latest or is_newer(entry, known.version))):
            chosen[entry.name] = entry
    return tuple(chosen.values())
