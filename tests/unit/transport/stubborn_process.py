"""A process group that ignores SIGTERM, and whether processes are still there."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress

import psutil
import pytest

from tests.event_loop import wait_until

# A leader that ignores SIGTERM with a child that does, too; its number is the group's.
STUBBORN_SCRIPT = (
    "import signal, subprocess, sys, time; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
    "child = subprocess.Popen([sys.executable, '-c', 'import signal, time;"
    " signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(120)']);"
    "print(child.pid, flush=True); time.sleep(120)"
)


@pytest.fixture
def group() -> Iterator[tuple[int, int]]:
    """The pids of a stubborn leader and its child."""
    with subprocess.Popen(
        [sys.executable, "-c", STUBBORN_SCRIPT], stdout=subprocess.PIPE, start_new_session=True, text=True
    ) as leader:
        assert leader.stdout is not None
        child = int(leader.stdout.readline())
        yield leader.pid, child
        for pid in (leader.pid, child):
            if psutil.pid_exists(pid):
                os.kill(pid, signal.SIGKILL)


def is_alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


async def wait_until_gone(*pids: int, seconds: float = 10) -> bool:
    with suppress(TimeoutError):
        await wait_until(lambda: not any(is_alive(pid) for pid in pids), seconds)
    return not any(is_alive(pid) for pid in pids)
