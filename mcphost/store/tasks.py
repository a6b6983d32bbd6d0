"""Storage of unfinished MCP tasks (long tool calls), so that a later run can fetch their results."""

import sqlite3
import time
from collections.abc import Callable

from mcphost.serialization import Struct
from mcphost.store.database import Database
from mcphost.store.valid_rows import INTEGER, NULL_OR_NUMBER, NUMBER, TEXT, valid_rows

MAX_TASKS_PER_SERVER = 100
MAX_LISTED_TASKS = 500
MAX_TASK_AGE = 30 * 24 * 3_600.0
_TASK_TYPES = (TEXT, TEXT, TEXT, TEXT, TEXT, NULL_OR_NUMBER)


class StoredTask(Struct, frozen=True):
    """An unfinished MCP task.

    - `server_digest`: the digest of the configuration of the task's server. Because of this digest, the task's id is
      never sent to another server.
    - `expires`: the time, in seconds since 1970, after which the server may delete the task, or None if unknown.
    """

    server: str
    server_digest: str
    task_id: str
    tool: str
    conversation_id: str = ""
    expires: float | None = None


class TaskRecord(Struct, frozen=True):
    """A stored MCP task with its creation time and owner.

    `created` is in seconds since 1970, and `owner` is the id of the process that polls the task.
    """

    task: StoredTask
    created: float
    owner: int


class TaskStore:
    """Store for unfinished MCP tasks, each owned by the process that polls it.

    Every method may raise StoreError.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    async def save(self, task: StoredTask, owner: int) -> None:
        """Insert or update a task; only the newest 100 tasks of each server are kept.

        *owner* is the id of the process that polls the task.
        """
        values = (
            task.server, task.server_digest, task.task_id, task.tool, task.conversation_id, task.expires, time.time(),
            owner,
        )  # fmt: skip

        def work(db: sqlite3.Connection) -> None:
            db.execute(
                "INSERT INTO tasks (server, digest, task, tool, conversation, expires, created, owner)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
                " ON CONFLICT (digest, task) DO UPDATE SET expires = excluded.expires, owner = excluded.owner",
                values,
            )
            db.execute(
                "DELETE FROM tasks WHERE digest = ?1 AND task NOT IN"
                " (SELECT task FROM tasks WHERE digest = ?1 ORDER BY created DESC LIMIT ?2)",
                (task.server_digest, MAX_TASKS_PER_SERVER),
            )

        await self._database.run(work)

    async def delete(self, server_digest: str, task_id: str) -> None:
        """Delete a server's stored task with this id, for example because the task has finished.

        *server_digest* identifies the server.
        """
        await self._database.run(
            lambda db: db.execute("DELETE FROM tasks WHERE digest = ? AND task = ?", (server_digest, task_id))
        )

    async def list_all(self) -> tuple[TaskRecord, ...]:
        """Return the unexpired tasks of all servers, oldest first, at most MAX_LISTED_TASKS."""

        def work(db: sqlite3.Connection) -> tuple[TaskRecord, ...]:
            now = time.time()
            rows = db.execute(
                "SELECT server, digest, task, tool, conversation, expires, created, owner FROM tasks"
                " WHERE (expires IS NULL OR expires >= ?) AND created >= ? ORDER BY created LIMIT ?",
                (now, now - MAX_TASK_AGE, MAX_LISTED_TASKS),
            )
            valid = valid_rows(rows, *_TASK_TYPES, NUMBER, INTEGER)
            return tuple(TaskRecord(StoredTask(*row[:-2]), *row[-2:]) for row in valid)

        return await self._database.run(work)

    async def claim(self, server_digest: str, owner: int, is_alive: Callable[[int], bool]) -> tuple[StoredTask, ...]:
        """Take over a server's tasks, except those owned by another running process, and return them.

        *owner* is the id of this process. *is_alive* is called on a worker thread with the id of a process, and
        returns whether that process exists. Expired tasks are deleted first.
        """

        def work(db: sqlite3.Connection) -> tuple[StoredTask, ...]:
            now = time.time()
            db.execute("DELETE FROM tasks WHERE expires < ? OR created < ?", (now, now - MAX_TASK_AGE))
            rows = db.execute(
                "SELECT server, digest, task, tool, conversation, expires, owner FROM tasks WHERE digest = ?"
                " ORDER BY created",
                (server_digest,),
            )
            valid = list(valid_rows(rows, *_TASK_TYPES, INTEGER))
            free = [row for row in valid if row[-1] == owner or not is_alive(row[-1])]
            for row in free:
                db.execute("UPDATE tasks SET owner = ? WHERE digest = ? AND task = ?", (owner, server_digest, row[2]))
            return tuple(StoredTask(*row[:-1]) for row in free)

        return await self._database.run(work)
