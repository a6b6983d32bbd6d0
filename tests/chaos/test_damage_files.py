"""Tests that run tests/chaos/damage_files.py a few times, once for each kind of damage."""

from pathlib import Path

from tests.chaos.damage_files import DAMAGES, run_rounds


def test_no_damaged_file_crashes_a_command_and_what_is_lost_is_reported(tmp_path: Path) -> None:
    counts = run_rounds(tmp_path, len(DAMAGES), seed=5)
    assert counts["told"] + counts.get("unharmed", 0) == len(DAMAGES)
    assert counts["told"] >= len(DAMAGES) // 2
