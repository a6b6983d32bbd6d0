"""The host's API, which is used by frontends."""

from collections.abc import Container
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple, Self

import anyio

from mcphost.config.schema import HostConfig
from mcphost.host.audit.audit_log import AuditLog
from mcphost.host.conversation.controller import ConversationController
from mcphost.host.event_bus import EventBus
from mcphost.host.lifetime import Lazy, Lifetime
from mcphost.host.model_selection import ModelSelection
from mcphost.host.runtime_settings import RuntimeSettings
from mcphost.host.server_requests.roots import Roots
from mcphost.host.servers.orphaned_tasks import OrphanedTasks
from mcphost.host.servers.running_calls import RunningCalls
from mcphost.host.servers.servers import Quarantine, Servers
from mcphost.host.servers.tool_toggles import ToolToggles
from mcphost.store.large_results import ResultStore

if TYPE_CHECKING:
    from mcphost.host.app_pages.pages import AppPages
    from mcphost.host.budget.spending import SpendingTracker
    from mcphost.host.config_change_detector import ConfigChangeDetector
    from mcphost.host.consent.auto_approve import AutoApproval, AutoApprovalStatus
    from mcphost.host.consent.grants import GrantRegistry
    from mcphost.host.conversation.attachment_fitting import AttachmentFitter
    from mcphost.host.conversation.context_report import ContextMeter
    from mcphost.host.conversation.custom_commands import CustomCommands
    from mcphost.host.conversation.instructions import Instructions
    from mcphost.host.conversation.stored_conversations import StoredConversations
    from mcphost.host.server_views import OpenedPage
    from mcphost.host.servers.accounts import Accounts
    from mcphost.host.servers.features import ServerFeatures
    from mcphost.host.setup import Setup
    from mcphost.host.tools.hooks import ToolHooks
    from mcphost.host.tools.manual_calls import ManualCalls

_INDEX_DELAY = 5.0
"""Seconds after the start before older conversations are indexed, so that indexing does not delay the start."""


class LateParts(NamedTuple):
    """Components of the host that are imported and created on first use."""

    accounts: "Lazy[Accounts]"
    attachments: "Lazy[AttachmentFitter]"
    auto_approval: "Lazy[AutoApproval]"
    commands: "Lazy[CustomCommands]"
    context: "Lazy[ContextMeter]"
    features: "Lazy[ServerFeatures]"
    instructions: "Lazy[Instructions]"
    grants: "Lazy[GrantRegistry]"
    history: "Lazy[StoredConversations]"
    hooks: "Lazy[ToolHooks]"
    pages: "Lazy[AppPages]"
    setup: "Lazy[Setup | None]"
    spending: "Lazy[SpendingTracker]"
    config_change_detector: "Lazy[ConfigChangeDetector | None]"
    tools: "Lazy[ManualCalls]"


