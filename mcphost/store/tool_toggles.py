"""Storage of the tools that the user disabled or pinned."""

import sqlite3
import time
from typing import NamedTuple

from mcphost.store.database import Database
from mcphost.store.valid_rows import TEXT, valid_rows

MAX_ROWS = 20_000


class StoredToggles(NamedTuple):
    """The tools that the user disabled or pinned, as pairs of server name and tool name.

    Pinned tools are sent with every model request.
    """

    disabled: tuple[tuple[str, str], ...] = ()
    pinned: tuple[tuple[str, str], ...] = ()


class ToolToggleStore:
    """Store for the tools that the user disabled or pinned; every method may raise StoreError."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def load(self) -> StoredToggles:
        """Return the disabled and the pinned tools, newest first, at most 20,000 of each.

        Both lists are read in one database call, because the startup of servers waits for the result.
        """

        def work(db: sqlite3.Connection) -> StoredToggles:
            return StoredToggles(disabled=_read_tools(db, "switches"), pinned=_read_tools(db, "pinned_tools"))

        return await self._database.run(work)

    async def save(self, server: str, tool: str, *, enabled: bool) -> None:
        """Store whether a tool is enabled."""
        await self._save("switches", server, tool, is_listed=not enabled)

    async def save_pinned(self, server: str, tool: str, *, pinned: bool) -> None:
        """Store whether a tool is pinned."""
        await self._save("pinned_tools", server, tool, is_listed=pinned)

    async def _save(self, table: str, server: str, tool: str, *, is_listed: bool) -> None:
        def work(db: sqlite3.Connection) -> None:
            db.execute(f"DELETE FROM {table} WHERE server = ? AND tool = ?", (server, tool))  # noqa: S608
            if is_listed:
                query = f"INSERT INTO {table} (server, tool, at) VALUES (?, ?, ?)"  # noqa: S608
                db.execute(query, (server, tool, time.time()))

        await self._database.run(work)


def _read_tools(db: sqlite3.Connection, table: str) -> tuple[tuple[str, str], ...]:
    query = f"SELECT server, tool FROM {table} ORDER BY at DESC LIMIT ?"  # noqa: S608
    return tuple((server, tool) for server, tool in valid_rows(db.execute(query, (MAX_ROWS,)), TEXT, TEXT))
