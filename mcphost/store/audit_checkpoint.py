"""The last position of the audit log, stored outside of it to detect the removal of its last rows.

The file has one short line and is in another folder than the audit log. It is written after a row is committed and
before the commit is reported, so it is never ahead of an intact log. It is not synced: after a power cut it may lag.
"""

import fcntl
import os
import re
from pathlib import Path

from mcphost.serialization import Struct

INITIAL_HASH = "0" * 64
_LINE_PATTERN = re.compile(rb"([0-9]{20}) ([0-9a-f]{64})\n")


class AuditPosition(Struct, frozen=True):
    """The number and the hash of the last row; number 0 means that there is no row."""

    seq: int = 0
    hash: str = INITIAL_HASH


class AuditCheckpoint:
    """The checkpoint file, which several processes may advance at the same time."""

    def __init__(self, path: Path | None) -> None:
        """Use the file at *path*; None disables the checkpoint."""
        self._path = path

    def read(self) -> AuditPosition | None:
        """Return the stored position, or None if there is no valid checkpoint. Raises OSError."""
        if self._path is None:
            return None
        try:
            file = os.open(self._path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        try:
            return _read(file)
        finally:
            os.close(file)

    def advance(self, position: AuditPosition, *, allow_backward: bool = False) -> None:
        """Store *position* unless a later one is stored; *allow_backward* always stores it. Raises OSError."""
        if self._path is None:
            return
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        try:
            file = os.open(self._path, flags, 0o600)
        except FileNotFoundError:
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            file = os.open(self._path, flags, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            current = _read(file)
            if allow_backward or current is None or current.seq < position.seq:
                # In place with one write: a file that is replaced can be empty after a power cut.
                os.pwrite(file, b"%020d %s\n" % (position.seq, position.hash.encode()), 0)
        finally:
            os.close(file)


def _read(file: int) -> AuditPosition | None:
    match = _LINE_PATTERN.fullmatch(os.pread(file, 200, 0))
    return AuditPosition(int(match[1]), match[2].decode()) if match else None