@dataclass(kw_only=True, eq=False)
class Host:
    """The API of the host, grouped by subject; create one with `bootstrap.build_host`.

    Use it with `async with`, then call `start` to start the servers. When the block ends, all tasks are cancelled,
    the conversation is saved and the servers are closed. All methods must be called on the event loop that entered
    the block.
    """

    config: HostConfig
    audit: AuditLog
    conversation: ConversationController
    events: EventBus
    model_selection: ModelSelection
    orphaned_tasks: OrphanedTasks
    quarantine: Quarantine
    results: ResultStore
    roots: Roots
    running_calls: RunningCalls
    servers: Servers
    settings: RuntimeSettings
    tool_toggles: ToolToggles
    late_parts: LateParts
    lifetime: Lifetime

    async def __aenter__(self) -> Self:
        await self.lifetime.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        try:
            if (pages := self.late_parts.pages.created) is not None:
                await pages.close_all()
        finally:
            is_handled = await self.lifetime.__aexit__(kind, error, trace)
        return is_handled

    def start(
        self,
        *,
        resume_orphaned_tasks: bool = True,
        only: Container[str] | None = None,
        retry_unreachable: bool = False,
    ) -> None:
        """Start connecting to all enabled servers and preparing the model, without waiting for either.

        - *only* limits this to the servers with these names; None means all.
        - *resume_orphaned_tasks* resumes MCP tasks that an earlier run left unfinished. They publish the same
          events as tool calls by the user.
        - *retry_unreachable* keeps trying to connect to HTTP servers that cannot be reached.
        """
        self.orphaned_tasks.is_resuming_enabled = resume_orphaned_tasks
        for problem in self.config.problems:
            self.events.notify("warning", problem)
        self.servers.start_all(only, retry_unreachable=retry_unreachable)
        self.model_selection.prepare()
        self.lifetime.start_soon(self.tool_toggles.load, name="switches")
        self.lifetime.start_soon(self._index_history, name="search index")

    async def _index_history(self) -> None:
        await anyio.sleep(_INDEX_DELAY)
        await self.history.index_pending()

    def halt(self, *, who: str = "person") -> bool:
        """End auto-approve mode, the running turn and background calls; return whether any of these was active.

        *who* is the source that the audit log records (see `audit_labels.SOURCE_LABELS`).
        """
        auto_approval = self.late_parts.auto_approval.created
        ended = auto_approval is not None and auto_approval.stop("ended by you", who=who)
        has_cancelled = self.conversation.cancel_background()
        return self.conversation.stop() or has_cancelled or ended

    @property
    def accounts(self) -> "Accounts":
        """The user's accounts at servers, with operations to list, select, sign in and sign out."""
        return self.late_parts.accounts.get()

    @property
    def attachments(self) -> "AttachmentFitter":
        """Converter for attachments that the model does not accept unchanged."""
        return self.late_parts.attachments.get()

    @property
    def auto_approval(self) -> "AutoApproval":
        """Auto-approve mode, in which selected tools run without asking the user."""
        return self.late_parts.auto_approval.get()

    @property
    def auto_approval_status(self) -> "AutoApprovalStatus | None":
        """The status of auto-approve mode with its remaining budget; None if the mode is off."""
        auto_approval = self.late_parts.auto_approval.created
        return None if auto_approval is None else auto_approval.status

    @property
    def commands(self) -> "CustomCommands":
        """The user's and the project's custom slash commands."""
        return self.late_parts.commands.get()

    @property
    def context(self) -> "ContextMeter":
        """Meter that estimates the size of the next model request for each kind of content and each tool."""
        return self.late_parts.context.get()

    @property
    def features(self) -> "ServerFeatures":
        """Access to what servers offer besides tools: resources, prompts, skills and completion."""
        return self.late_parts.features.get()

    @property
    def hooks(self) -> "ToolHooks":
        """The user's and the project's hooks for tool calls."""
        return self.late_parts.hooks.get()

    @property
    def instructions(self) -> "Instructions":
        """Instructions for the model from the user's and the project's AGENTS.md files."""
        return self.late_parts.instructions.get()

    @property
    def grants(self) -> "GrantRegistry":
        """Registry for listing, previewing and revoking grants, both stored and for this session."""
        return self.late_parts.grants.get()

    @property
    def history(self) -> "StoredConversations":
        """The stored conversations, with operations to search, rename, delete, pin and preview them."""
        return self.late_parts.history.get()

    @property
    def pages(self) -> "AppPages":
        """The interactive pages of tools (MCP Apps), which a browser shows."""
        return self.late_parts.pages.get()

    async def list_page_calls(self) -> frozenset[str]:
        """Return the ids of the open conversation's calls whose pages can be opened, including those of earlier runs.

        Unlike `pages.list_calls`, this imports the code for pages only if there may be such a call.
        """
        if self.late_parts.pages.created is None and not await self.conversation.has_page_results():
            return frozenset()
        return await self.pages.list_calls()

    @property
    def open_pages(self) -> "tuple[OpenedPage, ...]":
        """The interactive pages of tools that are open now."""
        pages = self.late_parts.pages.created
        return () if pages is None else pages.list_open()

    @property
    def setup(self) -> "Setup | None":
        """First-run setup of models and servers; None if it is not available in this run."""
        return self.late_parts.setup.get()

    @property
    def spending(self) -> "SpendingTracker":
        """Recorded cost of model requests, with totals by turn, conversation, day and model."""
        return self.late_parts.spending.get()

    @property
    def config_change_detector(self) -> "ConfigChangeDetector | None":
        """The object that detects and applies changes to the configuration files; None if no files are in use."""
        return self.late_parts.config_change_detector.get()

    @property
    def tools(self) -> "ManualCalls":
        """Tool calls that the user makes without the model."""
        return self.late_parts.tools.get()
