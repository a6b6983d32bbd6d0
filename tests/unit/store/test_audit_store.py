"""Tests for the audit store: rows are only appended, form one hash chain for all writers, and keep their order."""

import asyncio
import hashlib
import json
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcphost.llm.messages import Message, TextPart
from mcphost.store.audit_store import (
    FIELDS,
    MAX_DETAIL_LENGTH,
    MAX_INTEGER,
    AuditCheckpoint,
    AuditRecord,
    AuditStore,
    load_legacy_records,
    row_hash,
)
from mcphost.store.conversations import ConversationStore
from mcphost.store.database import Database
from mcphost.store.migrations import MIGRATIONS, migrate
from tests.unit.store.audit_writer import create_record

pytestmark = pytest.mark.anyio


def ledger_rows(path: Path) -> list[dict[str, Any]]:
    with closing(sqlite3.connect(path)) as db:
        names = ", ".join(f'"{name}"' for name in FIELDS)
        return [dict(zip(FIELDS, row, strict=True)) for row in db.execute(f"SELECT {names} FROM ledger ORDER BY seq")]


def create_audit_store(folder: Path, messages: list[str] | None = None, **more: Any) -> AuditStore:
    heard = messages if messages is not None else []
    return AuditStore(folder / "l.db", folder / "state" / "l.head", warn=lambda text, hint: heard.append(text), **more)


async def test_a_chain_can_be_verified_by_a_few_independent_lines(tmp_path: Path) -> None:
    audit_store = create_audit_store(tmp_path)
    for subject in ("add", 'é😀\x00\x1f"\\ ', "\ud800 half"):
        assert (await audit_store.append(lambda subject=subject: create_record(subject, size=5))).seq > 0
    await audit_store.close()
    prev = "0" * 64
    for number, row in enumerate(ledger_rows(tmp_path / "l.db"), 1):
        assert (row["seq"], row["prev"]) == (number, prev)
        covered = {name: value for name, value in row.items() if name != "hash"} | {"v": 1}
        text = json.dumps(covered, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        prev = hashlib.sha256(text.encode()).hexdigest()
        assert row["hash"] == prev
    assert [row["subject"] for row in ledger_rows(tmp_path / "l.db")][1:] == ["add", 'é😀\x00\x1f"\\ ', "\ufffd half"]
    assert AuditCheckpoint(tmp_path / "state" / "l.head").read() is not None


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE ledger SET decision = 'allow' WHERE seq = 2",
        "DELETE FROM ledger WHERE seq = 2",
        "DELETE FROM ledger",
        "INSERT OR REPLACE INTO ledger SELECT * FROM ledger WHERE seq = 2",
        "INSERT INTO ledger SELECT * FROM ledger WHERE seq = 2 ON CONFLICT (seq) DO UPDATE SET subject = 'x'",
    ],
)
async def test_the_file_itself_refuses_every_other_change(tmp_path: Path, statement: str) -> None:
    audit_store = create_audit_store(tmp_path)
    for subject in "abc":
        await audit_store.append(lambda subject=subject: create_record(subject))
    await audit_store.close()
    before = ledger_rows(tmp_path / "l.db")
    with closing(sqlite3.connect(tmp_path / "l.db")) as db, pytest.raises(sqlite3.IntegrityError, match="the ledger"):
        db.execute(statement)
    assert ledger_rows(tmp_path / "l.db") == before


@pytest.mark.parametrize(("seq", "prev"), [(6, "last"), (5, "z" * 64), (5, "first"), (0, "last"), (-1, "last")])
async def test_a_row_that_does_not_follow_the_last_one_is_refused_by_the_file(
    tmp_path: Path, seq: int, prev: str
) -> None:
    audit_store = create_audit_store(tmp_path)
    for subject in "abc":
        await audit_store.append(lambda subject=subject: create_record(subject))
    await audit_store.close()
    before = ledger_rows(tmp_path / "l.db")
    hashes = {"last": before[-1]["hash"], "first": before[0]["hash"]}
    fields = {**before[-1], "seq": seq, "prev": hashes.get(prev, prev)}
    statement = f"INSERT INTO ledger VALUES ({', '.join('?' * len(FIELDS))})"
    with closing(sqlite3.connect(tmp_path / "l.db")) as db, pytest.raises(sqlite3.IntegrityError, match="grows at its"):
        db.execute(statement, [fields[name] for name in FIELDS])
    assert ledger_rows(tmp_path / "l.db") == before


async def test_the_checkpoint_exists_before_the_first_row_and_a_cancelled_writer_waits_for_its_own(
    tmp_path: Path,
) -> None:
    audit_store, there = create_audit_store(tmp_path), list[bool]()

    def made() -> AuditRecord:
        there.append((tmp_path / "state" / "l.head").exists())
        return create_record()

    with anyio.CancelScope() as scope:
        scope.cancel()
        entry = await audit_store.append(made)
        assert (entry.seq, there) == (2, [True])
    assert len(ledger_rows(tmp_path / "l.db")) == 2
    await audit_store.close()


