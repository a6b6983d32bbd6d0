"""Clients for MCP registries: one for the HTTP API, and one for JSON files.

The HTTP client supports `/v0.1/servers` and `/v0/servers`. Responses are cached on disk, which avoids repeated
requests, and allows searches without a network connection.
"""

import hashlib
import logging
import os
import time
from collections.abc import AsyncGenerator, Iterable, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Protocol
from urllib.parse import quote, urlencode

import anyio
import anyio.to_thread

from mcphost.auth.url_policy import UnsafeUrl, check_url
from mcphost.config.file_edits import replace_file
from mcphost.config.json_files import read_bytes
from mcphost.errors import ConfigError, MalformedMessage, McpHostError, RegistryError, RequestNotSent
from mcphost.paths import make_private_directory
from mcphost.registry.entries import (
    RegistryEntry,
    RegistryPage,
    check_name,
    decode_entry,
    decode_page,
    latest_entries,
)
from mcphost.sanitize import quote_text, sanitize
from mcphost.serialization import Struct, WireStruct, decode, encode, replace
from mcphost.transport.http_client import HttpClient, create_client
from mcphost.unicode_forms import split_url

_log = logging.getLogger(__name__)
REQUEST_TIMEOUT = 15.0
SEARCH_TIMEOUT = 60.0
FRESH_SECONDS = 600.0
"""Maximum age in seconds of a cached response that is used without a new request."""
MAX_PAGES_READ = 10
_PAGE_SIZE = 100
_MAX_SEARCH_WORDS = 5
_MAX_FILE_BYTES = 16 * 1024 * 1024
_MAX_PROBLEMS = 5
_API_VERSIONS = ("/v0.1", "/v0")
MAX_PAGE_BYTES = 4 * 1024 * 1024
MAX_CACHED_PAGES = 300
"""Maximum number of cached responses per registry; the oldest are deleted."""


class CachedPage(Struct, frozen=True):
    """A cached response body, and the time at which it was fetched, in seconds since 1970."""

    body: bytes
    fetched: float


class _PageHeader(WireStruct, frozen=True):
    url: str
    fetched: float


class PageCache:
    """Cache for one registry's responses, in a folder of its own; damaged files are treated as missing."""

    def __init__(self, folder: Path, registry: str) -> None:
        """Create a cache for the registry with the base URL *registry*, in a separate folder below *folder*."""
        self._folder = folder / hashlib.sha256(registry.encode()).hexdigest()[:16]

    def load(self, url: str) -> CachedPage | None:
        """Return the cached response for *url*, or None if it is not cached."""
        return self._read(self._path(url), url)

    def save(self, url: str, body: bytes) -> None:
        """Cache the response *body* for *url*. Errors are ignored, because the cache is optional."""
        header = encode(_PageHeader(url, time.time()))
        with suppress(OSError):
            make_private_directory(self._folder)
            replace_file(self._path(url), header + b"\n" + body)
            for old in self._paths()[MAX_CACHED_PAGES:]:
                old.unlink(missing_ok=True)

    def pages(self) -> Iterator[CachedPage]:
        """Yield all cached responses, newest first."""
        for path in self._paths()[:MAX_CACHED_PAGES]:
            page = self._read(path)
            if page is not None:
                yield page

    def _path(self, url: str) -> Path:
        return self._folder / f"{hashlib.sha256(url.encode()).hexdigest()[:32]}.json"

    def _paths(self) -> list[Path]:
        try:
            dated = [(path.stat().st_mtime, path) for path in self._folder.glob("*.json")]
        except OSError:
            return []
        return [path for _, path in sorted(dated, reverse=True)]

    def _read(self, path: Path, url: str = "") -> CachedPage | None:
        try:
            first, _, body = read_bytes(path, MAX_PAGE_BYTES + 8_192).partition(b"\n")
            header = decode(first, _PageHeader)
        except (OSError, ConfigError, MalformedMessage):
            return None
        if url and header.url != url:
            return None
        # A time in the future means that the clock was set back; the response must not count as recent until then.
        return CachedPage(body, header.fetched if header.fetched <= time.time() else 0.0)


