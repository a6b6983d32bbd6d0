"""How far the ledger reached, kept outside of it: without that nobody can tell that its last rows were removed.

One short line in a file of its own, in another folder than the ledger. It is written after a row is committed and
before anybody hears of it, so it is never ahead of an untouched ledger. It is not synced: after a power cut it may lag.
"""

import fcntl
import os
import re
from pathlib import Path

from mcphost.serialization import Struct

INITIAL_HASH = "0" * 64
_LINE_PATTERN = re.compile(rb"([0-9]{20}) ([0-9a-f]{64})\n")


class AuditPosition(Struct, frozen=True):
    """The last row, by its number and its hash; number 0 is the beginning, before any row."""

    seq: int = 0
    hash: str = INITIAL_HASH


class AuditCheckpoint:
    """The file. Several processes may move it on at the same time; it only ever moves forward, unless told."""

    def __init__(self, path: Path | None) -> None:
        """`path` None: there is none, and nothing is known."""
        self._path = path

    def read(self) -> AuditPosition | None:
        """What it says; None when there is no such file or it says nothing. Raises OSError."""
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
        """Write it down unless it is further already; `back` writes it in any case. Raises OSError."""
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
            now = _read(file)
            if allow_backward or now is None or now.seq < position.seq:
                # In place and in one piece: a file that is replaced can be empty after a power cut.
                os.pwrite(file, b"%020d %s\n" % (position.seq, position.hash.encode()), 0)
        finally:
            os.close(file)


def _read(file: int) -> AuditPosition | None:
    match = _LINE_PATTERN.fullmatch(os.pread(file, 200, 0))
    return AuditPosition(int(match[1]), match[2].decode()) if match else None
