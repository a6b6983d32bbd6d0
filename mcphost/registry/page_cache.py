"""Cache of registry responses on disk, to avoid repeated requests and to work offline."""

import hashlib
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from mcphost.config.file_edits import replace_file
from mcphost.config.json_files import read_bytes
from mcphost.errors import ConfigError, MalformedMessage
from mcphost.paths import make_private_directory
from mcphost.serialization import Struct, WireStruct, decode, encode

MAX_PAGE_BYTES = 4 * 1024 * 1024
MAX_PAGES = 300
"""Maximum cached responses per registry; the oldest are deleted."""


class CachedPage(Struct, frozen=True):
    """Body of a response, and the time at which it was fetched, in seconds since 1970."""

    body: bytes
    fetched: float


class _PageHeader(WireStruct, frozen=True):
    url: str
    fetched: float


class PageCache:
    """Cache of one registry's responses in its own folder; a damaged file is treated as missing."""

    def __init__(self, folder: Path, registry: str) -> None:
        """Create the cache of the registry whose base URL is *registry*, in a separate folder below *folder*."""
        self._folder = folder / hashlib.sha256(registry.encode()).hexdigest()[:16]

    def load(self, url: str) -> CachedPage | None:
        """Return the cached response for *url*, or None."""
        return self._read(self._path(url), url)

    def save(self, url: str, body: bytes) -> None:
        """Cache a response. Errors are ignored, because the cache is optional."""
        header = encode(_PageHeader(url, time.time()))
        with suppress(OSError):
            make_private_directory(self._folder)
            replace_file(self._path(url), header + b"\n" + body, 0o600)
            for old in self._paths()[MAX_PAGES:]:
                old.unlink(missing_ok=True)

    def pages(self) -> Iterator[CachedPage]:
        """Yield all cached responses, newest first."""
        for path in self._paths()[:MAX_PAGES]:
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
        # A time in the future means that the clock was set back; the response must not stay recent until then.
        return CachedPage(body, header.fetched if header.fetched <= time.time() else 0.0)