class RegistryAnswer(Struct, frozen=True, kw_only=True):
    """Result of a registry query.

    - `entries`: the matching entries.
    - `problems`: a sentence for each entry that was left out.
    - `fetched`: when the oldest response used for the result was fetched, in seconds since 1970, or 0 if unknown.
    - `offline_reason`: the reason why the registry could not be reached. It is "" if the registry was reached, or if
      the cached responses were recent enough.
    """

    entries: tuple[RegistryEntry, ...]
    problems: tuple[str, ...] = ()
    fetched: float
    offline_reason: str = ""
    is_cut: bool = False
    """Whether `entries` may lack some of the matches."""


class ServerRegistry(Protocol):
    """Interface of a registry of MCP servers; every method may raise RegistryError."""

    async def search(self, text: str, limit: int, updated_since: str = "") -> RegistryAnswer:
        """Search for the words in *text*, ignoring case; return at most *limit* servers, each in its latest version.

        All words must occur in the name, title or description of a server. With *updated_since*, an RFC 3339 time in
        UTC, only servers updated since then are returned, including deleted ones.
        """
        ...

    async def list_versions(self, name: str) -> RegistryAnswer:
        """Return all versions of a server in the registry's order; an HTTP registry lists the newest first."""
        ...

    async def find(self, name: str, version: str = "") -> RegistryAnswer:
        """Return a single version of a server; a *version* of "" means the latest."""
        ...


class RegistryUnreachable(RegistryError):
    """Raised when the registry cannot be reached; cached responses can be used instead."""


@asynccontextmanager
async def open_registry(place: str, cache_folder: Path, *, refresh: bool = False) -> "AsyncGenerator[ServerRegistry]":
    """Open the registry at *place*, a base URL or the path of a JSON file.

    With *refresh*, recent cached responses are not used. Raises RegistryError if *place* is blank, or if a URL is
    neither https nor http to this machine.
    """
    if not place.strip():
        raise RegistryError(
            '"registry.url" in config.toml is empty.',
            "Write the address of a registry or the path of a file there, or remove the line to use the official one.",
        )
    if "://" not in place or place.startswith("file://"):
        yield FileRegistry(place.removeprefix("file://"))
        return
    base = place.rstrip("/").removesuffix("/servers")  # as in the address of a list in a registry's documentation
    try:
        check_url(base, "address of the registry")
    except UnsafeUrl as error:
        raise RegistryError(error.message, "Correct it in [registry] of config.toml, or in --registry.") from error
    if "?" in base:
        raise RegistryError(f"The address of the registry {base[:200]!r} has a query.", "Pass its base URL.")
    try:
        client = create_client(split_url(base).hostname or "", base, {}, warn=_log.warning)
    except McpHostError as error:
        raise RegistryError(error.message, "Correct the address of the registry or the proxy.") from error
    try:
        yield HttpRegistry(base, client, PageCache(cache_folder, base), refresh=refresh)
    finally:
        await client.close()


class _WordSearch:
    """Progress of one search in the API: the parameters of the search, and the position of the next page."""

    def __init__(self, query: dict[str, str]) -> None:
        self._query = query
        self._cursors: set[str] = set()
        self._cursor = ""
        self.pages = 0
        self.is_complete = False
        """Whether the last page was read."""

    @property
    def path(self) -> str:
        """The path of the next page."""
        return f"/servers?{urlencode(self._query | ({'cursor': self._cursor} if self._cursor else {}))}"

    def advance(self, cursor: str) -> None:
        """Continue with the page at *cursor*; end the search if *cursor* is empty or was used before."""
        self.pages += 1
        self.is_complete = not cursor or cursor in self._cursors
        self._cursors.add(cursor)
        self._cursor = cursor


