"""The host: the root task group and the API for frontends."""

import logging
from collections.abc import Container, Sequence
from contextlib import AsyncExitStack
from functools import cached_property, partial
from shlex import quote
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import anyio
from anyio.abc import TaskGroup

from mcphost.client.session import SessionOpener
from mcphost.config.schema import HostConfig, ModelConfig
from mcphost.errors import ConsentDenied, StoreError, UsageError
from mcphost.host.audit.audit_log import AuditLog, create_in_memory_log
from mcphost.host.conversation.conversation import Conversation
from mcphost.host.events import ConversationOpened, EventBus, EventQueue, NoticeEvent, SignInUpdated
from mcphost.host.model_selection import CreateModelFn, ModelSelection
from mcphost.host.questions.frontend import Frontend, QuestionBudget
from mcphost.host.questions.sign_in import OpenUrl
from mcphost.host.server_requests.request_handler import ServerRequestHandlerFactory
from mcphost.host.server_requests.root_list import configured_roots
from mcphost.host.server_requests.roots import Roots
from mcphost.host.server_requests.sampling_models import SamplingModels
from mcphost.host.servers.approval import ServerApprovals
from mcphost.host.servers.connection import ServerConnection
from mcphost.host.servers.orphaned_tasks import OrphanedTasks
from mcphost.host.servers.servers import Quarantine, Servers, ServerStartup
from mcphost.host.servers.tool_changes import ToolChangeTrackerFactory
from mcphost.host.servers.tool_registry import ToolRegistry
from mcphost.host.servers.tool_toggles import ToolToggles
from mcphost.host.views import ConversationInfo, ManualCallResult, ServerView, TurnResult
from mcphost.llm.messages import Message, Part
from mcphost.llm.model import ChatModel
from mcphost.serialization import replace
from mcphost.store.conversations import ConversationStore
from mcphost.store.database import Database
from mcphost.store.grants import GrantStore
from mcphost.store.results import ResultStore
from mcphost.store.roots import FolderAnswerStore, FolderEditStore
from mcphost.store.tasks import TaskStore
from mcphost.store.tool_fingerprints import ToolFingerprintStore
from mcphost.store.tool_toggles import ToolToggleStore

if TYPE_CHECKING:
    from mcphost.host.consent.auto_approve import AutoApproval, AutoApprovalStatus
    from mcphost.host.consent.grants import GrantRegistry
    from mcphost.host.conversation.assembly import ConversationAssembly
    from mcphost.host.results.tool_schemas import SchemaErrors
    from mcphost.host.servers.accounts import Accounts
    from mcphost.host.servers.features import ServerFeatures
    from mcphost.protocol.prompts import GetPromptResult
    from mcphost.protocol.resources import ReadResourceResult

CONTINUE_PROMPT = "Your answer was cut off. Go on exactly where it ended."
_log = logging.getLogger(__name__)


