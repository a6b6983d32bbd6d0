"""A record on disk of process groups, so that the next mcphost can end those left by a crash.

The watchdog ends groups when mcphost is killed; this record is for when the watchdog was killed too. Each mcphost has
its own file and holds a lock on it while it runs, so that several instances do not interfere. A group is identified by
its leader's process id and start time, because ids are reused.
"""

import contextlib
import fcntl
import logging
import os
import secrets
import signal
import subprocess
import time
from pathlib import Path

from mcphost.paths import make_private_directory

_log = logging.getLogger(__name__)
GROUP_FILE_SUFFIX = ".groups"
MAX_FILES = 100
MAX_FILE_BYTES = 64 * 1024
TERMINATE_TIMEOUT = 2.0
_PROC = Path("/proc")


class ProcessGroupFile:
    """The groups of this process; every method may block for some milliseconds and raise OSError."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._path: Path | None = None
        self._fd = -1

    def add(self, group: int) -> None:
        """Record a group; the file is created with the first one."""
        started = process_start_time(group)
        if not started:
            return
        if self._path is None:
            self._path = self._create()
        os.write(self._fd, f"+ {group} {started}\n".encode())

    def remove(self, group: int) -> None:
        """Remove a group that is gone."""
        if self._path is not None:
            os.write(self._fd, f"- {group}\n".encode())

    def close(self) -> None:
        """Remove the file. Idempotent."""
        if self._path is not None:
            path, self._path = self._path, None
            path.unlink(missing_ok=True)
            os.close(self._fd)

    def _create(self) -> Path:
        make_private_directory(self._folder)
        path = self._folder / f"{os.getpid()}-{secrets.token_hex(4)}{GROUP_FILE_SUFFIX}"
        hidden = path.with_suffix(".new")
        self._fd = os.open(hidden, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_NOFOLLOW, 0o600)
        # Locked before it gets its final name, so that no other instance takes it for a stale file.
        fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        hidden.rename(path)
        return path


def stop_stale_groups(folder: Path) -> int:
    """End the groups of dead instances and return how many; never raise. Takes about 2 s at most."""
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
    """Return the groups in a file and delete it; return nothing if its process is alive."""
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
    """Return whether the leader of a group is still the recorded process."""
    try:
        return os.getpgid(group) == group and process_start_time(group) == started
    except (ProcessLookupError, PermissionError):
        return False


def process_start_time(pid: int) -> str:
    """Return a text that identifies when a process started; "" if it is gone."""
    if _PROC.joinpath("self/stat").exists():
        try:
            boot = _PROC.joinpath("sys/kernel/random/boot_id").read_text().strip()
            stat = _PROC.joinpath(str(pid), "stat").read_text()
        except OSError:
            return ""
        # Its name may hold spaces and parentheses; the state comes after the last one, the start is 20 fields on.
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
