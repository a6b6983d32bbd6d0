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
_NAME = re.compile(r"[0-9a-f]{16}")
_SUFFIX = ".txt"
_DAY = 86_400
_MEGABYTE = 1_000_000


class KeptText(Struct, frozen=True):
    """A part of a kept result: its text from the byte `offset` to `end`, of `size` bytes in all."""

    text: str
    offset: int
    end: int
    size: int


class Results:
    """One folder of text files that only the user can read; nothing ever runs or opens them by a name from outside.

    Several programs may share the folder. All work is done on a thread, and cancelling waits for it.
    """

    def __init__(self, folder: Path | None, config: ResultsConfig | None = None) -> None:
        """`folder` None keeps nothing."""
        config = config or ResultsConfig()
        self._folder = folder
        self._most = config.megabytes * _MEGABYTE
        self._age = config.days * _DAY

    async def keep(self, text: str) -> str:
        """Write it down whole; the path of its file. The oldest go when there are too many. Raises StoreError."""
        return await self._run(lambda folder: self._keep(folder, text))

    async def read(self, name: str, offset: int = 0, limit: int = 0) -> KeptText:
        """A part of what was kept under this name; `offset` and `limit` are bytes, no character is cut in two.

        `limit` 0: to its end. Raises StoreError for a name that is none, or of a result that is not kept any more.
        """
        if not _NAME.fullmatch(name):
            raise StoreError(f"No result is kept as {name[:80]!r}.")
        return await self._run(lambda folder: _read(folder / f"{name}{_SUFFIX}", offset, limit))

    async def whole(self, path: str) -> str:
        """All of what was kept as this file, which may have moved with the folder. Raises StoreError."""
        return (await self.read(Path(path).stem)).text

    async def sweep(self) -> None:
        """Take away what is too old or too much. Raises nothing but cancellation."""
        with suppress(StoreError):
            await self._run(self._sweep)

    async def _run(self, work: Callable[[Path], T]) -> T:
        folder = self._folder
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

    def _keep(self, folder: Path, text: str) -> str:
        body = replace_surrogates(text).encode()
        if len(body) > self._most:
            raise StoreError(f"It is over the {self._most // _MEGABYTE} MB that all kept results may have together.")
        make_private_directory(folder)
        name = secrets.token_hex(8)
        beside, path = folder / f"{name}.part", folder / f"{name}{_SUFFIX}"
        try:
            # O_EXCL and O_NOFOLLOW: never through a link that somebody put there.
            file = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
            with os.fdopen(file, "wb") as out:
                out.write(body)
            beside.replace(path)
        except OSError:
            beside.unlink(missing_ok=True)
            raise
        self._sweep(folder)
        return str(path)

    def _sweep(self, folder: Path) -> None:
        if not folder.is_dir():
            return
        oldest = time.time() - self._age
        total = 0
        for when, size, path in sorted(_files(folder), reverse=True):
            total += size
            if when < oldest or total > self._most:
                path.unlink(missing_ok=True)


def _files(folder: Path) -> Iterator[tuple[float, int, Path]]:
    """What is ours in there: time, size, path. A file of another name is left alone."""
    with os.scandir(folder) as entries:
        for entry in entries:
            stem, _, ending = entry.name.partition(".")
            if _NAME.fullmatch(stem) and ending in {"txt", "part"}:
                with suppress(FileNotFoundError):
                    facts = entry.stat(follow_symlinks=False)
                    yield facts.st_mtime, facts.st_size, Path(entry.path)


def _read(path: Path, offset: int, limit: int) -> KeptText:
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    except FileNotFoundError as error:
        raise StoreError("This result is not kept any more.", "Call the tool again.") from error
    with os.fdopen(file, "rb") as source:
        size = os.fstat(source.fileno()).st_size
        start = source.seek(min(max(0, offset), size))
        body = source.read(limit if limit > 0 else -1)
    first = next((at for at in range(min(4, len(body))) if not _is_inside(body[at])), 0) if start else 0
    end = start + len(body)
    last = len(body) if end == size else _whole_characters(body)
    return KeptText(body[first:last].decode("utf-8", "replace"), start + first, start + last, size)


def _is_inside(byte: int) -> bool:
    """Whether it is a later byte of a character."""
    return byte & 0xC0 == 0x80


def _whole_characters(body: bytes) -> int:
    """How much of the beginning ends with a whole character."""
    for back in range(1, min(4, len(body)) + 1):
        byte = body[-back]
        if not _is_inside(byte):
            need = 1 if byte < 0x80 else 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return len(body) if back >= need else len(body) - back
    return len(body)
