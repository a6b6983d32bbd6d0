"""Tests that every change to an audit log is detected and located, even if the database triggers were removed."""

import json
import re
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import psutil
import pytest

from mcphost.errors import StoreError
from mcphost.serialization import dumps
from mcphost.store.audit_reader import AuditFilter, AuditReader, AuditVerification, to_export
from mcphost.store.audit_store import FIELDS, INITIAL_HASH, TRIGGERS, AuditRecord, AuditStore, row_hash
from tests.event_loop import run_in_new_thread

ROWS = 12


def create_audit_reader(folder: Path, count: int = ROWS) -> AuditReader:
    """Return a reader of a new audit log with *count* rows, including the one that the log writes when it starts."""

    async def work() -> None:
        audit_store = AuditStore(folder / "l.db", folder / "l.head")
        for number in range(2, count + 1):
            record = AuditRecord(at=number, kind="tool", event="decided", server="s", subject=f"tool-{number}")
            audit_store.enqueue(lambda record=record: record)
        await audit_store.flush()
        await audit_store.close()

    run_in_new_thread(work)
    return AuditReader(folder / "l.db", folder / "l.head")


def edit_rows(folder: Path, *statements: str) -> None:
    with closing(sqlite3.connect(folder / "l.db", isolation_level=None)) as db:
        for name in TRIGGERS:
            db.execute(f"DROP TRIGGER {name}")
        for statement in statements:
            db.execute(statement)
        for code in TRIGGERS.values():
            db.execute(code)


def findings_of(verified: AuditVerification) -> list[tuple[int, str]]:
    return [(finding.row, finding.what) for finding in verified.findings]


def test_an_untouched_audit_log_verifies(tmp_path: Path) -> None:
    reader = create_audit_reader(tmp_path)
    recorded: list[tuple[int, int]] = []
    verified = reader.verify(lambda done, total: not recorded.append((done, total)))
    assert (verified.is_intact, verified.rows, verified.reached.seq) == (True, ROWS, ROWS)
    assert recorded == [(ROWS, ROWS)]


@pytest.mark.parametrize("name", [name for name in FIELDS if name not in ("seq", "prev", "hash")])
def test_an_edited_field_is_found_and_which_row(tmp_path: Path, name: str) -> None:
    reader = create_audit_reader(tmp_path)
    value = "77" if name in ("at", "about", "size", "duration") else "'x'"
    edit_rows(tmp_path, f'UPDATE ledger SET "{name}" = {value} WHERE seq = 5')
    assert findings_of(reader.verify()) == [(5, "edited")]


def test_an_edited_row_with_a_hash_that_fits_breaks_the_link_after_it(tmp_path: Path) -> None:
    reader = create_audit_reader(tmp_path)
    row = reader.row(5)
    assert row is not None
    forged = to_export(row) | {"subject": "harmless"}
    del forged["v"]
    edit_rows(tmp_path, f"UPDATE ledger SET subject = 'harmless', hash = '{row_hash(forged)}' WHERE seq = 5")
    assert findings_of(reader.verify()) == [(6, "unlinked")]


@pytest.mark.parametrize(("seq", "found"), [(5, (6, "unlinked")), (ROWS, (ROWS, "head"))])
def test_one_edited_row_with_a_hash_that_fits_is_not_called_intact(
    tmp_path: Path, seq: int, found: tuple[int, str]
) -> None:
    reader = create_audit_reader(tmp_path)
    row = reader.row(seq)
    assert row is not None
    assert [reader.check_row(number) for number in (1, seq)] == [(), ()]
    forged = to_export(row) | {"subject": "harmless"}
    del forged["v"]
    edit_rows(tmp_path, f"UPDATE ledger SET subject = 'harmless', hash = '{row_hash(forged)}' WHERE seq = {seq}")
    assert [(finding.row, finding.what) for finding in reader.check_row(seq)] == [found]
    assert reader.check_row(seq - 1) == ()


def test_one_row_is_compared_with_the_end_only_if_it_is_the_last(tmp_path: Path) -> None:
    reader = create_audit_reader(tmp_path)
    (tmp_path / "l.head").unlink()
    assert [finding.what for finding in reader.check_row(ROWS)] == ["head"]
    assert reader.check_row(ROWS - 1) == ()
    assert AuditReader(tmp_path / "l.db").check_row(ROWS) == ()
    edit_rows(tmp_path, "DELETE FROM ledger WHERE seq = 6")
    assert [(finding.row, finding.what) for finding in reader.check_row(5)] == [(6, "missing")]


