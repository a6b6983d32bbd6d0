"""Auto-approve mode: selected tools run without asking the user, in one conversation and up to a budget."""

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import anyio

from mcphost.errors import UsageError
from mcphost.host.active_conversation import ActiveConversation
from mcphost.host.audit.audit_log import AuditLog, AuditSubject
from mcphost.host.event_bus import EventBus
from mcphost.host.events import AutoApprovalChanged
from mcphost.host.lifetime import Lifetime
from mcphost.host.servers.tool_registry import OfferedTool, ToolRegistry
from mcphost.llm.model import Usage
from mcphost.serialization import Struct, field, replace

if TYPE_CHECKING:
    # Imported on use: every chat shows the status of this mode, and few chats start it.
    from mcphost.host.consent.grants import ToolIdentity

MAX_CALLS = 1_000
MAX_SECONDS = 8 * 3_600
MAX_TOKENS = 50_000_000
BUDGET_FIELDS = ("calls", "seconds", "tokens")


class AutoApprovalBudget(Struct, frozen=True, kw_only=True):
    """Budget of auto-approve mode: the mode ends after this many tool calls, seconds or model tokens."""

    calls: int = 50
    seconds: float = 1_800
    tokens: int = 500_000


class AutoApprovalStatus(Struct, frozen=True, kw_only=True):
    """Snapshot of auto-approve mode: remaining and total budget, number of selected tools, and their servers."""

    remaining: AutoApprovalBudget = field(name="left")
    budget: AutoApprovalBudget = field(name="of")
    tools: int
    servers: tuple[str, ...]


_Key = tuple[str, str, str, str, str]


