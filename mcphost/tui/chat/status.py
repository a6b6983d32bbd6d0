"""Data for the top bar and the server list, computed from events and from the host's state."""

from collections.abc import Callable, Iterable
from time import monotonic
from typing import TYPE_CHECKING, Any

from mcphost.config.schema import UnreadFile
from mcphost.errors import McpHostError
from mcphost.host.events import (
    AnyEvent,
    MessageFinished,
    ModelChanged,
    RoundStarted,
    SpendingChanged,
    ToolsSelected,
    TurnStarted,
)
from mcphost.host.server_views import ServerView
from mcphost.llm.messages import Message, Usage
from mcphost.translation import _
from mcphost.tui.screen_text import account_title
from mcphost.tui.widgets.server_list import ServerRow
from mcphost.tui.widgets.status_bars import TopBarStatus

if TYPE_CHECKING:
    from mcphost.client.session import Account
    from mcphost.host.host import Host


_PARTS = {"system": 0, "definitions": 0, "results": 1, "attachments": 1, "messages": 2}
"""The position in the context meter of each kind of TokenShare."""


class ChatStatus:
    """Status values that are known only from events, not from the host's state.

    These are the token usage, the cost, the number of tools sent to the model, the start time of the turn or of a
    summary, and the state of the model.
    """

    def __init__(self) -> None:
        self.model_state = "none"
        self._usage = Usage()
        self._context_tokens = 0
        self._work_started_at: float | None = None
        self._spent: dict[str, float] = {}
        self._tools = ToolsSelected(0, 0)
        self.context_parts: tuple[int, int, int] = (0, 0, 0)
        self.event_handlers: dict[type[AnyEvent], Callable[[Any], None]] = {
            MessageFinished: self._handle_message_finished,
            ModelChanged: self._handle_model_changed,
            SpendingChanged: self._handle_spending,
            RoundStarted: self._handle_round_started,
            ToolsSelected: self._handle_tools_selected,
            TurnStarted: self._handle_turn_started,
        }
        """Maps each type of event that changes a status value to its handler."""

    def reset(self) -> None:
        """Reset the token usage, context meter and number of sent tools before a conversation is shown.

        Costs need no reset, because they are recorded separately for each conversation.
        """
        self._usage, self._context_tokens = Usage(), 0
        self._tools, self.context_parts = ToolsSelected(0, 0), (0, 0, 0)

    def add_earlier(self, messages: Iterable[Message]) -> None:
        """Add the token usage of *messages*, which are older than all messages added so far."""
        usages = [message.usage for message in messages if message.usage is not None]
        if usages and not self._context_tokens:
            self._context_tokens = usages[-1].input_tokens + usages[-1].output_tokens
        self._usage = sum(usages, self._usage)

    async def load_spending(self, host: "Host") -> None:
        """Load the total cost of the open conversation, including its branches other than the current one."""
        conversation = host.conversation.id
        try:
            total = (await host.spending.load_totals(conversation)).conversation.cost
        except McpHostError:
            return  # the sum of the messages' costs is shown instead
        self._record_spending(conversation, total)

    def _record_spending(self, conversation: str, total: float) -> None:
        if conversation and total:  # a query may finish after a newer event, but totals never decrease
            self._spent[conversation] = max(total, self._spent.get(conversation, 0.0))

    def _handle_spending(self, event: SpendingChanged) -> None:
        self._record_spending(event.conversation, event.total)

    def _add_usage(self, usage: Usage) -> None:
        self._usage += usage
        self._context_tokens = usage.input_tokens + usage.output_tokens

    def _handle_message_finished(self, event: MessageFinished) -> None:
        self._add_usage(event.usage)

    def _handle_model_changed(self, event: ModelChanged) -> None:
        self.model_state = event.state

    def _handle_round_started(self, event: RoundStarted) -> None:
        parts = dict.fromkeys(_PARTS.values(), 0)
        for share in event.shares:
            parts[_PARTS.get(share.kind, 2)] += share.tokens
        self.context_parts = (parts[0], parts[1], parts[2])

    def _handle_tools_selected(self, event: ToolsSelected) -> None:
        self._tools = event

    def _handle_turn_started(self, _event: TurnStarted) -> None:
        self._work_started_at = monotonic()

    def build_status(
        self, host: "Host", views: tuple[ServerView, ...], *, phase: str, pending_questions: int, demo: bool
    ) -> TopBarStatus:
        """Return the values for the top bar.

        *views* describes all servers, and *phase* the current activity. *pending_questions* is the number of questions
        waiting for the user, and *demo* is true if mcphost is running in demo mode.
        """
        model = host.model_selection.model
        window = model.facts.context_window if model is not None else 0
        activity = phase if host.conversation.is_busy else ""
        if not host.conversation.is_busy:
            self._work_started_at = None
        elif self._work_started_at is None:  # work without a turn, such as a summary
            self._work_started_at = monotonic()
        elapsed = monotonic() - (self._work_started_at or monotonic())
        if activity and elapsed >= 1:
            activity = _("{activity} · {seconds:.0f} s").format(activity=activity, seconds=elapsed)
        return TopBarStatus(
            model=model.label if model is not None else "",
            profile=host.settings.profile,
            model_state="none" if model is None else self.model_state,
            ready=sum(view.state == "ready" for view in views),
            servers=sum(view.state != "disabled" for view in views),
            tools=sum(
                len(view.catalog.tools) - len(view.disabled_tools)
                for view in views
                if view.state in ("ready", "unreachable")
            ),
            sent_tools=self._tools.sent if self._tools.deferred else -1,
            tokens=self._usage.input_tokens + self._usage.output_tokens,
            cost=self._spent.get(host.conversation.id, self._usage.cost),
            saved=self._usage.saved,
            context=self._context_tokens / window if window and self._context_tokens else -1,
            context_parts=self.context_parts,
            pending_questions=pending_questions,
            activity=activity,
            demo=demo,
        )


def has_unread_servers(host: "Host") -> bool:
    """Return whether servers may be missing because an mcp.json file could not be read."""
    return any(isinstance(problem, UnreadFile) for problem in host.config.problems)


def build_server_row(view: ServerView) -> ServerRow:
    """Convert a ServerView to the row that represents the server in the server list."""
    return ServerRow(
        view.name,
        view.state,
        tools=len(view.catalog.tools),
        resources=len(view.catalog.resources) + len(view.catalog.templates),
        prompts=len(view.catalog.prompts),
        account=account_title(view.account.name) if view.account else "",
        validity=_load_validity(view.account) if view.account else "",
        is_signing_in=bool(view.sign_in_status),
        starting_seconds=int(view.starting_seconds),
        is_remote=bool(view.config.url),
    )


def has_expiring_sign_in(view: ServerView) -> bool:
    """Return whether the credentials for a server expire at a known time and cannot be renewed.

    No event reports the expiry, so a caller that displays it must refresh the display regularly.
    """
    return bool(view.account and view.account.expires and not view.account.is_renewable)


def _load_validity(account: "Account") -> str:
    from mcphost.host.servers.accounts import validity  # imported when the first account is shown

    return validity(account)
