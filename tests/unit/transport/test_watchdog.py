"""Tests that the watchdog process ends the servers of a killed mcphost, and nothing else."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread
import psutil
import pytest

from mcphost.transport.watchdog import Watchdog
from tests.processes import is_alive
from tests.unit.transport.stubborn_process import wait_until_gone

pytestmark = pytest.mark.anyio

# A host: watches the group of its argument, reports that, and waits to be killed.
HOST = (
    "import anyio, sys\n"
    "from mcphost.transport.watchdog import Watchdog\n"
    "async def main():\n"
    "    watchdog = Watchdog()\n"
    "    await watchdog.watch(int(sys.argv[1]))\n"
    "    print(watchdog.pid, flush=True)\n"
    "    await anyio.sleep(120)\n"
    "anyio.run(main)\n"
)


async def test_a_host_killed_with_nine_takes_a_stubborn_group_with_it(process_group: tuple[int, int]) -> None:
    async with await anyio.open_process([sys.executable, "-c", HOST, str(process_group[0])], stderr=None) as host:
        assert host.stdout is not None
        guardian = int(await host.stdout.receive())
        host.kill()
        assert await wait_until_gone(*process_group, guardian)


async def test_a_forgotten_group_is_left_alone(process_group: tuple[int, int]) -> None:
    guardian = Watchdog()
    await guardian.watch(process_group[0])
    pid = guardian.pid
    assert pid is not None
    guardian.unwatch(process_group[0])
    await guardian.close()
    assert not is_alive(pid)
    assert is_alive(process_group[0])


async def test_closing_without_a_group_ends_and_twice_is_fine() -> None:
    guardian = Watchdog()
    await guardian.watch(2**40)  # not a valid process group id
    with anyio.fail_after(20):
        await guardian.close()
        await guardian.close()
    assert guardian.pid is None


async def test_a_watchdog_ends_even_if_asyncio_cancels_its_closing(process_group: tuple[int, int]) -> None:
    guardian = Watchdog()
    await guardian.watch(process_group[0])
    pid = guardian.pid
    assert pid is not None
    async with asyncio.TaskGroup() as tasks:
        closing = tasks.create_task(guardian.close())
        await anyio.lowlevel.checkpoint()  # until the closing waits for the first time
        closing.cancel()
    assert closing.cancelled()
    assert await wait_until_gone(pid)


async def test_a_watchdog_that_is_still_starting_when_it_is_closed_ends(
    process_group: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    is_starting, go_on, has_started = (threading.Event() for _ in range(3))
    started: list[subprocess.Popen[bytes]] = []
    popen: Any = subprocess.Popen

    def start_slowly(*arguments: Any, **options: Any) -> Any:
        is_starting.set()
        go_on.wait(20)
        started.append(popen(*arguments, **options))
        has_started.set()
        return started[0]

    monkeypatch.setattr(subprocess, "Popen", start_slowly)
    guardian = Watchdog()
    async with asyncio.TaskGroup() as tasks:
        watching = tasks.create_task(guardian.watch(process_group[0]))
        await anyio.to_thread.run_sync(is_starting.wait, 20)
        watching.cancel()  # asyncio's own cancellation does not wait for the thread
    assert watching.cancelled()
    await guardian.close()
    go_on.set()
    await anyio.to_thread.run_sync(has_started.wait, 20)
    await anyio.to_thread.run_sync(started[0].wait, 20)
    assert guardian.pid is None
    assert is_alive(process_group[0])


async def test_signals_for_the_terminals_processes_do_not_end_it(process_group: tuple[int, int]) -> None:
    guardian = Watchdog()
    await guardian.watch(process_group[0])
    assert guardian.pid is not None
    assert os.getpgid(guardian.pid) != os.getpgid(0)
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        os.kill(guardian.pid, number)
    assert not await wait_until_gone(guardian.pid, seconds=0.2)
    await guardian.close()
    assert await wait_until_gone(*process_group)


@pytest.mark.parametrize("shell", ["/bin/sh", "/bin/bash"])
async def test_a_shell_ends_what_is_left_of_several_groups_and_spares_the_forgotten(
    shell: str, process_group: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mcphost.transport.watchdog.SHELL", shell)
    guardian = Watchdog()
    sleeping = [sys.executable, "-c", "import time; time.sleep(60)"]
    async with (
        await anyio.open_process(sleeping, start_new_session=True) as kept,
        await anyio.open_process(sleeping, start_new_session=True) as ended,
    ):
        for watched in (kept.pid, process_group[0], ended.pid):
            await guardian.watch(watched)
        assert guardian.pid is not None
        assert psutil.Process(guardian.pid).memory_info().rss < 5_000_000
        guardian.unwatch(kept.pid)
        await guardian.close()
        assert await wait_until_gone(*process_group)
        assert await ended.wait() == -signal.SIGTERM
        assert is_alive(kept.pid)
        kept.kill()


async def test_groups_that_start_together_are_written_down_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    guardian = Watchdog(tmp_path)
    changes: list[object] = []
    run_sync = anyio.to_thread.run_sync

    async def counted(function: Any, *arguments: Any, **options: Any) -> Any:
        changes.append(function)
        return await run_sync(function, *arguments, **options)

    monkeypatch.setattr(anyio.to_thread, "run_sync", counted)
    sleeping = [sys.executable, "-c", "import time; time.sleep(60)"]
    async with AsyncExitStack() as stack:
        started = [
            await stack.enter_async_context(await anyio.open_process(sleeping, start_new_session=True))
            for _ in range(5)
        ]
        async with anyio.create_task_group() as tasks:
            for process in started:
                tasks.start_soon(guardian.watch, process.pid)
        assert len(changes) <= 4  # the start of the watchdog, the first group, all others, what an earlier run left
        written = read_when_written(tmp_path)
        assert all(f"+ {process.pid} " in written for process in started)
        await guardian.close()
        for process in started:
            assert await process.wait() == -signal.SIGTERM


def read_when_written(folder: Path) -> str:
    (file,) = folder.iterdir()
    return file.read_text()
