"""Composition root of the host, where all of its components are created and connected.

Components that are not needed before the first message or tool call are imported and created on first use, so that a
chat connects to its servers sooner.
"""

from functools import cached_property, partial
from itertools import count
from typing import TYPE_CHECKING, NamedTuple

from mcphost.client.session import SessionOpener
from mcphost.config.loader import ConfigSources
from mcphost.config.project_texts import ProjectPlaces
from mcphost.config.schema import HostConfig
from mcphost.host.active_conversation import ActiveConversation
from mcphost.host.audit.audit_log import AuditLog, create_in_memory_log
from mcphost.host.config_change_detector import ConfigChangeDetector, ConfigurableParts
from mcphost.host.consent.config_rules import ConfigRules
from mcphost.host.consent.late_grants import LateGrants
from mcphost.host.conversation.controller import ConversationController
from mcphost.host.event_bus import EventBus
from mcphost.host.host import Host, LateParts
from mcphost.host.lifetime import Lazy, Lifetime
from mcphost.host.model_selection import CreateModelFn, ModelSelection
from mcphost.host.questions.frontend import Frontend, QuestionBudget
from mcphost.host.questions.kinds import OPEN_PAGE
from mcphost.host.runtime_settings import RuntimeSettings
from mcphost.host.server_requests.request_handler import ServerRequestHandlerFactory
from mcphost.host.server_requests.root_folders import configured_roots
from mcphost.host.server_requests.roots import Roots
from mcphost.host.server_requests.sampling_models import SamplingModels
from mcphost.host.servers.catalog import KnownInstructions
from mcphost.host.servers.connection import ConnectionParts
from mcphost.host.servers.orphaned_tasks import OrphanedTasks
from mcphost.host.servers.rule_notices import NeverRuleNotices
from mcphost.host.servers.running_calls import RunningCalls
from mcphost.host.servers.server_approval import RunApprovals, ServerApprovals
from mcphost.host.servers.servers import Quarantine, Servers, ServerStartup
from mcphost.host.servers.tool_changes import ToolChangeTrackerFactory
from mcphost.host.servers.tool_registry import ToolRegistry
from mcphost.host.servers.tool_toggles import ToolToggles
from mcphost.paths import SetupPlaces
from mcphost.store.accepted_tools import ToolFingerprintStore
from mcphost.store.database import Database
from mcphost.store.grants import GrantStore
from mcphost.store.large_results import ResultStore
from mcphost.store.roots import FolderAnswerStore, FolderEditStore
from mcphost.store.tasks import TaskStore
from mcphost.store.tool_toggles import ToolToggleStore

if TYPE_CHECKING:
    from mcphost.host.api_keys import SessionSecretEntries
    from mcphost.host.app_pages.pages import AppPages
    from mcphost.host.budget.budget_limits import BudgetLimits
    from mcphost.host.budget.spending import SpendingTracker
    from mcphost.host.consent.auto_approve import AutoApproval
    from mcphost.host.consent.grants import GrantRegistry
    from mcphost.host.consent.policy import ConsentPolicy
    from mcphost.host.conversation.attachment_fitting import AttachmentFitter
    from mcphost.host.conversation.background_results import BackgroundResults
    from mcphost.host.conversation.compaction import Compactor
    from mcphost.host.conversation.context_report import RequestParts
    from mcphost.host.conversation.custom_commands import CustomCommands
    from mcphost.host.conversation.instructions import Instructions
    from mcphost.host.conversation.stored_conversations import StoredConversations
    from mcphost.host.conversation.title_writer import TitleWriter
    from mcphost.host.conversation.turn import TurnParts
    from mcphost.host.origins.conversation_origins import ConversationOrigins
    from mcphost.host.project_file_approvals import ProjectApprovals
    from mcphost.host.questions.sign_in import OpenUrl
    from mcphost.host.server_requests.sampling_costs import SamplingCosts
    from mcphost.host.servers.accounts import Accounts
    from mcphost.host.servers.features import ServerFeatures
    from mcphost.host.setup import Setup
    from mcphost.host.tools.builtin_tools import BuiltinTools
    from mcphost.host.tools.call_executor import ToolExecutor
    from mcphost.host.tools.call_pipeline import ToolPipeline
    from mcphost.host.tools.call_scheduler import CallScheduler
    from mcphost.host.tools.hooks import RunHook, ToolHooks
    from mcphost.host.tools.manual_calls import ManualCalls
    from mcphost.host.tools.result_review import ResultReviewer
    from mcphost.store.conversations import ConversationStore