class Host:
    """The host: owner of servers, model and conversation.

    `async with Host(...) as host` opens the root task group and starts nothing; `start()` does. Leaving cancels all
    tasks, saves the conversation and closes the servers. All methods must be called on the event loop that entered it.
    """

    def __init__(
        self,
        config: HostConfig,
        *,
        store: Database,
        opener: SessionOpener,
        model_factory: CreateModelFn,
        frontend: Frontend,
        open_url: OpenUrl | None = None,
        journal: AuditLog | None = None,
        results: ResultStore | None = None,
    ) -> None:
        self.config = config
        self.audit = journal or create_in_memory_log(config.audit)
        self.audit.conversation_id = lambda: self._conversation.id
        self._frontend = frontend = self.audit.wrap_frontend(frontend)
        self._events = EventBus()
        self._conversation_store = ConversationStore(store)
        self._grants, self._folder_answers = GrantStore(store), FolderAnswerStore(store)
        self._approvals = ServerApprovals(self._grants, frontend, self.audit)
        self.roots = Roots(configured_roots(config), FolderEditStore(store), self.audit, put=self._events.publish)
        self._model_selection = ModelSelection(model_factory, config.model, self._events)
        sampling_models = SamplingModels(self._model_selection, config.sampling, lambda: self._conversation.messages)
        warn, self._question_budget = partial(self.notify, "warning"), QuestionBudget()
        handler_factory = ServerRequestHandlerFactory(
            frontend, sampling_models, self.roots, warn, self.audit, self.audit.wrap_open_url(open_url),
            self._question_budget, self._folder_answers,
        )  # fmt: skip
        self._orphaned_tasks = OrphanedTasks(
            TaskStore(store), self._events, lambda: self._conversation.id, self._report_store_error
        )
        tracker_factory = ToolChangeTrackerFactory(
            ToolFingerprintStore(store), frontend, self._report_store_error, self._carry_over_grants, self.audit
        )
        self._servers = Servers(
            config.servers,
            opener=opener,
            approvals=self._approvals,
            events=self._events,
            handler_factory=handler_factory,
            orphaned_tasks=self._orphaned_tasks,
            tracker_factory=tracker_factory,
        )
        self._startup = ServerStartup(self._servers, config.limits.server_wait, self.notify)
        self.quarantine = Quarantine(self._servers)
        self._opener = opener
        self.tool_toggles = ToolToggles(
            ToolToggleStore(store), self.audit, self._events.publish, self._report_store_error
        )
        self._tool_registry = ToolRegistry(lambda: self._servers, self.tool_toggles.disabled_by)
        self.results = results or ResultStore(None)
        self._conversation = Conversation(self._conversation_store, self._report_store_error)
        self._loaded_assembly: ConversationAssembly | None = None
        self._tasks: TaskGroup | None = None
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        self._tasks = await self._stack.enter_async_context(anyio.create_task_group())
        self._orphaned_tasks.set_task_group(self._tasks)
        self._servers.set_task_group(self._tasks)
        self._model_selection.set_task_group(self._tasks)
        if self._loaded_assembly is not None:
            self._loaded_assembly.set_task_group(self._tasks)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        if self._tasks is not None:
            self._tasks.cancel_scope.cancel()
        try:
            return await self._stack.__aexit__(kind, error, trace)
        finally:
            self._events.close()
            with anyio.CancelScope(shield=True):
                if self._loaded_assembly is not None:
                    await self._loaded_assembly.close()
                await self._model_selection.close()
                await self.audit.close()

    # -- created and imported on first use
    @property
    def _assembly(self) -> "ConversationAssembly":
        if self._loaded_assembly is None:
            from mcphost.host.conversation.assembly import ConversationAssembly, HostServices

            host = HostServices(
                model_selection=self._model_selection,
                conversation=lambda: self._conversation,
                features=self.features,
                events=self._events,
                folder_answers=self._folder_answers,
                frontend=self._frontend,
                grants=self._grants,
                audit=self.audit,
                orphaned_tasks=self._orphaned_tasks,
                question_budget=self._question_budget,
                results=self.results,
                conversation_store=self._conversation_store,
                servers=self._servers,
                startup=self._startup,
                notify=self.notify,
                tool_registry=self._tool_registry,
            )
            self._loaded_assembly = ConversationAssembly(self.config, host)
            if self._tasks is not None:
                self._loaded_assembly.set_task_group(self._tasks)
        return self._loaded_assembly

    @property
    def auto_approval(self) -> "AutoApproval":
        """The auto-approve mode."""
        return self._assembly.auto_approval

    @property
    def grants(self) -> "GrantRegistry":
        """The user's grants: list, preview, revoke."""
        return self._assembly.grants

    @cached_property
    def features(self) -> "ServerFeatures":
        """Server features besides tools."""
        from mcphost.host.servers.features import ServerFeatures

        return ServerFeatures(self._servers)

    @cached_property
    def accounts(self) -> "Accounts":
        """The accounts of servers."""
        from mcphost.host.servers.accounts import Accounts

        return Accounts(self._servers, self._opener, self.audit, partial(self.notify, "info"))

    def start(self, *, resume_orphaned_tasks: bool = True, only: Container[str] | None = None) -> None:
        """Connect every enabled server concurrently and prepare the model; return at once.

        *only*: the names of the servers to start, None for all. *resume_orphaned_tasks*: follow tasks that an earlier
        run left at the servers, and report them like manual calls.
        """
        self._orphaned_tasks.is_resuming_enabled = resume_orphaned_tasks
        for problem in self.config.problems:
            self.notify("warning", problem)
        self._servers.start_all(only)
        self._model_selection.prepare()
        if self._tasks is not None:
            self._tasks.start_soon(self.tool_toggles.load, name="switches")

    def subscribe(self) -> EventQueue:
        """Return a new queue of all events from now on."""
        return self._events.subscribe()

    def notify(self, level: Any, text: str, hint: str = "") -> None:
        """Publish one sentence for the user."""
        self._events.publish(NoticeEvent(level, text, hint))

    # -- servers
    def servers(self) -> tuple[ServerView, ...]:
        """Return all configured servers in order."""
        return tuple(self._view(connection) for connection in self._servers)

    def server(self, name: str) -> ServerView:
        """Return one server. Raises UsageError for an unknown name."""
        return self._view(self._servers.find(name))

    def _view(self, connection: ServerConnection) -> ServerView:
        view = connection.view()
        disabled = self.tool_toggles.disabled_tools(view.config, view.catalog.tools)
        return replace(view, disabled_tools=disabled) if disabled else view

    async def set_tool_enabled(self, server: str, tool: str, *, enabled: bool) -> None:
        """Switch a tool on or off for the model, also in later runs. Raises UsageError or ConsentDenied."""
        await self.tool_toggles.set_enabled(self._servers.find(server).config, tool, enabled=enabled)

    async def ensure_ready(self, server: str) -> ServerView:
        """Start the server if necessary and wait until it is ready.

        Raises ServerError, ConsentDenied or UsageError.
        """
        connection = self._servers.start(server)
        await connection.session()
        await self.tool_toggles.load()
        return self._view(connection)

    def restart(self, server: str) -> None:
        """Close the connection and open it again; also retries a failed server."""
        self._servers.start(server).restart()

    def update_sign_in(self, event: SignInUpdated) -> None:
        """Update the progress of a sign-in."""
        self._servers.find(event.server).update_sign_in(event)

    async def is_server_approved(self, server: str) -> bool:
        """Return whether an approval covers the server as configured. Raises UsageError or StoreError."""
        return await self._approvals.is_approved(self._servers.find(server).config)

    async def approve_server(self, server: str) -> None:
        """Approve the server for the user until its command or address changes.

        Raises UsageError or StoreError.
        """
        await self._approvals.approve(self._servers.find(server).config)

    async def call_tool(self, server: str, tool: str, arguments: dict[str, Any]) -> ManualCallResult:
        """Run the user's own call without a question.

        Raises ServerError, UsageError (unknown tool), and ConsentDenied for an unapproved server, a changed tool, or a
        call that the configuration never allows.
        """
        offered = await self._servers.get_tool(server, tool)
        if tool in offered.connection.tool_changes.quarantined:
            raise ConsentDenied(
                f"The tool {tool!r} of {server!r} changed and is quarantined.",
                f"Review the change: mcphost servers changes {quote(server)}",
            )
        await self._assembly.consent.check_manual_call(offered, arguments)
        execution = await self._assembly.executor.execute_manual(offered, arguments)
        return ManualCallResult(execution.result, execution.rendered.text, execution.seconds, execution.validation)

    async def validate_arguments(self, server: str, tool: str, arguments: dict[str, Any]) -> "SchemaErrors":
        """Return the errors of these arguments against the tool's inputSchema, none if they may be sent.

        Raises ServerError, ConsentDenied or UsageError.
        """
        return await self._assembly.tool_pipeline.validate_arguments(
            await self._servers.get_tool(server, tool), arguments
        )

    async def read_resource(self, server: str, uri: str) -> "ReadResourceResult":
        """Read one resource; see ServerFeatures.read_resource."""
        return await self.features.read_resource(server, uri)

    async def get_prompt(self, server: str, name: str, arguments: dict[str, str]) -> "GetPromptResult":
        """Return one prompt; see ServerFeatures.get_prompt."""
        return await self.features.get_prompt(server, name, arguments)

    # -- conversation
    @property
    def messages(self) -> tuple[Message, ...]:
        """The messages of the open conversation."""
        return tuple(self._conversation.messages)

    @property
    def conversation_id(self) -> str:
        """The id of the open conversation, "" until the first message."""
        return self._conversation.id

    @property
    def conversation_title(self) -> str:
        """The title of the open conversation, "" until the first message."""
        return self._conversation.title

    @property
    def is_busy(self) -> bool:
        """Whether a turn is running."""
        return self._loaded_assembly is not None and self._loaded_assembly.turn_queue.is_running

    def stop(self) -> bool:
        """Stop the running turn; return False if there is none."""
        return self._loaded_assembly is not None and self._loaded_assembly.turn_queue.stop()

    @property
    def auto_approval_status(self) -> "AutoApprovalStatus | None":
        """The active auto-approve mode and its remaining budget, None when off."""
        return None if self._loaded_assembly is None else self._loaded_assembly.auto_approval.status

    def halt(self) -> bool:
        """End the auto-approve mode and stop the running turn; return False if there was neither."""
        ended = self._loaded_assembly is not None and self._loaded_assembly.auto_approval.stop("ended by you")
        return self.stop() or ended

    async def send(self, text: str, attachments: Sequence[Part] = ()) -> TurnResult:
        """Run one turn: user message, model, tool calls, until done or stopped.

        Failures are in the result, not raised; UsageError when a turn is already running. Cancelling the caller stops
        the turn.
        """
        return await self._assembly.turn_queue.send(text, attachments, self.tool_toggles.load)

    async def continue_turn(self) -> TurnResult:
        """Continue a truncated or stopped answer, or ask the model again if nothing was received; see `send`.

        Raises UsageError when the last answer is complete.
        """
        last = self._conversation.messages[-1] if self._conversation.messages else None
        if last is not None and last.role == "assistant" and last.cut:
            return await self.send(CONTINUE_PROMPT)
        if last is None or last.role == "assistant":
            raise UsageError("There is no answer that was cut off.", "Write a message.")
        return await self._assembly.turn_queue.send(None, (), self.tool_toggles.load)

    async def list_conversations(self, limit: int = 100, *, prefix: str = "") -> tuple[ConversationInfo, ...]:
        """Return stored conversations, newest first, optionally with an id prefix. Raises StoreError."""
        rows = await (
            self._conversation_store.find_by_prefix(prefix) if prefix else self._conversation_store.list_recent(limit)
        )
        return tuple(
            ConversationInfo(row.id, row.title, row.model, row.messages, row.created, row.updated) for row in rows
        )

    async def open_conversation(self, ident: str) -> None:
        """Open a stored conversation. Raises UsageError for an unknown id or while a turn is running."""
        self._require_idle()
        conversation = await Conversation.load(self._conversation_store, self._report_store_error, ident)
        if conversation is None:
            raise UsageError(f"There is no conversation {ident!r}.", "List them with: mcphost sessions")
        self._require_idle()
        self._set_conversation(conversation)

    def new_conversation(self) -> None:
        """Open an empty conversation. Raises UsageError while a turn is running."""
        self._require_idle()
        self._set_conversation(Conversation(self._conversation_store, self._report_store_error))

    def _set_conversation(self, conversation: Conversation) -> None:
        self._conversation = conversation
        if self._loaded_assembly is not None:
            self._loaded_assembly.auto_approval.stop("another conversation")
            self.features.skills.unload_all()
        self._events.publish(ConversationOpened(conversation.id, conversation.title, len(conversation.messages)))

    def _require_idle(self) -> None:
        if self.is_busy:
            raise UsageError("A turn is running.", "Stop it first.")

    async def _carry_over_grants(self, server: str, server_digest: str, tool: str, before: str, after: str) -> None:
        """Carry grants over to the changed tool that the user accepted."""
        await self._assembly.active_grants.carry_over(server, server_digest, tool, before, after)

    def _report_store_error(self, error: StoreError) -> None:
        self.notify("error", error.message, error.hint)

    # -- model
    @property
    def model(self) -> ChatModel | None:
        """The selected model, or None."""
        return self._model_selection.model

    @property
    def model_config(self) -> ModelConfig:
        """The configuration of the selected model."""
        return self._model_selection.config

    def select_model(self, config: ModelConfig) -> None:
        """Select and prepare the model for the next turn.

        Raises UsageError while a turn is running, ModelError.
        """
        self._require_idle()
        self._model_selection.select(config)