@pytest.mark.parametrize(("seqs", "at"), [((5,), 5), ((5, 6, 7), 5), ((1,), 1)])
def test_removed_rows_are_found_and_which(tmp_path: Path, seqs: tuple[int, ...], at: int) -> None:
    reader = create_audit_reader(tmp_path)
    edit_rows(tmp_path, f"DELETE FROM ledger WHERE seq IN ({', '.join(map(str, seqs))})")
    assert findings_of(reader.verify()) == [(at, "missing")]


def test_rows_removed_at_the_end_are_found_by_the_head(tmp_path: Path) -> None:
    reader = create_audit_reader(tmp_path)
    edit_rows(tmp_path, "DELETE FROM ledger WHERE seq > 9")
    verified = reader.verify()
    assert findings_of(verified) == [(10, "missing")]
    assert "10 to 12" in verified.findings[0].text


def test_a_missing_audit_log_is_detected_by_the_checkpoint(tmp_path: Path) -> None:
    reader = create_audit_reader(tmp_path)
    for part in tmp_path.glob("l.db*"):
        part.unlink()
    assert findings_of(reader.verify()) == [(1, "missing")]


def test_removed_rows_whose_followers_moved_up_are_found(tmp_path: Path) -> None:
    reader = create_audit_reader(tmp_path)
    edit_rows(
        tmp_path,
        "DELETE FROM ledger WHERE seq = 5",
        *(f"UPDATE ledger SET seq = {seq - 1} WHERE seq = {seq}" for seq in range(6, ROWS + 1)),
    )
    verified = reader.verify()
    assert findings_of(verified)[:2] == [(5, "moved"), (6, "moved")]
    assert "written as row 6" in verified.findings[0].text


def test_rows_in_another_order_are_found_and_where_each_was(tmp_path: Path) -> None:
    reader = create_audit_reader(tmp_path)
    edit_rows(
        tmp_path,
        "UPDATE ledger SET seq = 99 WHERE seq = 4",
        "UPDATE ledger SET seq = 4 WHERE seq = 8",
        "UPDATE ledger SET seq = 8 WHERE seq = 99",
    )
    verified = reader.verify()
    assert findings_of(verified)[0] == (4, "moved")
    assert {finding.row for finding in verified.findings if finding.what == "moved"} == {4, 8}
    assert "written as row 8" in verified.findings[0].text


def test_an_inserted_row_is_detected_even_with_a_valid_hash(tmp_path: Path) -> None:
    reader = create_audit_reader(tmp_path)
    before = reader.row(6)
    assert before is not None
    forged = to_export(before) | {"seq": 7, "prev": before.hash, "subject": "allowed, honestly"}
    del forged["v"]
    forged["hash"] = row_hash(forged)
    names = ", ".join(f'"{name}"' for name in FIELDS)
    values = ", ".join("'" + str(forged[name]).replace("'", "''") + "'" for name in FIELDS)
    edit_rows(
        tmp_path,
        *(f"UPDATE ledger SET seq = {seq + 1} WHERE seq = {seq}" for seq in range(ROWS, 6, -1)),
        f"INSERT INTO ledger ({names}) VALUES ({values})",
    )
    rows = {row for row, _ in findings_of(reader.verify())}
    assert 8 in rows
    assert 6 not in rows


def test_a_rewritten_chain_is_detected_by_the_checkpoint(tmp_path: Path) -> None:
    reader = create_audit_reader(tmp_path)
    rows: list[dict[str, object]] = []
    reader.export(AuditFilter(), lambda row: rows.append(to_export(row)))
    prev, statements = INITIAL_HASH, list[str]()
    for row in rows:
        del row["v"]
        row |= {"prev": prev, "who": "person"}
        row["hash"] = prev = row_hash(row)
        statements.append(
            f"UPDATE ledger SET who = 'person', prev = '{row['prev']}', hash = '{prev}' WHERE seq = {row['seq']}"
        )
    edit_rows(tmp_path, *statements)
    assert findings_of(reader.verify()) == [(ROWS, "head")]


def test_a_missing_checkpoint_and_missing_triggers_are_findings(tmp_path: Path) -> None:
    reader = create_audit_reader(tmp_path)
    (tmp_path / "l.head").unlink()
    with closing(sqlite3.connect(tmp_path / "l.db")) as db:
        db.execute("DROP TRIGGER ledger_is_not_changed")
    assert findings_of(reader.verify()) == [(ROWS, "head"), (0, "triggers")]


