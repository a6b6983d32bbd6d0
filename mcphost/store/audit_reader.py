"""Functions to list, export and verify the rows of the audit log.

The file is opened read-only and never repaired, so that reading cannot destroy evidence. Verification detects
rows that were changed, moved or removed.
"""

import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from mcphost.errors import StoreError, UsageError
from mcphost.paths import is_missing
from mcphost.redact import identifier_digest
from mcphost.serialization import Struct, to_builtins
from mcphost.store.audit_store import (
    FIELD_TYPES,
    FIELDS,
    INITIAL_HASH,
    TRIGGERS,
    AuditCheckpoint,
    AuditPosition,
    AuditRow,
    find_chain_break,
    has_valid_types,
    row_hash,
)
from mcphost.store.database import DATABASE_ERRORS, size_of

DAMAGED = "[damaged]"
"""Displayed in place of a value that is not text, as can occur in a damaged file."""

MAX_FINDINGS = 100
PROGRESS_INTERVAL = 1_000
ProgressFunction = Callable[[int, int], bool]
"""Receives the number of checked rows and the total, on the verifying thread; returns False to stop."""
DescribeFunction = Callable[[str, str, str, str], str]
"""Receives the kind, event, decision and source of a row; returns its displayed text in lower case, for searching."""
_SELECT = "SELECT " + ", ".join(f'"{name}"' for name in FIELDS) + " FROM ledger"  # noqa: S608


def unknown_kind_error(kind: str, kinds: Iterable[str]) -> UsageError:
    """Return the error for an unknown *kind* of audit rows; the hint lists *kinds*, the known ones."""
    return UsageError(f"There is no kind {kind!r}.", f"The kinds are: {', '.join(sorted(kinds))}.")


class AuditFilter(Struct, frozen=True, kw_only=True):
    """Filter for rows of the audit log; an empty field matches every row.

    - `since`: the earliest time of a row, in microseconds since 1970.
    - `text`: words, each of which must occur in one of the row's short text fields, such as the server, the subject or
      the decision.
    """

    server: str = ""
    kind: str = ""
    since: int = 0
    text: str = ""
    before: int = 0
    """Match only rows with a smaller number than this; 0 matches all."""


class AuditFinding(Struct, frozen=True):
    """A problem that verification found in the audit log; `row` is the number of the affected row, or 0.

    `what` is the kind of problem:

    - "edited": a row was changed
    - "moved": a row has another number than when it was written
    - "missing": rows were removed
    - "unlinked": a row does not continue the chain of hashes
    - "recorded": a row reports a problem that was detected when the row was written
    - "head": the log does not match its checkpoint file
    - "triggers": the triggers that prevent changes were removed
    - "unreadable": the file cannot be read
    """

    row: int
    what: str
    text: str


class AuditVerification(Struct, frozen=True):
    """The result of verifying the audit log.

    - `reached`: the number and hash of the last row that was checked. The user can write them down: if the log is
      rewritten later, it no longer contains a row with this number and hash.
    - `stopped`: whether verification ended before the last row.
    """

    rows: int
    reached: AuditPosition
    findings: tuple[AuditFinding, ...] = ()
    stopped: bool = False

    @property
    def is_intact(self) -> bool:
        """Whether every row was checked and no problem was found."""
        return not self.findings and not self.stopped


