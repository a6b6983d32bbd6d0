"""A lock shared by processes: a file that is locked and never removed."""

import fcntl
import os
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import anyio

from mcphost.errors import McpHostError
from mcphost.paths import make_private_directory

LOCK_TIMEOUT = 30.0
_POLL_INTERVAL = 0.05


@asynccontextmanager
async def lock_file(path: Path) -> AsyncGenerator[None]:
    """Hold the lock of *path* exclusively. Raises McpHostError after LOCK_TIMEOUT. May be cancelled."""
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
                        "Another mcphost process has used this sign-in for too long.", "End it and try again."
                    ) from None
                await anyio.sleep(_POLL_INTERVAL)
        yield
    finally:
        os.close(handle)


@contextmanager
def lock_file_blocking(path: Path) -> Generator[None]:
    """Hold the lock of *path* exclusively, in a thread that may wait without limit.

    flock is not fair: a process that releases it and locks again overtakes those that wait (measured: for 11 s). A
    second file is locked while waiting, and its holder is the next.
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
    """Return a descriptor of the file; negative if it cannot be created: no process can share it then."""
    try:
        make_private_directory(path.parent)
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError:
        return -1