def test_a_trigger_of_the_same_name_that_refuses_nothing_is_found(tmp_path: Path) -> None:
    reader = create_audit_reader(tmp_path)
    name = "ledger_is_not_changed"
    with closing(sqlite3.connect(tmp_path / "l.db")) as db:
        db.execute(f"DROP TRIGGER {name}")
        db.execute(f"CREATE TRIGGER {name} BEFORE UPDATE ON ledger BEGIN SELECT 1; END")
    verified = reader.verify()
    assert findings_of(verified) == [(0, "triggers")]
    assert name in verified.findings[0].text


def test_a_first_row_that_follows_something_is_found(tmp_path: Path) -> None:
    reader = create_audit_reader(tmp_path)
    row = reader.row(1)
    assert row is not None
    forged = to_export(row) | {"prev": "f" * 64}
    del forged["v"]
    edit_rows(tmp_path, f"UPDATE ledger SET prev = '{forged['prev']}', hash = '{row_hash(forged)}' WHERE seq = 1")
    assert findings_of(reader.verify()) == [(1, "unlinked"), (2, "unlinked")]


def test_a_recorded_break_stays_a_finding_even_if_the_chain_is_repaired(tmp_path: Path) -> None:
    create_audit_reader(tmp_path)
    (tmp_path / "l.head").unlink()
    reader = create_audit_reader(tmp_path)
    verified = reader.verify()
    assert findings_of(verified) == [(ROWS + 1, "recorded")]
    assert (verified.is_intact, verified.rows) == (False, 2 * ROWS)


