"""On its own: for one conversation, tools the user picked run unasked, within a budget, until anybody ends it."""

import time
from collections.abc import Callable, Iterable
from typing import Any

import anyio
from anyio.abc import TaskGroup

from mcphost.errors import UsageError
from mcphost.host.audit.audit_log import AuditLog, AuditSubject
from mcphost.host.consent.tool_identity import ToolIdentity, has_read_only_hint, identify_tool
from mcphost.host.event_queue import EventBus
from mcphost.host.events import AutoApprovalChanged
from mcphost.host.servers.tool_registry import OfferedTool
from mcphost.llm.model import Usage
from mcphost.serialization import Struct, replace

MAX_CALLS = 1_000
MAX_SECONDS = 8 * 3_600
MAX_TOKENS = 50_000_000
BUDGET_FIELDS = ("calls", "seconds", "tokens")


class AutoApprovalBudget(Struct, frozen=True, kw_only=True):
    """What may be used before somebody is asked again: tool calls, seconds, and tokens of the model."""

    calls: int = 50
    seconds: float = 1_800
    tokens: int = 500_000


class AutoApprovalStatus(Struct, frozen=True, kw_only=True):
    """The mode while it is on: what is left of its budget, how many tools it covers, and of which servers."""

    left: AutoApprovalBudget
    of: AutoApprovalBudget
    tools: int
    servers: tuple[str, ...]


_Key = tuple[str, str, str, str, str]


