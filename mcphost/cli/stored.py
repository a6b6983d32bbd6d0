"""The store alone, for commands that look something up or approve something and start nothing."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from mcphost import paths
from mcphost.cli.compose import DATABASE
from mcphost.cli.printing import note
from mcphost.store.database import Database
from mcphost.store.grants import Grants


@asynccontextmanager
async def open_grants() -> AsyncGenerator[Grants]:
    """Approvals and grants of this user; what is wrong with the store is said on stderr."""
    database = Database(paths.data_dir() / DATABASE, lambda text, hint: note(f"{text} {hint}".strip()))
    try:
        yield Grants(database)
    finally:
        await database.close()
