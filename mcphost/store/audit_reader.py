"""The reading end of the ledger: pages of rows, exports, and the check that finds what was changed, and where.

It opens the file for reading alone and never repairs anything, so that looking cannot destroy what there is to see.
"""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from mcphost.errors import StoreError
from mcphost.redact import identifier_digest
from mcphost.serialization import Struct, to_builtins
from mcphost.store.audit_checkpoint import INITIAL_HASH, AuditCheckpoint, AuditPosition
from mcphost.store.audit_store import FIELDS, TRIGGERS, AuditRow, find_chain_break, row_hash

MAX_FINDINGS = 100
PROGRESS_INTERVAL = 1_000
ProgressFunction = Callable[[int, int], bool]
"""Rows checked so far, and all of them; False ends the check. It is called on the thread that checks."""
_SELECT = "SELECT " + ", ".join(f'"{name}"' for name in FIELDS) + " FROM ledger"  # noqa: S608


class AuditFilter(Struct, frozen=True, kw_only=True):
    """Which rows: all that is given holds; `since` in microseconds since 1970, `text` in any of the names."""

    server: str = ""
    kind: str = ""
    since: int = 0
    text: str = ""
    before: int = 0
    """Only rows with a smaller number; 0: all."""


class AuditFinding(Struct, frozen=True):
    """Something that is wrong at a row; `what` is one of edited, moved, missing, unlinked, recorded, head, triggers,
    unreadable."""

    row: int
    what: str
    text: str


class AuditVerification(Struct, frozen=True):
    """What a check found. `reached` is the last row, to be noted elsewhere and compared with one day."""

    rows: int
    reached: AuditPosition
    findings: tuple[AuditFinding, ...] = ()
    stopped: bool = False

    @property
    def is_intact(self) -> bool:
        """Whether the whole ledger is as it was written."""
        return not self.findings and not self.stopped


