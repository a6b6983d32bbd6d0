"""An audit log on disk, and functions that read its rows."""

from pathlib import Path

from mcphost.config.schema import AuditConfig
from mcphost.host.audit.audit_log import AuditLog
from mcphost.store.audit_reader import AuditFilter, AuditRow
from mcphost.store.audit_store import AuditStore


def create_audit_log(folder: Path) -> AuditLog:
    """Return an audit log stored in *folder*."""
    return AuditLog(AuditStore(folder / "audit.db"), AuditConfig())


async def read_rows(audit_log: AuditLog, kind: str = "") -> list[AuditRow]:
    """Return all rows, or the rows of one kind, oldest first."""
    return [*reversed(await audit_log.read_page(AuditFilter(kind=kind)))]
