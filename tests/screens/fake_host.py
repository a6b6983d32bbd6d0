"""A fake Host for the screens with the API of the real one; turns are Python functions, without servers or a model."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from time import time
from types import SimpleNamespace
from typing import Any, cast

import jsonschema_rs

from mcphost.auth.accounts import StoredAccount
from mcphost.client.session import ServerFacts
from mcphost.config.rules import Rule
from mcphost.config.schema import HostConfig, ModelConfig, ServerConfig
from mcphost.errors import ConsentDenied, UnsupportedCapability, UsageError
from mcphost.host import events
from mcphost.host.audit.audit_log import create_in_memory_log
from mcphost.host.budget.spending import SpendingTracker
from mcphost.host.consent.auto_approve import AutoApprovalBudget, AutoApprovalStatus
from mcphost.host.consent.grants import FolderAnswerStatus, GrantStatus, PastCall
from mcphost.host.consent.rule_matching import RuleInput, RuleMatch, RuleMatcher
from mcphost.host.conversation.attachment_fitting import AttachmentFitter
from mcphost.host.conversation.context_report import ContextReport
from mcphost.host.conversation.custom_commands import CustomCommands
from mcphost.host.conversation.instructions import Instructions
from mcphost.host.conversation.stored_conversations import StoredConversations
from mcphost.host.event_bus import EventBus
from mcphost.host.lifetime import Lifetime
from mcphost.host.page_contexts import PageContexts
from mcphost.host.questions.questions import AllowAlways, AllowOnce, AllowRule, AllowSession, ApproveTool, Deny
from mcphost.host.runtime_settings import RuntimeSettings
from mcphost.host.server_requests.roots import Roots
from mcphost.host.server_views import (
    Catalog,
    ManualCallResult,
    OpenedPage,
    ReleasedResult,
    SchemaErrors,
    ServerView,
    TurnResult,
)
from mcphost.host.servers.change_acceptances import ChangeAcceptances
from mcphost.host.servers.orphaned_tasks import OrphanedTasks
from mcphost.host.servers.running_calls import RunningCalls
from mcphost.host.tools.hooks import ToolHooks
from mcphost.llm.messages import Message, Part, TextPart, ToolReturnPart, ToolUsePart
from mcphost.llm.model import ModelEvent, ModelFacts, ModelRequest, Usage
from mcphost.message_log import MessageLog
from mcphost.protocol.content import ResourceContents
from mcphost.protocol.lifecycle import Implementation, ListCapability, ServerCapabilities
from mcphost.protocol.prompts import Completion, GetPromptResult, Prompt, PromptArgument, PromptMessage
from mcphost.protocol.resources import ReadResourceResult, Resource, ResourceTemplate
from mcphost.protocol.revisions import LATEST_STATELESS
from mcphost.protocol.tools import CallToolResult, Tool, ToolAnnotations
from mcphost.sandbox.schema_validator import SchemaValidator, SchemaViolation
from mcphost.sandbox.schema_worker import validate
from mcphost.serialization import Raw, encode, replace
from mcphost.store.compactions import Compaction
from mcphost.store.conversations import ConversationInfo
from mcphost.store.database import Database
from mcphost.store.large_results import ResultStore
from mcphost.store.manual_calls import AddManualCallFn, StoredManualCall
from mcphost.store.page_results import StoredPageCall
from mcphost.store.spending import SpendingStore
from mcphost.store.tasks import TaskStore

Turn = Callable[["FakeHost", int, str], Awaitable[str]]


class FakeModel:
    """A model that has a name but must not be called."""

    name = "scripted/one"
    label = "claude-sonnet · work"
    facts = ModelFacts(context_window=200_000)

    def stream(self, request: ModelRequest) -> AbstractAsyncContextManager[AsyncIterator[ModelEvent]]:
        raise NotImplementedError

    async def load_facts(self) -> None:
        return

    async def prepare(self) -> None:
        return

    async def close(self) -> None:
        return


class FakeEventQueue:
    """An ordered queue of events; iterating over it ends when the reader closes it."""

    def __init__(self) -> None:
        self.queue: asyncio.Queue[events.HostEvent] = asyncio.Queue()

    async def __aiter__(self) -> AsyncIterator[events.HostEvent]:
        while True:
            yield await self.queue.get()


def sample_catalog() -> Catalog:
    """Return the tools, resources and prompts of a plausible server."""
    return Catalog(
        tools=(
            Tool(
                name="search_files", description="Find text in files.", annotations=ToolAnnotations(read_only_hint=True)
            ),
            Tool(name="create_issue", description="Open an issue.\nNeeds write access."),
        ),
        resources=(
            Resource(
                uri="file:///project/README.md",
                name="README.md",
                mime_type="text/markdown",
                size=1204,
                description="What the project is",
            ),
            Resource(uri="file:///project/data.json", name="data.json", mime_type="application/json"),
        ),
        templates=(ResourceTemplate(uri_template="file:///{path}", name="any file"),),
        prompts=(
            Prompt(
                name="review",
                description="Review a change",
                arguments=(
                    PromptArgument(name="path", description="What to review", required=True),
                    PromptArgument(name="focus", description="What to look at"),
                ),
            ),
            Prompt(name="greet", description="Say hello"),
        ),
    )


def sample_facts() -> ServerFacts:
    """Return what a plausible server declared about itself."""
    return ServerFacts(
        revision=LATEST_STATELESS,
        info=Implementation(name="Files", version="1.2.0"),
        capabilities=ServerCapabilities(
            tools=ListCapability(list_changed=True), resources=ListCapability(), prompts=ListCapability()
        ),
    )


def sample_server(name: str, state: Any = "ready", *, full: bool = True, **more: Any) -> ServerView:
    """Return a plausible server for display."""
    return ServerView(
        config=ServerConfig(name=name, command="npx", args=("-y", f"{name}-server"), file="~/.config/mcphost/mcp.json"),
        state=state,
        facts=sample_facts() if state == "ready" else None,
        catalog=sample_catalog() if full and state == "ready" else Catalog(),
        **more,
    )


async def finish_at_once(call: str) -> None:
    """Return immediately, so that a manual call finishes."""
    del call


class FakeServerFeatures:
    """Server features other than tools; `suggestions` are by argument name, and `asked` records what was requested."""

    def __init__(self) -> None:
        self.suggestions: dict[str, list[str]] = {}
        self.asked: list[tuple[Any, str, str, dict[str, str]]] = []
        self.watching: dict[tuple[str, str], None] = {}
        self.interrupted: set[str] = set()
        self.texts: dict[str, str] = {}
        self.noted: list[tuple[str, str, str]] = []
        self.noted_targets: list[str] = []
        self.attached = self

    def note_text(self, server: str, source: str, text: str, target: str = "") -> None:
        self.noted.append((server, source, text))
        self.noted_targets.append(target)

    def note_prompt_text(self, server: str, name: str, text: str) -> None:
        self.note_text(server, f"prompt {name}", text)

    async def follow(self, resources: Iterable[tuple[str, str]]) -> None:
        """Do nothing, so that no attached resource is subscribed to."""

    def can_complete(self, server: str) -> bool:
        return True

    def subscribed_uris(self, server: str) -> tuple[str, ...]:
        return tuple(uri for name, uri in self.watching if name == server)

    def active_uris(self, server: str) -> tuple[str, ...]:
        return () if server in self.interrupted else self.subscribed_uris(server)

    async def subscribe(self, server: str, uri: str) -> None:
        if uri.endswith("json"):
            raise UnsupportedCapability(f"The server {server!r} offers no subscriptions.")
        self.watching[server, uri] = None

    async def unsubscribe(self, server: str, uri: str) -> bool:
        del self.watching[server, uri]
        return True

    async def read_resource(self, server: str, uri: str, *, bypass_cache: bool = False) -> ReadResourceResult:
        sample = '{"a": [1, 2]}' if uri.endswith("json") else "# A project\n\nIt reads files.\n"
        text = self.texts.get(uri, sample)
        mime = "application/json" if uri.endswith("json") else "text/markdown"
        return ReadResourceResult(contents=(ResourceContents(uri=uri, mime_type=mime, text=text),))

    async def get_prompt(self, server: str, name: str, arguments: dict[str, str]) -> GetPromptResult:
        text = f"Please {name} " + ", ".join(f"{key} {value}" for key, value in arguments.items())
        return GetPromptResult(
            messages=(PromptMessage(role="user", content=Raw(b'{"type":"text","text":"%s"}' % text.encode())),)
        )

    async def complete(self, server: str, ref: Any, argument: str, value: str, context: dict[str, str]) -> Completion:
        self.asked.append((ref, argument, value, context))
        if argument not in self.suggestions:
            raise UnsupportedCapability(f"The server {server!r} offers no completions.")
        values = tuple(
            suggestion for suggestion in self.suggestions[argument] if suggestion.lower().startswith(value.lower())
        )
        return Completion(values[:100], None, has_more=len(values) > 100)


class FakeAutoApproval:
    """A fake for auto-approval, with two tools that can be selected."""

    def __init__(self) -> None:
        self.status: AutoApprovalStatus | None = None
        self.started: list[tuple[list[tuple[str, str]], AutoApprovalBudget]] = []
        self.is_waiting_for_servers = False
        self.tool_names: tuple[str, ...] = ("read_file", "list_files")

    def candidates(self) -> tuple[Any, ...]:
        return tuple(
            SimpleNamespace(
                connection=SimpleNamespace(config=SimpleNamespace(name="files")),
                definition=SimpleNamespace(name=name, tool=SimpleNamespace(name=name)),
            )
            for name in self.tool_names
        )

    def start(self, tools: list[tuple[str, str]], budget: AutoApprovalBudget) -> AutoApprovalStatus:
        if not tools:
            raise UsageError("No tool is selected.", "Select at least one read-only tool.")
        self.started.append((tools, budget))
        self.status = AutoApprovalStatus(remaining=budget, budget=budget, tools=len(tools), servers=("files",))
        return self.status


class FakeGrantRegistry:
    """A fake list of grants, which a test sets."""

    def __init__(self) -> None:
        self.given: list[GrantStatus] = []
        self.answers: list[FolderAnswerStatus] = []
        self.made: list[tuple[str, dict[str, Any]]] = []

    async def match(self, rule: Rule, tool: str, arguments: dict[str, Any]) -> RuleMatch:
        call = RuleInput(server=rule.server, tool=tool, arguments=arguments, folder="/home/me/proj")
        checker = SchemaValidator()
        try:
            return await RuleMatcher(checker).match(rule, call)
        finally:
            await checker.close()

    async def preview(self, rule: Rule) -> tuple[PastCall, ...]:
        return tuple(
            [PastCall("c", "", 0, tool, given, await self.match(rule, tool, given)) for tool, given in self.made]
        )

    async def list_grants(self, *, server: str = "", text: str = "") -> tuple[GrantStatus, ...]:
        return tuple(item for item in self.given if server in ("", item.grant.server))

    def list_session_grants(self, *, server: str = "") -> tuple[GrantStatus, ...]:
        return tuple(item for item in self.given if item.grant.session and server in ("", item.grant.server))

    async def list_folder_answers(self, *, server: str = "") -> tuple[FolderAnswerStatus, ...]:
        return tuple(answer for answer in self.answers if server in ("", answer.answer.server))

    async def revoke(self, ident: str) -> None:
        self.answers = [answer for answer in self.answers if answer.answer.id != ident]
        self.given = [item for item in self.given if item.grant.id != ident]


class FakeAccounts:
    """A fake for the stored accounts, which records sign-ins and sign-outs."""

    def __init__(self) -> None:
        self.signed: list[tuple[str, str]] = []
        self.kept: list[StoredAccount] = []

    async def list_accounts(self) -> tuple[StoredAccount, ...]:
        return tuple(self.kept)

    async def own_accounts(self, server: str) -> tuple[StoredAccount, ...]:
        return tuple(item for item in self.kept if item.servers == (server,))

    async def select_account(self, server: str, account: str) -> None:
        self.kept = [
            replace(item, used_by=(server,) if item.account.name == account else ()) if server in item.servers else item
            for item in self.kept
        ]

    def cancel_sign_in(self, server: str) -> bool:
        self.signed.append(("stopped", server))
        return True

    async def sign_out_account(self, stored_account: StoredAccount) -> bool:
        self.kept.remove(stored_account)
        return True

    async def sign_in(self, server: str, account: str | None = None) -> None:
        self.signed.append(("in", server if account is None else f"{server} {account}"))

    async def sign_out(self, server: str) -> bool:
        self.signed.append(("out", server))
        return True


class FakeServers:
    """A fake for the host's servers."""

    def __init__(self, host: "FakeHost") -> None:
        self._host = host
        self.change_acceptances = ChangeAcceptances()
        self.targets: dict[str, str] = {}

    def views(self) -> tuple[ServerView, ...]:
        return self._host.views

    def view(self, name: str) -> ServerView:
        for view in self._host.views:
            if view.name == name:
                return view
        raise UsageError(f"There is no server {name}.")

    def log_messages(self, name: str) -> MessageLog:
        return self._host.message_logs.setdefault(name, MessageLog())

    def restart(self, server: str) -> None:
        self._host.restarted.append(server)

    def stop(self, server: str) -> None:
        self._host.stopped.append(server)

    async def set_tool_enabled(self, server: str, tool: str, *, enabled: bool) -> None:
        view = self.view(server)
        if enabled and tool in view.config.disabled_tools:
            raise UsageError(f"The tool {tool!r} is switched off by a file.", "Take it out there.")
        off = tuple(item for item in view.disabled_tools if item != tool) if enabled else (*view.disabled_tools, tool)
        self._host.views = tuple(
            replace(view, disabled_tools=off) if view.name == server else view for view in self._host.views
        )
        self._host.put(events.ToolToggled(server, tool, enabled))


