"""The tool calls in progress, which the user can watch and cancel one by one."""

from collections.abc import Generator
from contextlib import contextmanager

import anyio

from mcphost.client.timeouts import Stopwatch, measure_seconds, stopwatches
from mcphost.errors import McpHostError
from mcphost.host.events import ToolProgress
from mcphost.serialization import Struct

CANCELLED_TEXT = "The user cancelled this call before its result arrived; it may have had effects."


class RunningCallCancelled(McpHostError):
    """Raised in a running call that the user cancelled, after the server was notified."""

    exit_code = 5
    kind = "declined"


class RunningCall(Struct, frozen=True, kw_only=True):
    """Snapshot of a tool call in progress.

    - `by`: what approved the call, as in `ToolStarted.by`.
    - `started_at`, `paused_at`: see `Stopwatch`.
    - `task_id`: the id of the MCP task that the server created for the call, "" for none.
    - `is_in_background`: whether no turn is waiting for the call.
    """

    call: str
    server: str
    tool: str
    by: str
    started_at: float
    paused_at: float = 0.0
    progress: ToolProgress | None = None
    task_id: str = ""
    is_in_background: bool = False

    @property
    def seconds(self) -> float:
        """The running time so far, excluding the time during which a question to the user was open."""
        return measure_seconds(self.started_at, self.paused_at)


class ActiveCall:
    """Handle that the code running a tool call uses to report progress."""

    def __init__(self, call: str, server: str, tool: str, by: str) -> None:
        self._call, self._server, self._tool, self._by = call, server, tool, by
        self.stopwatch = Stopwatch()
        self.progress: ToolProgress | None = None
        self.task_id = ""
        self.is_in_background = False
        self.place = 0
        """The number by which running calls are sorted in lists."""

        self.scope = anyio.CancelScope()

    def view(self) -> RunningCall:
        """Return a snapshot of the call."""
        return RunningCall(
            call=self._call,
            server=self._server,
            tool=self._tool,
            by=self._by,
            started_at=self.stopwatch.started_at,
            paused_at=self.stopwatch.paused_at,
            progress=self.progress,
            task_id=self.task_id,
            is_in_background=self.is_in_background,
        )


class RunningCalls:
    """Registry of the tool calls in progress: calls by the model, calls by the user, and resumed tasks."""

    def __init__(self) -> None:
        self._calls: dict[str, ActiveCall] = {}
        self._places: dict[str, int] = {}
        self._count = 0

    def reserve_place(self, call: str) -> None:
        """Reserve the next place in the list of running calls for a call that the model proposed.

        The list then has the order of the transcript, even if the call waits for the user before it runs. Call
        `free_place` when the call has ended.
        """
        self._count += 1
        self._places.setdefault(call, self._count)

    def free_place(self, call: str) -> None:
        """Release the place that `reserve_place` reserved, when the call has ended or was not sent."""
        self._places.pop(call, None)

    def __len__(self) -> int:
        return len(self._calls)

    @contextmanager
    def track(self, call: str, server: str, tool: str, by: str) -> Generator[ActiveCall]:
        """Return a context manager that lists a call as running; *call* is the id used in the call's events.

        *by* identifies what approved the call, as in `ToolStarted.by`. If the user cancels the call, the `with` block
        is cancelled, and RunningCallCancelled is raised at its end.
        """
        active = ActiveCall(call, server, tool, by)
        self._count += 1
        active.place = self._places.get(call, self._count)
        self._calls[call] = active
        token = stopwatches.set((*stopwatches.get(), active.stopwatch))
        try:
            with active.scope:
                yield active
        finally:
            stopwatches.reset(token)
            if self._calls.get(call) is active:
                del self._calls[call]
        if active.scope.cancelled_caught:
            raise RunningCallCancelled("You cancelled the call.", "It may have had effects.")

    def list(self) -> tuple[RunningCall, ...]:
        """Return the running calls in the order in which they were proposed by the model or sent by the user."""
        return tuple(active.view() for active in sorted(self._calls.values(), key=lambda active: active.place))

    def find_seconds(self, call: str) -> float | None:
        """Return the running time of the call with this id, as in `RunningCall.seconds`; None if it is not running."""
        active = self._calls.get(call)
        return None if active is None else active.stopwatch.seconds

    def is_running(self, call: str) -> bool:
        """Return whether the call with this id is running."""
        return call in self._calls

    def mark_background(self, call: str) -> None:
        """Mark a running call as one that continues in the background."""
        self._calls[call].is_in_background = True

    def cancel(self, call: str) -> bool:
        """Cancel a running call at the user's request, without waiting; return False if it is not running."""
        active = self._calls.get(call)
        if active is None:
            return False
        active.scope.cancel()
        return True