async def test_a_writer_whose_task_is_cancelled_writes_its_row_once(tmp_path: Path) -> None:
    audit_store, begun, go_on = create_audit_store(tmp_path), threading.Event(), threading.Event()

    def made() -> AuditRecord:
        begun.set()
        assert go_on.wait(10)
        return create_record("first")

    task = asyncio.create_task(audit_store.append(made))  # noqa: TID251 - cancelled as Textual cancels its workers
    await anyio.to_thread.run_sync(begun.wait, 10)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    go_on.set()
    await audit_store.append(lambda: create_record("second"))
    await audit_store.close()
    assert [row["subject"] for row in ledger_rows(tmp_path / "l.db")[1:]] == ["first", "second"]


async def test_acknowledged_rows_are_synced_and_not_only_written(tmp_path: Path) -> None:
    audit_store = create_audit_store(tmp_path)
    await audit_store.append(create_record)
    modes = await audit_store._database.run(
        lambda db: (db.execute("PRAGMA synchronous").fetchone()[0], db.execute("PRAGMA journal_mode").fetchone()[0])
    )
    await audit_store.close()
    assert modes == (2, "wal")


async def test_queued_records_are_committed_together_in_order_with_their_references(tmp_path: Path) -> None:
    audit_store = create_audit_store(tmp_path)
    first = audit_store.enqueue(lambda: create_record("first"))
    second = audit_store.enqueue(lambda: create_record("second"), first)
    third = await audit_store.append(lambda: create_record("third"), second)
    await audit_store.close()
    assert [entry.seq for entry in (first, second, third)] == [2, 3, 4]
    assert [(row["subject"], row["about"]) for row in ledger_rows(tmp_path / "l.db")[1:]] == [
        ("first", 0), ("second", 2), ("third", 3),
    ]  # fmt: skip


def test_two_processes_write_one_chain_without_a_break(tmp_path: Path) -> None:
    code = (
        "import sys; from tests.unit.store.audit_writer import append_audit_rows;"
        " append_audit_rows(sys.argv[1], sys.argv[2], 150)"
    )
    running = [subprocess.Popen([sys.executable, "-c", code, str(tmp_path), name]) for name in "ab"]
    assert [process.wait(60) for process in running] == [0, 0]
    found = ledger_rows(tmp_path / "l.db")
    assert [row["seq"] for row in found] == list(range(1, 302))
    assert [row["event"] for row in found].count("began") == 1
    assert not [row for row in found if row["event"] == "broken"]
    prev = "0" * 64
    for row in found:
        assert row["prev"] == prev
        prev = row_hash(row)
        assert row["hash"] == prev
    for name in "ab":
        mine = [row for row in found if row["subject"].startswith(name)]
        assert [row["subject"] for row in mine] == [f"{name}{number}" for number in range(150)]
        assert len({row["run"] for row in mine}) == 1
    reached = AuditCheckpoint(tmp_path / "l.head").read()
    assert reached is not None
    assert (reached.seq, reached.hash) == (301, prev)


async def test_an_unwritable_audit_file_is_reported_once_and_its_rows_follow_in_order(
    tmp_path: Path,
) -> None:
    (tmp_path / "at").write_text("a file where a folder should be")
    messages: list[str] = []
    audit_store = create_audit_store(tmp_path / "at", messages)
    first = await audit_store.append(lambda: create_record("first"))
    await audit_store.append(lambda: create_record("second"))
    assert (first.seq, audit_store.pending_count, len(messages)) == (0, 2, 1)
    assert "kept in memory only" in messages[0]
    (tmp_path / "at").unlink()
    third = await audit_store.append(lambda: create_record("third"))
    await audit_store.close()
    assert (first.seq, third.seq, audit_store.pending_count) == (2, 4, 0)
    assert "written again" in messages[1]
    assert [row["subject"] for row in ledger_rows(tmp_path / "at" / "l.db")[1:]] == ["first", "second", "third"]


async def test_a_row_that_cannot_be_described_is_still_written(tmp_path: Path) -> None:
    audit_store = create_audit_store(tmp_path)

    def broken() -> AuditRecord:
        raise ValueError("a bug")

    await audit_store.append(broken)
    await audit_store.append(lambda: create_record("next"))
    await audit_store.close()
    assert [(row["event"], row["subject"]) for row in ledger_rows(tmp_path / "l.db")[1:]] == [
        ("undescribed", ""), ("decided", "next"),
    ]  # fmt: skip