class FakeManualCalls:
    """A fake for tool calls by the user.

    `withheld` is the reason why a hook withholds results, and `changed` the arguments to which a hook changes others.
    """

    def __init__(self, host: "FakeHost") -> None:
        self._host = host
        self.withheld = ""
        self.changed: dict[str, Any] | None = None
        self._call_count = 0

    def make_call_id(self) -> str:
        self._call_count += 1
        return f"hand-{self._call_count}"

    async def call(
        self, server: str, tool: str, arguments: dict[str, Any], *, call: str, typed_names: Sequence[str] = ()
    ) -> ManualCallResult:
        assert set(typed_names) <= set(arguments)
        arguments = arguments if self.changed is None else self.changed
        self._host.called.append((server, tool, arguments))
        self._host.put(events.ToolStarted(call, server, tool, arguments, "user"))
        outcome: Any = "stopped"
        text = ""
        try:
            await self._host.by_hand(call)
            outcome, text = "ok", f"{tool} gave {arguments}"
        except UsageError as error:
            outcome, text = "failed", error.message
            raise
        finally:
            self._host.put(events.ToolFinished(call, server, tool, outcome, text, 0.1))
        return ManualCallResult(CallToolResult(), text, 0.1, arguments=arguments)

    async def release(self, server: str, tool: str, result: ManualCallResult) -> ReleasedResult:
        if self.withheld:
            raise ConsentDenied(f"A hook withheld the result of {tool!r}: {self.withheld}", "Nothing was attached.")
        return ReleasedResult(result.text, result.images)

    async def validate(self, server: str, tool: str, arguments: dict[str, Any]) -> SchemaErrors:
        found = validate(jsonschema_rs, bytes(self._host.schema), encode(arguments)).get("faults", [])
        faults = tuple(SchemaViolation(path, text) for path, text in found)
        return SchemaErrors("; ".join(f"{fault.path}: {fault.message}" for fault in faults), faults)


