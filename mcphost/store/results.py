"""Whole results that were too big for a model, as files: for the user alone, bounded together, swept when old."""

import os
import re
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import anyio
import anyio.to_thread

from mcphost.config.schema import ResultsConfig
from mcphost.errors import StoreError
from mcphost.paths import make_private_directory
from mcphost.sanitize import replace_surrogates
from mcphost.serialization import Struct

T = TypeVar("T")
_NAME_PATTERN = re.compile(r"[0-9a-f]{16}")
_SUFFIX = ".txt"
_DAY = 86_400
_MEGABYTE = 1_000_000


class StoredText(Struct, frozen=True):
    """A part of a kept result: its text from the byte `offset` to `end`, of `size` bytes in all."""

    text: str
    offset: int
    end: int
    size: int


class ResultStore:
    """One folder of text files that only the user can read; nothing ever runs or opens them by a name from outside.

    Several programs may share the folder. All work is done on a thread, and cancelling waits for it.
    """

    def __init__(self, directory: Path | None, config: ResultsConfig | None = None) -> None:
        """`folder` None keeps nothing."""
        config = config or ResultsConfig()
        self._directory = directory
        self._max_bytes = config.megabytes * _MEGABYTE
        self._max_age = config.days * _DAY

    async def save(self, text: str) -> str:
        """Write it down whole; the path of its file. The oldest go when there are too many. Raises StoreError."""
        return await self._run(lambda folder: self._save(folder, text))

    async def read(self, name: str, offset: int = 0, limit: int = 0) -> StoredText:
        """A part of what was kept under this name; `offset` and `limit` are bytes, no character is cut in two.

        `limit` 0: to its end. Raises StoreError for a name that is none, or of a result that is not kept any more.
        """
        if not _NAME_PATTERN.fullmatch(name):
            raise StoreError(f"No result is kept as {name[:80]!r}.")
        return await self._run(lambda folder: _read_part(folder / f"{name}{_SUFFIX}", offset, limit))

    async def read_all(self, path: str) -> str:
        """All of what was kept as this file, which may have moved with the folder. Raises StoreError."""
        return (await self.read(Path(path).stem)).text

    async def delete_expired(self) -> None:
        """Take away what is too old or too much. Raises nothing but cancellation."""
        with suppress(StoreError):
            await self._run(self._delete_expired)

    async def _run(self, work: Callable[[Path], T]) -> T:
        folder = self._directory
        if folder is None:
            raise StoreError("Results are not kept in this run.")
        done: list[T] = []
        with anyio.CancelScope(shield=True):
            try:
                done.append(await anyio.to_thread.run_sync(work, folder))
            except OSError as error:
                why = error.strerror or type(error).__name__
                raise StoreError(f"{folder}: {why}.", "Free the disk, or mend its permissions.") from error
        return done[0]

    def _save(self, directory: Path, text: str) -> str:
        body = replace_surrogates(text).encode()
        if len(body) > self._max_bytes:
            raise StoreError(
                f"It is over the {self._max_bytes // _MEGABYTE} MB that all kept results may have together."
            )
        make_private_directory(directory)
        name = secrets.token_hex(8)
        beside, path = directory / f"{name}.part", directory / f"{name}{_SUFFIX}"
        try:
            # O_EXCL and O_NOFOLLOW: never through a link that somebody put there.
            file = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
            with os.fdopen(file, "wb") as out:
                out.write(body)
            beside.replace(path)
        except OSError:
            beside.unlink(missing_ok=True)
            raise
        self._delete_expired(directory)
        return str(path)

    def _delete_expired(self, directory: Path) -> None:
        if not directory.is_dir():
            return
        oldest = time.time() - self._max_age
        total = 0
        for when, size, path in sorted(_iter_files(directory), reverse=True):
            total += size
            if when < oldest or total > self._max_bytes:
                path.unlink(missing_ok=True)


def _iter_files(directory: Path) -> Iterator[tuple[float, int, Path]]:
    """What is ours in there: time, size, path. A file of another name is left alone."""
    with os.scandir(directory) as entries:
        for entry in entries:
            stem, _, ending = entry.name.partition(".")
            if _NAME_PATTERN.fullmatch(stem) and ending in {"txt", "part"}:
                with suppress(FileNotFoundError):
                    facts = entry.stat(follow_symlinks=False)
                    yield facts.st_mtime, facts.st_size, Path(entry.path)


def _read_part(path: Path, offset: int, limit: int) -> StoredText:
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    except FileNotFoundError as error:
        raise StoreError("This result is not kept any more.", "Call the tool again.") from error
    with os.fdopen(file, "rb") as source:
        size = os.fstat(source.fileno()).st_size
        start = source.seek(min(max(0, offset), size))
        body = source.read(limit if limit > 0 else -1)
    first = next((at for at in range(min(4, len(body))) if not _is_continuation_byte(body[at])), 0) if start else 0
    end = start + len(body)
    last = len(body) if end == size else _complete_length(body)
    return StoredText(body[first:last].decode("utf-8", "replace"), start + first, start + last, size)


def _is_continuation_byte(byte: int) -> bool:
    """Whether it is a later byte of a character."""
    return byte & 0xC0 == 0x80


def _complete_length(body: bytes) -> int:
    """How much of the beginning ends with a whole character."""
    for back in range(1, min(4, len(body)) + 1):
        byte = body[-back]
        if not _is_continuation_byte(byte):
            need = 1 if byte < 0x80 else 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return len(body) if back >= need else len(body) - back
    return len(body)
