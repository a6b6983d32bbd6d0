"""Assembly of the conversation: turns, consent, and the pipeline of tool calls."""

from collections.abc import Callable
from typing import NamedTuple

from anyio.abc import TaskGroup

from mcphost.config.schema import HostConfig
from mcphost.errors import StoreError
from mcphost.host.audit.audit_log import AuditLog
from mcphost.host.consent.auto_approve import AutoApproval
from mcphost.host.consent.grants import ActiveGrants, GrantRegistry
from mcphost.host.consent.policy import ConfigRules, ConsentPolicy
from mcphost.host.consent.rule_matching import RuleMatcher
from mcphost.host.conversation.conversation import Conversation
from mcphost.host.conversation.system_prompt import system_prompt
from mcphost.host.conversation.turn import Turn, TurnQueue
from mcphost.host.events import EventBus
from mcphost.host.model_selection import ModelSelection
from mcphost.host.questions.frontend import Frontend, QuestionBudget
from mcphost.host.servers.features import ServerFeatures
from mcphost.host.servers.orphaned_tasks import OrphanedTasks
from mcphost.host.servers.servers import Servers, ServerStartup
from mcphost.host.servers.tool_registry import ToolRegistry
from mcphost.host.tools.builtin_tools import BuiltinTools
from mcphost.host.tools.executor import ToolExecutor
from mcphost.host.tools.pipeline import ToolPipeline
from mcphost.host.tools.result_review import ResultReviewer
from mcphost.llm.model import ChatModel, ModelRequest, ToolSpec
from mcphost.sandbox.schema_validator import SchemaValidator
from mcphost.store.conversations import ConversationStore
from mcphost.store.grants import GrantStore
from mcphost.store.results import ResultStore
from mcphost.store.roots import FolderAnswerStore


class HostServices(NamedTuple):
    """The host's objects that the conversation uses.

    `conversation` returns the open conversation; `notify` receives level, text and hint for the user.
    """

    model_selection: ModelSelection
    conversation: Callable[[], Conversation]
    features: ServerFeatures
    events: EventBus
    folder_answers: FolderAnswerStore
    frontend: Frontend
    grants: GrantStore
    audit: AuditLog
    orphaned_tasks: OrphanedTasks
    question_budget: QuestionBudget
    results: ResultStore
    conversation_store: ConversationStore
    servers: Servers
    startup: ServerStartup
    notify: Callable[[str, str, str], None]
    tool_registry: ToolRegistry


class ConversationAssembly:
    """The objects from a message to a result, wired together.

    The host creates it, and imports its modules, with the first message, call or use of grants: a chat connects servers
    before that.
    """

    _reported_left_out = 0

    def __init__(self, config: HostConfig, services: HostServices) -> None:
        self._config, self._services = config, services
        conversation, events, frontend, audit = (
            services.conversation,
            services.events,
            services.frontend,
            services.audit,
        )
        self.validator = SchemaValidator()
        matcher = RuleMatcher(self.validator)
        self.active_grants = ActiveGrants(services.grants, matcher, lambda: conversation().id, self._report_store_error)
        self.auto_approval = AutoApproval(
            lambda: services.tool_registry.available_tools().values(), conversation, events, audit
        )
        config_rules = ConfigRules(config.allow_rules, config.never_rules, config.settings_file)
        self.consent = ConsentPolicy(
            self.active_grants, frontend, matcher, config_rules, audit, self.auto_approval.approve
        )
        reviewer = ResultReviewer(
            frontend, audit, events, services.servers, matcher, config.pass_rules, services.question_budget
        )
        self._builtin_tools = BuiltinTools(
            services.features.skills,
            self.consent,
            services.results,
            lambda: tuple(conversation().messages),
            events,
            reviewer,
            audit,
        )
        self.executor = ToolExecutor(
            events,
            self.validator,
            self._builtin_tools.result_tool,
            services.orphaned_tasks,
            audit,
            self.active_grants.is_active,
        )
        self.tool_pipeline = ToolPipeline(
            services.tool_registry, self.consent, events, self.validator, self._builtin_tools, self.executor, reviewer,
            config.limits.parallel_calls)  # fmt: skip
        self.grants = GrantRegistry(
            services.grants,
            services.conversation_store,
            matcher,
            services.servers,
            self.active_grants,
            audit,
            services.folder_answers,
        )
        self.turn_queue = TurnQueue(
            self._create_turn, conversation, services.model_selection, events, reviewer, services.startup.wait
        )

    def set_task_group(self, tasks: TaskGroup) -> None:
        """Set the task group of all background tasks."""
        tasks.start_soon(self.active_grants.write_uses, name="uses of grants")
        self.turn_queue.set_task_group(tasks)
        self.auto_approval.set_task_group(tasks)

    async def close(self) -> None:
        """Stop the process that validates schemas."""
        await self.validator.close()

    def _create_turn(self, number: int, model: ChatModel) -> Turn:
        return Turn(
            number,
            model=model,
            create_request=self._create_request,
            conversation=self._services.conversation(),
            tool_pipeline=self.tool_pipeline,
            channels=(self._services.events, self._services.frontend),
            limits=self._config.limits,
            auto_approval=self.auto_approval,
        )

    def _create_request(self) -> ModelRequest:
        self._services.startup.announce_joined()
        return ModelRequest(
            messages=tuple(self._services.conversation().messages),
            system=system_prompt(self._config.system_prompt, self._services.servers),
            tools=self._tool_specs(),
            max_output_tokens=self._services.model_selection.config.max_output_tokens,
        )

    def _tool_specs(self) -> tuple[ToolSpec, ...]:
        limit = self._config.limits.tools_to_model
        left_out = len(self._services.tool_registry.available_tools()) - limit
        if left_out > 0 and left_out != self._reported_left_out:
            self._services.notify("warning", f"{left_out} tools are not offered to the model: it gets {limit} at most.",
                       "Disable servers that this conversation does not need.")  # fmt: skip
            self._reported_left_out = left_out
        builtin_specs = self._builtin_tools.specs()
        return (*self._services.tool_registry.specs(limit - len(builtin_specs)), *builtin_specs)

    def _report_store_error(self, error: StoreError) -> None:
        self._services.notify("error", error.message, error.hint)
