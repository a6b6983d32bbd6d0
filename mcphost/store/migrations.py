"""Numbered migrations of the database schema, each of which is applied once and recorded by name."""

import re
import sqlite3
from collections.abc import Callable
from functools import partial

Migration = Callable[[sqlite3.Connection], None]
Migrations = tuple[tuple[str, Migration], ...]


def _run_step(name: str, db: sqlite3.Connection) -> None:
    from mcphost.store import migration_steps  # not needed for a database that is up to date

    getattr(migration_steps, f"m{name}")(db)


_NAMES = (
    "001_first",
    "002_tasks",
    "003_grants",
    "005_pins",
    "006_folders",
    "007_turned",
    "008_switches",
    "009_folder_answers",
    "010_branches",
    "011_compactions",
    "012_spending",
    "013_search",
    "014_conversation_details",
    "015_system_prompts",
    "016_character_labels",
    "017_recorded_results",
    "018_pinned_tools",
    "019_cache_savings",
    "020_manual_calls",
    "021_accepted_from",
    "022_page_results",
)
MIGRATIONS: Migrations = tuple((name, partial(_run_step, name)) for name in _NAMES)


_NAME = re.compile(r"\d{3}_\w{1,80}", re.ASCII)


def migrate(db: sqlite3.Connection, migrations: Migrations = MIGRATIONS) -> None:
    """Apply the missing migrations, each in its own transaction.

    Raises LookupError if the database has a migration that is unknown to this version of mcphost, and
    sqlite3.DatabaseError if the file is damaged.
    """
    db.execute("CREATE TABLE IF NOT EXISTS migrations (name TEXT PRIMARY KEY, at REAL NOT NULL) STRICT")
    applied = {name for (name,) in db.execute("SELECT name FROM migrations")}
    # The pages of a damaged file may be those of another table.
    if not all(isinstance(name, str) and _NAME.fullmatch(name) for name in applied):
        raise sqlite3.DatabaseError("the table of migrations contains other data")
    unknown = applied - {name for name, _ in migrations}
    if unknown:
        raise LookupError(", ".join(sorted(unknown)))
    for name, step in migrations:
        if name in applied:
            continue
        db.execute("BEGIN IMMEDIATE")
        # Another process may have applied it while this one waited for the lock.
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
