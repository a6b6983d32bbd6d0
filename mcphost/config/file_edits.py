"""Safe changes to files: inter-process locks and atomic replacement."""

import errno
import fcntl
import os
import re
import secrets
import stat
import time
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

import anyio

from mcphost.config.json_files import MAX_FILE_BYTES, read_regular_file
from mcphost.errors import ConfigError, McpHostError
from mcphost.paths import make_private_directory
from mcphost.serialization import Struct

_BRIEF_LOCK_TIMEOUT = 1.0
_BRIEF_LOCK_PAUSE = 0.005
_COPY_SUFFIX = re.compile(r"[0-9]+\.[0-9a-f]{16}")
"""The end of the name of the file that `replace_if_unchanged` writes first: a process id and random digits."""


class FileSnapshot(Struct, frozen=True):
    """Content of a file at the time it was read, with its permission bits (`mode`) and its owner's user id."""

    content: bytes
    mode: int
    owner: int


def read_snapshot(path: Path, limit: int = MAX_FILE_BYTES) -> FileSnapshot:
    """Read a regular file of at most *limit* bytes, with its permissions and owner.

    Raises FileNotFoundError if there is no such file, and ConfigError if it is a symbolic link, not a regular file, too
    large or unreadable.
    """
    try:
        raw, status = read_regular_file(path, limit, follow_links=False)
    except FileNotFoundError:
        raise
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise ConfigError(f"{path} is a symbolic link, which mcphost does not write through.") from error
        raise ConfigError(f"{path} cannot be read: {error.strerror}.", "Check its permissions.") from error
    if len(raw) > limit:
        raise ConfigError(f"{path} is over {limit} bytes.", "Is it the right file?")
    return FileSnapshot(raw, stat.S_IMODE(status.st_mode), status.st_uid)


def replace_if_unchanged(path: Path, before: FileSnapshot | None, after: bytes, *, mode: int | None = None) -> None:
    """Replace a file atomically if its content has not changed since *before*; if *before* is None, create the file.

    The file keeps its permissions unless *mode* is given; a new file gets 0600. After a crash, the file has either the
    old or the new content. Raises ConfigError, and leaves the file unchanged, if its content has changed, if a file to
    be created already exists, or if the file cannot be written.
    """
    fresh = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(8)}")
    rights = mode if mode is not None else (before.mode if before else 0o600)
    try:
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            with open(descriptor, "wb") as file:
                file.write(after)
                os.fchmod(descriptor, rights)
                file.flush()
                os.fsync(descriptor)
            folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                _lock_briefly(folder)  # otherwise, two programs could both find the file unchanged
                _check_unchanged(path, before)
                fresh.replace(path)
                os.fsync(folder)
            finally:
                os.close(folder)
        finally:
            fresh.unlink(missing_ok=True)
    except OSError as error:
        is_full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        raise ConfigError(
            f"{path} cannot be written: {error.strerror or type(error).__name__}.",
            "Free disk space." if is_full else "Check the folder's permissions.",
        ) from error


def remove_abandoned_copies(path: Path) -> None:
    """Delete the temporary copies of the file at *path* that killed processes left behind while replacing it.

    The caller must hold the lock that every process holds while it replaces this file. Otherwise, a copy that
    another process still needs could be deleted. Copies that cannot be deleted are ignored.
    """
    start = f".{path.name}."
    with suppress(OSError), os.scandir(path.parent) as entries:
        for entry in entries:
            if entry.name.startswith(start) and _COPY_SUFFIX.fullmatch(entry.name[len(start) :]):
                with suppress(OSError):
                    os.unlink(entry.path)


def _lock_briefly(folder: int) -> None:
    """Lock a folder until its file descriptor, *folder*, is closed.

    If another program holds the lock for more than a second, or if the file system has no locks, return without a
    lock.
    """
    deadline = time.monotonic() + _BRIEF_LOCK_TIMEOUT
    while True:
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                return
            time.sleep(_BRIEF_LOCK_PAUSE)
        except OSError:  # a file system without locks
            return
        else:
            return