class AuditReader:
    """Read-only access to one audit log; every method blocks the calling thread and may raise StoreError."""

    def __init__(self, path: Path | None, checkpoint: Path | None = None) -> None:
        self._path = path
        self._checkpoint = AuditCheckpoint(checkpoint)
        self._has_checkpoint = checkpoint is not None

    def page(
        self, filter_by: AuditFilter, limit: int, describe: DescribeFunction | None = None
    ) -> tuple[AuditRow, ...]:
        """Return the newest rows that match the filter, at most *limit*, newest first.

        If *describe* is given, it is called for each row and returns the displayed text of the row (see
        `DescribeFunction`); the words of the filter can then also match that text. *describe* must not raise an error.
        """
        where, values = _build_where(filter_by, has_description=describe is not None)

        def work(db: sqlite3.Connection) -> tuple[AuditRow, ...]:
            if describe is not None:
                db.create_function("described", 4, describe)
            return tuple(map(_make_row, db.execute(f"{_SELECT}{where} ORDER BY seq DESC LIMIT ?", (*values, limit))))

        return self._run((), work)

    def count(self, filter_by: AuditFilter) -> int:
        """Return the number of rows that match the filter."""
        where, values = _build_where(filter_by)
        return self._run(0, lambda db: int(db.execute(f"SELECT count(*) FROM ledger{where}", values).fetchone()[0]))  # noqa: S608

    def row(self, seq: int) -> AuditRow | None:
        """Return the row with this number, or None if there is none."""
        rows = self._run([], lambda db: db.execute(f"{_SELECT} WHERE seq = ?", (seq,)).fetchall())
        return _make_row(rows[0]) if rows else None

    def check_row(self, seq: int) -> tuple[AuditFinding, ...]:
        """Return the problems found in the row with number *seq*; an empty tuple if there are none.

        The row is compared with its own hash, the rows before and after it and, if it is the last, the checkpoint
        file.
        """
        checkpoint = self._read_checkpoint()

        def work(db: sqlite3.Connection) -> tuple[AuditFinding, ...]:
            rows = db.execute(f"{_SELECT} WHERE seq <= ? ORDER BY seq DESC LIMIT 2", (seq,)).fetchall()
            fields = [dict(zip(FIELDS, values, strict=True)) for values in rows]
            if not fields or fields[0]["seq"] != seq:
                return ()
            last = AuditPosition(fields[1]["seq"], fields[1]["hash"]) if len(fields) > 1 else AuditPosition()
            row = AuditPosition(seq, fields[0]["hash"])
            findings = _check_row(db, last, fields[0])
            after = db.execute("SELECT seq, prev FROM ledger WHERE seq > ? ORDER BY seq LIMIT 1", (seq,)).fetchone()
            if after:
                findings += _check_gap(row, after[0]) or _check_link(row, *after)
            elif self._has_checkpoint and (checkpoint is None or checkpoint.seq >= seq):
                findings += _check_end(find_chain_break(db, checkpoint), checkpoint, row)
            return tuple(findings)

        return self._run((), work)

    def export(self, filter_by: AuditFilter, write: Callable[[AuditRow], object]) -> int:
        """Pass every row that matches the filter to *write*, oldest first, and return the number of rows."""
        where, values = _build_where(filter_by)

        def work(db: sqlite3.Connection) -> int:
            count = 0
            for values_of_row in db.execute(f"{_SELECT}{where} ORDER BY seq", values):
                write(_make_row(values_of_row))
                count += 1
            return count

        return self._run(0, work)

    def verify(self, progress: ProgressFunction = lambda done, total: True) -> AuditVerification:
        """Check the hash and the number of every row, and compare the log with its checkpoint file.

        A file that cannot be read is reported as a finding. *progress* receives the number of checked rows and the
        total number of rows, and returns whether to continue; if it returns False, verification stops early.
        """
        checkpoint = self._read_checkpoint()
        try:
            return self._run(None, lambda db: self._check(db, checkpoint, progress)) or _verify_empty(checkpoint)
        except StoreError as error:
            return AuditVerification(0, AuditPosition(), (AuditFinding(0, "unreadable", error.message),))

    def _read_checkpoint(self) -> AuditPosition | None:
        """Return the checkpoint, or None if it cannot be read.

        Call this before reading rows: another process may add rows at any time, and the checkpoint must not be newer
        than the rows that are read.
        """
        try:
            return self._checkpoint.read()
        except OSError:
            return None

    def _check(
        self, db: sqlite3.Connection, checkpoint: AuditPosition | None, progress: ProgressFunction
    ) -> AuditVerification:
        total = int(db.execute("SELECT count(*) FROM ledger").fetchone()[0])
        findings: list[AuditFinding] = []
        last, count, going = AuditPosition(), 0, True
        for fields in _iter_fields(db):
            findings += _check_row(db, last, fields)
            last = AuditPosition(fields["seq"], str(fields["hash"]))
            count += 1
            if count % PROGRESS_INTERVAL == 0:
                going = progress(count, total)
            if not going or len(findings) >= MAX_FINDINGS:
                return AuditVerification(count, last, tuple(findings), stopped=True)
        progress(count, total)
        if self._has_checkpoint and count:
            findings += _check_end(find_chain_break(db, checkpoint), checkpoint, last)
        elif self._has_checkpoint:
            findings += _verify_empty(checkpoint).findings
        triggers = dict(db.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'"))
        # Compare the text too: a replaced trigger with the same name might refuse nothing.
        if missing := sorted(name for name, text in TRIGGERS.items() if triggers.get(name) != text):
            findings.append(
                AuditFinding(0, "triggers", f"Triggers that refuse changes were removed: {', '.join(missing)}.")
            )
        return AuditVerification(count, last, tuple(findings))

    def _run(self, default: Any, work: Callable[[sqlite3.Connection], Any]) -> Any:
        """Open the database and return the result of *work*, or *default* if there is no audit log yet."""
        if self._path is None:
            return default
        try:
            if is_missing(self._path):
                return default
            with closing(_connect(self._path)) as db:
                if not db.execute("SELECT 1 FROM sqlite_master WHERE name = 'ledger'").fetchone():
                    return default
                return work(db)
        except (*DATABASE_ERRORS, OSError) as error:
            raise StoreError(
                f"The audit log {self._path} cannot be read: {error}.", "Look for a copy of it in your backups."
            ) from error


_NO_SHARED_MEMORY = (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_IOERR)


def _connect(path: Path) -> sqlite3.Connection:
    """Open the audit log for reading, even if the folder is not writable or the disk is full.

    In both cases, SQLite cannot create its shared-memory file, so the database is opened as immutable. However, SQLite
    ignores the write-ahead log of an immutable database, so if there is such a log, SQLite's error is raised instead.
    """
    uri = path.absolute().as_uri()
    db = sqlite3.connect(f"{uri}?mode=ro", uri=True, timeout=10)
    try:
        db.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone()
    except sqlite3.DatabaseError as error:
        db.close()  # even if the file is not a database
        has_log = size_of(path.with_name(f"{path.name}-wal")) > 0
        if has_log or error.sqlite_errorcode & 0xFF not in _NO_SHARED_MEMORY:
            raise
        db = sqlite3.connect(f"{uri}?immutable=1", uri=True, timeout=10)
    db.create_function("lower_case", 1, _to_lower_case, deterministic=True)
    return db


def _to_lower_case(text: bytes | None) -> str | None:
    """Return UTF-8 text in lower case; the bytes may be invalid in a damaged file."""
    return None if text is None else text.decode(errors="replace").lower()


def _verify_empty(checkpoint: AuditPosition | None) -> AuditVerification:
    if checkpoint is None or checkpoint.seq == 0:
        return AuditVerification(0, AuditPosition())
    text = "The only row is missing." if checkpoint.seq == 1 else f"All {checkpoint.seq} rows are missing."
    return AuditVerification(0, AuditPosition(), (AuditFinding(1, "missing", text),))


def _iter_fields(db: sqlite3.Connection) -> Iterator[dict[str, Any]]:
    for values in db.execute(f"{_SELECT} ORDER BY seq"):
        yield dict(zip(FIELDS, values, strict=True))


def _make_row(values: tuple[Any, ...]) -> AuditRow:
    """Return a row; in a damaged file, values of the wrong type are replaced."""
    fields = dict(zip(FIELDS, values, strict=True))
    if not has_valid_types(fields):
        fields |= {
            name: 0 if expected is int else DAMAGED
            for name, expected in FIELD_TYPES.items()
            if not isinstance(fields[name], expected)
        }
    return AuditRow(**fields)


def _build_where(filter_by: AuditFilter, *, has_description: bool = False) -> tuple[str, tuple[Any, ...]]:
    parts: list[tuple[str, tuple[Any, ...]]] = []
    if filter_by.server:
        mark = identifier_digest(filter_by.server)
        parts.append(("(server = ? OR substr(server, ?) = ?)", (filter_by.server, -len(mark), mark)))
    if filter_by.kind:
        parts.append(("kind = ?", (filter_by.kind,)))
    if filter_by.since:
        parts.append(("at >= ?", (filter_by.since,)))
    if filter_by.before:
        parts.append(("seq < ?", (filter_by.before,)))
    names = ("server", "subject", "kind", "event", "decision", "who", '"grant"', '"call"')
    shown = " || char(10) || ".join(names)
    described = ["described(kind, event, decision, who)"] if has_description else []
    for word in filter_by.text.split():
        # SQLite's own function changes only ASCII letters, but is faster.
        text = f"lower({shown})" if word.isascii() else f"lower_case(CAST({shown} AS BLOB))"
        found = " OR ".join(f"instr({one}, ?) > 0" for one in (text, *described))
        parts.append((f"({found})", (word.lower(),) * (1 + len(described))))
    text = " AND ".join(part for part, _ in parts)
    return (f" WHERE {text}" if text else ""), tuple(value for _, values in parts for value in values)


def _check_row(db: sqlite3.Connection, last: AuditPosition, fields: dict[str, Any]) -> list[AuditFinding]:
    """Return the problems found in one row of the audit log.

    *fields* are the columns of the row, and *last* is the number and hash of the preceding row.
    """
    seq = fields["seq"]
    gap = _check_gap(last, seq)
    findings = [*gap]
    if not has_valid_types(fields):
        findings.append(AuditFinding(seq, "edited", f"Row {seq} is not what was written."))
    elif row_hash(fields) != fields["hash"]:
        original = _find_original_number(db, fields)
        text = f"Row {seq} was written as row {original}." if original else f"Row {seq} is not what was written."
        findings.append(AuditFinding(seq, "moved" if original else "edited", text))
    elif not gap:
        findings += _check_link(last, seq, fields["prev"])
    if fields["kind"] == "ledger" and fields["event"] == "broken":
        text = f"Row {seq} records a break that was detected then: {fields['decision']}."
        findings.append(AuditFinding(seq, "recorded", text))
    return findings


def _check_gap(last: AuditPosition, seq: int) -> list[AuditFinding]:
    """Return a list with one finding if rows are missing between *last* and row *seq*, otherwise []."""
    gap = seq - last.seq - 1
    if not gap:
        return []
    which = f"Row {last.seq + 1} is" if gap == 1 else f"Rows {last.seq + 1} to {seq - 1} are"
    return [AuditFinding(last.seq + 1, "missing", f"{which} missing.")]


def _check_link(last: AuditPosition, seq: int, prev: str) -> list[AuditFinding]:
    """Return a list with one finding if row *seq* does not continue the chain after *last*, otherwise [].

    *prev* is the previous hash that row *seq* contains.
    """
    if prev == (last.hash if last.seq else INITIAL_HASH):
        return []
    before = f"row {last.seq}" if last.seq else "the beginning"
    text = f"Row {seq} was not written after the current {before}: a row was inserted or replaced."
    return [AuditFinding(seq, "unlinked", text)]


def _find_original_number(db: sqlite3.Connection, fields: dict[str, Any]) -> int:
    """Return the original number of a row that was moved, or 0 if it cannot be found.

    *fields* are the columns of the row.
    """
    row = db.execute("SELECT seq FROM ledger WHERE hash = ?", (fields["prev"],)).fetchone()
    before = 0 if fields["prev"] == INITIAL_HASH else row[0] if row else None
    for number in {before + 1} if before is not None else set[int]():
        if row_hash(fields | {"seq": number}) == fields["hash"]:
            return number
    # Adjacent rows may have been moved as well: try nearby numbers.
    for number in range(max(1, fields["seq"] - 50), fields["seq"] + 51):
        if row_hash(fields | {"seq": number}) == fields["hash"]:
            return number
    return 0


def _check_end(what: str, checkpoint: AuditPosition | None, last: AuditPosition) -> list[AuditFinding]:
    """Return a list with one finding if the end of the log does not match the checkpoint, otherwise [].

    *what* is the result of `find_chain_break`. *last* is the position of the log's last row.
    """
    if not what:
        return []
    if checkpoint is None:
        text = "The checkpoint file is missing: rows may have been removed at the end."
        return [AuditFinding(last.seq, "head", text)]
    if what == "rows missing":
        text = (
            f"Row {checkpoint.seq} is missing at the end."
            if checkpoint.seq == last.seq + 1
            else f"Rows {last.seq + 1} to {checkpoint.seq} are missing at the end."
        )
        return [AuditFinding(last.seq + 1, "missing", text)]
    text = f"Row {checkpoint.seq} is not the one that was written: the chain was rewritten."
    return [AuditFinding(checkpoint.seq, "head", text)]


def to_export(row: AuditRow) -> dict[str, Any]:
    """Return a row as a dictionary for JSON export.

    The dictionary contains all fields of the row and the version of the hash format, `v`, so that the hash can be
    recomputed.
    """
    return {"v": 1, **to_builtins(row)}
