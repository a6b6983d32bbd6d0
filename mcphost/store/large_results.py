"""Storage of tool results that are too large to send to a model.

Each result is a private file; the age and the total size of the files are limited.
"""

import os
import re
import secrets
import time
from collections.abc import Callable, Iterable, Iterator
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
    """Part of a stored tool result; positions and sizes are in bytes.

    - `offset`, `end`: the start and end of the part in the complete result.
    - `size`: the size of the complete result.
    """

    text: str
    offset: int
    end: int
    size: int


class ResultStore:
    """Store for long tool results: a folder of text files with random names, readable only by the user.

    Several processes can share the folder. Files are read and written on a thread; a cancelled caller waits until the
    operation has finished.
    """

    def __init__(self, directory: Path | None, config: ResultsConfig | None = None) -> None:
        """Create a store in the folder *directory*; if it is None, nothing can be stored or read.

        *config* sets limits on the size and age of stored results.
        """
        self._directory = directory
        self.config = config or ResultsConfig()
        """The current limits; if they are lowered, surplus results are deleted when the next one is stored."""

    async def save(self, text: str) -> str:
        """Write *text* to a new file and return its path. Raises StoreError.

        If the limits are exceeded, the oldest files are deleted.
        """
        return await self._run(lambda folder: self._save(folder, text))

    async def read(self, name: str, offset: int = 0, limit: int = 0) -> StoredText:
        """Return part of a stored result, starting at *offset*.

        *limit* is the maximum length of the part; 0 means that the part extends to the end of the result. *offset* and
        *limit* are in bytes, but characters are never split. Raises StoreError if the name is invalid or the result was
        deleted.
        """
        if not _NAME_PATTERN.fullmatch(name):
            raise StoreError(f"No result is stored as {name[:80]!r}.")
        return await self._run(lambda folder: _read_part(folder / f"{name}{_SUFFIX}", offset, limit))

    async def read_all(self, path: str) -> str:
        """Return the complete stored result. Raises StoreError.

        Only the file name in *path* is used, because the folder may have been moved.
        """
        return (await self.read(Path(path).stem)).text

    async def delete(self, names: Iterable[str]) -> None:
        """Delete stored results by name, ignoring names that do not exist. Raises StoreError."""
        found = [name for name in names if _NAME_PATTERN.fullmatch(name)]
        if found and self._directory is not None:
            await self._run(lambda folder: _unlink_all(folder / f"{name}{_SUFFIX}" for name in found))

    async def delete_expired(self) -> None:
        """Delete results that are too old, and then the oldest of the others until the size limit is met.

        Raises only CancelledError.
        """
        with suppress(StoreError):
            await self._run(self._delete_expired)

    async def _run(self, work: Callable[[Path], T]) -> T:
        folder = self._directory
        if folder is None:
            raise StoreError("Results are not stored in this run.")
        results: list[T] = []
        with anyio.CancelScope(shield=True):
            try:
                results.append(await anyio.to_thread.run_sync(work, folder))
            except OSError as error:
                reason = error.strerror or type(error).__name__
                hint = "Free disk space, or check the folder's permissions."
                raise StoreError(f"{folder}: {reason}.", hint) from error
        return results[0]

    def _save(self, directory: Path, text: str) -> str:
        body = replace_surrogates(text).encode()
        limit = self.config.megabytes
        if len(body) > limit * _MEGABYTE:
            raise StoreError(f"It is over the limit of {limit} MB for all stored results together.")
        make_private_directory(directory)
        name = secrets.token_hex(8)
        temporary, path = directory / f"{name}.part", directory / f"{name}{_SUFFIX}"
        try:
            # O_EXCL and O_NOFOLLOW, so that a link planted by an attacker is never followed.
            file = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
            with os.fdopen(file, "wb") as out:
                out.write(body)
            temporary.replace(path)
        except OSError:
            temporary.unlink(missing_ok=True)
            raise
        self._delete_expired(directory)
        return str(path)

    def _delete_expired(self, directory: Path) -> None:
        if not os.path.isdir(directory):
            return
        config = self.config
        oldest = time.time() - config.days * _DAY
        total = 0
        for when, size, path in sorted(_iter_files(directory), reverse=True):
            total += size
            if when < oldest or total > config.megabytes * _MEGABYTE:
                path.unlink(missing_ok=True)


def _unlink_all(paths: Iterable[Path]) -> None:
    for path in paths:
        path.unlink(missing_ok=True)


def _iter_files(directory: Path) -> Iterator[tuple[float, int, Path]]:
    """Yield the modification time, size and path of each stored result; other files are ignored."""
    with os.scandir(directory) as entries:
        for entry in entries:
            stem, _, ending = entry.name.partition(".")
            if _NAME_PATTERN.fullmatch(stem) and ending in {"txt", "part"}:
                with suppress(FileNotFoundError):
                    facts = entry.stat(follow_symlinks=False)
                    yield facts.st_mtime, facts.st_size, Path(entry.path)


def _read_part(path: Path, offset: int, limit: int) -> StoredText:
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError as error:
        raise StoreError("This result is no longer stored.", "Call the tool again.") from error
    with os.fdopen(file, "rb") as source:
        size = os.fstat(source.fileno()).st_size
        start = source.seek(min(max(0, offset), size))
        body = source.read(limit if limit > 0 else -1)
    return _decode_part(body, start, size)


def read_text_part(text: str, offset: int, limit: int) -> StoredText:
    """Return part of *text* as a StoredText; *offset* and *limit* are in bytes."""
    whole = replace_surrogates(text).encode()
    start = min(max(0, offset), len(whole))
    return _decode_part(whole[start : start + limit], start, len(whole))


def _decode_part(body: bytes, start: int, size: int) -> StoredText:
    """Decode *body*, which is part of a longer text, and drop incomplete characters at its ends.

    *start* is the position of *body* in the text, and *size* is the length of the text, both in bytes.
    """
    first = next((at for at in range(min(4, len(body))) if not _is_continuation_byte(body[at])), 0) if start else 0
    end = start + len(body)
    last = len(body) if end == size else _complete_length(body)
    return StoredText(body[first:last].decode("utf-8", "replace"), start + first, start + last, size)


def _is_continuation_byte(byte: int) -> bool:
    return byte & 0xC0 == 0x80


def _complete_length(body: bytes) -> int:
    """Return the length of *body* without an incomplete UTF-8 character at the end."""
    for back in range(1, min(4, len(body)) + 1):
        byte = body[-back]
        if not _is_continuation_byte(byte):
            need = 1 if byte < 0x80 else 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return len(body) if back >= need else len(body) - back
    return len(body)