class FakeConversation:
    """A fake conversation with scripted turns."""

    def __init__(self, host: "FakeHost") -> None:
        self._host = host
        self._opened_id = "c1"
        self._messages: tuple[Message, ...] = ()
        self.inserted = 0
        self.manual_calls: list[StoredManualCall] = []
        self.compaction: Compaction | None = None
        self.system_prompts: list[str] = []
        self.page_contexts = PageContexts(FakeEvents(host))  # type: ignore[arg-type]
        self._turns = 0
        self._task: asyncio.Task[Any] | None = None

    @property
    def messages(self) -> tuple[Message, ...]:
        return self._messages

    @messages.setter
    def messages(self, value: tuple[Message, ...]) -> None:
        self._messages = value

    @property
    def id(self) -> str:
        return self._opened_id if self._messages else ""

    @property
    def reserved_id(self) -> str:
        return self._opened_id

    def add_manual_call(self, call: StoredManualCall, page: StoredPageCall | None = None) -> str:
        self.manual_calls.append(call)
        return self.id

    def start_manual_call(self) -> AddManualCallFn:
        return self.add_manual_call

    @property
    def covered(self) -> int:
        return 0

    async def continue_turn(self) -> TurnResult:
        self._host.gone_on += 1
        self._host.put(events.TurnStarted(self._turns + 1, self._messages[-1], again=True))
        return TurnResult("done", "")

    async def send(self, text: str, attachments: Sequence[Part] = ()) -> TurnResult:
        with self.page_contexts.take(attachments) as contexts:
            attachments = (*attachments, *contexts)
        self._host.sent.append((text, tuple(attachments)))
        self._turns += 1
        turn = self._turns
        self._task = asyncio.current_task()
        message = Message(role="user", parts=(TextPart(text), *attachments), at=time())
        self._messages += (message,)
        self._host.put(events.TurnStarted(turn, message))
        outcome: Any = "done"
        try:
            self._host.put(events.RoundStarted(turn, 1, "scripted/one", "claude-sonnet"))
            said = await self._host.turn(self._host, turn, text)
        except asyncio.CancelledError:
            outcome, said = "stopped", ""
        finally:
            self._task = None
        answer = Message(role="assistant", parts=(TextPart(said),), at=time(), model="scripted/one")
        self._messages += (answer,)
        usage = Usage(input_tokens=1200, output_tokens=80, cost=0.012)
        self._host.put(events.MessageFinished(turn, answer, usage))
        self._host.put(events.TurnFinished(turn, outcome, usage))
        return TurnResult(outcome=outcome, text=said)

    @property
    def system_prompt(self) -> str:
        return self.system_prompts[-1] if self.system_prompts else ""

    @property
    def can_undo_system_prompt(self) -> bool:
        return bool(self.system_prompts)

    async def set_system_prompt(self, text: str) -> None:
        if self.is_busy:
            raise UsageError("The model is still answering.", "Press Esc to stop it first.")
        self.system_prompts.append(text)

    async def undo_system_prompt(self) -> None:
        self.system_prompts.pop()

    async def insert(self, messages: Sequence[Message]) -> None:
        self._messages += tuple(messages)
        self.inserted = len(messages)
        self._host.put(events.MessagesInserted(tuple(messages)))

    async def undo_insert(self) -> int:
        if not self.inserted:
            raise UsageError("There is no inserted prompt to undo.", "Go back to an earlier message with /rewind.")
        count, self.inserted = self.inserted, 0
        self._messages = self._messages[:-count]
        self._host.put(events.ConversationOpened(self.id, "", len(self._messages)))
        return count

    def send_to_background(self, call: str) -> None:
        if not self._host.running_calls.is_running(call):
            raise UsageError(
                "Only a running call of the model can continue in the background.", "Wait until it is running."
            )
        self._host.running_calls.mark_background(call)
        self._host.put(events.ToolBackgrounded(call, "files", "index_files"))

    def stop(self) -> bool:
        if self._task is None:
            return False
        self._task.cancel()
        return True

    @property
    def is_busy(self) -> bool:
        return self._task is not None

    def handle_rename(self, conversation_id: str, title: str) -> None:
        assert conversation_id != self.id, title

    async def list_stored(self, limit: int = 100) -> tuple[ConversationInfo, ...]:
        return tuple(self._host.stored[:limit])

    async def open(self, conversation_id: str) -> None:
        info = next(info for info in self._host.stored if info.id == conversation_id)
        self._opened_id = info.id
        self._messages = (
            Message(role="user", parts=(TextPart("What was said before"),), at=info.created),
            Message(
                role="assistant",
                parts=(
                    TextPart("An *earlier* answer."),
                    ToolUsePart("u1", "files__search_files", {"pattern": "TODO"}),
                ),
                at=info.created,
                model="scripted/one",
            ),
            Message(
                role="tool",
                parts=(ToolReturnPart("u1", "files__search_files", "14 matches", server="files", tool="search_files"),),
            ),
        )
        self._host.put(events.ConversationOpened(info.id, info.title, len(self._messages)))

    def open_new(self) -> None:
        if self.is_busy:
            raise UsageError("The model is still answering.", "Press Esc to stop it first.")
        self._messages = ()