def build_host(  # noqa: PLR0913 - what the program supplies; the rest is built here
    config: HostConfig,
    *,
    store: Database,
    opener: SessionOpener,
    model_factory: CreateModelFn,
    frontend: Frontend,
    open_url: "OpenUrl | None" = None,
    audit: AuditLog | None = None,
    results: ResultStore | None = None,
    events: EventBus | None = None,
    setup: "SetupParts | None" = None,
    project: ProjectPlaces | None = None,
    run_hook: "RunHook | None" = None,
) -> Host:
    """Build a host, which the caller must enter with `async with`.

    *open_url* opens a URL in a browser; if it is None, the frontend must open URLs. *results* stores the full text
    of tool results that are truncated for the model; if it is None, the full text is lost.
    """
    core = _create_core(
        config,
        store,
        model_factory,
        frontend,
        audit or create_in_memory_log(config.audit),
        results or ResultStore(None),
        events or EventBus(),
    )
    late_grants = LateGrants(GrantStore(store), core.settings, core.conversation, core.events, core.lifetime)
    servers = _create_servers(core, late_grants, opener, open_url)
    core.conversation.current.server_targets = servers.targets
    startup = ServerStartup(servers, core.settings, core.events)
    late = _LateParts(core, late_grants, servers, startup, opener, setup, project, run_hook, open_url)
    conversation = ConversationController(
        core.conversation, core.conversation_store,
        turn_parts=Lazy(lambda: late.turn_parts), model_selection=core.model_selection, startup=startup,
        tool_toggles=core.tool_toggles, events=core.events, lifetime=core.lifetime, audit=core.audit,
        index_copy=late.history.index_pending,
    )  # fmt: skip
    return Host(
        config=config,
        audit=core.audit,
        conversation=conversation,
        events=core.events,
        model_selection=core.model_selection,
        orphaned_tasks=core.orphaned_tasks,
        quarantine=Quarantine(servers),
        results=core.results,
        roots=core.roots,
        running_calls=core.running_calls,
        servers=servers,
        settings=core.settings,
        tool_toggles=core.tool_toggles,
        late_parts=late.as_lazy_parts(),
        lifetime=core.lifetime,
    )


class SetupParts(NamedTuple):
    """Parts that the host needs to change its configuration: folders, keyring and configuration files."""

    places: SetupPlaces
    secrets: "SessionSecretEntries"
    sources: ConfigSources


class _Core(NamedTuple):
    """Components of the host that most others use; `frontend` also records each answer in the audit log."""

    config: HostConfig
    settings: RuntimeSettings
    store: Database
    frontend: Frontend
    audit: AuditLog
    results: ResultStore
    events: EventBus
    lifetime: Lifetime
    conversation: ActiveConversation
    conversation_store: "Lazy[ConversationStore]"
    model_selection: ModelSelection
    orphaned_tasks: OrphanedTasks
    running_calls: RunningCalls
    question_budget: QuestionBudget
    roots: Roots
    sampling: SamplingModels
    tool_toggles: ToolToggles
    config_rules: ConfigRules
    run_approvals: RunApprovals
    spending: "Lazy[SpendingTracker]"
    budget: "Lazy[BudgetLimits]"


