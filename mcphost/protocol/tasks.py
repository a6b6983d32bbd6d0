"""Messages for both versions of tasks: in revision 2025-11-25, and in the tasks extension.

The extension (SEP-2663) is used with revision 2026-07-28.
"""

from typing import Any, ClassVar

from mcphost.errors import MalformedMessage
from mcphost.protocol.base import ClientRequest, EmptyResult, Notification, PaginatedResult, Result, is_set
from mcphost.protocol.tools import CallToolResult, Tool
from mcphost.serialization import Raw, WireStruct, decode_or_none, encode

EXTENSION = "io.modelcontextprotocol/tasks"
RELATED_TASK = "io.modelcontextprotocol/related-task"
STATUS_NOTIFICATION = "notifications/tasks/status"
EXTENSION_NOTIFICATION = "notifications/tasks"
TASK_RESULT_TYPE = "task"

WORKING = "working"
INPUT_REQUIRED = "input_required"
COMPLETED = "completed"
FAILED = "failed"
CANCELLED = "cancelled"
TERMINAL_STATUSES = frozenset({COMPLETED, FAILED, CANCELLED})
STATUSES = TERMINAL_STATUSES | {WORKING, INPUT_REQUIRED}

TASK_SUPPORT_REQUIRED = "required"
ID_LIMIT = 1_000


class Task(Result, frozen=True):
    """The state of a task on a server or the client; durations are in milliseconds.

    Revision 2025-11-25 defines `ttl` and `poll_interval`; the tasks extension defines `ttl_ms` and `poll_interval_ms`.
    Only the extension defines `result` (of a completed task), `error` (of a failed task) and `input_requests` (of a
    task that requires input).
    """

    task_id: str = ""
    status: str = ""
    status_message: str | None = None
    created_at: str | None = None
    last_updated_at: str | None = None
    ttl: float | None = None
    poll_interval: float | None = None
    ttl_ms: float | None = None
    poll_interval_ms: float | None = None
    result: Raw = Raw()
    error: Raw = Raw()
    input_requests: Raw = Raw()

    @property
    def is_terminal(self) -> bool:
        """Whether the task has ended, so that its status no longer changes."""
        return self.status in TERMINAL_STATUSES

    @property
    def ttl_seconds(self) -> float | None:
        """Seconds from the task's creation until it may be deleted; None if there is no limit."""
        value = self.ttl_ms if self.ttl_ms is not None else self.ttl
        return value / 1000 if value is not None and value > 0 else None

    @property
    def poll_seconds(self) -> float | None:
        """The poll interval that the server requested, in seconds; None if it requested none."""
        value = self.poll_interval_ms if self.poll_interval_ms is not None else self.poll_interval
        return value / 1000 if value is not None and value > 0 else None


class CreateTaskResult(Result, frozen=True):
    """The response to a request that runs as a task (revision 2025-11-25): the task instead of a result."""

    task: Raw = Raw()


class TaskStatusNotification(Notification, frozen=True):
    """Notification that a tool call's task has changed; `task` is the task in its new state."""

    METHOD: ClassVar[str] = STATUS_NOTIFICATION
    task: Task


class GetTask(ClientRequest[Task], frozen=True):
    """The tasks/get request, which returns the current state of a task."""

    METHOD: ClassVar[str] = "tasks/get"
    RESULT: ClassVar[type[Any]] = Task
    task_id: str


class ResumeTask(ClientRequest[CallToolResult], frozen=True):
    """A request that waits for the result of an existing task by repeating tasks/get.

    `tool` is the tool whose call created the task. Cancelling this request does not cancel the task; a task is
    cancelled only if the call that created it is cancelled.
    """

    METHOD: ClassVar[str] = "tasks/get"
    RESULT: ClassVar[type[Any]] = CallToolResult
    task_id: str
    tool: str


class GetTaskResult(ClientRequest[Raw], frozen=True):
    """The tasks/result request (revision 2025-11-25), which returns the result of a task.

    The server responds when the task has ended.
    """

    METHOD: ClassVar[str] = "tasks/result"
    RESULT: ClassVar[type[Any]] = Raw
    task_id: str


class CancelTask(ClientRequest[EmptyResult], frozen=True):
    """The tasks/cancel request. The result is the task in revision 2025-11-25, and empty in the extension."""

    METHOD: ClassVar[str] = "tasks/cancel"
    RESULT: ClassVar[type[Any]] = EmptyResult
    task_id: str


