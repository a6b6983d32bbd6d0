"""The ledger: what was asked, decided and done, as rows that are only ever added, each carrying the hash of the last.

A file of its own: conversations may be deleted and their store may be begun anew, the ledger not; and its commits are
synced to the disk, which the others need not be. docs/audit.md says how to check it without this program.
"""

import hashlib
import json
import logging
import secrets
import sqlite3
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import anyio

from mcphost.errors import StoreError
from mcphost.sanitize import replace_surrogates
from mcphost.serialization import Struct, dumps, replace, to_builtins
from mcphost.store.audit_checkpoint import INITIAL_HASH, AuditCheckpoint, AuditPosition
from mcphost.store.database import Database
from mcphost.store.migrations import Migrations

HASH_FORMAT = 1
MAX_PENDING_ROWS = 10_000
"""Rows that are kept in memory while the file cannot be written; beyond them nothing may be done."""
MAX_NAME_LENGTH = 1_000
MAX_DETAIL_LENGTH = 70_000
MAX_INTEGER = 2**53 - 1
_LENGTH_LIMITS = {"detail": MAX_DETAIL_LENGTH}
_log = logging.getLogger(__name__)


class AuditRecord(Struct, frozen=True, kw_only=True):
    """What a row says; docs/audit.md has the meaning of each field. Hashes are SHA-256 in hex, or empty."""

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
    """JSON, or empty."""


class AuditRow(AuditRecord, frozen=True, kw_only=True):
    """A record in its place. `about` is the number of the row it belongs to, or 0; `run` the process that wrote it."""

    seq: int
    run: str
    about: int
    prev: str
    hash: str


FIELDS: tuple[str, ...] = AuditRow.__struct_fields__
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
_COLUMN_TYPES = dict.fromkeys(("at", "about", "size", "duration"), "INTEGER NOT NULL") | {"seq": "INTEGER PRIMARY KEY"}
_COLUMN_DEFINITIONS = ", ".join(f'"{name}" {_COLUMN_TYPES.get(name, "TEXT NOT NULL")}' for name in FIELDS)
_TABLE_STATEMENTS = (f"CREATE TABLE ledger ({_COLUMN_DEFINITIONS}) STRICT", *TRIGGERS.values())


