"""Indexing of stored messages for search, in small steps."""

import sqlite3

from mcphost.errors import StoreError
from mcphost.store import search_index
from mcphost.store.database import Database


class SearchIndexer:
    """Writer of the search index for messages that are not indexed yet; it recreates a damaged index."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def index_piece(self) -> bool:
        """Index some of the messages that are not indexed yet; return whether there may be more. Raises StoreError."""

        def work(db: sqlite3.Connection) -> bool:
            pending = search_index.next_pending(db) if search_index.has_index(db) else None
            if pending is not None:
                search_index.index_piece(db, pending)
            return pending is not None

        try:
            return await self._database.run(work)
        except StoreError as error:
            if not is_damage(error.__cause__):
                raise
        await self._database.run(search_index.rebuild)
        return True


def is_damage(error: BaseException | None) -> bool:
    """Return whether an error of SQLite means that the index is damaged."""
    return isinstance(error, sqlite3.DatabaseError) and getattr(error, "sqlite_errorcode", 0) & 0xFF in (
        sqlite3.SQLITE_CORRUPT,
        sqlite3.SQLITE_CONSTRAINT,  # FTS5 reports a number that is already in use
    )