class AutoApproval:
    """Auto-approve mode for selected tools that their servers declare read-only.

    A selected tool is covered only while its definition, its server's command or URL and the account are unchanged. For
    all other calls, the user is asked as usual, and the rules in `consent.never` still apply.

    The mode ends when its budget is used up, when another conversation is opened, or when `stop` is called. The user is
    then asked about calls that the mode has approved but that have not been sent yet. Only if the mode ended because
    the maximum number of calls was reached are these calls still sent without asking.
    """

    def __init__(
        self,
        tool_registry: ToolRegistry,
        conversation: ActiveConversation,
        events: EventBus,
        audit: AuditLog,
        lifetime: Lifetime,
    ) -> None:
        self._tool_registry = tool_registry
        self._conversation = conversation
        self._events = events
        self._audit = audit
        self._lifetime = lifetime
        self._selected: frozenset[_Key] = frozenset()
        self._budget = self._remaining = AutoApprovalBudget()
        self._deadline = self._wall_deadline = 0.0
        self._bound_conversation: object = None
        self._scope: anyio.CancelScope | None = None
        self._period = 0
        self._may_send = False

    @property
    def status(self) -> AutoApprovalStatus | None:
        """The current status of auto-approve mode; None if it is off."""
        if self._scope is None:
            return None
        left = replace(self._remaining, seconds=max(0.0, self._seconds_left()))
        servers = tuple(sorted({key[0] for key in self._selected}))
        return AutoApprovalStatus(remaining=left, budget=self._budget, tools=len(self._selected), servers=servers)

    def candidates(self) -> tuple[OfferedTool, ...]:
        """Return the tools that can be selected: declared read-only by their server, and not in quarantine."""
        from mcphost.host.consent.grants import has_read_only_hint

        return tuple(
            tool for tool in self._tool_registry.available_tools().values() if has_read_only_hint(tool.definition.tool)
        )

    @property
    def is_waiting_for_servers(self) -> bool:
        """Whether a server is still starting, so that more tools may become available for selection."""
        return self._tool_registry.is_incomplete

    def start(
        self, tools: Iterable[tuple[str, str]], budget: AutoApprovalBudget, *, who: str = "person"
    ) -> AutoApprovalStatus:
        """Start or restart auto-approve mode for *tools*, which are pairs of server name and tool name.

        *who* is the source that the audit log records (see `audit_labels.SOURCE_LABELS`). Raises UsageError, without
        any change, if the budget is invalid or a tool cannot be selected.
        """
        from mcphost.host.consent.grants import identify_tool

        _check_budget(budget)
        if not self._lifetime.is_open:
            raise UsageError("The host is not running.", "Enter it with `async with` first.")
        known = {
            (candidate.connection.config.name, candidate.definition.name): candidate for candidate in self.candidates()
        }
        selected = dict.fromkeys(tools)
        for server, tool in selected:
            if (server, tool) not in known:
                raise UsageError(
                    f"The tool {tool!r} of {server!r} cannot be auto-approved.",
                    "Select unchanged tools of ready servers that the server declares read-only.",
                )
        if not selected:
            raise UsageError("No tool is selected.", "Select at least one read-only tool.")
        self.stop("started again", who=who)
        self._selected = frozenset(_key(identify_tool(known[candidate])) for candidate in selected)
        self._budget = self._remaining = budget
        self._deadline, self._wall_deadline = time.monotonic() + budget.seconds, time.time() + budget.seconds
        self._bound_conversation = self._conversation.current
        self._scope = anyio.CancelScope()
        self._period += 1
        self._may_send = True
        self._lifetime.start_soon(self._expire, self._scope, name="autonomy")
        names = [f"{server}/{tool}" for server, tool in selected]
        limits = {"calls": budget.calls, "seconds": budget.seconds, "tokens": budget.tokens}
        self._record("on", {"tools": names, **limits}, who)
        self._publish("")
        status = self.status
        assert status is not None  # noqa: S101 - it was just started
        return status

    def stop(self, why: str, *, who: str = "mcphost") -> bool:
        """End auto-approve mode; return whether it was on.

        *why* is a short reason that is recorded in the audit log and shown to the user. *who* is the source that the
        audit log records (see `audit_labels.SOURCE_LABELS`).
        """
        self._may_send, self._bound_conversation = False, None
        return self._switch_off(why, who=who)

    def _switch_off(self, why: str, *, who: str = "mcphost") -> bool:
        """End the mode, but let the calls that it has already approved be sent; return whether the mode was on.

        See `stop` for *why* and *who*.
        """
        scope, self._scope = self._scope, None
        if scope is None:
            return False
        scope.cancel()
        self._selected = frozenset()
        self._record("off", {"why": why}, who)
        self._publish(why)
        return True

    def approve(self, subject: "ToolIdentity", arguments: dict[str, Any]) -> int:
        """Approve a call to the tool *subject* if the mode covers it, and deduct the call from the budget.

        The call must belong to the conversation in which the mode was started, even if it runs in the background.

        Returns 0 if the call is not approved. If it is approved, returns the number of the current period (each start
        of the mode begins a new one). The caller passes this number to `may_send` before sending the call.
        """
        del arguments  # any arguments are allowed; never-rules were checked before
        is_here = self._conversation.for_call.conversation is self._bound_conversation
        if not self._is_active() or not is_here or _key(subject) not in self._selected:
            return 0
        self._remaining = replace(self._remaining, calls=self._remaining.calls - 1)
        self._publish("")
        return self._period

    def may_send(self, period: int) -> bool:
        """Return whether a call that was approved in this period of the mode may be sent now.

        The result is False if the mode was stopped or restarted after the approval, or if its budget of seconds or
        tokens is used up.
        """
        if period != self._period or not self._may_send:
            return False
        if why := self._end_reason():
            self.stop(why)
        return not why

    def can_continue(self) -> bool:
        """Return whether auto-approve mode is on; if so, a turn may exceed its round limit without asking the user."""
        return self._is_active()

    def count_usage(self, usage: Usage) -> None:
        """Deduct the tokens of a model response from the budget."""
        if self._may_send:
            tokens = self._remaining.tokens - usage.input_tokens - usage.output_tokens
            self._remaining = replace(self._remaining, tokens=max(0, tokens))
            self._is_active()

    def _is_active(self) -> bool:
        if self._scope is None:
            return False
        why = self._end_reason()
        if why:
            self.stop(why)
        elif self._remaining.calls <= 0:
            why = f"{self._budget.calls} calls were made"
            self._switch_off(why)
        return not why

    def _end_reason(self) -> str:
        if self._bound_conversation is not self._conversation.current:
            return "another conversation"
        if self._remaining.tokens <= 0:
            return f"{self._budget.tokens:,} tokens were used"
        return "its time is up" if self._seconds_left() <= 0 else ""

    def _seconds_left(self) -> float:
        """Return the remaining seconds according to the monotonic clock or the wall clock, whichever is less.

        The monotonic clock may stop while the computer sleeps; the wall clock can be set back.
        """
        return min(self._deadline - time.monotonic(), self._wall_deadline - time.time())

    async def _expire(self, scope: anyio.CancelScope) -> None:
        with scope:
            await anyio.sleep(self._budget.seconds)
        if self._scope is scope:
            self.stop("its time is up")

    def _record(self, event: str, detail: dict[str, Any], who: str) -> None:
        self._audit.queue_event(AuditSubject(kind="mode", name="unasked"), event, who=who, detail=detail)

    def _publish(self, why: str) -> None:
        status = self.status
        self._events.publish(
            AutoApprovalChanged(
                on=status is not None,
                why=why,
                tools=status.tools if status else 0,
                servers=status.servers if status else (),
                calls_left=status.remaining.calls if status else 0,
                calls=self._budget.calls,
                seconds_left=round(status.remaining.seconds) if status else 0,
                tokens_left=status.remaining.tokens if status else 0,
            )
        )


def _key(subject: "ToolIdentity") -> _Key:
    return subject.server, subject.server_digest, subject.tool, subject.digest, subject.account


def _check_budget(budget: AutoApprovalBudget) -> None:
    for name, value, limit in (
        ("calls", budget.calls, MAX_CALLS),
        ("seconds", budget.seconds, MAX_SECONDS),
        ("tokens", budget.tokens, MAX_TOKENS),
    ):
        if not 0 < value <= limit:
            raise UsageError(f"The budget of {name} is {value:g}; it must be above 0 and at most {limit:,}.")
