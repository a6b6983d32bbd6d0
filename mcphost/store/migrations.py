"""Numbered steps that bring a database to the newest shape; each is applied once and recorded by name."""

import sqlite3
from collections.abc import Callable

Migration = Callable[[sqlite3.Connection], None]


def m001_first(db: sqlite3.Connection) -> None:
    """Conversations, their messages and drafts, grants, trust, eras."""
    _each(
        db,
        """
        CREATE TABLE conversations (
            id TEXT PRIMARY KEY, title TEXT NOT NULL, model TEXT NOT NULL,
            created REAL NOT NULL, updated REAL NOT NULL
        ) STRICT;
        CREATE INDEX conversations_updated ON conversations (updated);
        CREATE TABLE messages (
            conversation TEXT NOT NULL REFERENCES conversations (id) ON DELETE CASCADE,
            seq INTEGER NOT NULL, body BLOB NOT NULL,
            PRIMARY KEY (conversation, seq)
        ) STRICT, WITHOUT ROWID;
        CREATE TABLE drafts (
            conversation TEXT PRIMARY KEY REFERENCES conversations (id) ON DELETE CASCADE, body BLOB NOT NULL
        ) STRICT;
        CREATE TABLE grants (
            id INTEGER PRIMARY KEY, server TEXT NOT NULL, server_digest TEXT NOT NULL,
            tool TEXT NOT NULL, tool_digest TEXT NOT NULL, created REAL NOT NULL,
            UNIQUE (server, tool)
        ) STRICT;
        CREATE TABLE trust (
            server TEXT NOT NULL, digest TEXT NOT NULL, description TEXT NOT NULL, created REAL NOT NULL,
            PRIMARY KEY (server)
        ) STRICT;
        CREATE TABLE eras (digest TEXT PRIMARY KEY, era TEXT NOT NULL, at REAL NOT NULL) STRICT;
        """,
    )


def m002_tasks(db: sqlite3.Connection) -> None:
    """Tasks of servers that were not over when last heard of."""
    _each(
        db,
        """
        CREATE TABLE tasks (
            server TEXT NOT NULL, digest TEXT NOT NULL, task TEXT NOT NULL, tool TEXT NOT NULL,
            conversation TEXT NOT NULL, expires REAL, created REAL NOT NULL, owner INTEGER NOT NULL,
            PRIMARY KEY (digest, task)
        ) STRICT;
        """,
    )


def _each(db: sqlite3.Connection, script: str) -> None:
    # Connection.executescript would commit the transaction that keeps a step whole.
    for statement in script.split(";"):
        if statement.strip():
            db.execute(statement)


MIGRATIONS: tuple[tuple[str, Migration], ...] = (("001_first", m001_first), ("002_tasks", m002_tasks))


def migrate(db: sqlite3.Connection) -> None:
    """Apply what is missing, each step in its own transaction. Raises LookupError when a newer mcphost was here."""
    db.execute("CREATE TABLE IF NOT EXISTS migrations (name TEXT PRIMARY KEY, at REAL NOT NULL) STRICT")
    done = {name for (name,) in db.execute("SELECT name FROM migrations")}
    unknown = done - {name for name, _ in MIGRATIONS}
    if unknown:
        raise LookupError(", ".join(sorted(unknown)))
    for name, step in MIGRATIONS:
        if name in done:
            continue
        db.execute("BEGIN IMMEDIATE")
        # Another process may have migrated while we waited for the lock.
        if db.execute("SELECT 1 FROM migrations WHERE name = ?", (name,)).fetchone():
            db.execute("ROLLBACK")
            continue
        try:
            _apply(db, name, step)
        except BaseException:
            if db.in_transaction:
                db.execute("ROLLBACK")
            raise


def _apply(db: sqlite3.Connection, name: str, step: Migration) -> None:
    step(db)
    db.execute("INSERT INTO migrations VALUES (?, unixepoch())", (name,))
    db.execute("COMMIT")
