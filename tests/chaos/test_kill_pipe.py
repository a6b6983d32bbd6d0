"""Tests that run tests/chaos/kill_pipe.py a few times, and check that it would detect a lost decision."""

from pathlib import Path

from mcphost.host.audit.audit_summary import arguments_digest
from mcphost.store.audit_store import AuditRow
from tests.chaos.kill_pipe import find_lost_calls, run_rounds


def test_no_acknowledged_decision_is_lost_when_the_program_is_killed_at_any_moment(tmp_path: Path) -> None:
    counts = run_rounds(tmp_path, 12, seed=7)
    assert counts["ran"] > 0
    assert counts["rows"] > counts["ran"]


def test_a_call_without_its_row_counts_as_lost() -> None:
    row = AuditRow(
        at=1,
        kind="tool",
        event="started",
        arguments=arguments_digest({"a": 1}),
        seq=1,
        run="",
        about=0,
        prev="",
        hash="",
    )
    assert find_lost_calls([{"a": 1}, {"a": 2}], (row,)) == [{"a": 2}]