def replace_file(path: Path, content: bytes) -> None:
    """Create or replace a file atomically, with 0600 as its permissions. Raises OSError.

    A symbolic link at *path* is replaced, not followed. The content is first written to a file with an unpredictable
    name in the same folder.
    """
    fresh = path.with_name(f".{path.name[:100]}.{secrets.token_hex(8)}.part")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        with open(descriptor, "wb") as file:
            file.write(content)
            os.fchmod(descriptor, 0o600)  # the umask may have removed more
        fresh.replace(path)
    except BaseException:
        fresh.unlink(missing_ok=True)
        raise


@contextmanager
def create_complete_file(path: Path) -> Generator[BinaryIO]:
    """Yield a temporary file that is moved to *path* when the `with` block succeeds; otherwise, it is deleted.

    Therefore, *path* never refers to a file with incomplete content, even if this process is killed. The file gets
    permissions of at most 0600. An existing file or link is never replaced: FileExistsError is raised if *path*
    exists. Raises OSError if the file cannot be written.
    """
    if os.path.lexists(path):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
    fresh = path.with_name(f".{path.name[:50]}.{secrets.token_hex(8)}.part")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        with open(descriptor, "wb") as file:
            yield file
        _sync(fresh)
        _rename_without_replacing(fresh, path)
    finally:
        fresh.unlink(missing_ok=True)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _rename_without_replacing(fresh: Path, path: Path) -> None:
    try:
        os.link(fresh, path, follow_symlinks=False)
    except FileExistsError:
        raise
    except OSError:  # a file system without hard links: reserve the name, and replace only this empty file
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        fresh.replace(path)


def _check_unchanged(path: Path, before: FileSnapshot | None) -> None:
    try:
        current = read_snapshot(path, max(MAX_FILE_BYTES, len(before.content) if before else 0))
    except FileNotFoundError:
        current = None
    if (current and current.content) != (before and before.content):
        raise ConfigError(f"{path} was changed by another program; nothing was written.", "Try again.")


LOCK_TIMEOUT = 30.0
_POLL_INTERVAL = 0.05


@asynccontextmanager
async def lock_file(path: Path) -> AsyncGenerator[None]:
    """Hold an exclusive inter-process lock on the file at *path*. Waiting for the lock can be cancelled.

    Raises McpHostError if the lock is not obtained within LOCK_TIMEOUT seconds. If the lock file cannot be created, the
    `with` block runs without a lock.
    """
    handle = _open_lock_file(path)
    if handle < 0:
        yield
        return
    try:
        deadline = anyio.current_time() + LOCK_TIMEOUT
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if anyio.current_time() > deadline:
                    raise McpHostError(
                        "Another mcphost process has held the lock of this sign-in for too long.",
                        "Quit it and try again.",
                    ) from None
                await anyio.sleep(_POLL_INTERVAL)
        yield
    finally:
        os.close(handle)


@contextmanager
def lock_file_blocking(path: Path) -> Generator[None]:
    """Hold an exclusive inter-process lock on the file at *path*; wait for it without a time limit.

    Blocks the thread. While a process waits for the lock on *path*, it holds a lock on a second file. Without this
    second lock, a process that releases the lock on *path* and immediately takes it again could overtake the waiting
    processes, because `flock` is not fair (one process had to wait for 11 s). If one of the two files cannot be
    created, only the other one is locked.
    """
    queue = _open_lock_file(path.with_suffix(".next"))
    handle = -1
    try:
        handle = _open_lock_file(path)
        if queue >= 0:
            fcntl.flock(queue, fcntl.LOCK_EX)
        if handle >= 0:
            fcntl.flock(handle, fcntl.LOCK_EX)
        if queue >= 0:
            os.close(queue)
            queue = -1
        yield
    finally:
        for descriptor in (queue, handle):
            if descriptor >= 0:
                os.close(descriptor)


def _open_lock_file(path: Path) -> int:
    """Open or create a lock file and return its descriptor, or -1 if that fails."""
    try:
        make_private_directory(path.parent)
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError:
        return -1
