"""Tests for stored tasks: which process follows them, how long they are kept, and how many."""

import sqlite3
import time
from pathlib import Path

import pytest

from mcphost.store import tasks
from mcphost.store.database import Database
from mcphost.store.tasks import StoredTask, TaskStore

pytestmark = pytest.mark.anyio
US, OTHER = 10, 11
DIG = StoredTask("mine", "d", "t-1", "dig", "c")


@pytest.fixture
def database(tmp_path: Path) -> Database:
    return Database(tmp_path / "store.db")


async def test_a_task_belongs_to_its_follower_while_that_process_lives(database: Database) -> None:
    stored = TaskStore(database)
    await stored.save(DIG, OTHER)
    assert await stored.claim("d", US, lambda process: process == OTHER) == ()
    assert await stored.claim("another server", US, lambda process: False) == ()
    assert await stored.claim("d", US, lambda process: False) == (DIG,)
    assert await stored.claim("d", OTHER, lambda process: process == US) == ()
    assert await stored.claim("d", US, lambda process: True) == (DIG,)
    await stored.delete("d", "t-1")
    assert await stored.claim("d", US, lambda process: False) == ()


@pytest.mark.req("task.ext.persist")
async def test_tasks_survive_the_process(tmp_path: Path) -> None:
    first = Database(tmp_path / "store.db")
    await TaskStore(first).save(DIG, OTHER)
    await first.close()
    assert await TaskStore(Database(tmp_path / "store.db")).claim("d", US, lambda process: False) == (DIG,)


async def test_tasks_that_the_server_may_have_forgotten_and_very_old_ones_are_deleted(database: Database) -> None:
    stored = TaskStore(database)
    now = time.time()
    for number, expires in enumerate((now - 1, now + 60, None)):
        await stored.save(StoredTask("mine", "d", f"t-{number}", "dig", expires=expires), US)
    assert [item.task_id for item in await stored.claim("d", US, lambda process: True)] == ["t-1", "t-2"]
    await stored.save(StoredTask("mine", "d", "t-1", "dig", expires=now - 1), US)  # its lifetime changed

    def age(db: sqlite3.Connection) -> None:
        db.execute("UPDATE tasks SET created = ? WHERE task = 't-2'", (now - tasks.MAX_TASK_AGE - 1,))

    assert [item.task_id for item in await stored.claim("d", US, lambda process: True)] == ["t-2"]
    await database.run(age)
    assert await stored.claim("d", US, lambda process: True) == ()


async def test_a_server_has_a_hundred_at_most_and_the_newest_stay(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks, "MAX_TASKS_PER_SERVER", 3)
    stored = TaskStore(database)
    await stored.save(StoredTask("other", "e", "x", "dig"), US)
    for number in range(6):
        await stored.save(StoredTask("mine", "d", f"t-{number}", "dig"), US)
    assert [item.task_id for item in await stored.claim("d", US, lambda process: True)] == ["t-3", "t-4", "t-5"]
    assert len(await stored.claim("e", US, lambda process: True)) == 1