class HttpRegistry:
    """A registry with the official HTTP API; if the registry cannot be reached, cached responses are used."""

    def __init__(self, base: str, client: HttpClient, cache: PageCache, *, refresh: bool = False) -> None:
        self._base, self._client, self._cache = base, client, cache
        self._refresh = refresh
        self._prefixes = ("",) if base.endswith(_API_VERSIONS) else _API_VERSIONS
        self._host = split_url(base).netloc

    async def search(self, text: str, limit: int, updated_since: str = "") -> RegistryAnswer:
        """Search for *text*; see `ServerRegistry.search`."""
        try:
            with anyio.fail_after(SEARCH_TIMEOUT):
                return await self._search_pages(text, limit, updated_since)
        except TimeoutError:
            reason = f"{self._host} did not answer within {SEARCH_TIMEOUT:g} s."
        except RegistryUnreachable as error:
            reason = error.message
        return await self._search_cache(text, limit, updated_since, reason)

    async def _search_pages(self, text: str, limit: int, updated_since: str) -> RegistryAnswer:
        """Search for each word of *text* with the API, one page after another, and merge the matches.

        The API's `search` finds only text within a server's name. A single search for all words would therefore miss a
        server whose name contains only some of them, even if its description contains the others.
        """
        words = _find_search_words(text)
        size = min(limit, _PAGE_SIZE) if len(words) == 1 else _PAGE_SIZE
        common = {"version": "latest", "limit": str(size)} | ({"updated_since": updated_since} if updated_since else {})
        searches = [_WordSearch({**common, **({"search": word} if word else {})}) for word in words]
        entries: list[RegistryEntry] = []
        problems: list[str] = []
        began = fetched = time.time()
        found: tuple[RegistryEntry, ...] = ()
        for _ in range(MAX_PAGES_READ):
            search = min((one for one in searches if not one.is_complete), key=lambda one: one.pages, default=None)
            if search is None or len(found) >= limit:
                break
            stored = await self._get(search.path)
            if stored is None:
                path = f"{split_url(self._base).path}{self._prefixes[0]}/servers"
                raise RegistryError(f"{self._host} has no {path}.", "Is this the address of a registry?")

            def add(stored: CachedPage = stored) -> tuple[RegistryPage, tuple[RegistryEntry, ...]]:
                page = decode_page(stored.body, self._host)
                entries.extend(entry for entry in page.entries if _matches(entry, text, updated_since))
                return page, latest_entries(entries)

            # Decoding the largest page takes longer than the event loop may be blocked.
            page, found = await anyio.to_thread.run_sync(add)
            known = set(problems) if len(words) > 1 else ()  # the pages of two words can have the same entry
            problems += (problem for problem in page.problems if problem not in known)
            fetched = min(fetched, stored.fetched)
            search.advance(page.next_cursor)
        if fetched < began:  # a response from the cache was used
            found = await anyio.to_thread.run_sync(self._use_newer, found, fetched)
        is_asked_in_part = len({*text.lower().split()}) > len(words)
        is_cut = len(found) > limit or is_asked_in_part or not all(search.is_complete for search in searches)
        return RegistryAnswer(entries=found[:limit], problems=_shorten(problems), fetched=fetched, is_cut=is_cut)

    async def _search_cache(self, text: str, limit: int, updated_since: str, reason: str) -> RegistryAnswer:
        entries, fetched = await anyio.to_thread.run_sync(self._read_cache)
        matching = (entry for entry in entries if _matches(entry, text, updated_since))
        found = await anyio.to_thread.run_sync(latest_entries, matching)
        if not entries:
            raise RegistryUnreachable(reason, "Check the network, then try again. Nothing is in the cache.")
        return RegistryAnswer(entries=found[:limit], fetched=fetched, offline_reason=reason, is_cut=len(found) > limit)

    async def list_versions(self, name: str) -> RegistryAnswer:
        """Return all versions of a server; see `ServerRegistry.list_versions`."""
        check_name(name)
        try:
            stored = await self._get(f"/servers/{quote(name, safe='')}/versions")
        except RegistryUnreachable as error:
            return await self._find_in_cache(name, "", error, all_versions=True)
        if stored is None:
            raise _unknown_server(name, "")
        page = await anyio.to_thread.run_sync(decode_page, stored.body, self._host)
        entries = tuple(entry for entry in page.entries if entry.name == name)
        return RegistryAnswer(entries=entries, problems=_shorten(page.problems), fetched=stored.fetched)

    async def find(self, name: str, version: str = "") -> RegistryAnswer:
        """Return one version of a server; see `ServerRegistry.find`."""
        check_name(name)
        try:
            stored = await self._get(f"/servers/{quote(name, safe='')}/versions/{quote(version or 'latest', safe='')}")
        except RegistryUnreachable as error:
            return await self._find_in_cache(name, version, error)
        if stored is None:
            raise _unknown_server(name, version)
        try:
            entry = decode_entry(stored.body)
        except RegistryError as error:
            raise RegistryError(f"The entry of {name} cannot be used. {error.message}", error.hint) from error
        if entry.name != name or version not in ("", entry.version):
            shown = sanitize(f"{entry.name} {entry.version}", keep_newlines=False)
            raise RegistryError(f"{self._host} answered with {shown} instead of {f'{name} {version}'.strip()}.")
        entries = (entry,)
        if not version:
            entries = await anyio.to_thread.run_sync(self._use_newer, entries, stored.fetched)
        return RegistryAnswer(entries=entries, fetched=stored.fetched)

    def _use_newer(self, entries: tuple[RegistryEntry, ...], fetched: float) -> tuple[RegistryEntry, ...]:
        """Return *entries*, with each entry replaced by a newer one for the same server if the cache has one.

        Only responses that were fetched after the time *fetched*, in seconds since 1970, are searched for newer
        entries.
        """
        names = {entry.name for entry in entries}
        later: list[RegistryEntry] = []
        for stored in self._cache.pages():
            if stored.fetched <= fetched:
                break
            later += (entry for entry in self._decode(stored) if entry.name in names)
        chosen = {entry.name: entry for entry in latest_entries((*later, *entries))}
        return tuple(chosen[entry.name] for entry in entries)

    def _decode(self, stored: CachedPage) -> tuple[RegistryEntry, ...]:
        try:
            page = decode_page(stored.body, self._host)
        except RegistryError:
            page = RegistryPage(())
        return page.entries or _decode_single(stored.body)

    async def _find_in_cache(
        self, name: str, version: str, error: RegistryUnreachable, *, all_versions: bool = False
    ) -> RegistryAnswer:
        entries, fetched = await anyio.to_thread.run_sync(self._read_cache)
        found = tuple(entry for entry in entries if entry.name == name and version in ("", entry.version))
        if not found:
            raise error
        return RegistryAnswer(
            entries=found if all_versions else latest_entries(found), fetched=fetched, offline_reason=error.message
        )

    def _read_cache(self) -> tuple[list[RegistryEntry], float]:
        """Return the newest cached entry for each server version, and the fetch time of the oldest response used.

        The fetch time is in seconds since 1970.
        """
        entries: dict[tuple[str, str], RegistryEntry] = {}
        fetched = time.time()
        for stored in self._cache.pages():
            found = self._decode(stored)
            fetched = min(fetched, stored.fetched) if found else fetched
            for entry in found:
                entries.setdefault((entry.name, entry.version), entry)
        return list(entries.values()), fetched

    async def _get(self, path: str) -> CachedPage | None:
        """Return the response for *path*, relative to the API version's URL, or None if the status is 404.

        A cached response is returned if it is recent enough.
        """
        if not self._refresh:
            for prefix in self._prefixes:
                stored = await anyio.to_thread.run_sync(self._cache.load, self._base + prefix + path)
                if stored is not None and time.time() - stored.fetched < FRESH_SECONDS:
                    return stored
        for prefix in self._prefixes:
            body = await self._request(self._base + prefix + path)
            if body is not None:
                self._prefixes = (prefix,)
                await anyio.to_thread.run_sync(self._cache.save, self._base + prefix + path, body)
                return CachedPage(body, time.time())
        return None

    async def _request(self, url: str) -> bytes | None:
        """Return the body of a response with status 200, or None for 404.

        Raises RegistryUnreachable if cached responses may be used instead, and RegistryError for any other status.
        """
        try:
            with anyio.fail_after(REQUEST_TIMEOUT):
                response = await self._client.copy_with_url(url).request("GET", b"", {"accept": "application/json"})
                try:
                    if response.status == 404:
                        await response.drain()
                        return None
                    if response.status == 200:
                        return await response.read_body(MAX_PAGE_BYTES)
                finally:
                    response.close()
        except TimeoutError as error:
            raise RegistryUnreachable(f"{self._host} did not answer within {REQUEST_TIMEOUT:g} s.", _RETRY) from error
        except RequestNotSent as error:
            cause = error.__cause__
            reason = (cause.message if isinstance(cause, RequestNotSent) else error.message).rstrip(".")
            raise RegistryUnreachable(f"The registry {self._host} cannot be reached: {reason}.", _RETRY) from error
        except McpHostError as error:
            message = error.message.replace(f"The server {self._client.name!r}", f"The registry {self._host}")
            raise RegistryUnreachable(message, _RETRY) from error
        what = f"{self._host} answered with HTTP {response.status}."
        if response.status == 429 or response.status >= 500:
            raise RegistryUnreachable(what, _RETRY)
        raise RegistryError(what, "Check the address of the registry: [registry] url in config.toml, or --registry.")


