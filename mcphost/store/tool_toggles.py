"""Saves which tools the user switched off, so that the model is not told of them in later runs either."""

import sqlite3
import time

from mcphost.store.database import Database

MAX_ROWS = 20_000


class ToolToggleStore:
    """Tools by the name of their server. Every method raises StoreError."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def load_disabled(self) -> tuple[tuple[str, str], ...]:
        """Server and tool of each that is off; at most 20,000, the newest."""

        def work(db: sqlite3.Connection) -> list[tuple[str, str]]:
            return db.execute("SELECT server, tool FROM switches ORDER BY at DESC LIMIT ?", (MAX_ROWS,)).fetchall()

        return tuple(await self._database.run(work))

    async def save(self, server: str, tool: str, *, enabled: bool) -> None:
        """From now on it is on, or off."""

        def work(db: sqlite3.Connection) -> None:
            db.execute("DELETE FROM switches WHERE server = ? AND tool = ?", (server, tool))
            if not enabled:
                db.execute("INSERT INTO switches (server, tool, at) VALUES (?, ?, ?)", (server, tool, time.time()))

        await self._database.run(work)
