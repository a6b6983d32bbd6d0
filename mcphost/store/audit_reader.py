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
from mcphost.store.audit_checkpoint import ZEROS, Head, Reached
from mcphost.store.audit_store import FIELDS, TRIGGERS, Row, broken, row_hash

MAX_FINDINGS = 100
CHUNK = 1_000
Progress = Callable[[int, int], bool]
"""Rows checked so far, and all of them; False ends the check. It is called on the thread that checks."""
_SELECT = "SELECT " + ", ".join(f'"{name}"' for name in FIELDS) + " FROM ledger"  # noqa: S608


class Wanted(Struct, frozen=True, kw_only=True):
    """Which rows: all that is given holds; `since` in microseconds since 1970, `text` in any of the names."""

    server: str = ""
    kind: str = ""
    since: int = 0
    text: str = ""
    before: int = 0
    """Only rows with a smaller number; 0: all."""


class Finding(Struct, frozen=True):
    """Something that is wrong at a row; `what` is one of edited, moved, missing, unlinked, recorded, head, triggers,
    unreadable."""

    row: int
    what: str
    text: str


class Verified(Struct, frozen=True):
    """What a check found. `reached` is the last row, to be noted elsewhere and compared with one day."""

    rows: int
    reached: Reached
    findings: tuple[Finding, ...] = ()
    stopped: bool = False

    @property
    def ok(self) -> bool:
        """Whether the whole ledger is as it was written."""
        return not self.findings and not self.stopped


