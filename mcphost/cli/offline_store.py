"""The store alone, for commands that look something up or approve something and start nothing."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from mcphost import paths
from mcphost.cli.bootstrap import open_ledger
from mcphost.cli.output import note
from mcphost.config.schema import LedgerConfig
from mcphost.host.audit.audit_log import AuditLog
from mcphost.store.database import Database
from mcphost.store.grants import Grants


@asynccontextmanager
async def open_grants() -> AsyncGenerator[Grants]:
    """Approvals and grants of this user; what is wrong with the store is said on stderr."""
    async with open_approvals() as (grants, _):
        yield grants


@asynccontextmanager
async def open_approvals() -> AsyncGenerator[tuple[Grants, AuditLog]]:
    """The same for commands that change something, with the journal that records it."""
    database = Database(paths.database_file(), _tell)
    journal = AuditLog(open_ledger(database, _tell), LedgerConfig())
    try:
        yield Grants(database), journal
    finally:
        await journal.close()
        await database.close()


def _tell(text: str, hint: str) -> None:
    note(f"{text} {hint}".strip())
