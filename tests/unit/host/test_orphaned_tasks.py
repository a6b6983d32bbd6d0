"""Tests for tasks that outlive the call that started them, and for what is stored while a server runs them."""

from pathlib import Path
from types import SimpleNamespace

import anyio
import pytest

from mcphost.host.event_bus import EventBus
from mcphost.host.servers.orphaned_tasks import OrphanedTasks
from mcphost.host.servers.running_calls import RunningCalls
from mcphost.protocol.tasks import Task
from mcphost.store.database import Database
from mcphost.store.tasks import StoredTask, TaskStore

pytestmark = pytest.mark.anyio


class CountingTaskStore(TaskStore):
    """A task store on a real database that counts its writes."""

    writes = 0

    async def save(self, task: StoredTask, owner: int) -> None:
        self.writes += 1
        await super().save(task, owner)


async def test_endless_lifetime_updates_store_the_newest(tmp_path: Path) -> None:
    stored = CountingTaskStore(Database(tmp_path / "store.db"))
    async with anyio.create_task_group() as group:
        left = OrphanedTasks(stored, EventBus(), SimpleNamespace(id="c"), group, RunningCalls())  # type: ignore[arg-type]
        stored_task = left.track("mine", "d", "dig")
        for number in range(10_001):
            stored_task.update(Task(task_id="t-1", status="working", ttl=None if number % 2 else 60_000))
    assert stored.writes <= 2
    (task,) = await stored.claim("d", 1, lambda process: False)
    assert (task.task_id, task.expires is None) == ("t-1", False)


async def test_a_finished_task_is_forgotten_after_its_result(tmp_path: Path) -> None:
    stored = CountingTaskStore(Database(tmp_path / "store.db"))
    async with anyio.create_task_group() as group:
        left = OrphanedTasks(stored, EventBus(), SimpleNamespace(id="c"), group, RunningCalls())  # type: ignore[arg-type]
        task, other = left.track("mine", "d", "dig"), left.track("mine", "d", "dig")
        task.update(Task(task_id="t-1", status="working"))
        other.update(Task(task_id="t-2", status="working"))
        task.finish(None)
    assert [task.task_id for task in await stored.claim("d", 1, lambda process: False)] == ["t-2"]
