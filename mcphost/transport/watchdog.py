"""Watchdog: a small process that ends the process groups of the servers if mcphost is killed.

The watchdog reads the group ids from a pipe that only mcphost keeps open. When the pipe closes, it ends the
remaining groups, first with SIGTERM, and two seconds later with SIGKILL. A parent-death signal (prctl) would not be
enough: it does not reach processes that a server starts (as npx does), and it is already sent when the thread
that started the server ends. Most servers exit when their standard input is closed; the watchdog ends those that
do not.
"""

import contextlib
import fcntl
import logging
import os
import secrets
import signal
import subprocess
import threading
import time
from pathlib import Path

import anyio
import anyio.to_thread

from mcphost.paths import make_private_directory

_log = logging.getLogger(__name__)
GROUP_FILE_SUFFIX = ".groups"
MAX_FILES = 100
MAX_FILE_BYTES = 64 * 1024
TERMINATE_TIMEOUT = 2.0
_PROC = Path("/proc")


class ProcessGroupFile:
    """File that lists the process groups started by this mcphost process.

    If this process is killed, a later mcphost process ends the listed groups with `stop_stale_groups`. All methods can
    block for a few milliseconds, and may raise OSError.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._path: Path | None = None
        self._fd = -1

    def add(self, group: int) -> None:
        """Add a group to the file, creating the file for the first group."""
        started = process_start_time(group)
        if not started:
            return
        if self._path is None:
            self._path = self._create()
        os.write(self._fd, f"+ {group} {started}\n".encode())

    def remove(self, group: int) -> None:
        """Record that the processes of a group have ended."""
        if self._path is not None:
            os.write(self._fd, f"- {group}\n".encode())

    def close(self) -> None:
        """Delete the file. Idempotent."""
        if self._path is not None:
            path, self._path = self._path, None
            path.unlink(missing_ok=True)
            os.close(self._fd)

    def _create(self) -> Path:
        make_private_directory(self._folder)
        path = self._folder / f"{os.getpid()}-{secrets.token_hex(4)}{GROUP_FILE_SUFFIX}"
        hidden = path.with_suffix(".new")
        self._fd = os.open(hidden, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_NOFOLLOW, 0o600)
        # Locked before it gets its final name, so that no other instance mistakes it for a stale file.
        fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        hidden.rename(path)
        return path


def stop_stale_groups(folder: Path) -> int:
    """End the process groups left behind by killed mcphost processes, and return the number of groups.

    *folder* contains the files in which the groups are recorded. Never raises an error; blocks for about 2 s at
    most.
    """
    stale: dict[int, str] = {}
    try:
        files = sorted(path for path in folder.iterdir() if path.suffix == GROUP_FILE_SUFFIX)[:MAX_FILES]
    except OSError:
        return 0
    for path in files:
        with contextlib.suppress(OSError):
            stale.update(_take_stale_groups(path))
    stale = {group: started for group, started in stale.items() if _is_same_process(group, started)}
    if stale:
        _log.warning("ending %d process groups that an earlier run left behind", len(stale))
    _signal_groups(stale, signal.SIGTERM)
    deadline = time.monotonic() + TERMINATE_TIMEOUT
    while time.monotonic() < deadline and any(_is_same_process(group, started) for group, started in stale.items()):
        time.sleep(0.05)
    _signal_groups(stale, signal.SIGKILL)
    return len(stale)


def _take_stale_groups(path: Path) -> dict[int, str]:
    """Delete a file of process groups, and return the groups as a dict from group id to start time.

    If the file belongs to another user, it is not deleted, and {} is returned. If it belongs to an mcphost process
    that is still running, it is not deleted either, and OSError is raised.
    """
    fd = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        if os.fstat(fd).st_uid != os.getuid():
            return {}
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        text = os.read(fd, MAX_FILE_BYTES).decode(errors="replace")
        path.unlink()
    finally:
        os.close(fd)
    groups: dict[int, str] = {}
    for line in text.splitlines():
        sign, _, rest = line.partition(" ")
        number, _, started = rest.partition(" ")
        if not (number.isascii() and number.isdigit() and 1 < int(number[:12]) < 2**31):
            continue
        if sign == "+" and started:
            groups[int(number)] = started
        elif sign == "-":
            groups.pop(int(number), None)
    return groups


def _signal_groups(groups: dict[int, str], number: signal.Signals) -> None:
    for group, started in groups.items():
        if _is_same_process(group, started):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(group, number)


def _is_same_process(group: int, started: str) -> bool:
    """Return whether *group* still identifies the process group that was recorded.

    The id may have been reused. The result is True only if the process with the id *group* is the leader of its
    group, and *started* equals its `process_start_time`.
    """
    try:
        return os.getpgid(group) == group and process_start_time(group) == started
    except (ProcessLookupError, PermissionError):
        return False


def process_start_time(pid: int) -> str:
    """Return a string that identifies the start time of a process, or "" if the process has ended."""
    if _PROC.joinpath("self/stat").exists():
        try:
            boot = _PROC.joinpath("sys/kernel/random/boot_id").read_text().strip()
            stat = _PROC.joinpath(str(pid), "stat").read_text()
        except OSError:
            return ""
        # The process name may contain spaces and parentheses. The state follows the last parenthesis; the start time
        # follows the state, 19 fields later.
        fields = stat.rpartition(")")[2].split()
        return f"{boot}/{fields[19]}" if len(fields) > 19 and fields[0] != "Z" else ""
    try:
        shown = subprocess.run(
            ["/bin/ps", "-o", "lstart=", "-p", str(pid)],
            capture_output=True,
            timeout=5,
            check=False,
            env={"LC_ALL": "C"},
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return shown.stdout.decode(errors="replace").strip()


# A shell script, because it starts within a millisecond and takes 1 MB; a Python interpreter would take 8 MB, and 15 ms
# of CPU time while the servers start. It uses only POSIX features, so that it runs in dash, bash, busybox and on macOS.
SHELL = "/bin/sh"
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
    """Handle to the watchdog process, which starts with the first process group and exits with mcphost.

    If *folder* is given, process groups are also recorded in a file in that folder. After the first group has been
    recorded, `stop_stale_groups` is called for the folder.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder
        self._group_file = None if folder is None else ProcessGroupFile(folder)
        self._process: subprocess.Popen[bytes] | None = None
        self._is_closed = False
        self._process_lock = threading.Lock()  # guards `_process` and `_is_closed`
        self._starting = anyio.Lock()
        self._is_broken = False
        self._unrecorded_groups: list[int] = []

    async def watch(self, group: int) -> None:
        """Make the watchdog end the process group *group* when mcphost ends.

        If the watchdog cannot be started, the group is still recorded in the file, provided that a folder was given.
        """
        folder: Path | None = None
        if self._group_file is not None:
            self._unrecorded_groups.append(group)
        async with self._starting:
            if self._process is None and not (self._is_broken or self._is_closed):
                try:
                    await anyio.to_thread.run_sync(self._start)
                except OSError:
                    self._is_broken = True
            self._send_command(b"+", group)
            if self._group_file is not None and group in self._unrecorded_groups:
                # All waiting groups together: ten servers that start concurrently need only one or two thread switches.
                groups, self._unrecorded_groups = self._unrecorded_groups, []
                await anyio.to_thread.run_sync(self._record_groups, self._group_file, groups)
                folder, self._folder = self._folder, None
        if folder is not None:
            await anyio.to_thread.run_sync(stop_stale_groups, folder)

    def _start(self) -> None:
        """Start the watchdog process; if `close` was called in the meantime, stop it.

        This runs in a thread. It sets `_process` instead of returning the process, because the result would be lost if
        the task that waits for the thread were cancelled.
        """
        process = _start_shell()
        with self._process_lock:
            if not self._is_closed:
                self._process = process
                return
        process.communicate()

    def _record_groups(self, file: ProcessGroupFile, groups: list[int]) -> None:
        for group in groups:
            try:
                file.add(group)
            except OSError:
                _log.warning("the group %d cannot be written down", group, exc_info=True)

    def unwatch(self, group: int) -> None:
        """Stop watching a process group whose processes have ended, because its id may soon be reused."""
        self._send_command(b"-", group)
        if group in self._unrecorded_groups:
            self._unrecorded_groups.remove(group)
        if self._group_file is not None:
            with contextlib.suppress(OSError):
                self._group_file.remove(group)

    async def close(self) -> None:
        """End the watchdog, and any process groups that it is still watching; it is not started again. Idempotent."""
        if self._group_file is not None:
            with contextlib.suppress(OSError):
                self._group_file.close()
        with self._process_lock:
            self._is_closed = True
            process, self._process = self._process, None
        if process is None:
            return
        # A thread of its own, because asyncio's cancellation ignores the shield, and anyio would then not start one.
        ending = threading.Thread(target=process.communicate, name="watchdog")
        ending.start()
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(ending.join)

    @property
    def pid(self) -> int | None:
        """Id of the watchdog process, or None if it is not running."""
        return None if self._process is None else self._process.pid

    def _send_command(self, sign: bytes, group: int) -> None:
        process = self._process
        if process is None or process.stdin is None or not 1 < group < _GROUP_LIMIT:
            return
        try:
            # This does not block, because the watchdog does nothing but read.
            process.stdin.write(b"%s %d\n" % (sign, group))
            process.stdin.flush()
        except OSError:
            self._is_broken = True


def _start_shell() -> "subprocess.Popen[bytes]":
    process = subprocess.Popen(
        [SHELL, "-c", _PROGRAM],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        env={"PATH": os.defpath},
        cwd="/",
    )
    # The watchdog is reliable only once it ignores signals.
    if process.stdout is not None:
        process.stdout.read(1)
    return process
