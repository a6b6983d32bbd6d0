"""Tests for the audit log screen: paging, search, verification, and revoking a grant with two key presses."""

import re
import sqlite3
from contextlib import closing
from pathlib import Path
from time import process_time
from typing import Any

import pytest

from mcphost.host.consent.grants import GrantStatus
from mcphost.store.audit_store import FIELDS, AuditCheckpoint, AuditPosition, AuditRecord, row_hash
from tests.screens.conftest import Run
from tests.screens.example_records import create_example_audit_log, example_audit_records, example_grants

pytestmark = pytest.mark.anyio


async def test_rows_are_newest_first_explained_searched_and_cleaned(run: Run, tmp_path: Path) -> None:
    async with run(size=(120, 40)) as driver:
        driver.host.audit = create_example_audit_log(tmp_path, example_audit_records())
        await driver.pilot.press("f10")
        await driver.until(lambda: "tool failed" in driver.text(), "the newest row")
        assert driver.text().index("create_issue") < driver.text().index("server starting")
        await driver.until(lambda: "took" in driver.text() and "60,000 ms" in driver.text(), "what is told of it")
        assert "\x1b" not in driver.text()
        assert "\u202e" not in driver.text()
        await driver.pilot.press("ctrl+f")
        await driver.type("files allowed")
        await driver.until(lambda: "create_issue" not in driver.text(), "only what matches")
        await driver.until(lambda: "tool always allowed" in driver.text(), "what matches")
        await driver.until(lambda: "asked by the model, turn 1" in driver.text(), "what is told of it")
        await driver.type(" nowhere")
        await driver.until(lambda: "Nothing" in driver.text())
        await driver.pilot.press("escape")
        await driver.host.audit.close()


async def test_the_time_of_a_row_comes_first_and_is_not_cut_on_a_small_terminal(run: Run, tmp_path: Path) -> None:
    row = AuditRecord(
        at=1, kind="tool", event="started", server="a-server-with-a-long-name " * 3, subject="tool" * 9, who="person"
    )
    async with run(size=(80, 24)) as driver:
        driver.host.audit = create_example_audit_log(tmp_path, [row])
        await driver.pilot.press("f10")
        shown = re.compile(r"^ *\d{4}-\d\d-\d\d \d\d:\d\d · a-server", re.MULTILINE)
        await driver.until(lambda: shown.search(driver.text()), "the time")
        await driver.host.audit.close()


async def test_a_refusal_is_shown_with_its_rule_and_the_origins_of_the_arguments(run: Run, tmp_path: Path) -> None:
    row = AuditRecord(
        at=1, kind="tool", event="decided", server="web", subject="post", decision="deny", who="config",
        grant="web/*?from:mail", detail='{"origins":[{"server":"mail","tool":"read","argument":"body"}]}',
    )  # fmt: skip
    async with run(size=(120, 40)) as driver:
        driver.host.audit = create_example_audit_log(tmp_path, [row])
        await driver.pilot.press("f10")
        shown = ("web/*?from:mail", '"server": "mail"', '"argument": "body"')
        await driver.until(lambda: all(text in driver.text() for text in shown), "the rule and the origins")
        await driver.host.audit.close()


@pytest.mark.parametrize(
    ("decision", "shown"), [("held back", "○ changed tools quarantined"), ("kept", "● changed tools kept")]
)
async def test_quarantined_tools_are_marked_as_refused(run: Run, tmp_path: Path, decision: str, shown: str) -> None:
    row = AuditRecord(at=1, kind="drift", event="answered", server="files", decision=decision, who="person")
    async with run(size=(120, 40)) as driver:
        driver.host.audit = create_example_audit_log(tmp_path, [row])
        await driver.pilot.press("f10")
        await driver.until(lambda: shown in driver.text(), "the row")
        await driver.host.audit.close()