class FakeEvents:
    """A fake for the host's events."""

    def __init__(self, host: "FakeHost") -> None:
        self._host = host

    def subscribe(self) -> FakeEventQueue:
        feed = FakeEventQueue()
        self._host.feeds.append(feed)
        return feed

    def publish(self, event: events.HostEvent) -> None:
        self._host.put(event)


class FakeContext:
    """A fake for the report on the context window, which a test sets."""

    def __init__(self) -> None:
        self.report = ContextReport(window=200_000)
        self.chosen: list[tuple[str, str, str]] = []
        self.pinned: set[tuple[str, str]] = set()
        self.pinned_by_setting: set[str] = set()
        self.tools = self

    async def measure(self) -> ContextReport:
        return self.report

    def prefer(self, server: str, tool: str, preference: str) -> None:
        self.chosen.append((server, tool, preference))

    def pinned_by(self, server: str, tool: str) -> str:
        return "user" if (server, tool) in self.pinned else "setting" if tool in self.pinned_by_setting else ""

    async def pin(self, server: str, tool: str, *, pinned: bool) -> None:
        self.pinned.add((server, tool)) if pinned else self.pinned.discard((server, tool))


class FakePages:
    """A fake for the interactive pages of tools; `open_pages` are those that are open."""

    def __init__(self) -> None:
        self.theme = self.locale = ""
        self.open_pages: list[OpenedPage] = []
        self.has_browser = True
        self.opened: list[str] = []
        self.closed: list[int] = []
        self.stored_calls: tuple[str, ...] = ()

    def use_theme(self, theme: str) -> None:
        self.theme = theme

    async def list_calls(self) -> frozenset[str]:
        return frozenset(self.stored_calls)

    async def open(self, call: str = "") -> tuple[OpenedPage, bool]:
        self.opened.append(call)
        if not self.open_pages:
            raise UsageError("There is no page to open.", "Call the tool again, or let the model call it.")
        return self.open_pages[-1], self.has_browser

    def close(self, number: int) -> bool:
        self.closed.append(number)
        self.open_pages = [page for page in self.open_pages if page.number != number]
        return True


