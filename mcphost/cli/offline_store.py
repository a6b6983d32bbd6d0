"""The store alone, for commands that look something up or approve something and start nothing."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from mcphost import paths
from mcphost.cli.bootstrap import open_audit_store
from mcphost.cli.output import print_note
from mcphost.config.schema import AuditConfig
from mcphost.host.audit.audit_log import AuditLog
from mcphost.store.database import Database
from mcphost.store.grants import GrantStore


@asynccontextmanager
async def open_grants() -> AsyncGenerator[GrantStore]:
    """Approvals and grants of this user; what is wrong with the store is said on stderr."""
    async with open_grants_and_audit() as (grants, _):
        yield grants


@asynccontextmanager
async def open_grants_and_audit() -> AsyncGenerator[tuple[GrantStore, AuditLog]]:
    """The same for commands that change something, with the journal that records it."""
    database = Database(paths.database_file(), _print_store_error)
    journal = AuditLog(open_audit_store(database, _print_store_error), AuditConfig())
    try:
        yield GrantStore(database), journal
    finally:
        await journal.close()
        await database.close()


def _print_store_error(text: str, hint: str) -> None:
    print_note(f"{text} {hint}".strip())