async def test_no_text_is_endless_and_no_number_is_beyond_what_readers_of_json_take(tmp_path: Path) -> None:
    audit_store = create_audit_store(tmp_path)
    await audit_store.append(lambda: create_record("x" * 5_000, detail="y" * 500_000, size=2**70, duration=-5))
    await audit_store.close()
    row = ledger_rows(tmp_path / "l.db")[-1]
    assert (len(row["subject"]), len(row["detail"])) == (1_001, MAX_DETAIL_LENGTH + 1)
    assert (row["size"], row["duration"]) == (MAX_INTEGER, 0)


@pytest.mark.parametrize(("cut", "found"), [(2, "rows missing"), (0, "rows missing")])
async def test_rows_missing_at_the_end_stay_a_finding_once_the_chain_continues(
    tmp_path: Path, cut: int, found: str
) -> None:
    audit_store = create_audit_store(tmp_path)
    for subject in "abc":
        await audit_store.append(lambda subject=subject: create_record(subject))
    await audit_store.close()
    with closing(sqlite3.connect(tmp_path / "l.db")) as db:
        db.execute("DROP TRIGGER ledger_is_not_shortened")
        db.execute("DELETE FROM ledger WHERE seq > ?", (cut,))
        db.commit()
    again = create_audit_store(tmp_path)
    await again.append(lambda: create_record("after"))
    await again.append(lambda: create_record("and after"))
    await again.close()
    broken = [row for row in ledger_rows(tmp_path / "l.db") if row["event"] == "broken"]
    assert [(row["decision"], json.loads(row["detail"])["reached"]) for row in broken] == [(found, 4)]


async def test_a_missing_checkpoint_is_recorded_and_replaced(tmp_path: Path) -> None:
    audit_store = create_audit_store(tmp_path)
    await audit_store.append(create_record)
    await audit_store.close()
    (tmp_path / "state" / "l.head").unlink()
    again = create_audit_store(tmp_path)
    await again.append(create_record)
    await again.append(create_record)
    await again.close()
    assert [row["decision"] for row in ledger_rows(tmp_path / "l.db") if row["event"] == "broken"] == ["head missing"]


@pytest.mark.parametrize("older", [True, False])
async def test_a_file_replaced_or_removed_during_writing_loses_no_later_row(tmp_path: Path, older: bool) -> None:
    audit_store, path = create_audit_store(tmp_path), tmp_path / "l.db"
    await audit_store.append(lambda: create_record("before"))
    with closing(sqlite3.connect(path)) as db:
        db.execute("VACUUM INTO ?", (str(tmp_path / "copy.db"),))
    await audit_store.append(lambda: create_record("lost"))
    for suffix in ("", "-wal", "-shm"):
        (tmp_path / f"l.db{suffix}").unlink()
    if older:
        (tmp_path / "copy.db").rename(path)
    entry = await audit_store.append(lambda: create_record("after"))
    await audit_store.close()
    there = ledger_rows(path)
    assert [row["subject"] for row in there if row["kind"] == "tool"] == (["before"] if older else []) + ["after"]
    assert [row["decision"] for row in there if row["event"] == "broken"] == ["rows missing"]
    assert there[-1]["seq"] == entry.seq


async def test_an_audit_log_begins_with_permissions_of_an_earlier_version(tmp_path: Path) -> None:
    path = tmp_path / "old.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        migrate(db, MIGRATIONS[:2])
        db.execute(
            "INSERT INTO grants (server, server_digest, tool, tool_digest, created)"
            " VALUES ('files', 'd1', 'read', 'd2', 5.0)"
        )
        db.execute("INSERT INTO trust VALUES ('files', 'd1', 'command: x', 4.0)")
    database = Database(path)
    await ConversationStore(database).append("c", Message(role="user", parts=(TextPart("hi"),)), title="hi", model="m")
    audit_store = create_audit_store(tmp_path, initial_records=lambda: load_legacy_records(database))
    await audit_store.append(lambda: create_record("first"))
    await audit_store.close()
    again = create_audit_store(tmp_path, initial_records=lambda: load_legacy_records(database))
    await again.append(lambda: create_record("second"))
    await again.close()
    await database.close()
    found = [(row["kind"], row["event"], row["server"], row["grant"]) for row in ledger_rows(tmp_path / "l.db")]
    assert found[0] == ("ledger", "began", "", "")
    assert ("trust", "carried over", "files", "") in found
    assert [row[:3] for row in found].count(("grant", "carried over", "files")) == 1
    assert [row["subject"] for row in ledger_rows(tmp_path / "l.db")][-2:] == ["first", "second"]
    (counted,) = [
        row for row in ledger_rows(tmp_path / "l.db") if row["kind"] == "ledger" and row["event"] == "carried over"
    ]
    assert json.loads(counted["detail"]) == {"conversations": 1, "rows": 2}
