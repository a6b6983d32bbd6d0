"""A small process that ends the servers' process groups when mcphost itself is killed without a chance to.

It reads the groups from a pipe that only mcphost holds open; when the pipe closes, whatever is still on its list is
ended, SIGTERM first and SIGKILL two seconds later. A parent-death signal would miss what servers start themselves
(npx does) and fires when a thread ends. Most servers leave at the end of their input by themselves; this is for others.
"""

import contextlib
import logging
import subprocess
import sys
import threading
from pathlib import Path

import anyio
import anyio.to_thread

from mcphost.transport.leftovers import GroupFile, sweep

_log = logging.getLogger(__name__)

# Runs in an isolated interpreter without site packages: 15 ms, 8 MB, and nothing of a folder's files is imported.
_PROGRAM = """
import os, signal, sys, time
for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
    signal.signal(number, signal.SIG_IGN)
os.write(1, b".")
groups = set()
for line in sys.stdin.buffer:
    sign, number = line[:1], int(line[1:])
    groups.add(number) if sign == b"+" else groups.discard(number)
def send(number):
    for group in list(groups):
        try:
            os.killpg(group, number)
        except (ProcessLookupError, PermissionError):
            groups.discard(group)
send(signal.SIGTERM)
until = time.monotonic() + 2
while groups and time.monotonic() < until:
    time.sleep(0.05)
    send(0)
send(signal.SIGKILL)
"""
_GROUP_LIMIT = 2**31


class Guardian:
    """Started with the first group; ends by itself when it is closed, or when mcphost is gone.

    With a `folder`, groups are written down there, too, and what an earlier mcphost left behind is ended first.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder
        self._file = None if folder is None else GroupFile(folder)
        self._process: subprocess.Popen[bytes] | None = None
        self._starting = anyio.Lock()
        self._broken = False
        self._writing = threading.Lock()

    async def watch(self, group: int) -> None:
        """From now on the group ends when mcphost does. A machine that cannot start it goes without."""
        async with self._starting:
            if self._process is None and not self._broken:
                try:
                    self._process = await anyio.to_thread.run_sync(_start)
                except OSError:
                    self._broken = True
        self._write(b"+", group)
        if self._file is not None:
            await anyio.to_thread.run_sync(self._remember, self._file, group)

    def _remember(self, file: GroupFile, group: int) -> None:
        with self._writing:
            folder, self._folder = self._folder, None
            try:
                file.add(group)
            except OSError:
                _log.warning("the group %d cannot be written down", group, exc_info=True)
        if folder is not None:
            sweep(folder)

    def forget(self, group: int) -> None:
        """The group is gone; its number may soon be somebody else's."""
        self._write(b"-", group)
        if self._file is not None:
            with contextlib.suppress(OSError):
                self._file.remove(group)

    async def close(self) -> None:
        """End it; groups that are still watched end with it. Idempotent."""
        if self._file is not None:
            with contextlib.suppress(OSError):
                self._file.close()
        process, self._process = self._process, None
        if process is None:
            return
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(process.communicate)

    @property
    def pid(self) -> int | None:
        """Its process id while it runs."""
        return None if self._process is None else self._process.pid

    def _write(self, sign: bytes, group: int) -> None:
        process = self._process
        if process is None or process.stdin is None or not 1 < group < _GROUP_LIMIT:
            return
        try:
            # A few bytes to a process that does nothing but read: this does not block.
            process.stdin.write(b"%s%d\n" % (sign, group))
            process.stdin.flush()
        except OSError:
            self._broken = True


def _start() -> "subprocess.Popen[bytes]":
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", _PROGRAM],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        env={},
        cwd="/",
    )
    # Only once it ignores signals may it be relied on.
    if process.stdout is not None:
        process.stdout.read(1)
    return process