def row_hash(fields: Mapping[str, Any]) -> str:
    """The hash of a row: SHA-256 over the JSON of all its fields but `hash`, and `v`, keys sorted, no blanks, UTF-8."""
    covered = {name: value for name, value in fields.items() if name != "hash"} | {"v": HASH_FORMAT}
    text = json.dumps(covered, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


class AuditEntry:
    """A row on its way: `seq` is its number once it is on the disk, and 0 while it is kept in memory."""

    __slots__ = ("about", "factory", "record", "seq")

    def __init__(self, factory: Callable[[], AuditRecord], about: "AuditEntry | None") -> None:
        self.factory = factory
        self.about = about
        self.record: AuditRecord | None = None
        self.seq = 0


class AuditStore:
    """The writing end. Rows get their place in the order in which they were handed over, also after a failure.

    Several instances, in one process or in several, write one chain: the last row is read inside of the transaction
    that adds the next one.
    """

    def __init__(
        self,
        path: Path | None,
        checkpoint: Path | None = None,
        *,
        warn: Callable[[str, str], None] = lambda text, hint: None,
        initial_records: Callable[[], Awaitable[tuple[AuditRecord, ...]]] | None = None,
    ) -> None:
        """`path` None: in memory. `tell` gets a sentence and a hint. `before`: what a new ledger begins with."""
        self.files = (path, checkpoint)
        self._database = Database(path, warn, migrations=MIGRATIONS, durable=True)
        self._checkpoint = AuditCheckpoint(checkpoint)
        self._has_checkpoint = checkpoint is not None
        self._warn = warn
        self._initial_records = initial_records
        self._run_id = secrets.token_hex(4)
        self._pending: list[AuditEntry] = []
        self._lock = anyio.Lock()
        self._is_failing = False
        self._has_rows = False

    @property
    def pending_count(self) -> int:
        """How many rows are not on the disk."""
        return len(self._pending)

    @property
    def is_full(self) -> bool:
        """Whether so many are not on the disk that no more may be done."""
        return len(self._pending) >= MAX_PENDING_ROWS

    def enqueue(self, factory: Callable[[], AuditRecord], about: AuditEntry | None = None) -> AuditEntry:
        """Hand over a row for the next `flush`; `make` is called on the thread that writes."""
        entry = AuditEntry(factory, about)
        self._pending.append(entry)
        return entry

    async def append(self, factory: Callable[[], AuditRecord], about: AuditEntry | None = None) -> AuditEntry:
        """Add a row; it survives a power cut when this returns with its number. Raises nothing but cancellation.

        A file that cannot be written is told of, and the row waits for the next attempt. Cancelling waits for the end.
        """
        entry = self.enqueue(factory, about)
        await self.flush()
        return entry

    async def flush(self) -> None:
        """Write what was handed over, all of it in one commit."""
        with anyio.CancelScope(shield=True):
            async with self._lock:
                batch = tuple(self._pending)
                if not batch:
                    return
                try:
                    first = await self._load_initial_records()
                    written = await self._database.run(
                        lambda db: self._write(db, first, batch), self._advance_checkpoint
                    )
                except StoreError as error:
                    self._report_failure(error)
                    return
                for entry, number in zip(batch, written.numbers, strict=True):
                    entry.seq = number
                del self._pending[: len(batch)]
                self._has_rows = True
                if self._is_failing:
                    self._is_failing = False
                    self._warn("The audit ledger is written again.", "What was kept in memory is in it.")

    async def close(self) -> None:
        """Write what waits, and close the file."""
        await self.flush()
        await self._database.close()

    def _report_failure(self, error: StoreError) -> None:
        if not self._is_failing:
            self._is_failing = True
            self._warn(
                f"The audit ledger is not written: {error.message} What you decide is kept in memory only.", error.hint
            )

    async def _load_initial_records(self) -> tuple[AuditRecord, ...]:
        """What a ledger without a row begins with; nothing when it has one."""
        if self._has_rows or not await self._database.run(lambda db: _last_position(db).seq == 0):
            return ()
        return await self._initial_records() if self._initial_records is not None else ()

    # -- on the thread
    def _write(
        self, db: sqlite3.Connection, initial: Sequence[AuditRecord], batch: Sequence[AuditEntry]
    ) -> "_WriteResult":
        last = _last_position(db)
        breaks = self._detect_tampering(db, last)
        records = [*((_make_first_record(), *initial) if last.seq == 0 else ()), *breaks]
        for record in records:
            last = self._insert(db, last, record, 0)
        numbers: dict[int, int] = {}
        for entry in batch:
            about = entry.about
            number = 0 if about is None else about.seq or numbers.get(id(about), 0)
            last = self._insert(db, last, _make_record(entry), number)
            numbers[id(entry)] = last.seq
        return _WriteResult(tuple(numbers.values()), last, allow_backward=bool(breaks))

    def _insert(self, db: sqlite3.Connection, last: AuditPosition, record: AuditRecord, about: int) -> AuditPosition:
        fields: dict[str, Any] = to_builtins(record)
        fields |= {"seq": last.seq + 1, "run": self._run_id, "about": about, "prev": last.hash}
        fields["hash"] = row_hash(fields)
        db.execute(_INSERT, tuple(fields[name] for name in FIELDS))
        return AuditPosition(fields["seq"], fields["hash"])

    def _detect_tampering(self, db: sqlite3.Connection, last: AuditPosition) -> tuple[AuditRecord, ...]:
        """What the head says against the chain; found once, it is in the chain for good, and the head starts from here.

        Whoever wrote a row moves the head after its commit, so the head never names a row that was not written.
        """
        if not self._has_checkpoint:
            return ()
        try:
            reached = self._checkpoint.read()
            if reached is None and last.seq == 0:
                # Before the first row, so that a ledger with rows and without a head is never our own doing.
                self._checkpoint.advance(AuditPosition())
                return ()
        except OSError as error:
            self._has_checkpoint = False
            _log.warning("the head of the ledger: %s", error)
            return ()
        found = find_chain_break(db, reached)
        if not found:
            return ()
        there = {"reached": reached.seq, "hash": reached.hash} if reached else {}
        return (
            AuditRecord(
                at=current_microseconds(),
                kind="ledger",
                event="broken",
                decision=found,
                who="mcphost",
                detail=dumps(there),
            ),
        )

    def _advance_checkpoint(self, written: "_WriteResult") -> None:
        if self._has_checkpoint:
            try:
                self._checkpoint.advance(written.last, allow_backward=written.allow_backward)
            except OSError as error:
                _log.warning("the head of the ledger: %s", error)


class _WriteResult(Struct, frozen=True):
    numbers: tuple[int, ...]
    last: AuditPosition
    allow_backward: bool


def current_microseconds() -> int:
    """Microseconds since 1970."""
    return time.time_ns() // 1000


def find_chain_break(db: sqlite3.Connection, checkpoint: AuditPosition | None) -> str:
    """What is wrong with a chain that has rows and once reached that far; empty for nothing."""
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


def _make_first_record() -> AuditRecord:
    return AuditRecord(
        at=current_microseconds(),
        kind="ledger",
        event="began",
        who="mcphost",
        detail=dumps({"id": secrets.token_hex(16)}),
    )


def _make_record(entry: AuditEntry) -> AuditRecord:
    """The record, made once: an entry whose writing failed is written later as it was."""
    if entry.record is None:
        try:
            made = entry.factory()
        except Exception as error:  # noqa: BLE001
            # A bug in describing a decision must neither lose that there was one nor hold up those behind it.
            _log.exception("a row of the ledger")
            made = AuditRecord(
                at=current_microseconds(),
                kind="ledger",
                event="undescribed",
                who="mcphost",
                detail=dumps(repr(error)[:500]),
            )
        entry.record = _limit_record(made)
    return entry.record


def _limit_record(record: AuditRecord) -> AuditRecord:
    """Texts that are whole, can be stored and are not endless; numbers that every reader of JSON takes."""
    changes: dict[str, Any] = {}
    for name in AuditRecord.__struct_fields__:
        value = getattr(record, name)
        if isinstance(value, int):
            kept = max(0, min(value, MAX_INTEGER))
        else:
            kept = replace_surrogates(
                value if len(value) <= (most := _LENGTH_LIMITS.get(name, MAX_NAME_LENGTH)) else value[:most] + "…"
            )
        if kept != value:
            changes[name] = kept
    return replace(record, **changes) if changes else record


def _m001_ledger(db: sqlite3.Connection) -> None:
    """The rows, and triggers that refuse what is not adding one at the end."""
    for statement in _TABLE_STATEMENTS:
        db.execute(statement)


MIGRATIONS: Migrations = (("001_ledger", _m001_ledger),)
