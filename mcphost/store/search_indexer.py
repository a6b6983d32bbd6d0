"""Indexing of stored messages for search, in small steps."""

import sqlite3

from mcphost.errors import StoreError
from mcphost.store.database import Database

_HAS_INDEX = "SELECT 1 FROM sqlite_master WHERE name = 'search_index'"


class SearchIndexer:
    """Indexer for stored messages that are not in the search index yet; a damaged index is rebuilt."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def index_piece(self) -> bool:
        """Index some of the messages that are not indexed yet; return whether there may be more. Raises StoreError."""

        def work(db: sqlite3.Connection) -> bool:
            if not has_index(db) or not has_pending(db):
                return False
            from mcphost.store import search_index  # seldom needed, and this runs at each start

            pending = search_index.next_pending(db)
            if pending is not None:
                search_index.index_piece(db, pending)
            return pending is not None

        try:
            return await self._database.run(work)
        except StoreError as error:
            if not is_damage(error.__cause__):
                raise
        from mcphost.store import search_index

        await self._database.run(search_index.rebuild)
        return True


def has_index(db: sqlite3.Connection) -> bool:
    """Return whether the full-text index exists; False if SQLite lacks FTS5."""
    return db.execute(_HAS_INDEX).fetchone() is not None


def has_pending(db: sqlite3.Connection) -> bool:
    """Return whether some conversations are not completely indexed yet."""
    return db.execute("SELECT 1 FROM search_pending LIMIT 1").fetchone() is not None


def is_damage(error: BaseException | None) -> bool:
    """Return whether an error from SQLite indicates that the index is damaged."""
    return isinstance(error, sqlite3.DatabaseError) and getattr(error, "sqlite_errorcode", 0) & 0xFF in (
        sqlite3.SQLITE_CORRUPT,
        sqlite3.SQLITE_CONSTRAINT,  # FTS5 reports a number that is already in use
    )
