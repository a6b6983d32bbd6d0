"""What was allowed before there was a ledger: the rows that a new one begins with."""

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
    """One row for each grant and each trusted server of an earlier version, and one with the number of conversations.

    It reads whatever columns there are. A store that cannot be read is said in one row instead.
    """
    try:
        return await database.run(_read)
    except StoreError as error:
        return (_make_record("ledger", "carried over", {"unreadable": error.message[:500]}),)


def _read(db: sqlite3.Connection) -> tuple[AuditRecord, ...]:
    made: list[AuditRecord] = []
    for table, kind in _TABLES:
        cursor = db.execute(f"SELECT * FROM {table} ORDER BY created LIMIT {MAX_ROWS}")  # noqa: S608
        names = [str(column[0]) for column in cursor.description]
        made += [_convert_row(kind, dict(zip(names, row, strict=True))) for row in cursor]
    (conversations,) = db.execute("SELECT count(*) FROM conversations").fetchone()
    if made or conversations:
        made.append(_make_record("ledger", "carried over", {"conversations": conversations, "rows": len(made)}))
    return tuple(made)


def _convert_row(kind: str, found: dict[str, Any]) -> AuditRecord:
    plain = json.dumps(found, sort_keys=True, default=str)
    detail = {"created": found.get("created"), "digest": hashlib.sha256(plain.encode()).hexdigest()}
    return replace(
        _make_record(kind, "carried over", detail),
        server=str(found.get("server", "")),
        subject=str(found.get("tool", found.get("rule", ""))),
        grant=str(found.get("id", "")),
        definition=str(found.get("server_digest", found.get("digest", ""))),
    )


def _make_record(kind: str, event: str, detail: dict[str, Any]) -> AuditRecord:
    return AuditRecord(at=current_microseconds(), kind=kind, event=event, who="mcphost", detail=dumps(detail))