class UpdateTask(ClientRequest[EmptyResult], frozen=True, omit_defaults=False):
    """The tasks/update request (extension), which sends the input that a task requested.

    `input_responses` has the same keys as the task's input requests.
    """

    METHOD: ClassVar[str] = "tasks/update"
    RESULT: ClassVar[type[Any]] = EmptyResult
    task_id: str
    input_responses: dict[str, Any]


class ListTasksResult(PaginatedResult, frozen=True):
    """One page of tasks, each as raw JSON, so that a malformed task does not hide the others."""

    tasks: tuple[Raw, ...] = ()


class ListTasks(ClientRequest[ListTasksResult], frozen=True):
    """The tasks/list request (revision 2025-11-25)."""

    METHOD: ClassVar[str] = "tasks/list"
    RESULT: ClassVar[type[Any]] = ListTasksResult
    cursor: str | None = None


class _RelatedTaskMetadata(WireStruct, frozen=True):
    task_id: str = ""


class _RelatedMeta(WireStruct, frozen=True, rename={"related": RELATED_TASK}):
    related: _RelatedTaskMetadata = _RelatedTaskMetadata()


class _RelatedParams(WireStruct, frozen=True, rename={"meta": "_meta"}):
    meta: _RelatedMeta = _RelatedMeta()


class _TaskAugmentedParams(WireStruct, frozen=True):
    task: Raw = Raw()


class _ToolRequests(WireStruct, frozen=True):
    call: Raw = Raw()


class _Requests(WireStruct, frozen=True):
    tools: _ToolRequests = _ToolRequests()


class _TasksCapability(WireStruct, frozen=True):
    list: Raw = Raw()
    cancel: Raw = Raw()
    requests: _Requests = _Requests()


class TasksCapability(WireStruct, frozen=True):
    """A server's `tasks` capability (revision 2025-11-25)."""

    can_list: bool = False
    can_cancel: bool = False
    can_run_tools: bool = False

    @property
    def has_any(self) -> bool:
        """Whether the server declared any part of the capability."""
        return self.can_list or self.can_cancel or self.can_run_tools


def has_tasks_extension(declared: Raw) -> bool:
    """Return whether *declared*, the `extensions` in a server's capabilities, includes the tasks extension."""
    return is_set(declared) and EXTENSION.encode() in bytes(declared)


def parse_tasks_capability(declared: Raw) -> TasksCapability:
    """Parse a `tasks` capability; an absent or invalid capability is treated as empty."""
    if not is_set(declared):
        return TasksCapability()
    capability = decode_or_none(declared, _TasksCapability)
    if capability is None:
        return TasksCapability()
    return TasksCapability(is_set(capability.list), is_set(capability.cancel), is_set(capability.requests.tools.call))


def read_task_support(definition: Raw) -> tuple[str, str]:
    """Return the name and the `execution.taskSupport` of a tool definition; each is "" if missing."""
    tool = decode_or_none(definition, Tool)
    if tool is None:
        return "", ""
    return tool.name, tool.execution.task_support if tool.execution else ""


def read_related_task(params: Raw) -> str:
    """Return the id of the related task in the `_meta` of a message's params, or "" if there is none."""
    raw = bytes(params)
    if RELATED_TASK.encode() not in raw:
        return ""
    related = decode_or_none(raw, _RelatedParams)
    return "" if related is None else related.meta.related.task_id[:ID_LIMIT]


def add_related_task(result: Raw, task_id: str) -> Raw:
    """Add the id of the related task to the `_meta` of *result*.

    Returns *result* unchanged if *task_id* is empty.
    """
    if not task_id:
        return result
    meta = encode({RELATED_TASK: {"taskId": task_id}})
    return Raw(bytes(result).rstrip()[:-1] + b',"_meta":' + meta + b"}")


def read_task_metadata(params: Raw) -> Raw:
    """Return the `task` member of a request's params, or an empty Raw if there is none."""
    raw = bytes(params)
    if b'"task"' not in raw:
        return Raw()
    augmented = decode_or_none(raw, _TaskAugmentedParams)
    return augmented.task if augmented is not None and is_set(augmented.task) else Raw()


def check_task(task: Task, expected_id: str = "") -> Task:
    """Return *task*, or raise MalformedMessage if its id is invalid or differs from *expected_id*."""
    if not task.task_id or len(task.task_id) > ID_LIMIT:
        raise MalformedMessage(f"The server created a task whose id has {len(task.task_id)} characters.")
    if expected_id and task.task_id != expected_id:
        raise MalformedMessage(
            f"The server was asked for the task {expected_id[:100]!r} but returned {task.task_id[:100]!r}."
        )
    return task
