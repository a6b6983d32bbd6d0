"""Tasks of servers that were not over when last heard of, so that a later run can ask for their results."""

import sqlite3
import time
from collections.abc import Callable

from mcphost.serialization import Struct
from mcphost.store.database import Database

KEPT = 100
KEPT_SECONDS = 30 * 24 * 3_600.0


class StoredTask(Struct, frozen=True):
    """One task: where (bound to the digest, since an id may be all that another server needs), for what, from when.

    `expires` is when its server may forget it, in seconds since the epoch; None when it did not say.
    """

    server: str
    digest: str
    task: str
    tool: str
    conversation: str = ""
    expires: float | None = None


class StoredTasks:
    """The tasks in the database, each owned by the process that follows it."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def keep(self, task: StoredTask, owner: int) -> None:
        """Remember a task, or what is new of it; the oldest beyond 100 of a server go. Raises StoreError."""

        def work(db: sqlite3.Connection) -> None:
            db.execute(
                "INSERT INTO tasks (server, digest, task, tool, conversation, expires, created, owner)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
                " ON CONFLICT (digest, task) DO UPDATE SET expires = excluded.expires, owner = excluded.owner",
                (task.server, task.digest, task.task, task.tool, task.conversation, task.expires, time.time(), owner),
            )
            db.execute(
                "DELETE FROM tasks WHERE digest = ?1 AND task NOT IN"
                " (SELECT task FROM tasks WHERE digest = ?1 ORDER BY created DESC LIMIT ?2)",
                (task.digest, KEPT),
            )

        await self._database.run(work)

    async def forget(self, digest: str, task: str) -> None:
        """It is over. Raises StoreError."""
        await self._database.run(
            lambda db: db.execute("DELETE FROM tasks WHERE digest = ? AND task = ?", (digest, task))
        )

    async def claim(self, digest: str, owner: int, lives: Callable[[int], bool]) -> tuple[StoredTask, ...]:
        """The tasks that nobody else follows, which `owner` does from now on; expired ones go. Raises StoreError.

        `lives` says whether a process is still there; it is called on the store's thread.
        """

        def work(db: sqlite3.Connection) -> tuple[StoredTask, ...]:
            now = time.time()
            db.execute("DELETE FROM tasks WHERE expires < ? OR created < ?", (now, now - KEPT_SECONDS))
            rows = db.execute(
                "SELECT server, digest, task, tool, conversation, expires, owner FROM tasks WHERE digest = ?"
                " ORDER BY created",
                (digest,),
            ).fetchall()
            free = [row for row in rows if row[-1] == owner or not lives(row[-1])]
            for row in free:
                db.execute("UPDATE tasks SET owner = ? WHERE digest = ? AND task = ?", (owner, digest, row[2]))
            return tuple(StoredTask(*row[:-1]) for row in free)

        return await self._database.run(work)