_RETRY = "Check the network and the address of the registry, then try again."


class FileRegistry:
    """A registry in a JSON file.

    The file contains a list of servers as in the HTTP API, a list of entries, or one server.json.
    """

    def __init__(self, path: str) -> None:
        self._path = Path(os.path.expanduser(path))

    async def search(self, text: str, limit: int, updated_since: str = "") -> RegistryAnswer:
        """Search for *text*; see `ServerRegistry.search`."""
        page, fetched = await anyio.to_thread.run_sync(self._read)
        found = latest_entries(entry for entry in page.entries if _matches(entry, text, updated_since))
        return RegistryAnswer(
            entries=found[:limit], problems=_shorten(page.problems), fetched=fetched, is_cut=len(found) > limit
        )

    async def list_versions(self, name: str) -> RegistryAnswer:
        """Return all versions of a server; see `ServerRegistry.list_versions`."""
        check_name(name)
        page, fetched = await anyio.to_thread.run_sync(self._read)
        found = tuple(entry for entry in page.entries if entry.name == name)
        if not found:
            raise _unknown_server(name, "")
        return RegistryAnswer(entries=found, fetched=fetched)

    async def find(self, name: str, version: str = "") -> RegistryAnswer:
        """Return one version of a server; see `ServerRegistry.find`."""
        answer = await self.list_versions(name)
        found = latest_entries(entry for entry in answer.entries if version in ("", entry.version))
        if not found:
            raise _unknown_server(name, version)
        return RegistryAnswer(entries=found, fetched=answer.fetched)

    def _read(self) -> tuple[RegistryPage, float]:
        try:
            body = read_bytes(self._path, _MAX_FILE_BYTES).strip()
            fetched = self._path.stat().st_mtime
        except OSError as error:
            raise RegistryError(f"The registry {self._path} does not exist.", "Pass a file or a URL.") from error
        except ConfigError as error:
            raise RegistryError(error.message, error.hint) from error
        if body.startswith(b"["):
            body = b'{"servers":' + body + b"}"
        single = _decode_single(body)
        page = RegistryPage(single) if single else decode_page(body, str(self._path))
        return replace(page, entries=tuple(replace(entry, is_from_file=True) for entry in page.entries)), fetched


