"""Audit records for permissions from before the audit log existed; a new audit log begins with them."""

import hashlib
import json
import sqlite3
from typing import Any

from mcphost.errors import StoreError
from mcphost.serialization import dumps, replace
from mcphost.store.audit_store import AuditRecord, current_microseconds
from mcphost.store.database import Database

MAX_ROWS = 10_000
_TABLES = (("grants", "grant"), ("trust", "trust"))


async def load_legacy_records(database: Database) -> tuple[AuditRecord, ...]:
    """Return a record for each grant and each approved server, and one with the number of conversations.

    Tables may have any columns. If the database cannot be read, the only record says so.
    """
    try:
        return await database.run(_read)
    except StoreError as error:
        return (_make_record("ledger", "carried over", {"unreadable": error.message[:500]}),)


def _read(db: sqlite3.Connection) -> tuple[AuditRecord, ...]:
    records: list[AuditRecord] = []
    for table, kind in _TABLES:
        cursor = db.execute(f"SELECT * FROM {table} ORDER BY created LIMIT {MAX_ROWS}")  # noqa: S608
        names = [str(column[0]) for column in cursor.description]
        records += [_convert_row(kind, dict(zip(names, row, strict=True))) for row in cursor]
    (conversations,) = db.execute("SELECT count(*) FROM conversations").fetchone()
    if records or conversations:
        records.append(_make_record("ledger", "carried over", {"conversations": conversations, "rows": len(records)}))
    return tuple(records)


def _convert_row(kind: str, row: dict[str, Any]) -> AuditRecord:
    plain = json.dumps(row, sort_keys=True, default=str)
    detail = {"created": row.get("created"), "digest": hashlib.sha256(plain.encode()).hexdigest()}
    return replace(
        _make_record(kind, "carried over", detail),
        server=str(row.get("server", "")),
        subject=str(row.get("tool", row.get("rule", ""))),
        grant=str(row.get("id", "")),
        definition=str(row.get("server_digest", row.get("digest", ""))),
    )


def _make_record(kind: str, event: str, detail: dict[str, Any]) -> AuditRecord:
    return AuditRecord(at=current_microseconds(), kind=kind, event=event, who="mcphost", detail=dumps(detail))
