"""Fixtures for the transport tests."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import psutil
import pytest

from tests.unit.transport.stubborn_process import STUBBORN_SCRIPT


@pytest.fixture
def process_group() -> Iterator[tuple[int, int]]:
    """Start a process and its child, which both ignore SIGTERM; return their pids."""
    with subprocess.Popen(
        [sys.executable, "-c", STUBBORN_SCRIPT], stdout=subprocess.PIPE, start_new_session=True, text=True
    ) as leader:
        assert leader.stdout is not None
        child = int(leader.stdout.readline())
        yield leader.pid, child
        for pid in (leader.pid, child):
            if psutil.pid_exists(pid):
                os.kill(pid, signal.SIGKILL)