def _create_core(
    config: HostConfig,
    store: Database,
    model_factory: CreateModelFn,
    frontend: Frontend,
    audit: AuditLog,
    results: ResultStore,
    events: EventBus,
) -> _Core:
    lifetime, running_calls, spending = Lifetime(), RunningCalls(), Lazy(lambda: _create_spending(store, events))
    settings = RuntimeSettings(config)
    budget = Lazy(lambda: _create_budget(settings, spending, events))
    lifetime.on_close(audit.close)
    lifetime.start_soon(audit.run, name="audit rows")
    conversation_store = Lazy(lambda: _create_conversation_store(store))
    audit.conversation = conversation = ActiveConversation(conversation_store, events)
    model_selection = ModelSelection(
        model_factory, config.model, events, lifetime, conversation.has_images, system_prompt=config.system_prompt
    )
    lifetime.on_close(conversation.close)
    lifetime.start_soon(conversation.run, name="unsaved messages")
    lifetime.on_close(events.close)
    sampling_costs = Lazy(lambda: _create_sampling_costs(budget, spending, conversation))
    return _Core(
        config=config,
        settings=settings,
        store=store,
        frontend=audit.wrap_frontend(frontend),
        audit=audit,
        results=results,
        events=events,
        lifetime=lifetime,
        conversation=conversation,
        conversation_store=conversation_store,
        model_selection=model_selection,
        orphaned_tasks=OrphanedTasks(TaskStore(store), events, conversation, lifetime, running_calls),
        running_calls=running_calls,
        question_budget=QuestionBudget(),
        roots=Roots(configured_roots(config), FolderEditStore(store), audit, publish=events.publish, lifetime=lifetime),
        sampling=SamplingModels(model_selection, config.sampling, sampling_costs, conversation),
        tool_toggles=ToolToggles(ToolToggleStore(store), audit, events.publish, events.report_error),
        config_rules=ConfigRules(config.allow_rules, config.never_rules, config.settings_file),
        run_approvals=RunApprovals(config.servers),
        spending=spending,
        budget=budget,
    )


def _create_conversation_store(store: Database) -> "ConversationStore":
    from mcphost.store.conversations import ConversationStore

    return ConversationStore(store)


def _create_spending(store: Database, events: EventBus) -> "SpendingTracker":
    from mcphost.host.budget.spending import SpendingTracker
    from mcphost.store.spending import SpendingStore

    return SpendingTracker(SpendingStore(store), events)


def _create_budget(settings: RuntimeSettings, spending: "Lazy[SpendingTracker]", events: EventBus) -> "BudgetLimits":
    from mcphost.host.budget.budget_limits import BudgetLimits

    return BudgetLimits(settings, spending.get(), events)


def _create_attachment_fitter(lifetime: Lifetime) -> "AttachmentFitter":
    from mcphost.host.conversation.attachment_fitting import AttachmentFitter

    fitter = AttachmentFitter()
    lifetime.on_close(fitter.close)
    return fitter


def _create_sampling_costs(
    budget: "Lazy[BudgetLimits]", spending: "Lazy[SpendingTracker]", conversation: ActiveConversation
) -> "SamplingCosts":
    from mcphost.host.server_requests.sampling_costs import SamplingCosts

    return SamplingCosts(budget, spending, conversation)


def _create_servers(core: _Core, late_grants: LateGrants, opener: SessionOpener, open_url: "OpenUrl | None") -> Servers:
    handler_factory = ServerRequestHandlerFactory(
        core.frontend,
        core.sampling,
        core.roots,
        partial(core.events.notify, "warning"),
        core.audit,
        core.audit.wrap_open_url(open_url),
        core.question_budget,
        FolderAnswerStore(core.store),
    )
    tracker_factory = ToolChangeTrackerFactory(
        ToolFingerprintStore(core.store), core.frontend, core.events.report_error, late_grants.carry_over, core.audit
    )
    connection_parts = ConnectionParts(
        opener=opener,
        approvals=ServerApprovals(
            GrantStore(core.store), core.frontend, core.audit, core.run_approvals, notify=core.events.notify
        ),
        events=core.events, handler_factory=handler_factory, orphaned_tasks=core.orphaned_tasks,
        tracker_factory=tracker_factory,
        rule_notices=NeverRuleNotices(lambda: core.config_rules.never, core.events, core.config.servers),
        instructions=KnownInstructions(),
    )  # fmt: skip
    return Servers(core.config.servers, connection_parts, core.tool_toggles, core.lifetime)


