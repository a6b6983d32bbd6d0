"""MCP tasks that outlive their tool call: stored until they end, and resumed after a reconnect.

Specification: SEP-2663, task polling ("persist task IDs"). A task that ends in this run is deleted from the store. If
mcphost or the connection ends first, the next connection to the same server requests the task's result.
"""

import itertools
import os
import time

import anyio

from mcphost.client.session import Session
from mcphost.errors import ConnectionLost, McpHostError, RequestTimeout, StoreError
from mcphost.host.active_conversation import ActiveConversation
from mcphost.host.event_bus import EventBus
from mcphost.host.events import CallOutcome, ToolFinished, ToolProgress, ToolStarted
from mcphost.host.lifetime import Lifetime
from mcphost.host.servers.running_calls import RunningCallCancelled, RunningCalls
from mcphost.protocol.base import Notification
from mcphost.protocol.notifications import ProgressNotification
from mcphost.protocol.tasks import CancelTask, ResumeTask, Task, TaskStatusNotification
from mcphost.serialization import Struct, replace
from mcphost.store.tasks import StoredTask, TaskRecord, TaskStore

STATUS_LIMIT = 1_000
RESUME_SECONDS = 0.25
CANCEL_SECONDS = 2.0


class ProgressTracker:
    """Converter from one tool call's notifications to progress events.

    A task status has a message, but does not state the progress and its total. The event for a task status therefore
    repeats the progress and total of the previous event.
    """

    def __init__(self, call: str, server: str) -> None:
        self._last_progress = ToolProgress(call, server, 0)

    def to_event(self, notification: Notification) -> ToolProgress | None:
        """Return the event for a progress or task status notification, or None for any other."""
        if isinstance(notification, ProgressNotification):
            self._last_progress = replace(
                self._last_progress,
                progress=notification.progress,
                total=notification.total,
                message=notification.message or "",
            )
        elif isinstance(notification, TaskStatusNotification):
            message = notification.task.status_message or notification.task.status
            self._last_progress = replace(self._last_progress, message=message[:STATUS_LIMIT])
        else:
            return None
        return self._last_progress


class TrackedTask:
    """Tracker of the task that a server may create for one tool call."""

    def __init__(self, registry: "OrphanedTasks", task: StoredTask) -> None:
        self._registry = registry
        self._task = task

    def update(self, task: Task) -> None:
        """Store the task when its id is first reported, and again if it gains or loses an expiry time."""
        if task.is_terminal:
            return
        lifetime = task.ttl_seconds
        before = self._task
        if before.task_id and (lifetime is None) == (before.expires is None):
            return
        expires = None if lifetime is None else time.time() + lifetime
        self._task = replace(before, task_id=task.task_id, expires=expires)
        self._registry.save(self._task)

    def finish(self, error: BaseException | None) -> None:
        """Stop tracking; *error* is the exception that ended the tool call, None for success.

        After ConnectionLost, the task continues on the server and is kept in the store; otherwise it is deleted from
        the store.
        """
        if self._task.task_id:
            self._registry.release(self._task, forget=not isinstance(error, ConnectionLost))


class OrphanedTask(Struct, frozen=True, kw_only=True):
    """A stored task whose result this process is not waiting for.

    `record` contains, for example, the creation time of the task. `is_followed_elsewhere` means that another
    running mcphost process is waiting for the result.
    """

    record: TaskRecord
    is_followed_elsewhere: bool = False


