"""Storage of the tools that the user switched off; the model does not see them in later runs."""

import sqlite3
import time

from mcphost.store.database import Database

MAX_ROWS = 20_000


class ToolToggleStore:
    """Disabled tools by server name. Every method may raise StoreError."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def load_disabled(self) -> tuple[tuple[str, str], ...]:
        """Return server and tool name of each disabled tool, newest first, at most 20,000."""

        def work(db: sqlite3.Connection) -> list[tuple[str, str]]:
            return db.execute("SELECT server, tool FROM switches ORDER BY at DESC LIMIT ?", (MAX_ROWS,)).fetchall()

        return tuple(await self._database.run(work))

    async def save(self, server: str, tool: str, *, enabled: bool) -> None:
        """Store whether a tool is enabled."""

        def work(db: sqlite3.Connection) -> None:
            db.execute("DELETE FROM switches WHERE server = ? AND tool = ?", (server, tool))
            if not enabled:
                db.execute("INSERT INTO switches (server, tool, at) VALUES (?, ?, ?)", (server, tool, time.time()))

        await self._database.run(work)
