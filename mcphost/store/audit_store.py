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
from mcphost.store.audit_checkpoint import ZEROS, Head, Reached
from mcphost.store.database import Database
from mcphost.store.migrations import Migrations

FORMAT = 1
WAITING = 10_000
"""Rows that are kept in memory while the file cannot be written; beyond them nothing may be done."""
NAME_LIMIT = 1_000
DETAIL_LIMIT = 70_000
LARGEST = 2**53 - 1
_LIMITS = {"detail": DETAIL_LIMIT}
_log = logging.getLogger(__name__)


class Record(Struct, frozen=True, kw_only=True):
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


class Row(Record, frozen=True, kw_only=True):
    """A record in its place. `about` is the number of the row it belongs to, or 0; `run` the process that wrote it."""

    seq: int
    run: str
    about: int
    prev: str
    hash: str


FIELDS: tuple[str, ...] = Row.__struct_fields__
_NAMES = ", ".join(f'"{name}"' for name in FIELDS)
_INSERT = f"INSERT INTO ledger ({_NAMES}) VALUES ({', '.join('?' * len(FIELDS))})"  # noqa: S608

TRIGGERS: dict[str, str] = {
    "ledger_adds_at_the_end": (
        "CREATE TRIGGER ledger_adds_at_the_end BEFORE INSERT ON ledger"  # noqa: S608
        " WHEN NEW.seq IS NOT (SELECT coalesce(max(seq), 0) + 1 FROM ledger)"
        f" OR NEW.prev IS NOT coalesce((SELECT hash FROM ledger ORDER BY seq DESC LIMIT 1), '{ZEROS}')"
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
_TYPES = dict.fromkeys(("at", "about", "size", "duration"), "INTEGER NOT NULL") | {"seq": "INTEGER PRIMARY KEY"}
_COLUMNS = ", ".join(f'"{name}" {_TYPES.get(name, "TEXT NOT NULL")}' for name in FIELDS)
_TABLE = (f"CREATE TABLE ledger ({_COLUMNS}) STRICT", *TRIGGERS.values())


def row_hash(fields: Mapping[str, Any]) -> str:
    """The hash of a row: SHA-256 over the JSON of all its fields but `hash`, and `v`, keys sorted, no blanks, UTF-8."""
    covered = {name: value for name, value in fields.items() if name != "hash"} | {"v": FORMAT}
    text = json.dumps(covered, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


class Entry:
    """A row on its way: `seq` is its number once it is on the disk, and 0 while it is kept in memory."""

    __slots__ = ("about", "make", "record", "seq")

    def __init__(self, make: Callable[[], Record], about: "Entry | None") -> None:
        self.make = make
        self.about = about
        self.record: Record | None = None
        self.seq = 0


class Ledger:
    """The writing end. Rows get their place in the order in which they were handed over, also after a failure.

    Several instances, in one process or in several, write one chain: the last row is read inside of the transaction
    that adds the next one.
    """

    def __init__(
        self,
        path: Path | None,
        head: Path | None = None,
        *,
        tell: Callable[[str, str], None] = lambda text, hint: None,
        before: Callable[[], Awaitable[tuple[Record, ...]]] | None = None,
    ) -> None:
        """`path` None: in memory. `tell` gets a sentence and a hint. `before`: what a new ledger begins with."""
        self.files = (path, head)
        self._database = Database(path, tell, migrations=MIGRATIONS, durable=True)
        self._head = Head(head)
        self._headed = head is not None
        self._tell = tell
        self._before = before
        self._run = secrets.token_hex(4)
        self._waiting: list[Entry] = []
        self._lock = anyio.Lock()
        self._failing = False
        self._begun = False

    @property
    def waiting(self) -> int:
        """How many rows are not on the disk."""
        return len(self._waiting)

    @property
    def full(self) -> bool:
        """Whether so many are not on the disk that no more may be done."""
        return len(self._waiting) >= WAITING

    def put(self, make: Callable[[], Record], about: Entry | None = None) -> Entry:
        """Hand over a row for the next `flush`; `make` is called on the thread that writes."""
        entry = Entry(make, about)
        self._waiting.append(entry)
        return entry

    async def append(self, make: Callable[[], Record], about: Entry | None = None) -> Entry:
        """Add a row; it survives a power cut when this returns with its number. Raises nothing but cancellation.

        A file that cannot be written is told of, and the row waits for the next attempt. Cancelling waits for the end.
        """
        entry = self.put(make, about)
        await self.flush()
        return entry

    async def flush(self) -> None:
        """Write what was handed over, all of it in one commit."""
        with anyio.CancelScope(shield=True):
            async with self._lock:
                batch = tuple(self._waiting)
                if not batch:
                    return
                try:
                    first = await self._first()
                    written = await self._database.run(lambda db: self._write(db, first, batch), self._moved)
                except StoreError as error:
                    self._failed(error)
                    return
                for entry, number in zip(batch, written.numbers, strict=True):
                    entry.seq = number
                del self._waiting[: len(batch)]
                self._begun = True
                if self._failing:
                    self._failing = False
                    self._tell("The audit ledger is written again.", "What was kept in memory is in it.")

    async def close(self) -> None:
        """Write what waits, and close the file."""
        await self.flush()
        await self._database.close()

    def _failed(self, error: StoreError) -> None:
        if not self._failing:
            self._failing = True
            self._tell(
                f"The audit ledger is not written: {error.message} What you decide is kept in memory only.", error.hint
            )

    async def _first(self) -> tuple[Record, ...]:
        """What a ledger without a row begins with; nothing when it has one."""
        if self._begun or not await self._database.run(lambda db: _last(db).seq == 0):
            return ()
        return await self._before() if self._before is not None else ()

    # -- on the thread
    def _write(self, db: sqlite3.Connection, first: Sequence[Record], batch: Sequence[Entry]) -> "_Written":
        last = _last(db)
        breaks = self._breaks(db, last)
        records = [*((_began(), *first) if last.seq == 0 else ()), *breaks]
        for record in records:
            last = self._add(db, last, record, 0)
        numbers: dict[int, int] = {}
        for entry in batch:
            about = entry.about
            number = 0 if about is None else about.seq or numbers.get(id(about), 0)
            last = self._add(db, last, _made(entry), number)
            numbers[id(entry)] = last.seq
        return _Written(tuple(numbers.values()), last, back=bool(breaks))

    def _add(self, db: sqlite3.Connection, last: Reached, record: Record, about: int) -> Reached:
        fields: dict[str, Any] = to_builtins(record)
        fields |= {"seq": last.seq + 1, "run": self._run, "about": about, "prev": last.hash}
        fields["hash"] = row_hash(fields)
        db.execute(_INSERT, tuple(fields[name] for name in FIELDS))
        return Reached(fields["seq"], fields["hash"])

    def _breaks(self, db: sqlite3.Connection, last: Reached) -> tuple[Record, ...]:
        """What the head says against the chain; found once, it is in the chain for good, and the head starts from here.

        Whoever wrote a row moves the head after its commit, so the head never names a row that was not written.
        """
        if not self._headed:
            return ()
        try:
            reached = self._head.read()
            if reached is None and last.seq == 0:
                # Before the first row, so that a ledger with rows and without a head is never our own doing.
                self._head.move(Reached())
                return ()
        except OSError as error:
            self._headed = False
            _log.warning("the head of the ledger: %s", error)
            return ()
        found = broken(db, reached)
        if not found:
            return ()
        there = {"reached": reached.seq, "hash": reached.hash} if reached else {}
        return (Record(at=now(), kind="ledger", event="broken", decision=found, who="mcphost", detail=dumps(there)),)

    def _moved(self, written: "_Written") -> None:
        if self._headed:
            try:
                self._head.move(written.last, back=written.back)
            except OSError as error:
                _log.warning("the head of the ledger: %s", error)


class _Written(Struct, frozen=True):
    numbers: tuple[int, ...]
    last: Reached
    back: bool


def now() -> int:
    """Microseconds since 1970."""
    return time.time_ns() // 1000


def broken(db: sqlite3.Connection, reached: Reached | None) -> str:
    """What is wrong with a chain that has rows and once reached that far; empty for nothing."""
    if reached is None:
        return "head missing"
    if reached.seq == 0:
        return ""
    row = db.execute("SELECT hash FROM ledger WHERE seq = ?", (reached.seq,)).fetchone()
    if row is None:
        return "rows missing"
    return "" if row[0] == reached.hash else "rewritten"


def _last(db: sqlite3.Connection) -> Reached:
    row = db.execute("SELECT seq, hash FROM ledger ORDER BY seq DESC LIMIT 1").fetchone()
    return Reached(*row) if row else Reached()


def _began() -> Record:
    return Record(at=now(), kind="ledger", event="began", who="mcphost", detail=dumps({"id": secrets.token_hex(16)}))


def _made(entry: Entry) -> Record:
    """The record, made once: an entry whose writing failed is written later as it was."""
    if entry.record is None:
        try:
            made = entry.make()
        except Exception as error:  # noqa: BLE001
            # A bug in describing a decision must neither lose that there was one nor hold up those behind it.
            _log.exception("a row of the ledger")
            made = Record(at=now(), kind="ledger", event="undescribed", who="mcphost", detail=dumps(repr(error)[:500]))
        entry.record = _bounded(made)
    return entry.record


def _bounded(record: Record) -> Record:
    """Texts that are whole, can be stored and are not endless; numbers that every reader of JSON takes."""
    changes: dict[str, Any] = {}
    for name in Record.__struct_fields__:
        value = getattr(record, name)
        if isinstance(value, int):
            kept = max(0, min(value, LARGEST))
        else:
            kept = replace_surrogates(
                value if len(value) <= (most := _LIMITS.get(name, NAME_LIMIT)) else value[:most] + "…"
            )
        if kept != value:
            changes[name] = kept
    return replace(record, **changes) if changes else record


def _m001_ledger(db: sqlite3.Connection) -> None:
    """The rows, and triggers that refuse what is not adding one at the end."""
    for statement in _TABLE:
        db.execute(statement)


MIGRATIONS: Migrations = (("001_ledger", _m001_ledger),)
