"""Tests of the summary of `.ci/run`, which is run with a `uv` that prints prepared output."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.architecture.source_tree import ROOT

NEEDED = ("git", "tmux", "faketime", "zsh", "fish", "dbus-run-session", "gnome-keyring-daemon")
UV = """#!/bin/sh
case "$*" in
  *basedpyright*3.14*) echo "0 errors, 0 warnings, 0 notes" ;;
  "run pytest -n 0 "*) exit {alone} ;;
  "run pytest "*) printf '%s\\n' '{tests}'; exit {failed} ;;
  *" -m benchmarks "*) printf '%s\\n' '{benchmarks}'; exit {broken} ;;
esac
"""
TEST = "tests/unit/test_a.py::test_one[a b]"
BOUND = "broken bound: startup, memory: 1.60, at most 1.56"


def run_ci(
    folder: Path, *, tests: str = "", failed: int = 0, alone: int = 0, benchmarks: str = "", broken: int = 0
) -> tuple[list[str], int]:
    """Run `.ci/run` with these outputs and exit codes; return the lines of its summary and its exit code."""
    programs = folder / ".local" / "bin"
    programs.mkdir(parents=True)
    uv = UV.format(tests=tests, failed=failed, alone=alone, benchmarks=benchmarks, broken=broken)
    for name, text in {**dict.fromkeys(NEEDED, "#!/bin/sh\n"), "uv": uv}.items():
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    done = subprocess.run(
        [ROOT / ".ci" / "run"], env={**os.environ, "HOME": str(folder)}, capture_output=True, text=True, timeout=100
    )
    assert "installing" not in done.stdout
    return done.stdout.rpartition("\n\n")[2].splitlines(), done.returncode


def test_without_failures_the_summary_ends_with_the_total_time(tmp_path: Path) -> None:
    summary, code = run_ci(tmp_path, benchmarks="9 bounds, 0 broken")
    assert code == 0
    assert summary[-1].startswith("total ")
    assert [line for line in summary[:-1] if not line.endswith("  ok")] == []


def test_the_summary_names_each_broken_bound(tmp_path: Path) -> None:
    other = "broken bound: lists, 10,000 tools, CPU: 29.00, at least 30"
    summary, code = run_ci(tmp_path, benchmarks=f"a table\n9 bounds, 2 broken\n{BOUND}\n{other}", broken=1)
    assert code == 1
    assert summary[-2:] == [BOUND, other]
    assert [line.split()[0] for line in summary if line.endswith("FAILED")] == ["benchmarks"]


def test_the_summary_names_tests_that_passed_alone_and_broken_bounds(tmp_path: Path) -> None:
    failure = f"FAILED {TEST} - assert 1 == 2"
    summary, code = run_ci(tmp_path, tests=failure, failed=1, benchmarks=BOUND, broken=1)
    assert code == 1
    assert summary[-2:] == [f"failed at first, passed then: {TEST}", BOUND]


@pytest.mark.parametrize("count", [1, 6])
def test_tests_that_fail_again_or_are_too_many_fail_the_run(tmp_path: Path, count: int) -> None:
    failures = "\n".join(f"FAILED {TEST}{number}" for number in range(count))
    summary, code = run_ci(tmp_path, tests=failures, failed=1, alone=int(count == 1))
    assert code == 1
    assert summary[-1].startswith("total ")
    assert [line.split()[0] for line in summary if line.endswith("FAILED")] == ["tests"]
