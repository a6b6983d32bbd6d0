"""The audit log: an append-only table that records questions to the user, decisions and actions.

The rows are chained by hashes. The log is a separate file because it must outlive the database, whose conversations can
be deleted, and because only its commits are synced to disk. docs/audit.md explains how to verify it without mcphost. A
new audit log begins with records of the permissions that were granted before it existed.
"""

import fcntl
import hashlib
import json
import logging
import os
import re
import secrets
import sqlite3
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import anyio

from mcphost.errors import StoreError
from mcphost.paths import make_private_directory
from mcphost.pluralize import pluralize
from mcphost.sanitize import replace_surrogates
from mcphost.serialization import Struct, dumps, replace, to_builtins
from mcphost.store.database import Database
from mcphost.store.migrations import Migrations

INITIAL_HASH = "0" * 64
_MAX_ROW_NUMBER = 2**63 - 1  # of SQLite
_LINE_PATTERN = re.compile(rb"([0-9]{20}) ([0-9a-f]{64})\n")


class AuditPosition(Struct, frozen=True):
    """A position in the audit log: a row's number and hash. The number is 0 for the position before the first row."""

    seq: int = 0
    hash: str = INITIAL_HASH


class AuditCheckpoint:
    """File that stores the position of the audit log's last row.

    With this file, the removal of rows from the end of the log can be detected. Several processes can update the file
    concurrently.
    """

    def __init__(self, path: Path | None) -> None:
        """Create a checkpoint in the file at *path*; None disables the checkpoint."""
        self._path = path

    def read(self) -> AuditPosition | None:
        """Return the stored position, or None if the file is missing or invalid. Raises OSError if reading fails."""
        if self._path is None:
            return None
        try:
            file = os.open(self._path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        try:
            return _read_checkpoint(file)
        finally:
            os.close(file)

    def advance(self, position: AuditPosition, *, allow_backward: bool = False) -> None:
        """Store *position*. Raises OSError if the file cannot be written.

        If the file contains a later position, nothing is stored unless *allow_backward* is True.
        """
        if self._path is None:
            return
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        try:
            file = os.open(self._path, flags, 0o600)
        except FileNotFoundError:
            make_private_directory(self._path.parent)
            file = os.open(self._path, flags, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            current = _read_checkpoint(file)
            if allow_backward or current is None or current.seq < position.seq:
                # One write in place, because a file that was replaced can be empty after a power failure.
                os.pwrite(file, b"%020d %s\n" % (position.seq, position.hash.encode()), 0)
        finally:
            os.close(file)


def _read_checkpoint(file: int) -> AuditPosition | None:
    match = _LINE_PATTERN.fullmatch(os.pread(file, 200, 0))
    if match is None or int(match[1]) > _MAX_ROW_NUMBER:
        return None
    return AuditPosition(int(match[1]), match[2].decode())


HASH_FORMAT = 1
MAX_PENDING_ROWS = 10_000
"""Maximum number of rows kept in memory while the file cannot be written; beyond it, all actions are refused."""
MAX_NAME_LENGTH = 1_000
MAX_DETAIL_LENGTH = 70_000
MAX_INTEGER = 2**53 - 1
_LENGTH_LIMITS = {"detail": MAX_DETAIL_LENGTH}
_log = logging.getLogger(__name__)


class AuditRecord(Struct, frozen=True, kw_only=True):
    """The content of an audit log row; docs/audit.md explains each field.

    Hashes are SHA-256 in hexadecimal, or "".
    """

    at: int
    """Microseconds since 1970."""

    kind: str
    event: str
    server: str = ""
    subject: str = ""
    decision: str = ""
    who: str = ""
    grant: str = ""
    call: str = ""
    conversation: str = ""
    shown: str = ""
    arguments: str = ""
    definition: str = ""
    size: int = 0
    duration: int = 0
    """Milliseconds."""

    detail: str = ""
    """Details as JSON, or ""."""


class AuditRow(AuditRecord, frozen=True, kw_only=True):
    """A stored row of the audit log: a record with the columns that are added when it is written.

    - `seq`: the number of the row.
    - `run`: identifies the process that wrote the row.
    - `about`: if the row records the end of an action, the number of the row that recorded its start, otherwise 0.
    - `prev`: the hash of the previous row.
    - `hash`: the hash of this row; see `row_hash`.
    """

    seq: int
    run: str
    about: int
    prev: str
    hash: str


_INTEGERS = ("at", "about", "size", "duration", "seq")
FIELDS: tuple[str, ...] = AuditRow.__struct_fields__
FIELD_TYPES: dict[str, type] = {name: int if name in _INTEGERS else str for name in FIELDS}
_COLUMN_NAMES = ", ".join(f'"{name}"' for name in FIELDS)
_INSERT = f"INSERT INTO ledger ({_COLUMN_NAMES}) VALUES ({', '.join('?' * len(FIELDS))})"  # noqa: S608

TRIGGERS: dict[str, str] = {
    "ledger_adds_at_the_end": (
        "CREATE TRIGGER ledger_adds_at_the_end BEFORE INSERT ON ledger"  # noqa: S608
        " WHEN NEW.seq IS NOT (SELECT coalesce(max(seq), 0) + 1 FROM ledger)"
        f" OR NEW.prev IS NOT coalesce((SELECT hash FROM ledger ORDER BY seq DESC LIMIT 1), '{INITIAL_HASH}')"
        " BEGIN SELECT RAISE(ABORT, 'the ledger only grows at its end'); END"
    ),
    "ledger_is_not_changed": (
        "CREATE TRIGGER ledger_is_not_changed BEFORE UPDATE ON ledger"
        " BEGIN SELECT RAISE(ABORT, 'the ledger is not changed'); END"
    ),
    "ledger_is_not_shortened": (
        "CREATE TRIGGER ledger_is_not_shortened BEFORE DELETE ON ledger"
        " BEGIN SELECT RAISE(ABORT, 'the ledger is not shortened'); END"
    ),
}
_COLUMN_TYPES = dict.fromkeys(_INTEGERS, "INTEGER NOT NULL") | {"seq": "INTEGER PRIMARY KEY"}
_COLUMN_DEFINITIONS = ", ".join(f'"{name}" {_COLUMN_TYPES.get(name, "TEXT NOT NULL")}' for name in FIELDS)
_TABLE_STATEMENTS = (f"CREATE TABLE ledger ({_COLUMN_DEFINITIONS}) STRICT", *TRIGGERS.values())


def has_valid_types(fields: Mapping[str, Any]) -> bool:
    """Return whether each field of a row has the type of its column, which is not certain in a damaged file."""
    return all(isinstance(fields[name], expected) for name, expected in FIELD_TYPES.items())


def row_hash(fields: Mapping[str, Any]) -> str:
    """Return the SHA-256 hash, in hexadecimal, of all fields of a row except `hash`.

    The fields, and the hash format as `v`, are encoded as JSON with sorted keys and no spaces, in UTF-8.
    """
    covered = {name: value for name, value in fields.items() if name != "hash"} | {"v": HASH_FORMAT}
    text = json.dumps(covered, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


class AuditEntry:
    """An audit row that is waiting to be written; `seq` is the row's number, or 0 until the row is on disk."""

    __slots__ = ("about", "factory", "record", "seq")

    def __init__(self, factory: Callable[[], AuditRecord], about: "AuditEntry | None") -> None:
        self.factory = factory
        self.about = about
        self.record: AuditRecord | None = None
        self.seq = 0


class AuditStore:
    """Writer for the audit log.

    Rows are written in the order in which they were queued, even after a failed write. Several instances, in one or
    more processes, can write to the same log, because each transaction reads the last row before it adds rows.
    """

    def __init__(
        self,
        path: Path | None,
        checkpoint: Path | None = None,
        *,
        warn: Callable[[str, str], None] = lambda text, hint: None,
        initial_records: Callable[[], Awaitable[tuple[AuditRecord, ...]]] | None = None,
    ) -> None:
        """Create a writer for the log in the file at *path*, or in memory if *path* is None.

        *checkpoint* is the path of the checkpoint file, or None for no checkpoint. *warn* is called with a warning
        for the user and a hint. *initial_records* returns the first records of a new audit log.
        """
        self.files = (path, checkpoint)
        self._database = Database(path, warn, migrations=MIGRATIONS, durable=True, name="audit log")
        self._checkpoint = AuditCheckpoint(checkpoint)
        self._has_checkpoint = checkpoint is not None
        self._warn = warn
        self._initial_records = initial_records
        self._run_id = secrets.token_hex(4)
        self._pending: list[AuditEntry] = []
        self._lock = anyio.Lock()
        self._is_failing = False
        self._has_rows = False
        self._checkpoint_error = ""  # not reported to the user yet
        self._chain_break = ""  # as above

    @property
    def pending_count(self) -> int:
        """The number of queued audit rows that are not on disk yet."""
        return len(self._pending)

    @property
    def is_full(self) -> bool:
        """Whether the queue of unwritten audit rows is full; if it is, no further actions are allowed."""
        return len(self._pending) >= MAX_PENDING_ROWS

    def enqueue(self, factory: Callable[[], AuditRecord], about: AuditEntry | None = None) -> AuditEntry:
        """Queue a row for the next `flush`; *factory* creates its content on the writing thread.

        If the row records the end of an action, *about* is the entry that recorded the start.
        """
        entry = AuditEntry(factory, about)
        self._pending.append(entry)
        return entry

    async def append(self, factory: Callable[[], AuditRecord], about: AuditEntry | None = None) -> AuditEntry:
        """Queue a row and write it to disk; the `seq` of the returned entry is 0 if writing failed.

        See `enqueue` for the parameters. A row on disk survives a power failure. If the file cannot be written, the
        user is warned, and the row remains queued for the next attempt. Raises only CancelledError, after a running
        write has finished.
        """
        entry = self.enqueue(factory, about)
        await self.flush()
        return entry

    async def flush(self) -> None:
        """Write all queued rows in one transaction; if that fails, the user is warned and the rows stay queued."""
        with anyio.CancelScope(shield=True):
            async with self._lock:
                if not self._pending:
                    return
                try:
                    first = await self._load_initial_records()
                    await self._database.run(lambda db: self._write(db, first), self._finish_write)
                except StoreError as error:
                    self._report_failure(error)
                    return
                if self._checkpoint_error:
                    reason, self._checkpoint_error = self._checkpoint_error, ""
                    self._warn(
                        f"{self.files[1]} cannot be written ({reason}): rows removed at the end of the audit log would "
                        "not be noticed.",
                        "Free disk space, check the permissions, or set MCPHOST_STATE_DIR.",
                    )
                if self._chain_break:
                    reason, self._chain_break = self._chain_break, ""
                    self._warn(_BREAK_SENTENCES[reason], "See what is wrong: mcphost audit verify, or F10, then v.")
                if self._is_failing:
                    self._is_failing = False
                    self._warn(
                        "The audit log can be written again.", "The rows that were held in memory are now in it."
                    )

    def report_refusal(self, text: str, hint: str) -> None:
        """Warn the user that an action was refused because its audit row could not be written."""
        self._warn(text, hint)

    async def close(self) -> None:
        """Write queued rows and close the file; warn the user if rows are lost because writing fails."""
        await self.flush()
        if self._pending:
            self._warn(
                f"The audit log {self.files[0]} lost {pluralize(len(self._pending), 'row')} that could not be written.",
                "Free disk space and check the permissions before you use mcphost again.",
            )
        await self._database.close()

    def _report_failure(self, error: StoreError) -> None:
        if not self._is_failing:
            self._is_failing = True
            self._warn(f"{error.message} Its new rows are kept in memory only.", error.hint)

    async def _load_initial_records(self) -> tuple[AuditRecord, ...]:
        """Return the first records of a new audit log, or () if the log already has rows."""
        if self._has_rows or not await self._database.run(lambda db: _last_position(db).seq == 0):
            return ()
        return await self._initial_records() if self._initial_records is not None else ()

    # -- on the writing thread
    # Rows leave the queue on this thread, in commit order: if the asyncio task of a flush is cancelled, as Textual does
    # with its workers, the write continues here, and must neither write a row twice nor lose one.
    def _write(self, db: sqlite3.Connection, initial: Sequence[AuditRecord]) -> "_WriteResult":
        batch = tuple(self._pending)
        last = _last_position(db)
        breaks = self._detect_tampering(db, last)
        first = (_make_first_record(), *initial) if last.seq == 0 else ()
        for record in (*first, *breaks):
            last = self._insert(db, last, record, 0)
        numbers: dict[int, int] = {}
        for entry in batch:
            about = entry.about
            number = 0 if about is None else about.seq or numbers.get(id(about), 0)
            last = self._insert(db, last, _make_record(entry), number)
            numbers[id(entry)] = last.seq
        return _WriteResult(batch, tuple(numbers.values()), last, allow_backward=bool(breaks))

    def _insert(self, db: sqlite3.Connection, last: AuditPosition, record: AuditRecord, about: int) -> AuditPosition:
        fields: dict[str, Any] = to_builtins(record)
        fields |= {"seq": last.seq + 1, "run": self._run_id, "about": about, "prev": last.hash}
        fields["hash"] = row_hash(fields)
        db.execute(_INSERT, tuple(fields[name] for name in FIELDS))
        return AuditPosition(fields["seq"], fields["hash"])

    def _detect_tampering(self, db: sqlite3.Connection, last: AuditPosition) -> tuple[AuditRecord, ...]:
        """Compare the audit log with its checkpoint; return a record of the mismatch, or () if they match.

        After a mismatch, the checkpoint is reset to the last row. The checkpoint never refers to a row that was not
        written, because it is updated only after a commit.
        """
        if not self._has_checkpoint:
            return ()
        try:
            checkpoint = self._checkpoint.read()
            if checkpoint is None and last.seq == 0:
                # Written before the first row: if there are rows but no checkpoint, the checkpoint was removed.
                self._checkpoint.advance(AuditPosition())
                return ()
        except OSError as error:
            self._disable_checkpoint(error)
            return ()
        fault = find_chain_break(db, checkpoint)
        if not fault:
            return ()
        self._chain_break = fault
        detail = {"reached": checkpoint.seq, "hash": checkpoint.hash} if checkpoint else {}
        return (_make_ledger_record("broken", dumps(detail), decision=fault),)

    def _finish_write(self, written: "_WriteResult") -> None:
        for entry, number in zip(written.batch, written.numbers, strict=True):
            entry.seq = number
        del self._pending[: len(written.batch)]
        self._has_rows = True
        if self._has_checkpoint:
            try:
                self._checkpoint.advance(written.last, allow_backward=written.allow_backward)
            except OSError as error:
                self._disable_checkpoint(error)

    def _disable_checkpoint(self, error: OSError) -> None:
        self._has_checkpoint = False
        self._checkpoint_error = error.strerror or type(error).__name__


class _WriteResult(Struct, frozen=True):
    batch: "tuple[AuditEntry, ...]"
    numbers: tuple[int, ...]
    last: AuditPosition
    allow_backward: bool


def current_microseconds() -> int:
    """Return the current time in microseconds since 1970."""
    return time.time_ns() // 1000


_BREAK_SENTENCES = {
    "rows missing": "The audit log was changed outside of mcphost: rows are missing at its end.",
    "rewritten": "The audit log was changed outside of mcphost: its rows were rewritten.",
    "head missing": "The checkpoint file of the audit log is missing: rows may have been removed at its end.",
}


def find_chain_break(db: sqlite3.Connection, checkpoint: AuditPosition | None) -> str:
    """Return how a non-empty log differs from its checkpoint, or "" if they match.

    - "head missing": there is no checkpoint.
    - "rows missing": the log has no row with the number in the checkpoint.
    - "rewritten": the row with this number does not have the hash in the checkpoint.
    """
    if checkpoint is None:
        return "head missing"
    if checkpoint.seq == 0:
        return ""
    row = db.execute("SELECT hash FROM ledger WHERE seq = ?", (checkpoint.seq,)).fetchone()
    if row is None:
        return "rows missing"
    return "" if row[0] == checkpoint.hash else "rewritten"


def _last_position(db: sqlite3.Connection) -> AuditPosition:
    row = db.execute("SELECT seq, hash FROM ledger ORDER BY seq DESC LIMIT 1").fetchone()
    return AuditPosition(*row) if row else AuditPosition()


def _make_ledger_record(event: str, detail: str, decision: str = "") -> AuditRecord:
    """Create a record of an event that concerns the audit log itself.

    The record's `kind` is "ledger", the name of the table that contains the audit rows.
    """
    return AuditRecord(
        at=current_microseconds(), kind="ledger", event=event, decision=decision, who="mcphost", detail=detail
    )


def _make_first_record() -> AuditRecord:
    return _make_ledger_record("began", dumps({"id": secrets.token_hex(16)}))


def _make_record(entry: AuditEntry) -> AuditRecord:
    """Return the content of a row, created on the first call and cached.

    A retry therefore writes the same content.
    """
    if entry.record is None:
        try:
            record = entry.factory()
        except Exception as error:  # noqa: BLE001
            # A bug in building a record must not lose the decision or block the rows after it.
            _log.exception("audit record")
            record = _make_ledger_record("undescribed", dumps(repr(error)[:500]))
        entry.record = _limit_record(record)
    return entry.record


def _limit_record(record: AuditRecord) -> AuditRecord:
    """Truncate long text, replace unencodable characters, and limit numbers to the safe range of JSON."""
    changes: dict[str, Any] = {}
    for name in AuditRecord.__struct_fields__:
        value = getattr(record, name)
        if isinstance(value, int):
            limited = max(0, min(value, MAX_INTEGER))
        else:
            limit = _LENGTH_LIMITS.get(name, MAX_NAME_LENGTH)
            limited = replace_surrogates(value if len(value) <= limit else value[:limit] + "…")
        if limited != value:
            changes[name] = limited
    return replace(record, **changes) if changes else record


def _m001_ledger(db: sqlite3.Connection) -> None:
    """Create the table of audit rows, with triggers that prevent all changes except adding a row at the end."""
    for statement in _TABLE_STATEMENTS:
        db.execute(statement)


MIGRATIONS: Migrations = (("001_ledger", _m001_ledger),)


MAX_ROWS = 10_000
_TABLES = (("grants", "grant"), ("trust", "trust"))


async def load_legacy_records(database: Database) -> tuple[AuditRecord, ...]:
    """Return records of the grants and approved servers that existed before the audit log.

    The last record contains the number of conversations. The tables may lack columns, because an older version of
    mcphost may have created them. If the database cannot be read, the result is one record that reports the failure.
    """
    try:
        return await database.run(_read)
    except StoreError as error:
        return (_legacy_record("ledger", {"unreadable": error.message[:500]}),)


def _read(db: sqlite3.Connection) -> tuple[AuditRecord, ...]:
    records: list[AuditRecord] = []
    for table, kind in _TABLES:
        cursor = db.execute(f"SELECT * FROM {table} ORDER BY created LIMIT {MAX_ROWS}")  # noqa: S608
        names = [str(column[0]) for column in cursor.description]
        records += [_convert_row(kind, dict(zip(names, row, strict=True))) for row in cursor]
    (conversations,) = db.execute("SELECT count(*) FROM conversations").fetchone()
    if records or conversations:
        records.append(_legacy_record("ledger", {"conversations": conversations, "rows": len(records)}))
    return tuple(records)


def _convert_row(kind: str, row: dict[str, Any]) -> AuditRecord:
    plain = json.dumps(row, sort_keys=True, default=str)
    detail = {"created": row.get("created"), "digest": hashlib.sha256(plain.encode()).hexdigest()}
    return replace(
        _legacy_record(kind, detail),
        server=str(row.get("server", "")),
        subject=str(row.get("tool", row.get("rule", ""))),
        grant=str(row.get("id", "")),
        definition=str(row.get("server_digest", row.get("digest", ""))),
    )


def _legacy_record(kind: str, detail: dict[str, Any]) -> AuditRecord:
    return AuditRecord(at=current_microseconds(), kind=kind, event="carried over", who="mcphost", detail=dumps(detail))
