"""Tasks that outlive the call that began them: kept until they are over, followed again when their server is back.

Specification: SEP-2663, task polling ("persist task IDs"). A task that was ended here is forgotten; one that was cut
off, because this program or the connection died, is asked for its result by the next connection to the same server.
"""

import itertools
import os
import time
from collections.abc import Callable

import anyio
from anyio.abc import TaskGroup

from mcphost.client.session import Session
from mcphost.errors import ConnectionLost, DeadlinePassed, McpHostError, StoreError
from mcphost.host.event_queue import Feeds
from mcphost.host.events import ToolFinished, ToolProgress, ToolStarted
from mcphost.protocol.base import Notice
from mcphost.protocol.notifications import Progress
from mcphost.protocol.tasks import ResumeTask, Task, TaskChanged
from mcphost.serialization import replace
from mcphost.store.tasks import StoredTask, StoredTasks

STATUS_LIMIT = 1_000
RESUME_SECONDS = 0.25


class Progressing:
    """What a call's notices come to as events; a task tells by words, and numbers stay where they were put last."""

    def __init__(self, call: str, server: str) -> None:
        self._last = ToolProgress(call, server, 0)

    def event(self, notice: Notice) -> ToolProgress | None:
        """The event, if it is about how far the call is."""
        if isinstance(notice, Progress):
            self._last = replace(self._last, progress=notice.progress, total=notice.total, message=notice.message or "")
        elif isinstance(notice, TaskChanged):
            said = notice.task.status_message or notice.task.status
            self._last = replace(self._last, message=said[:STATUS_LIMIT])
        else:
            return None
        return self._last


class Kept:
    """The task behind one call, if it ever has one."""

    def __init__(self, left: "LeftTasks", task: StoredTask) -> None:
        self._left = left
        self._task = task

    def heard(self, task: Task) -> None:
        """Its state; kept from the first word on, and anew when its lifetime changed."""
        if task.is_over:
            return
        lifetime = task.lifetime
        before = self._task
        if before.task and (lifetime is None) == (before.expires is None):
            return
        expires = None if lifetime is None else time.time() + lifetime
        self._task = replace(before, task=task.task_id, expires=expires)
        self._left.remember(self._task)

    def over(self, error: BaseException | None) -> None:
        """The call ended. What was only cut off goes on at the server, and stays kept."""
        if self._task.task:
            self._left.released(self._task, forget=not isinstance(error, ConnectionLost))


class LeftTasks:
    """The kept tasks of all servers. `chat` is the id of the open conversation; `tell` hears of a store that fails."""

    def __init__(
        self, stored: StoredTasks, feeds: Feeds, chat: Callable[[], str], tell: Callable[[StoreError], None]
    ) -> None:
        self._stored = stored
        self._feeds = feeds
        self._chat = chat
        self._tell = tell
        self._group: TaskGroup | None = None
        self._followed: set[tuple[str, str]] = set()
        self._due: dict[tuple[str, str], StoredTask | None] = {}  # what to write of each task; None: forget it
        self._is_writing = False
        self._numbers = itertools.count(1)
        self.shown = False
        """Whether somebody sees what comes of them; otherwise they are left for a run where somebody does."""

    def own(self, tasks: TaskGroup) -> None:
        """The group in which the store is written."""
        self._group = tasks

    def begin(self, server: str, digest: str, tool: str) -> Kept:
        """A call is about to be sent."""
        return Kept(self, StoredTask(server, digest, "", tool, self._chat()))

    def remember(self, task: StoredTask) -> None:
        """Keep it; returns at once."""
        self._followed.add((task.digest, task.task))
        self._put(task, task)

    def released(self, task: StoredTask, *, forget: bool) -> None:
        """Nobody here follows it any more; returns at once."""
        self._followed.discard((task.digest, task.task))
        if forget:
            self._put(task, None)

    async def resume(self, digest: str, session: Session) -> None:
        """Follow what was left at this server, each to its end or that of the session. Raises only cancellation.

        It begins a moment later, so that the store has little to do while other servers start.
        """
        if not self.shown:
            return
        await anyio.sleep(RESUME_SECONDS)
        try:
            left = await self._stored.claim(digest, os.getpid(), _lives)
        except StoreError as error:
            self._tell(error)
            return
        free = [task for task in left if (task.digest, task.task) not in self._followed]
        async with anyio.create_task_group() as group:
            for task in free:
                self._followed.add((task.digest, task.task))
                group.start_soon(self._follow, session, task)

    async def _follow(self, session: Session, task: StoredTask) -> None:
        call = f"left-{next(self._numbers)}"
        progress = Progressing(call, task.server)
        began = time.monotonic()

        def heard(notice: Notice) -> None:
            event = progress.event(notice)
            if event is not None:
                self._feeds.put(event)

        def finish(outcome: str, text: str) -> None:
            seconds = time.monotonic() - began
            self._feeds.put(ToolFinished(call, task.server, task.tool, outcome, text, seconds))  # pyright: ignore[reportArgumentType]

        self._feeds.put(ToolStarted(call, task.server, task.tool, {}, "earlier"))
        forget = False
        try:
            result = await session.request(ResumeTask(task.task, task.tool), on_notice=heard)
        except McpHostError as error:
            forget = not isinstance(error, ConnectionLost | DeadlinePassed)
            finish("failed", error.message)
        except BaseException:
            finish("stopped", "It goes on at the server; the next run asks for it again.")
            raise
        else:
            forget = True
            from mcphost.host.results.presentation import render  # loaded with the first result

            finish("error" if result.is_error else "ok", render(result).text)
        finally:
            self.released(task, forget=forget)

    def _put(self, task: StoredTask, state: StoredTask | None) -> None:
        """Have the newest state of a task written; a server may tell of another one thousands of times a second."""
        self._due[(task.digest, task.task)] = state
        if self._group is not None and not self._is_writing:
            self._is_writing = True
            self._group.start_soon(self._write, name="keep tasks")

    async def _write(self) -> None:
        try:
            while self._due:
                digest, ident = next(iter(self._due))
                state = self._due.pop((digest, ident))
                try:
                    if state is None:
                        await self._stored.forget(digest, ident)
                    else:
                        await self._stored.keep(state, os.getpid())
                except StoreError as error:
                    self._tell(error)
        finally:
            self._is_writing = False


def _lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True  # it is somebody else's
    return True