class Reader:
    """Reads one ledger. Every method works on the calling thread, and raises StoreError."""

    def __init__(self, path: Path | None, head: Path | None = None) -> None:
        self._path = path
        self._head = Head(head)
        self._headed = head is not None

    def page(self, wanted: Wanted, limit: int) -> tuple[Row, ...]:
        """The newest rows first."""
        where, values = _where(wanted)
        return self._with(
            (), lambda db: tuple(map(_row, db.execute(f"{_SELECT}{where} ORDER BY seq DESC LIMIT ?", (*values, limit))))
        )

    def count(self, wanted: Wanted) -> int:
        """How many rows there are of that kind."""
        where, values = _where(wanted)
        return self._with(0, lambda db: int(db.execute(f"SELECT count(*) FROM ledger{where}", values).fetchone()[0]))  # noqa: S608

    def row(self, seq: int) -> Row | None:
        """One row."""
        found = self._with([], lambda db: db.execute(f"{_SELECT} WHERE seq = ?", (seq,)).fetchall())
        return _row(found[0]) if found else None

    def export(self, wanted: Wanted, write: Callable[[Row], object]) -> int:
        """Hand every row to `write`, the oldest first; how many there were."""
        where, values = _where(wanted)

        def work(db: sqlite3.Connection) -> int:
            count = 0
            for values_of_row in db.execute(f"{_SELECT}{where} ORDER BY seq", values):
                write(_row(values_of_row))
                count += 1
            return count

        return self._with(0, work)

    def verify(self, progress: Progress = lambda done, total: True) -> Verified:
        """Check every row, and the end against the head. A file that cannot be read is a finding and no error."""
        try:
            # The head first: rows that are added meanwhile are beyond it.
            reached = self._head.read()
        except OSError:
            reached = None
        try:
            return self._with(None, lambda db: self._check(db, reached, progress)) or self._none(reached)
        except StoreError as error:
            return Verified(0, Reached(), (Finding(0, "unreadable", error.message),))

    def _none(self, reached: Reached | None) -> Verified:
        if reached is None or reached.seq == 0:
            return Verified(0, Reached())
        return Verified(0, Reached(), (Finding(1, "missing", f"All {reached.seq} rows are missing."),))

    def _check(self, db: sqlite3.Connection, reached: Reached | None, progress: Progress) -> Verified:
        total = int(db.execute("SELECT count(*) FROM ledger").fetchone()[0])
        findings: list[Finding] = []
        last, count, going = Reached(), 0, True
        for fields in _all(db):
            findings += _findings(db, last, fields)
            last = Reached(fields["seq"], fields["hash"])
            count += 1
            if count % CHUNK == 0:
                going = progress(count, total)
            if not going or len(findings) >= MAX_FINDINGS:
                return Verified(count, last, tuple(findings), stopped=True)
        progress(count, total)
        if self._headed and count:
            findings += _end(broken(db, reached), reached, last)
        there = dict(db.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'"))
        # By their text, too: one of the same name may refuse nothing.
        if gone := [name for name, text in TRIGGERS.items() if there.get(name) != text]:
            findings.append(Finding(0, "triggers", f"What refuses changes was taken away: {', '.join(sorted(gone))}."))
        return Verified(count, last, tuple(findings))

    def _with(self, nothing: Any, work: Callable[[sqlite3.Connection], Any]) -> Any:
        """`nothing` when there is no ledger yet."""
        if self._path is None or not self._path.exists():
            return nothing
        try:
            with closing(sqlite3.connect(f"{self._path.absolute().as_uri()}?mode=ro", uri=True, timeout=10)) as db:
                if not db.execute("SELECT 1 FROM sqlite_master WHERE name = 'ledger'").fetchone():
                    return nothing
                return work(db)
        except sqlite3.Error as error:
            raise StoreError(
                f"The audit ledger {self._path} cannot be read: {error}.", "Look for a copy of it in your backups."
            ) from error


def _all(db: sqlite3.Connection) -> Iterator[dict[str, Any]]:
    for values in db.execute(f"{_SELECT} ORDER BY seq"):
        yield dict(zip(FIELDS, values, strict=True))


def _row(values: tuple[Any, ...]) -> Row:
    return Row(**dict(zip(FIELDS, values, strict=True)))


def _where(wanted: Wanted) -> tuple[str, tuple[Any, ...]]:
    parts: list[tuple[str, tuple[Any, ...]]] = []
    if wanted.server:
        mark = identifier_digest(wanted.server)
        parts.append(("(server = ? OR substr(server, ?) = ?)", (wanted.server, -len(mark), mark)))
    if wanted.kind:
        parts.append(("kind = ?", (wanted.kind,)))
    if wanted.since:
        parts.append(("at >= ?", (wanted.since,)))
    if wanted.before:
        parts.append(("seq < ?", (wanted.before,)))
    for word in wanted.text.split():
        names = ("server", "subject", "kind", "event", "decision", "who", '"grant"', '"call"')
        parts.append((f"instr(lower({' || char(10) || '.join(names)}), ?) > 0", (word.lower(),)))
    text = " AND ".join(part for part, _ in parts)
    return (f" WHERE {text}" if text else ""), tuple(value for _, values in parts for value in values)


def _findings(db: sqlite3.Connection, last: Reached, fields: dict[str, Any]) -> list[Finding]:
    """What is wrong with a row that stands after `last`."""
    seq, found = fields["seq"], list[Finding]()
    gap = seq - last.seq - 1
    if gap:
        which = f"Row {last.seq + 1} is" if gap == 1 else f"Rows {last.seq + 1} to {seq - 1} are"
        found.append(Finding(last.seq + 1, "missing", f"{which} missing."))
    if row_hash(fields) != fields["hash"]:
        was = _was(db, fields)
        text = f"Row {seq} was written as row {was}." if was else f"Row {seq} is not what was written."
        found.append(Finding(seq, "moved" if was else "edited", text))
    elif not gap and fields["prev"] != (last.hash if last.seq else ZEROS):
        before = f"row {last.seq}" if last.seq else "the beginning"
        found.append(
            Finding(seq, "unlinked", f"Row {seq} was not written after {before} as that is now: one was put there.")
        )
    if fields["kind"] == "ledger" and fields["event"] == "broken":
        found.append(Finding(seq, "recorded", f"At row {seq} it was noticed and recorded: {fields['decision']}."))
    return found


def _was(db: sqlite3.Connection, fields: dict[str, Any]) -> int:
    """The number under which exactly this row was written; 0 when there is none."""
    row = db.execute("SELECT seq FROM ledger WHERE hash = ?", (fields["prev"],)).fetchone()
    before = 0 if fields["prev"] == ZEROS else row[0] if row else None
    for number in {before + 1} if before is not None else set[int]():
        if row_hash(fields | {"seq": number}) == fields["hash"]:
            return number
    # Its neighbours may have been moved as well: look close by.
    for number in range(max(1, fields["seq"] - 50), fields["seq"] + 51):
        if row_hash(fields | {"seq": number}) == fields["hash"]:
            return number
    return 0


def _end(what: str, reached: Reached | None, last: Reached) -> list[Finding]:
    """What the head says against the last row."""
    if not what:
        return []
    if reached is None:
        text = "The head file is missing: nobody can tell whether rows were removed at the end."
        return [Finding(last.seq, "head", text)]
    if what == "rows missing":
        return [Finding(last.seq + 1, "missing", f"Rows {last.seq + 1} to {reached.seq} are missing at the end.")]
    text = f"Row {reached.seq} is not the one that was written: the chain was made anew."
    return [Finding(reached.seq, "head", text)]


def plain(row: Row) -> dict[str, Any]:
    """The row as it is exported: all its fields, and `v`, so that its hash can be counted again."""
    return {"v": 1, **to_builtins(row)}