class OrphanedTasks:
    """Registry of the stored tasks of all servers, which resumes orphaned tasks.

    A task is orphaned if the connection or the mcphost process that created it has ended.
    """

    def __init__(
        self,
        stored_tasks: TaskStore,
        events: EventBus,
        conversation: ActiveConversation,
        lifetime: Lifetime,
        running_calls: RunningCalls,
    ) -> None:
        self._stored_tasks = stored_tasks
        self._running_calls = running_calls
        self._events = events
        self._conversation = conversation
        self._lifetime = lifetime
        self._active_tasks: set[tuple[str, str]] = set()
        self._pending_writes: dict[tuple[str, str], StoredTask | None] = {}  # None deletes the task
        self._is_writing = False
        self._numbers = itertools.count(1)
        self.is_resuming_enabled = False
        """Whether this run resumes tasks and shows their results; otherwise they are left for a later run."""

    def track(self, server: str, digest: str, tool: str) -> TrackedTask:
        """Return a task tracker for a tool call that is about to be sent.

        *digest* identifies the server and its account (see `ServerConnection.identity`).
        """
        return TrackedTask(self, StoredTask(server, digest, "", tool, self._conversation.id))

    def save(self, task: StoredTask) -> None:
        """Mark the task as one that this process is waiting for, and queue it for storing. Does not wait."""
        self._active_tasks.add((task.server_digest, task.task_id))
        self._queue_write(task, task)

    def release(self, task: StoredTask, *, forget: bool) -> None:
        """Mark the task as no longer waited for; if *forget* is true, also delete it from the store. Does not wait."""
        self._active_tasks.discard((task.server_digest, task.task_id))
        if forget:
            self._queue_write(task, None)

    async def list_orphaned(self) -> tuple[OrphanedTask, ...]:
        """Return the stored tasks whose results this process is not waiting for, oldest first. Raises StoreError."""
        records = await self._stored_tasks.list_all()
        return tuple(
            OrphanedTask(record=record, is_followed_elsewhere=record.owner != os.getpid() and _is_alive(record.owner))
            for record in records
            if (record.task.server_digest, record.task.task_id) not in self._active_tasks
        )

    async def forget(self, task: StoredTask) -> None:
        """Delete a stored task, so that no later run requests its result; the server still completes the task.

        Raises StoreError.
        """
        await self._stored_tasks.delete(task.server_digest, task.task_id)

    async def resume(self, digest: str, session: Session) -> None:
        """Resume the orphaned tasks of the server with this digest.

        Returns when the tasks or the session have ended. Tasks whose result another running mcphost process is waiting
        for are left alone. Never raises an error. On cancellation, tasks that have not ended are kept in the store for
        a later run. The stored tasks are read after a short delay, because other servers use the store during startup.
        """
        if not self.is_resuming_enabled:
            return
        await anyio.sleep(RESUME_SECONDS)
        try:
            claimed = await self._stored_tasks.claim(digest, os.getpid(), _is_alive)
        except StoreError as error:
            self._events.report_error(error)
            return
        orphaned = [task for task in claimed if (task.server_digest, task.task_id) not in self._active_tasks]
        async with anyio.create_task_group() as group:
            for task in orphaned:
                self._active_tasks.add((task.server_digest, task.task_id))
                group.start_soon(self._resume_task, session, task)

    async def _resume_task(self, session: Session, task: StoredTask) -> None:
        call = f"left-{next(self._numbers)}"
        progress = ProgressTracker(call, task.server)
        began = time.monotonic()

        def on_notification(notification: Notification) -> None:
            event = progress.to_event(notification)
            if event is not None:
                active.progress = event
                self._events.publish(event)

        def finish(outcome: CallOutcome, text: str) -> None:
            seconds = time.monotonic() - began
            self._events.publish(ToolFinished(call, task.server, task.tool, outcome, text, seconds))

        self._events.publish(ToolStarted(call, task.server, task.tool, {}, "earlier"))
        forget = False
        try:
            with self._running_calls.track(call, task.server, task.tool, "earlier") as active:
                active.task_id = task.task_id
                result = await session.request(ResumeTask(task.task_id, task.tool), on_notification=on_notification)
        except RunningCallCancelled:
            forget = True
            finish("stopped", "Cancelled; the server was asked to end it.")
            await _cancel_at_server(session, task)
        except McpHostError as error:
            forget = not isinstance(error, ConnectionLost | RequestTimeout)
            finish("failed", error.message)
        except BaseException:
            finish("stopped", "It continues on the server; the next run resumes it.")
            raise
        else:
            forget = True
            from mcphost.host.content_rendering import render  # loaded with the first result

            finish("error" if result.is_error else "ok", render(result).text)
        finally:
            self.release(task, forget=forget)

    def _queue_write(self, task: StoredTask, state: StoredTask | None) -> None:
        """Queue the newest *state* of a task for writing; None deletes the task from the store.

        Older queued states of the task are replaced, because a server may report thousands of changes a second.
        """
        self._pending_writes[(task.server_digest, task.task_id)] = state
        if not self._is_writing:
            self._is_writing = True
            self._lifetime.start_soon(self._write, name="keep tasks")

    async def _write(self) -> None:
        try:
            while self._pending_writes:
                digest, task_id = next(iter(self._pending_writes))
                state = self._pending_writes.pop((digest, task_id))
                try:
                    if state is None:
                        await self._stored_tasks.delete(digest, task_id)
                    else:
                        await self._stored_tasks.save(state, os.getpid())
                except StoreError as error:
                    self._events.report_error(error)
        finally:
            self._is_writing = False


async def _cancel_at_server(session: Session, task: StoredTask) -> None:
    """Request cancellation of a task; wait at most two seconds for the response and ignore errors."""
    with anyio.move_on_after(CANCEL_SECONDS):
        try:
            await session.request(CancelTask(task.task_id))
        except McpHostError:
            return


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True  # owned by another user
    return True