def _decode_single(body: bytes) -> tuple[RegistryEntry, ...]:
    """Return a tuple with the entry in *body* if *body* is a single registry entry as JSON, otherwise ()."""
    try:
        return (decode_entry(body),)
    except RegistryError:
        return ()


def _find_search_words(text: str) -> list[str]:
    """Return the words to search for with the API, or [""] if *text* contains none.

    The longest ones come first, because they occur in the fewest names.
    """
    words = dict.fromkeys(text.lower().split())
    return sorted(words, key=len, reverse=True)[:_MAX_SEARCH_WORDS] or [""]


def _matches(entry: RegistryEntry, text: str, updated_since: str) -> bool:
    """Return whether an entry contains each word of *text* and was updated at or after *updated_since*.

    Times are RFC 3339 in UTC, which can be compared as strings.
    """
    searched = f"{entry.name} {entry.title} {entry.description}".lower()
    is_found = all(word in searched for word in text.lower().split())
    return is_found and (not entry.updated_at or entry.updated_at >= updated_since)


def _shorten(problems: Iterable[str]) -> tuple[str, ...]:
    all_problems = tuple(problems)
    left = len(all_problems) - _MAX_PROBLEMS
    more = (f"Left out as well: {left} more entries.",) if left > 1 else all_problems[_MAX_PROBLEMS:]
    return (*all_problems[:_MAX_PROBLEMS], *more)


def _unknown_server(name: str, version: str) -> RegistryError:
    return RegistryError(
        f"The registry has no version {quote_text(version, 100)} of {name}."
        if version
        else f"The registry has no server {name}.",
        f"Search for it: mcphost servers search {quote(name.rpartition('/')[2])}",
    )