async def test_a_grant_is_undone_from_a_row_by_two_presses(run: Run, tmp_path: Path) -> None:
    async with run(size=(120, 40)) as driver:
        driver.host.grants.given = example_grants()
        driver.host.audit = create_example_audit_log(tmp_path, example_audit_records())
        await driver.pilot.press("f10")
        await driver.until(lambda: "tool failed" in driver.text())
        assert "revoke the permission" not in driver.text()
        await driver.pilot.press("u")
        await driver.until(lambda: "not about a stored permission" in driver.text())
        await driver.pilot.press("down", "down", "down")
        await driver.until(lambda: "4f2a91c0" in driver.text(), "the row with the grant")
        await driver.until(lambda: "u revoke the permission (twice)" in driver.text(), "the key")
        await driver.pilot.press("u")
        await driver.until(lambda: "Press u again to revoke" in driver.text())
        assert len(driver.host.grants.given) == 2
        await driver.pilot.press("u")
        await driver.until(lambda: "is revoked" in driver.text())
        left: list[GrantStatus] = driver.host.grants.given
        assert [item.grant.id for item in left] == ["77"]
        await driver.host.audit.close()


async def test_the_check_reports_success_or_each_fault_with_its_place(run: Run, tmp_path: Path) -> None:
    async with run(size=(120, 40)) as driver:
        driver.host.audit = create_example_audit_log(tmp_path, example_audit_records())
        await driver.pilot.press("f10")
        await driver.until(lambda: "tool failed" in driver.text())
        await driver.pilot.press("v")
        await driver.until(lambda: "All 7 rows are unchanged" in driver.text())
        with closing(sqlite3.connect(tmp_path / "l.db", isolation_level=None)) as db:
            db.execute("DROP TRIGGER ledger_is_not_changed")
            db.execute("UPDATE ledger SET decision = 'once' WHERE seq = 6")
        await driver.pilot.press("v")
        await driver.until(lambda: "Row 6 is not what was written" in driver.text())
        await driver.host.audit.close()


def create_long_audit_log(folder: Path, count: int) -> None:
    """Write an audit log with *count* rows."""
    names = ", ".join(f'"{name}"' for name in FIELDS)
    last = AuditPosition()

    def rows() -> Any:
        nonlocal last
        for seq in range(1, count + 1):
            fields: dict[str, Any] = dict.fromkeys(FIELDS, "") | {
                "at": seq, "size": 0, "duration": 1, "about": 0, "seq": seq, "prev": last.hash, "kind": "tool",
                "event": "ended", "server": "files", "subject": f"tool-{seq}", "decision": "ok",
            }  # fmt: skip
            fields["hash"] = row_hash(fields)
            last = AuditPosition(seq, fields["hash"])
            yield tuple(fields[name] for name in FIELDS)

    with closing(sqlite3.connect(folder / "l.db")) as db:
        (trigger,) = db.execute("SELECT sql FROM sqlite_master WHERE name = 'ledger_adds_at_the_end'").fetchone()
        db.execute("DROP TRIGGER ledger_adds_at_the_end")
        db.execute("DROP TRIGGER ledger_is_not_shortened")
        db.execute("DELETE FROM ledger")
        db.executemany(f"INSERT INTO ledger ({names}) VALUES ({', '.join('?' * len(FIELDS))})", rows())
        db.execute(trigger)
        db.commit()
    AuditCheckpoint(folder / "l.head").advance(last, allow_backward=True)


async def test_a_hundred_thousand_rows_open_without_drawing_them_all_and_are_turned_page_by_page(
    run: Run, tmp_path: Path
) -> None:
    async with run(size=(80, 24)) as driver:
        driver.host.audit = create_example_audit_log(tmp_path, example_audit_records())
        await driver.host.audit.store.flush()
        create_long_audit_log(tmp_path, 100_000)
        started_at = process_time()
        await driver.pilot.press("f10")
        await driver.until(lambda: "tool-100000" in driver.text(), "the newest row")
        # Reading all of them takes longer than this.
        assert process_time() - started_at < 5
        assert len(driver.app.screen.entries) == 200
        await driver.pilot.press("o")
        await driver.until(lambda: "tool-99800" in driver.text() and "page 2" in driver.text())
        await driver.pilot.press("n")
        await driver.until(lambda: "tool-100000" in driver.text())
        await driver.pilot.press("ctrl+f")
        await driver.type("tool-4711")
        await driver.until(lambda: driver.app.screen.entries[0].value.seq == 47119, "found far back")
        await driver.pilot.press("escape")
        await driver.host.audit.close()