class FakeHost:
    """A fake Host with everything that the screens use."""

    def __init__(
        self,
        frontend: Any,
        *,
        turn: Turn | None = None,
        model: Any = None,
        views: tuple[ServerView, ...] = (),
        no_model: bool = False,
        no_servers: bool = False,
        setup: Any = None,
        by_hand: Callable[[str], Awaitable[None]] = finish_at_once,
    ) -> None:
        self.by_hand = by_hand
        self.features = FakeServerFeatures()
        self.attachments = AttachmentFitter()  # starts no process for what fits
        self.grants = FakeGrantRegistry()
        self.accounts = FakeAccounts()
        self.schema = Raw(b'{"properties": {"path": {"type": "string"}}}')
        self.roots = Roots(())
        self.audit = create_in_memory_log()
        self.pages = FakePages()
        self.config = HostConfig()
        self.settings = RuntimeSettings(self.config)
        self.frontend = frontend
        self.turn = turn or answer_with_tool
        self.model_selection = SimpleNamespace(
            model=None if no_model else model or FakeModel(), config=ModelConfig(), system_prompt=""
        )
        self.servers = FakeServers(self)
        self.tools = FakeManualCalls(self)
        self.conversation = FakeConversation(self)
        self.events = FakeEvents(self)
        self.setup = setup
        self.spending_store = SpendingStore(Database(None))
        self.spending = SpendingTracker(self.spending_store, EventBus())
        self.config_change_detector: Any = None
        self.context = FakeContext()
        self.commands = CustomCommands(None, cast("Any", None), cast("Any", None))
        self.hooks = ToolHooks(lambda: (), None, *cast("Any", (None,) * 7))
        self.instructions = Instructions(None, cast("Any", None), cast("Any", None))
        self.views = (
            ()
            if no_servers
            else views
            or (
                sample_server("files"),
                sample_server("github"),
                sample_server("postgres", "connecting"),
                sample_server("slack", "failed", detail="It ended with exit status 1.", hint="See its log with F3."),
            )
        )
        self.feeds: list[FakeEventQueue] = []
        self.started = False
        self.sent: list[tuple[str, tuple[Part, ...]]] = []
        self.called: list[tuple[str, str, dict[str, Any]]] = []
        self.restarted: list[str] = []
        self.message_logs: dict[str, MessageLog] = {}
        self.stopped: list[str] = []
        self.gone_on = 0
        self.stored: list[ConversationInfo] = []
        self.database = Database(None)
        self.history = StoredConversations(self.database, cast("Any", self.conversation), ResultStore(None))
        self.auto_approval = FakeAutoApproval()
        self.running_calls = RunningCalls()
        self.task_store = TaskStore(self.database)
        self.orphaned_tasks = OrphanedTasks(
            self.task_store, EventBus(), cast("Any", self.conversation), Lifetime(), self.running_calls
        )
        self.halted = 0

    async def list_page_calls(self) -> frozenset[str]:
        return await self.pages.list_calls()

    @property
    def open_pages(self) -> tuple[OpenedPage, ...]:
        return tuple(self.pages.open_pages)

    @property
    def auto_approval_status(self) -> AutoApprovalStatus | None:
        return self.auto_approval.status

    def halt(self) -> bool:
        self.halted += 1
        self.auto_approval.status = None
        self.put(events.AutoApprovalChanged(on=False, why="ended by you"))
        return True

    def put(self, event: events.HostEvent) -> None:
        """Add an event to every queue."""
        for feed in self.feeds:
            feed.queue.put_nowait(event)

    def start(self, *, retry_unreachable: bool = False) -> None:
        self.started = True
        model = self.model_selection.model
        if model is not None:
            self.put(events.ModelChanged(model.name, model.label, "ready"))

    @property
    def tool_toggles(self) -> Any:
        return SimpleNamespace(disabled_by=lambda config, tool: "file" if tool in config.disabled_tools else "user")

    # -- pieces for scripts

    def say(self, turn: int, text: str, size: int = 12) -> None:
        """Stream a text as the answer of a turn, in pieces of *size* characters."""
        for start in range(0, len(text), size):
            self.put(events.TextDeltaEvent(turn, text[start : start + size]))

    async def tool(
        self, call: str, where: str, tool: str, arguments: dict[str, Any], result: str = "done", **more: Any
    ) -> bool:
        """Ask the user about a tool call, and publish the events of a run or refusal; return whether it ran."""
        self.put(events.ToolProposed(call, where, tool, arguments))
        verdict = await self.frontend.ask(
            ApproveTool(
                server=where,
                why=more.pop("why", "asked by the model, turn 1"),
                call=call,
                tool=tool,
                arguments=arguments,
                **more,
            )
        )
        if isinstance(verdict, Deny):
            self.put(events.ToolFinished(call, where, tool, "declined", verdict.reason))
            return False
        assert isinstance(verdict, AllowOnce | AllowSession | AllowAlways | AllowRule)
        if isinstance(verdict, AllowOnce) and verdict.arguments is not None:
            arguments = verdict.arguments
        self.put(events.ToolStarted(call, where, tool, arguments, "once"))
        self.put(events.ToolFinished(call, where, tool, "ok", result, 0.1))
        return True


async def answer_with_tool(host: FakeHost, turn: int, text: str) -> str:
    """Play a turn that calls one tool, with the user's consent, and then answers."""
    host.say(turn, "I will look.\n\n")
    ran = await host.tool(
        f"call{turn}",
        "files",
        "search_files",
        {"pattern": "TODO", "path": "./src"},
        "14 matches",
        description="Find text in files.",
        claims=ToolAnnotations(read_only_hint=True),
    )
    said = "There are **14**." if ran else "You declined, so I do not know."
    host.say(turn, said)
    return said


def replace_state(view: ServerView, state: Any, **more: Any) -> ServerView:
    """Return a copy of a server's view with another state."""
    return replace(view, state=state, **more)


async def echo_reply(host: FakeHost, turn: int, text: str) -> str:
    host.say(turn, f"You said: **{text}**")
    return f"You said: {text}"
