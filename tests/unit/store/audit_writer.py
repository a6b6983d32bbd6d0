"""A program that appends many rows to an audit log, run as a separate process."""

from pathlib import Path
from typing import Any

from mcphost.store.audit_store import AuditRecord, AuditStore


def create_record(subject: str = "add", **more: Any) -> AuditRecord:
    return AuditRecord(at=1_700_000_000_000_000, kind="tool", event="decided", server="demo", subject=subject, **more)


def append_audit_rows(path: str, name: str, count: int) -> None:
    import anyio

    async def work() -> None:
        audit_store = AuditStore(Path(path, "l.db"), Path(path, "l.head"))
        for number in range(count):
            assert (await audit_store.append(lambda number=number: create_record(f"{name}{number}"))).seq > 0
        await audit_store.close()

    anyio.run(work)