class _LateParts:
    """Components for turns, tool calls, grants, accounts, setup and configuration, created on first use."""

    def __init__(  # noqa: PLR0913 - what the program supplies
        self,
        core: _Core,
        late_grants: LateGrants,
        servers: Servers,
        startup: ServerStartup,
        opener: SessionOpener,
        setup: SetupParts | None,
        project: ProjectPlaces | None,
        run_hook: "RunHook | None",
        open_url: "OpenUrl | None" = None,
    ) -> None:
        self._core, self._late_grants, self._servers, self._open_url = core, late_grants, servers, open_url
        self._startup, self._account_manager = startup, opener.account_manager
        self._setup, self._project, self._run_hook = setup, project, run_hook
        self._tool_registry = ToolRegistry(servers, core.tool_toggles.disabled_by)
        self._editable_texts = Lazy(lambda: self.origins)

    def as_lazy_parts(self) -> LateParts:
        """Return the components that frontends use, wrapped so that each is created on first use."""
        return LateParts(
            accounts=Lazy(lambda: self.accounts),
            attachments=Lazy(lambda: _create_attachment_fitter(self._core.lifetime)),
            auto_approval=Lazy(lambda: self.auto_approval),
            context=Lazy(lambda: self.request_parts.context),
            features=Lazy(lambda: self.features),
            commands=Lazy(lambda: self.commands),
            instructions=Lazy(lambda: self.instructions),
            grants=Lazy(lambda: self.grants),
            history=Lazy(lambda: self.history),
            hooks=Lazy(lambda: self.hooks),
            pages=Lazy(lambda: self.pages),
            setup=Lazy(lambda: self.setup),
            spending=self._core.spending,
            config_change_detector=Lazy(lambda: self.config_change_detector),
            tools=Lazy(lambda: self.manual_calls),
        )

    @cached_property
    def setup(self) -> "Setup | None":
        from mcphost.host.servers.server_file_editor import ServerFileEditor
        from mcphost.host.setup import Setup

        detector = self.config_change_detector
        if self._setup is None or detector is None:
            return None
        core = self._core
        places, secrets, _ = self._setup
        editor = ServerFileEditor(
            places.config_dir, places.folder, GrantStore(core.store), core.audit, secrets, core.run_approvals,
            detector.sources,
        )  # fmt: skip
        editor.on_never_rules = core.config_rules.forbid
        setup = Setup(
            places, self._servers, core.model_selection, editor, secrets, core.settings, detector, core.events.notify
        )  # fmt: skip
        core.lifetime.on_close(setup.server_editor.close)
        return setup

    @cached_property
    def config_change_detector(self) -> "ConfigChangeDetector | None":
        if self._setup is None:
            return None
        core, (places, _, sources) = self._core, self._setup
        parts = ConfigurableParts(
            self._servers, core.model_selection, core.config_rules, self.instructions, core.settings, core.results,
            core.audit, core.roots, core.sampling,
        )  # fmt: skip
        return ConfigChangeDetector(core.config, sources, parts, places.state_dir)

    @cached_property
    def project_approvals(self) -> "ProjectApprovals":
        from mcphost.host.project_file_approvals import ProjectApprovals

        core, places = self._core, self._project
        how = ("stored", frozenset[tuple[str, str]]()) if places is None else (places.approval, places.approved_files)
        return ProjectApprovals(GrantStore(core.store), core.frontend, core.audit, *how, notify=core.events.notify)

    @cached_property
    def commands(self) -> "CustomCommands":
        from mcphost.host.conversation.custom_commands import CustomCommands

        return CustomCommands(self._project, self.project_approvals, self._core.events)

    @cached_property
    def instructions(self) -> "Instructions":
        from mcphost.host.conversation.instructions import Instructions

        uses_project = self._core.config.context.project_instructions
        return Instructions(self._project, self.project_approvals, self._core.events, uses_project=uses_project)

    @cached_property
    def accounts(self) -> "Accounts":
        from mcphost.host.servers.accounts import Accounts

        core = self._core
        return Accounts(self._servers, self._account_manager, core.audit, partial(core.events.notify, "info"))

    @cached_property
    def features(self) -> "ServerFeatures":
        from mcphost.host.servers.features import ServerFeatures

        return ServerFeatures(self._servers, self._editable_texts)

    @cached_property
    def auto_approval(self) -> "AutoApproval":
        from mcphost.host.consent.auto_approve import AutoApproval

        core = self._core
        auto_approval = AutoApproval(self._tool_registry, core.conversation, core.events, core.audit, core.lifetime)
        core.conversation.on_replaced(partial(auto_approval.stop, "another conversation"))
        return auto_approval

    @cached_property
    def grants(self) -> "GrantRegistry":
        from mcphost.host.consent.grants import GrantRegistry

        core, late = self._core, self._late_grants
        return GrantRegistry(
            GrantStore(core.store), core.conversation_store.get(), late.matcher, self._servers, late.active_grants,
            core.audit, FolderAnswerStore(core.store),
        )  # fmt: skip

    @cached_property
    def history(self) -> "StoredConversations":
        from mcphost.host.conversation.stored_conversations import StoredConversations

        def cancel_calls(deleted: str) -> None:
            self.call_scheduler.cancel_background(deleted)

        core = self._core
        history = StoredConversations(core.store, core.conversation, core.results, cancel_calls, self._editable_texts)
        self._core.lifetime.on_close(history.unsent.flush)
        return history

    @cached_property
    def consent(self) -> "ConsentPolicy":
        from mcphost.host.consent.policy import ConsentPolicy

        return ConsentPolicy(
            self._late_grants.active_grants, self._core.frontend, self._late_grants.matcher,
            self._core.config_rules, self._core.audit, self.auto_approval.approve, self.origins.find,
        )  # fmt: skip

    @cached_property
    def origins(self) -> "ConversationOrigins":
        from mcphost.host.origins.conversation_origins import ConversationOrigins

        return ConversationOrigins(self._core.conversation, self._servers, self._core.model_selection)

    @cached_property
    def reviewer(self) -> "ResultReviewer":
        from mcphost.host.tools.result_review import ResultReviewer

        core = self._core
        return ResultReviewer(
            core.frontend, core.audit, core.events, self._servers, self._late_grants.matcher, core.config.pass_rules,
            self.origins.find, core.question_budget,
        )  # fmt: skip

    @cached_property
    def builtin_tools(self) -> "BuiltinTools":
        from mcphost.host.tools.builtin_tools import BuiltinTools, ResultLimits, ResultTool

        core, skills = self._core, self.features.skills
        core.conversation.on_rewound(skills.unload_all)
        limits = ResultLimits(core.settings, core.model_selection)
        result_tool = ResultTool(core.results, core.conversation, core.events, self.reviewer, limits)
        return BuiltinTools(
            skills, self.consent, result_tool, core.conversation, core.events, self.reviewer, core.audit,
            core.model_selection,
        )  # fmt: skip

    @cached_property
    def executor(self) -> "ToolExecutor":
        from mcphost.host.tools.approval_checks import ApprovalChecks
        from mcphost.host.tools.call_executor import ToolExecutor

        core, late, grants = self._core, self._late_grants, self._late_grants.active_grants
        may_auto_send = self.auto_approval.may_send
        executor = ToolExecutor(
            core.events, late.validator, self.builtin_tools.result_tool, core.orphaned_tasks, core.running_calls,
            core.audit, ApprovalChecks(grants.find_end, self.consent.is_forbidden, may_auto_send),
        )  # fmt: skip
        if OPEN_PAGE in core.frontend.kinds:
            executor.page_calls = Lazy(lambda: self.pages.calls)
            self.reviewer.on_passed = lambda call: "pages" in vars(self) and self.pages.calls.pass_reviewed(call)
        return executor

    @cached_property
    def pages(self) -> "AppPages":
        from mcphost.host.app_pages.page_requests import PageLimits, PageServices
        from mcphost.host.app_pages.pages import AppPages

        core, late = self._core, self._late_grants
        services = PageServices(
            self._servers, self.consent, self.executor, late.validator, self.hooks, core.frontend, core.audit,
            core.events, core.question_budget, self._editable_texts, core.audit.wrap_open_url(self._open_url),
            PageLimits(self.call_scheduler), count(1),
        )  # fmt: skip
        return AppPages(services, core.conversation, core.lifetime, core.store)

    @cached_property
    def hooks(self) -> "ToolHooks":
        from mcphost.host.tools.hooks import ToolHooks, refuse_to_run

        core = self._core
        return ToolHooks(
            lambda: (self.config_change_detector or core).config.hooks, self._project, self.project_approvals,
            self._run_hook or refuse_to_run, self._late_grants.matcher, self.origins.find, self._servers,
            core.audit, core.events,
        )  # fmt: skip

    @cached_property
    def tool_pipeline(self) -> "ToolPipeline":
        from mcphost.host.tools.call_pipeline import ToolPipeline
        from mcphost.host.tools.result_presenter import ResultPresenter
        from mcphost.host.tools.result_reuse import ResultReuse
        from mcphost.store.reusable_results import ReusableResultStore

        store, grants = ReusableResultStore(self._core.store), self._late_grants.active_grants
        return ToolPipeline(
            self._tool_registry, self._late_grants.validator, self.consent, self.executor,
            ResultPresenter(self.reviewer, self.builtin_tools.result_tool), self.builtin_tools, self.hooks,
            self._core.events, self.call_scheduler, ResultReuse(self._core.conversation, store, grants),
        )  # fmt: skip

    @cached_property
    def call_scheduler(self) -> "CallScheduler":
        from mcphost.host.tools.call_scheduler import CallScheduler

        return CallScheduler(self._core.lifetime, self._core.events, self._core.running_calls, self._core.settings)

    @cached_property
    def background_results(self) -> "BackgroundResults":
        from mcphost.host.conversation.background_results import BackgroundResults

        core, scheduler = self._core, self.call_scheduler
        results = BackgroundResults(
            core.conversation, core.conversation_store, core.events, lambda: scheduler.background_ids
        )
        scheduler.on_result = results.add
        return results

    @cached_property
    def manual_calls(self) -> "ManualCalls":
        from mcphost.host.tools.manual_calls import ManualCalls

        return ManualCalls(self._servers, self.consent, self.executor, self._late_grants.validator, self.hooks)

    @cached_property
    def compactor(self) -> "Compactor":
        from mcphost.host.conversation.compaction import Compactor

        core = self._core
        return Compactor(
            core.settings, core.conversation, core.model_selection, core.frontend, core.events,
            core.spending.get(), core.budget.get(), self.request_parts.builder.preview,
        )  # fmt: skip

    @cached_property
    def title_writer(self) -> "TitleWriter":
        from mcphost.host.conversation.title_writer import TitleWriter

        core = self._core
        return TitleWriter(core.settings, core.model_selection, core.spending.get(), core.budget.get(), core.events)

    @cached_property
    def request_parts(self) -> "RequestParts":
        from mcphost.host.conversation.context_report import RequestParts

        core = self._core
        return RequestParts(
            core.settings,
            conversation=core.conversation, model_selection=core.model_selection, events=core.events,
            servers=self._servers, startup=self._startup, tool_registry=self._tool_registry,
            tool_toggles=core.tool_toggles, builtin_tools=self.builtin_tools, instructions=self.instructions,
        )  # fmt: skip

    @cached_property
    def turn_parts(self) -> "TurnParts":
        from mcphost.host.budget.budget_check import BudgetCheck
        from mcphost.host.conversation.turn import TurnParts

        core, setup = self._core, self.setup
        budget = BudgetCheck(
            core.budget.get(), requests=self.request_parts.builder, frontend=core.frontend,
            model_selection=core.model_selection, list_models=setup.list_remembered if setup is not None else None,
        )  # fmt: skip
        compactor = self.compactor
        budget.compact, budget.has_old_messages = compactor.shorten, lambda: compactor.can_compact
        return TurnParts(
            requests=self.request_parts.builder,
            instructions=self.instructions,
            hooks=self.hooks,
            budget=budget,
            spending=core.spending.get(),
            tool_pipeline=self.tool_pipeline,
            scheduler=self.call_scheduler,
            auto_approval=self.auto_approval,
            reviewer=self.reviewer,
            compactor=compactor,
            title_writer=Lazy(lambda: self.title_writer),
            background=self.background_results,
            events=core.events,
            frontend=core.frontend,
            settings=core.settings,
        )