class AuditReader:
    """Reads one ledger. Every method works on the calling thread, and raises StoreError."""

    def __init__(self, path: Path | None, checkpoint: Path | None = None) -> None:
        self._path = path
        self._checkpoint = AuditCheckpoint(checkpoint)
        self._has_checkpoint = checkpoint is not None

    def page(self, filter_by: AuditFilter, limit: int) -> tuple[AuditRow, ...]:
        """The newest rows first."""
        where, values = _build_where(filter_by)
        return self._run(
            (),
            lambda db: tuple(
                map(_make_row, db.execute(f"{_SELECT}{where} ORDER BY seq DESC LIMIT ?", (*values, limit)))
            ),
        )

    def count(self, filter_by: AuditFilter) -> int:
        """How many rows there are of that kind."""
        where, values = _build_where(filter_by)
        return self._run(0, lambda db: int(db.execute(f"SELECT count(*) FROM ledger{where}", values).fetchone()[0]))  # noqa: S608

    def row(self, seq: int) -> AuditRow | None:
        """One row."""
        found = self._run([], lambda db: db.execute(f"{_SELECT} WHERE seq = ?", (seq,)).fetchall())
        return _make_row(found[0]) if found else None

    def export(self, filter_by: AuditFilter, write: Callable[[AuditRow], object]) -> int:
        """Hand every row to `write`, the oldest first; how many there were."""
        where, values = _build_where(filter_by)

        def work(db: sqlite3.Connection) -> int:
            count = 0
            for values_of_row in db.execute(f"{_SELECT}{where} ORDER BY seq", values):
                write(_make_row(values_of_row))
                count += 1
            return count

        return self._run(0, work)

    def verify(self, progress: ProgressFunction = lambda done, total: True) -> AuditVerification:
        """Check every row, and the end against the head. A file that cannot be read is a finding and no error."""
        try:
            # The head first: rows that are added meanwhile are beyond it.
            reached = self._checkpoint.read()
        except OSError:
            reached = None
        try:
            return self._run(None, lambda db: self._check(db, reached, progress)) or self._verify_without_rows(reached)
        except StoreError as error:
            return AuditVerification(0, AuditPosition(), (AuditFinding(0, "unreadable", error.message),))

    def _verify_without_rows(self, reached: AuditPosition | None) -> AuditVerification:
        if reached is None or reached.seq == 0:
            return AuditVerification(0, AuditPosition())
        return AuditVerification(
            0, AuditPosition(), (AuditFinding(1, "missing", f"All {reached.seq} rows are missing."),)
        )

    def _check(
        self, db: sqlite3.Connection, reached: AuditPosition | None, progress: ProgressFunction
    ) -> AuditVerification:
        total = int(db.execute("SELECT count(*) FROM ledger").fetchone()[0])
        findings: list[AuditFinding] = []
        last, count, going = AuditPosition(), 0, True
        for fields in _iter_fields(db):
            findings += _check_row(db, last, fields)
            last = AuditPosition(fields["seq"], fields["hash"])
            count += 1
            if count % PROGRESS_INTERVAL == 0:
                going = progress(count, total)
            if not going or len(findings) >= MAX_FINDINGS:
                return AuditVerification(count, last, tuple(findings), stopped=True)
        progress(count, total)
        if self._has_checkpoint and count:
            findings += _check_end(find_chain_break(db, reached), reached, last)
        there = dict(db.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'"))
        # By their text, too: one of the same name may refuse nothing.
        if gone := [name for name, text in TRIGGERS.items() if there.get(name) != text]:
            findings.append(
                AuditFinding(0, "triggers", f"What refuses changes was taken away: {', '.join(sorted(gone))}.")
            )
        return AuditVerification(count, last, tuple(findings))

    def _run(self, default: Any, work: Callable[[sqlite3.Connection], Any]) -> Any:
        """`nothing` when there is no ledger yet."""
        if self._path is None or not self._path.exists():
            return default
        try:
            with closing(sqlite3.connect(f"{self._path.absolute().as_uri()}?mode=ro", uri=True, timeout=10)) as db:
                if not db.execute("SELECT 1 FROM sqlite_master WHERE name = 'ledger'").fetchone():
                    return default
                return work(db)
        except sqlite3.Error as error:
            raise StoreError(
                f"The audit ledger {self._path} cannot be read: {error}.", "Look for a copy of it in your backups."
            ) from error


def _iter_fields(db: sqlite3.Connection) -> Iterator[dict[str, Any]]:
    for values in db.execute(f"{_SELECT} ORDER BY seq"):
        yield dict(zip(FIELDS, values, strict=True))


def _make_row(values: tuple[Any, ...]) -> AuditRow:
    return AuditRow(**dict(zip(FIELDS, values, strict=True)))


def _build_where(filter_by: AuditFilter) -> tuple[str, tuple[Any, ...]]:
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
    for word in filter_by.text.split():
        names = ("server", "subject", "kind", "event", "decision", "who", '"grant"', '"call"')
        parts.append((f"instr(lower({' || char(10) || '.join(names)}), ?) > 0", (word.lower(),)))
    text = " AND ".join(part for part, _ in parts)
    return (f" WHERE {text}" if text else ""), tuple(value for _, values in parts for value in values)


def _check_row(db: sqlite3.Connection, last: AuditPosition, fields: dict[str, Any]) -> list[AuditFinding]:
    """What is wrong with a row that stands after `last`."""
    seq, found = fields["seq"], list[AuditFinding]()
    gap = seq - last.seq - 1
    if gap:
        which = f"Row {last.seq + 1} is" if gap == 1 else f"Rows {last.seq + 1} to {seq - 1} are"
        found.append(AuditFinding(last.seq + 1, "missing", f"{which} missing."))
    if row_hash(fields) != fields["hash"]:
        was = _find_original_number(db, fields)
        text = f"Row {seq} was written as row {was}." if was else f"Row {seq} is not what was written."
        found.append(AuditFinding(seq, "moved" if was else "edited", text))
    elif not gap and fields["prev"] != (last.hash if last.seq else INITIAL_HASH):
        before = f"row {last.seq}" if last.seq else "the beginning"
        found.append(
            AuditFinding(
                seq, "unlinked", f"Row {seq} was not written after {before} as that is now: one was put there."
            )
        )
    if fields["kind"] == "ledger" and fields["event"] == "broken":
        found.append(AuditFinding(seq, "recorded", f"At row {seq} it was noticed and recorded: {fields['decision']}."))
    return found


def _find_original_number(db: sqlite3.Connection, fields: dict[str, Any]) -> int:
    """The number under which exactly this row was written; 0 when there is none."""
    row = db.execute("SELECT seq FROM ledger WHERE hash = ?", (fields["prev"],)).fetchone()
    before = 0 if fields["prev"] == INITIAL_HASH else row[0] if row else None
    for number in {before + 1} if before is not None else set[int]():
        if row_hash(fields | {"seq": number}) == fields["hash"]:
            return number
    # Its neighbours may have been moved as well: look close by.
    for number in range(max(1, fields["seq"] - 50), fields["seq"] + 51):
        if row_hash(fields | {"seq": number}) == fields["hash"]:
            return number
    return 0


def _check_end(what: str, checkpoint: AuditPosition | None, last: AuditPosition) -> list[AuditFinding]:
    """What the head says against the last row."""
    if not what:
        return []
    if checkpoint is None:
        text = "The head file is missing: nobody can tell whether rows were removed at the end."
        return [AuditFinding(last.seq, "head", text)]
    if what == "rows missing":
        return [
            AuditFinding(last.seq + 1, "missing", f"Rows {last.seq + 1} to {checkpoint.seq} are missing at the end.")
        ]
    text = f"Row {checkpoint.seq} is not the one that was written: the chain was made anew."
    return [AuditFinding(checkpoint.seq, "head", text)]


def to_export(row: AuditRow) -> dict[str, Any]:
    """The row as it is exported: all its fields, and `v`, so that its hash can be counted again."""
    return {"v": 1, **to_builtins(row)}
