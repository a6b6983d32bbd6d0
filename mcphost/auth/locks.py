"""A lock that several processes share: a file that is locked, never removed."""

import fcntl
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import anyio

from mcphost.errors import McpHostError
from mcphost.paths import make_private

LOCK_SECONDS = 30.0
_POLL = 0.05


@asynccontextmanager
async def locked(path: Path) -> AsyncGenerator[None]:
    """One process at a time. Raises McpHostError when another one keeps the lock for too long. May be cancelled."""
    handle = -1
    with suppress(OSError):
        make_private(path.parent)
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    if handle < 0:
        yield  # without a place for locks there is no place that processes could share either
        return
    try:
        until = anyio.current_time() + LOCK_SECONDS
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if anyio.current_time() > until:
                    raise McpHostError(
                        "Another mcphost has been busy with this sign-in for too long.", "End it, and try again."
                    ) from None
                await anyio.sleep(_POLL)
        yield
    finally:
        os.close(handle)
