"""A small process that ends the servers' process groups if mcphost is killed.

It reads the groups from a pipe that only mcphost holds open; when the pipe closes, it ends the remaining groups, with
SIGTERM first and SIGKILL two seconds later. A parent-death signal would miss processes started by servers (as npx does)
and fires when a thread ends. Most servers exit at the end of their input; this is for the others.
"""

import contextlib
import logging
import os
import subprocess
from pathlib import Path

import anyio
import anyio.to_thread

from mcphost.transport.stale_processes import ProcessGroupFile, stop_stale_groups

_log = logging.getLogger(__name__)

# In the shell and not in Python: it is there within a millisecond and takes 1 MB; an interpreter takes 8 MB, and 15 ms
# of CPU just when the servers start. Nothing beyond POSIX is used: dash, bash, busybox and macOS run it alike.
_SHELL = "/bin/sh"
_PROGRAM = """
trap '' HUP INT TERM
echo .
groups=
while read -r sign group; do
    case $sign in
        +) groups="$groups $group" ;;
        -)
            kept=
            for one in $groups; do
                [ "$one" = "$group" ] || kept="$kept $one"
            done
            groups=$kept ;;
    esac
done
send() {
    left=
    for one in $groups; do
        kill -s "$1" -- "-$one" 2>/dev/null && left="$left $one"
    done
    groups=$left
}
send TERM
rounds=0
while [ -n "$groups" ] && [ $rounds -lt 40 ]; do
    sleep 0.05 2>/dev/null || { sleep 1; rounds=$((rounds + 19)); }  # POSIX knows whole seconds only
    send 0
    rounds=$((rounds + 1))
done
send KILL
"""
_GROUP_LIMIT = 2**31


class Watchdog:
    """The watchdog process, started with the first group; it exits when closed, or when mcphost is gone.

    With *folder*, groups are also recorded there, and those left by an earlier mcphost are ended first.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder
        self._group_file = None if folder is None else ProcessGroupFile(folder)
        self._process: subprocess.Popen[bytes] | None = None
        self._starting = anyio.Lock()
        self._is_broken = False
        self._unrecorded_groups: list[int] = []

    async def watch(self, group: int) -> None:
        """End *group* when mcphost ends. If the watchdog cannot be started, do nothing."""
        folder: Path | None = None
        if self._group_file is not None:
            self._unrecorded_groups.append(group)
        async with self._starting:
            if self._process is None and not self._is_broken:
                try:
                    self._process = await anyio.to_thread.run_sync(_start)
                except OSError:
                    self._is_broken = True
            self._send_command(b"+", group)
            if self._group_file is not None and group in self._unrecorded_groups:
                # All waiting groups at once: ten servers that start together need only one or two thread switches.
                groups, self._unrecorded_groups = self._unrecorded_groups, []
                await anyio.to_thread.run_sync(self._record_groups, self._group_file, groups)
                folder, self._folder = self._folder, None
        if folder is not None:
            await anyio.to_thread.run_sync(stop_stale_groups, folder)

    def _record_groups(self, file: ProcessGroupFile, groups: list[int]) -> None:
        for group in groups:
            try:
                file.add(group)
            except OSError:
                _log.warning("the group %d cannot be written down", group, exc_info=True)

    def unwatch(self, group: int) -> None:
        """Stop watching a group that is gone; its id may soon be reused."""
        self._send_command(b"-", group)
        if group in self._unrecorded_groups:
            self._unrecorded_groups.remove(group)
        if self._group_file is not None:
            with contextlib.suppress(OSError):
                self._group_file.remove(group)

    async def close(self) -> None:
        """End the watchdog and the groups that are still watched. Idempotent."""
        if self._group_file is not None:
            with contextlib.suppress(OSError):
                self._group_file.close()
        process, self._process = self._process, None
        if process is None:
            return
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(process.communicate)

    @property
    def pid(self) -> int | None:
        """Its process id while it runs."""
        return None if self._process is None else self._process.pid

    def _send_command(self, sign: bytes, group: int) -> None:
        process = self._process
        if process is None or process.stdin is None or not 1 < group < _GROUP_LIMIT:
            return
        try:
            # A few bytes to a process that only reads: this does not block.
            process.stdin.write(b"%s %d\n" % (sign, group))
            process.stdin.flush()
        except OSError:
            self._is_broken = True


def _start() -> "subprocess.Popen[bytes]":
    process = subprocess.Popen(
        [_SHELL, "-c", _PROGRAM],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        env={"PATH": os.defpath},
        cwd="/",
    )
    # It is reliable only once it ignores signals.
    if process.stdout is not None:
        process.stdout.read(1)
    return process