class AutoApproval:
    """Only tools that their servers claim to be read-only can be picked, one by one, as they are defined now.

    A claim is not believed for being made: the user picked the tool. Whatever else a call needs is asked as ever, and
    what the configuration never allows stays forbidden. It ends with its budget, with the conversation, by `stop`.
    """

    def __init__(
        self,
        offered_tools: Callable[[], Iterable[OfferedTool]],
        conversation: Callable[[], object],
        events: EventBus,
        audit: AuditLog,
    ) -> None:
        """`offered` gives what the model can call now; `conversation` the open one, compared by identity."""
        self._offered_tools = offered_tools
        self._conversation = conversation
        self._events = events
        self._audit = audit
        self._tasks: TaskGroup | None = None
        self._selected: frozenset[_Key] = frozenset()
        self._budget = self._remaining = AutoApprovalBudget()
        self._deadline = self._wall_deadline = 0.0
        self._bound_conversation: object = None
        self._scope: anyio.CancelScope | None = None

    def set_task_group(self, tasks: TaskGroup) -> None:
        """The group in which its time runs out."""
        self._tasks = tasks

    @property
    def status(self) -> AutoApprovalStatus | None:
        """How it stands; None when it is off."""
        if self._scope is None:
            return None
        left = replace(self._remaining, seconds=max(0.0, self._seconds_left()))
        servers = tuple(sorted({key[0] for key in self._selected}))
        return AutoApprovalStatus(left=left, of=self._budget, tools=len(self._selected), servers=servers)

    def candidates(self) -> tuple[OfferedTool, ...]:
        """The tools that can be picked now: claimed to be read-only, and not held back."""
        return tuple(one for one in self._offered_tools() if has_read_only_hint(one.definition.tool))

    def start(self, tools: Iterable[tuple[str, str]], budget: AutoApprovalBudget) -> AutoApprovalStatus:
        """Let these tools, by server and name, run unasked from now on. Raises UsageError, and then it is as before."""
        _check_budget(budget)
        if self._tasks is None:
            raise UsageError("The host is not running.", "Enter it with `async with` first.")
        known = {(one.connection.config.name, one.definition.name): one for one in self.candidates()}
        wanted = dict.fromkeys(tools)
        for server, tool in wanted:
            if (server, tool) not in known:
                raise UsageError(
                    f"The tool {tool!r} of {server!r} cannot run unasked.",
                    "Only a tool of a ready server can that the server says is read-only and that has not changed.",
                )
        if not wanted:
            raise UsageError("No tool was picked.", "Name at least one that only reads.")
        self.stop("started anew")
        self._selected = frozenset(_key(identify_tool(known[one])) for one in wanted)
        self._budget = self._remaining = budget
        self._deadline, self._wall_deadline = time.monotonic() + budget.seconds, time.time() + budget.seconds
        self._bound_conversation = self._conversation()
        self._scope = anyio.CancelScope()
        self._tasks.start_soon(self._expire, self._scope, name="autonomy")
        tools_of = [f"{server}/{tool}" for server, tool in wanted]
        self._record(
            "on", {"tools": tools_of, "calls": budget.calls, "seconds": budget.seconds, "tokens": budget.tokens}
        )
        self._publish("")
        running = self.status
        assert running is not None  # noqa: S101 - it was just started
        return running

    def stop(self, why: str) -> bool:
        """End it; False when it is off. `why` is one short phrase for people."""
        scope, self._scope = self._scope, None
        if scope is None:
            return False
        scope.cancel()
        self._selected, self._bound_conversation = frozenset(), None
        self._record("off", {"why": why})
        self._publish(why)
        return True

    def approve(self, subject: ToolIdentity, arguments: dict[str, Any]) -> bool:
        """Whether this call may run unasked, which then counts as one call of the budget."""
        del arguments  # a picked tool may be called with any; what is forbidden was looked at before
        if not self._is_active() or _key(subject) not in self._selected:
            return False
        self._remaining = replace(self._remaining, calls=self._remaining.calls - 1)
        self._publish("")
        return True

    def can_continue(self) -> bool:
        """Whether the model may go on past its rounds without a question."""
        return self._is_active()

    def count_usage(self, usage: Usage) -> None:
        """The model used so much in the open conversation."""
        if self._is_active():
            tokens = self._remaining.tokens - usage.input_tokens - usage.output_tokens
            self._remaining = replace(self._remaining, tokens=max(0, tokens))
            self._is_active()

    def _is_active(self) -> bool:
        if self._scope is None:
            return False
        why = self._end_reason()
        if why:
            self.stop(why)
        return not why

    def _end_reason(self) -> str:
        if self._bound_conversation is not self._conversation():
            return "another conversation"
        if self._remaining.calls <= 0:
            return f"{self._budget.calls} calls were made"
        if self._remaining.tokens <= 0:
            return f"{self._budget.tokens:,} tokens were used"
        return "its time is over" if self._seconds_left() <= 0 else ""

    def _seconds_left(self) -> float:
        """What is left of its time by either clock: one stands still while the machine sleeps, one can be set back."""
        return min(self._deadline - time.monotonic(), self._wall_deadline - time.time())

    async def _expire(self, scope: anyio.CancelScope) -> None:
        with scope:
            await anyio.sleep(self._budget.seconds)
        if self._scope is scope:
            self.stop("its time is over")

    def _record(self, event: str, detail: dict[str, Any]) -> None:
        self._audit.queue_event(AuditSubject(kind="mode", name="unasked"), event, detail=detail)

    def _publish(self, why: str) -> None:
        now = self.status
        self._events.publish(
            AutoApprovalChanged(
                on=now is not None,
                why=why,
                tools=now.tools if now else 0,
                servers=now.servers if now else (),
                calls_left=now.left.calls if now else 0,
                calls=self._budget.calls,
                seconds_left=round(now.left.seconds) if now else 0,
                tokens_left=now.left.tokens if now else 0,
            )
        )


def _key(subject: ToolIdentity) -> _Key:
    return subject.server, subject.server_digest, subject.tool, subject.digest, subject.account


def _check_budget(budget: AutoApprovalBudget) -> None:
    for name, value, most in (
        ("calls", budget.calls, MAX_CALLS),
        ("seconds", budget.seconds, MAX_SECONDS),
        ("tokens", budget.tokens, MAX_TOKENS),
    ):
        if not 0 < value <= most:
            raise UsageError(f"The budget of {name} is {value:g}, not above 0 and at most {most:,}.")
