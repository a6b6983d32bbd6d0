"""Tests that ending a process that has just exited is not an error."""

import os
import subprocess
import sys
from pathlib import Path

import psutil

from tests import processes


def test_a_process_that_ended_is_closed_without_an_error() -> None:
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(300)"])
    seen = psutil.Process(child.pid)
    assert processes.is_alive(child.pid)
    child.kill()
    child.wait()
    processes.kill([seen])
    assert processes.command_line(seen) == []
    assert processes.descendants(child.pid) == []
    assert not processes.is_alive(child.pid)


def test_killing_ends_all_running_processes() -> None:
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(300)"])
    processes.kill([psutil.Process(child.pid)])
    assert child.wait(timeout=30) < 0


def test_repeating_a_test_that_fails_exits_1_and_leaves_no_burner(tmp_path: Path) -> None:
    test = tmp_path / "test_sometimes.py"
    test.write_text("def test_it() -> None:\n    assert False, 'the reason'\n")
    command = [sys.executable, "-m", "tests.repeat_under_load", "--times", "2", str(test)]
    marked = {**os.environ, "REPEATED_IN": str(tmp_path)}  # burners inherit it; other tests start processes meanwhile
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=marked)
    assert done.returncode == 1
    assert "2 of 2, 2 failed" in done.stdout
    assert "the reason" in done.stdout
    assert processes.processes_with_variable("REPEATED_IN", str(tmp_path)) == []
