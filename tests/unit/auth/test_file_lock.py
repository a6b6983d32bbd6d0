"""Tests for locks between processes: a waiting process gets the lock before the previous holder can take it again."""

import fcntl
import threading
import time
from pathlib import Path

from mcphost.config.file_edits import lock_file_blocking


def is_locked(path: Path) -> bool:
    with path.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def test_who_waits_for_a_lock_is_not_overtaken_by_who_releases_it(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    path = tmp_path / "one.lock"
    turns: list[str] = []

    def wait() -> None:
        with lock_file_blocking(path):
            turns.append("waited")

    waiting = threading.Thread(target=wait, daemon=True)
    with lock_file_blocking(path):
        waiting.start()
        deadline = time.monotonic() + 20
        while not is_locked(path.with_suffix(".next")):
            assert time.monotonic() < deadline, "nobody stands in the queue"
    with lock_file_blocking(path):
        turns.append("again")
    waiting.join(20)
    assert turns == ["waited", "again"]
