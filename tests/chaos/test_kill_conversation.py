"""Tests that run tests/chaos/kill_conversation.py a few times, and check that it would detect a lost message."""

from pathlib import Path

from tests.chaos.kill_conversation import find_lost, run_rounds


def test_no_acknowledged_message_is_lost_when_the_program_is_killed_at_any_moment(tmp_path: Path) -> None:
    counts = run_rounds(tmp_path, 4, seed=3)
    assert counts["acknowledged"] >= 4


def test_a_missing_or_misplaced_message_counts_as_lost() -> None:
    assert find_lost(["a", "b"], ["a", "x", "b"]) == []
    assert find_lost(["a", "b"], ["a"]) == ["b"]
    assert find_lost(["a", "b"], ["b", "a"]) == ["b"]
