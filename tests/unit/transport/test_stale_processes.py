"""Tests that the next start of mcphost ends the processes left by a crash, and no others."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from mcphost.transport.watchdog import (
    GROUP_FILE_SUFFIX,
    ProcessGroupFile,
    Watchdog,
    process_start_time,
    stop_stale_groups,
)
from tests.processes import is_alive
from tests.unit.transport.stubborn_process import wait_until_gone

# A host without a watchdog: records the group of its argument, reports that, and waits to be killed.
HOST = (
    "import sys, time\n"
    "from pathlib import Path\n"
    "from mcphost.transport.watchdog import ProcessGroupFile\n"
    "file = ProcessGroupFile(Path(sys.argv[1]))\n"
    "for group in sys.argv[2:]: file.add(int(group))\n"
    "print('written', flush=True)\n"
    "time.sleep(120)\n"
)


@pytest.fixture
def host_record(tmp_path: Path, process_group: tuple[int, int]) -> Iterator["subprocess.Popen[bytes]"]:
    """Run a host that writes the process group to its file of running servers; yield the host's process."""
    with subprocess.Popen(
        [sys.executable, "-c", HOST, str(tmp_path), str(process_group[0])], stdout=subprocess.PIPE
    ) as host:
        assert host.stdout is not None
        host.stdout.readline()
        yield host
        host.kill()


@pytest.mark.anyio
async def test_the_groups_of_a_host_that_was_killed_are_ended_with_their_children(
    tmp_path: Path, process_group: tuple[int, int], host_record: "subprocess.Popen[bytes]"
) -> None:
    host_record.kill()
    host_record.wait()
    assert stop_stale_groups(tmp_path) == 1
    assert await wait_until_gone(*process_group)
    assert record_files(tmp_path) == []


def test_the_groups_of_another_host_that_is_alive_are_left_alone(
    tmp_path: Path, process_group: tuple[int, int], host_record: "subprocess.Popen[bytes]"
) -> None:
    assert stop_stale_groups(tmp_path) == 0
    own = ProcessGroupFile(tmp_path)
    own.add(process_group[0])
    assert stop_stale_groups(tmp_path) == 0  # nor do we end our own
    own.close()
    assert is_alive(process_group[0])
    assert len(list(tmp_path.iterdir())) == 1


def test_a_reused_process_id_is_not_matched(tmp_path: Path, process_group: tuple[int, int]) -> None:
    started = process_start_time(process_group[0])
    file = tmp_path / f"1-x{GROUP_FILE_SUFFIX}"
    for written in (
        f"+ {process_group[0]} {started}1",
        f"+ {process_group[0]} ",
        f"+ {process_group[0]}",
        f"+ {process_group[1]} {process_start_time(process_group[1])}",  # in the group, but not its leader
        f"+ {process_group[0]} {started}\n- {process_group[0]}",
    ):
        file.write_text(written + "\n")
        assert stop_stale_groups(tmp_path) == 0, written
        assert not file.exists()
    assert is_alive(process_group[0])
    assert is_alive(process_group[1])


def test_files_that_are_none_harm_nothing(tmp_path: Path, process_group: tuple[int, int]) -> None:
    good = f"+ {process_group[0]} {process_start_time(process_group[0])}\n"
    real = tmp_path / "real"
    real.write_text(good)
    (tmp_path / f"link{GROUP_FILE_SUFFIX}").symlink_to(real)
    os.mkfifo(tmp_path / f"pipe{GROUP_FILE_SUFFIX}")
    (tmp_path / f"folder{GROUP_FILE_SUFFIX}").mkdir()
    (tmp_path / f"noise{GROUP_FILE_SUFFIX}").write_bytes(
        bytes(range(256)) * 10 + b"\n+ 1 x\n+ -5 x\n+ " + b"9" * 5000 + b" x\n"
    )
    (tmp_path / f"long{GROUP_FILE_SUFFIX}").write_bytes(b"+ 2 x\n" * 100_000 + good.encode())
    (tmp_path / "other.txt").write_text(good)
    assert stop_stale_groups(tmp_path) == 0
    assert stop_stale_groups(tmp_path / "missing") == 0
    assert is_alive(process_group[0])


def test_a_process_is_identified_by_its_start_time(process_group: tuple[int, int]) -> None:
    assert process_start_time(process_group[0]) == process_start_time(process_group[0]) != ""
    with subprocess.Popen([sys.executable, "-c", "pass"]) as process:
        process.wait()
    assert process_start_time(process.pid) == ""


@pytest.mark.anyio
async def test_a_watchdog_records_its_groups_while_they_run_and_cleans_up_first(
    tmp_path: Path, process_group: tuple[int, int], host_record: "subprocess.Popen[bytes]"
) -> None:
    host_record.kill()
    host_record.wait()
    guardian = Watchdog(tmp_path)
    sleeping = [sys.executable, "-c", "import time; time.sleep(60)"]
    async with await anyio.open_process(sleeping, start_new_session=True) as server:
        await guardian.watch(server.pid)
        assert await wait_until_gone(*process_group)
        (file,) = record_files(tmp_path)
        assert file.read_text().startswith(f"+ {server.pid} ")
        assert file.stat().st_mode & 0o777 == 0o600
        guardian.unwatch(server.pid)
        assert file.read_text().endswith(f"- {server.pid}\n")
        await guardian.close()
        assert is_alive(server.pid)
        server.kill()
    assert record_files(tmp_path) == []


def record_files(folder: Path) -> list[Path]:
    return list(folder.iterdir())
