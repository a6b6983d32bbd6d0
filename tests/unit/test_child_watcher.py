"""Tests that child processes are watched without threads, and that their exits are reported as asyncio would."""

import asyncio
import os
import sys
import threading

import pytest

from mcphost.child_watcher import install_pidfd_watcher

pytestmark = pytest.mark.anyio


async def test_the_exit_status_of_a_child_is_reported_without_a_waiting_thread() -> None:
    install_pidfd_watcher()
    install_pidfd_watcher()
    code = "import sys; sys.stdin.read(); sys.exit(7)"
    child = await asyncio.create_subprocess_exec(sys.executable, "-c", code, stdin=asyncio.subprocess.PIPE)
    assert not [thread for thread in threading.enumerate() if "waitpid" in thread.name]
    assert child.stdin is not None
    child.stdin.close()
    assert await child.wait() == 7


async def test_a_killed_child_is_reported_with_its_signal() -> None:
    install_pidfd_watcher()
    child = await asyncio.create_subprocess_exec(sys.executable, "-c", "import time; time.sleep(60)")
    child.kill()
    assert await child.wait() == -9


async def test_a_status_read_elsewhere_is_reported_as_255(caplog: pytest.LogCaptureFixture) -> None:
    install_pidfd_watcher()
    child = await asyncio.create_subprocess_exec(sys.executable, "-c", "pass")
    os.waitpid(child.pid, 0)  # noqa: ASYNC222 - it ends at once
    assert await child.wait() == 255
    ours, python_3_12 = (
        f"the exit status of the child process {child.pid} was read before",
        f"pid {child.pid} exit status",
    )
    assert ours in caplog.text or python_3_12 in caplog.text