def test_an_aborted_verification_reports_no_success(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcphost.store.audit_reader.PROGRESS_INTERVAL", 5)
    verified = create_audit_reader(tmp_path).verify(lambda done, total: False)
    assert (verified.findings, verified.is_intact, verified.rows) == ((), False, 5)


def test_an_unreadable_checkpoint_counts_as_missing_and_reading_changes_no_file(tmp_path: Path) -> None:
    reader = create_audit_reader(tmp_path)
    (tmp_path / "l.head").rename(tmp_path / "other")
    (tmp_path / "l.head").symlink_to(tmp_path / "other")
    before = (tmp_path / "l.db").read_bytes()
    assert findings_of(reader.verify()) == [(ROWS, "head")]
    with pytest.raises(StoreError, match="readonly"):
        reader._run(None, lambda db: db.execute("DROP TRIGGER ledger_is_not_changed"))  # pyright: ignore[reportPrivateUsage]
    assert (tmp_path / "l.db").read_bytes() == before


def test_a_checkpoint_with_an_impossible_number_counts_as_missing(tmp_path: Path) -> None:
    reader = create_audit_reader(tmp_path)
    (tmp_path / "l.head").write_text(f"{10**19:020d} {'a' * 64}\n")
    assert findings_of(reader.verify()) == [(ROWS, "head")]


def test_bytes_edited_in_the_file_are_found(tmp_path: Path) -> None:
    reader = create_audit_reader(tmp_path)
    with closing(sqlite3.connect(tmp_path / "l.db")) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    content = (tmp_path / "l.db").read_bytes()
    assert content.count(b"tool-7") == 1
    (tmp_path / "l.db").write_bytes(content.replace(b"tool-7", b"tool-X"))
    assert findings_of(reader.verify()) == [(7, "edited")]


def test_a_file_that_is_no_database_is_a_finding_and_no_traceback(tmp_path: Path) -> None:
    reader = create_audit_reader(tmp_path)
    for part in tmp_path.glob("l.db-*"):
        part.unlink()
    (tmp_path / "l.db").write_bytes(b"no database" * 1000)
    assert findings_of(reader.verify()) == [(0, "unreadable")]


def test_a_file_that_is_no_database_is_closed_before_the_error_is_reported(tmp_path: Path) -> None:
    file = tmp_path / "l.db"
    file.write_bytes(b"no database" * 1000)
    with pytest.raises(StoreError) as caught:  # keeps the frames that opened the file
        AuditReader(file, tmp_path / "l.head").page(AuditFilter(), 10)
    assert str(file) not in {opened.path for opened in psutil.Process().open_files()}
    assert isinstance(caught.value.__cause__, sqlite3.DatabaseError)


def test_no_audit_log_is_not_an_error(tmp_path: Path) -> None:
    reader = AuditReader(tmp_path / "none.db", tmp_path / "none.head")
    assert (reader.verify().is_intact, reader.page(AuditFilter(), 10), reader.row(1)) == (True, (), None)


def test_an_export_is_checked_by_the_lines_in_the_documentation(tmp_path: Path) -> None:
    reader = create_audit_reader(tmp_path)
    page = (Path(__file__).parents[3] / "docs/audit.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    lines: list[str] = []
    assert reader.export(AuditFilter(), lambda row: lines.append(dumps(to_export(row)))) == ROWS
    (tmp_path / "good.jsonl").write_text("\n".join(lines) + "\n")
    good = subprocess.run([sys.executable, "-c", code, str(tmp_path / "good.jsonl")], capture_output=True, text=True)
    assert good.stdout.split() == [str(ROWS), json.loads(lines[-1])["hash"]]
    (tmp_path / "bad.jsonl").write_text("\n".join(lines).replace("tool-5", "tool-6") + "\n")
    bad = subprocess.run([sys.executable, "-c", code, str(tmp_path / "bad.jsonl")], capture_output=True, text=True)
    assert "AssertionError: row 5" in bad.stderr


def test_pages_are_newest_first_and_filters_add_up(tmp_path: Path) -> None:
    reader = create_audit_reader(tmp_path)
    assert [row.seq for row in reader.page(AuditFilter(), 3)] == [12, 11, 10]
    assert [row.seq for row in reader.page(AuditFilter(before=4, kind="tool", server="s"), 3)] == [3, 2]
    assert [row.seq for row in reader.page(AuditFilter(text="TOOL-7 decided"), 3)] == [7]
    assert [row.seq for row in reader.page(AuditFilter(text="%"), 3)] == []
    assert reader.count(AuditFilter(kind="ledger")) == 1


@pytest.mark.parametrize("word", ["ЗАМЕТКИ", "заметки", "Übersicht", "ÜBERSICHT"])
def test_a_search_ignores_the_case_of_all_letters(tmp_path: Path, word: str) -> None:
    async def work() -> None:
        store = AuditStore(tmp_path / "l.db")
        record = AuditRecord(at=1, kind="tool", event="started", server="Заметки", subject="Übersicht")
        await store.append(lambda: record)
        await store.close()

    run_in_new_thread(work)
    found = AuditReader(tmp_path / "l.db").page(AuditFilter(text=f"{word} STARTED"), 3)
    assert [row.subject for row in found] == ["Übersicht"]


def test_a_log_that_cannot_be_examined_is_not_taken_for_an_empty_one(tmp_path: Path) -> None:
    reader = AuditReader(tmp_path / ("x" * 300), tmp_path / "l.head")
    with pytest.raises(StoreError, match=r"cannot be read: .*File name too long"):
        reader.page(AuditFilter(), 10)


@pytest.mark.skipif(subprocess.run(["unshare", "-rm", "true"]).returncode != 0, reason="no mount namespaces")
def test_a_log_in_a_folder_that_cannot_be_written_is_read_and_verified(tmp_path: Path) -> None:
    create_audit_reader(tmp_path)
    verify = (
        "from pathlib import Path; from mcphost.store.audit_reader import AuditReader;"
        "found = AuditReader(Path('l.db'), Path('l.head')).verify(); print(found.rows, found.is_intact)"
    )
    bind = 'mount --bind "$0" "$0" && mount -o remount,ro,bind "$0" && cd "$0" && exec "$1" -c "$2"'
    command = ["unshare", "-rm", "sh", "-c", bind, str(tmp_path), sys.executable, verify]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert (done.stdout, done.stderr) == (f"{ROWS} True\n", "")


@pytest.mark.parametrize(
    ("removed", "text"),
    [
        (f"seq = {ROWS}", f"Row {ROWS} is missing at the end."),
        (f"seq > {ROWS - 2}", f"Rows {ROWS - 1} to {ROWS} are missing at the end."),
        ("seq > 0", f"All {ROWS} rows are missing."),
    ],
)
def test_what_is_missing_at_the_end_is_said_in_the_singular_for_one_row(
    tmp_path: Path, removed: str, text: str
) -> None:
    reader = create_audit_reader(tmp_path)
    edit_rows(tmp_path, f"DELETE FROM ledger WHERE {removed}")
    assert reader.verify().findings[-1].text == text
