"""Host: the root task group and the whole API a front end may use."""

import logging
from collections.abc import Container, Sequence
from contextlib import AsyncExitStack
from functools import cached_property, partial
from shlex import quote
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import anyio
from anyio.abc import TaskGroup

from mcphost.client.session import Opener
from mcphost.config.schema import HostConfig, ModelConfig
from mcphost.errors import Declined, StoreError, UsageError
from mcphost.host.audit.audit_log import Journal, in_memory
from mcphost.host.conversation.conversation import Conversation
from mcphost.host.event_queue import Feed, Feeds
from mcphost.host.events import ConversationOpened, SigningIn, Told
from mcphost.host.model_selection import Answering, ModelFactory
from mcphost.host.questions.frontend import Front
from mcphost.host.questions.question_budget import OpenQuestions
from mcphost.host.questions.sign_in_prompts import OpenUrl
from mcphost.host.server_requests.request_handler import Desks
from mcphost.host.server_requests.root_list import sources
from mcphost.host.server_requests.roots import Roots
from mcphost.host.server_requests.sampling_models import SamplingModels
from mcphost.host.servers.approval import Trusting
from mcphost.host.servers.connection import Connection
from mcphost.host.servers.orphaned_tasks import LeftTasks
from mcphost.host.servers.quarantine import Held
from mcphost.host.servers.servers import Servers
from mcphost.host.servers.startup_wait import ServerStartup
from mcphost.host.servers.tool_changes import Drifts
from mcphost.host.servers.tool_registry import Toolbox
from mcphost.host.servers.tool_toggles import Switches
from mcphost.host.views import ConversationInfo, ServerView, ToolOutcome, TurnResult
from mcphost.llm.messages import Message, Part
from mcphost.llm.model import ChatModel
from mcphost.serialization import replace
from mcphost.store.conversations import Conversations
from mcphost.store.database import Database
from mcphost.store.grants import Grants
from mcphost.store.results import Results
from mcphost.store.roots import FolderAnswers, StoredFolders
from mcphost.store.tasks import StoredTasks
from mcphost.store.tool_fingerprints import Pins
from mcphost.store.tool_toggles import StoredSwitches

if TYPE_CHECKING:
    from mcphost.host.consent.auto_approve import Autonomy, Running
    from mcphost.host.consent.grants import Permissions
    from mcphost.host.conversation.assembly import Pipeline
    from mcphost.host.results.tool_schemas import Misfit
    from mcphost.host.servers.accounts import Accounts
    from mcphost.host.servers.features import Features
    from mcphost.protocol.prompts import PromptResult
    from mcphost.protocol.resources import ReadResult

GO_ON = "Your answer was cut off. Go on exactly where it ended."
_log = logging.getLogger(__name__)


class Host:
    """Owns everything that lives: servers, the model, the conversation.

    `async with Host(...) as host` opens the root task group and starts nothing; `start()` does. Leaving cancels all,
    saves the conversation and closes the servers. Every method is called on the event loop that entered it.
    """

    def __init__(
        self,
        config: HostConfig,
        *,
        store: Database,
        opener: Opener,
        models: ModelFactory,
        front: Front,
        open_url: OpenUrl | None = None,
        journal: Journal | None = None,
        results: Results | None = None,
    ) -> None:
        self.config = config
        self.journal = journal or in_memory(config.ledger)
        self.journal.conversation = lambda: self._conversation.id
        self._front = front = self.journal.front(front)
        self._feeds = Feeds()
        self._saved = Conversations(store)
        self._grants, self._folders = Grants(store), FolderAnswers(store)
        self._trusting = Trusting(self._grants, front, self.journal)
        self.roots = Roots(sources(config), StoredFolders(store), self.journal, put=self._feeds.put)
        self._answering = Answering(models, config.model, self._feeds)
        asked = SamplingModels(self._answering, config.sampling, lambda: self._conversation.messages)
        warn, self._questions = partial(self.tell, "warning"), OpenQuestions()
        desks = Desks(front, asked, self.roots, warn, self.journal, self.journal.browser(open_url),
                      self._questions, self._folders)  # fmt: skip
        self._left = LeftTasks(StoredTasks(store), self._feeds, lambda: self._conversation.id, self._tell_store)
        drifts = Drifts(Pins(store), front, self._tell_store, self._follow, self.journal)
        self._servers = Servers(
            config.servers, opener=opener, trusting=self._trusting, feeds=self._feeds, desks=desks, left=self._left,
            drifts=drifts,
        )  # fmt: skip
        self._startup = ServerStartup(self._servers, config.limits.server_wait, self.tell)
        self.held = Held(self._servers)
        self._opener = opener
        self.switches = Switches(StoredSwitches(store), self.journal, self._feeds.put, self._tell_store)
        self._toolbox = Toolbox(lambda: self._servers, self.switches.off)
        self.results = results or Results(None)
        self._conversation = Conversation(self._saved, self._tell_store)
        self._made: Pipeline | None = None
        self._tasks: TaskGroup | None = None
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        self._tasks = await self._stack.enter_async_context(anyio.create_task_group())
        self._left.own(self._tasks)
        self._servers.own(self._tasks)
        self._answering.own(self._tasks)
        if self._made is not None:
            self._made.own(self._tasks)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        if self._tasks is not None:
            self._tasks.cancel_scope.cancel()
        try:
            return await self._stack.__aexit__(kind, error, trace)
        finally:
            self._feeds.close()
            with anyio.CancelScope(shield=True):
                if self._made is not None:
                    await self._made.close()
                await self._answering.close()
                await self.journal.close()

    # -- made, and loaded, with the first use
    @property
    def _pipeline(self) -> "Pipeline":
        if self._made is None:
            from mcphost.host.conversation.assembly import Pipeline, Surroundings

            host = Surroundings(
                answering=self._answering, conversation=lambda: self._conversation, features=self.features,
                feeds=self._feeds, folders=self._folders, front=self._front, grants=self._grants, journal=self.journal,
                left=self._left, questions=self._questions, results=self.results, saved=self._saved,
                servers=self._servers, startup=self._startup, tell=self.tell, toolbox=self._toolbox,
            )  # fmt: skip
            self._made = Pipeline(self.config, host)
            if self._tasks is not None:
                self._made.own(self._tasks)
        return self._made

    @property
    def autonomy(self) -> "Autonomy":
        """What runs unasked for a while."""
        return self._pipeline.autonomy

    @property
    def permissions(self) -> "Permissions":
        """Grants: listed, previewed, revoked."""
        return self._pipeline.permissions

    @cached_property
    def features(self) -> "Features":
        """What servers offer besides tools."""
        from mcphost.host.servers.features import Features

        return Features(self._servers)

    @cached_property
    def accounts(self) -> "Accounts":
        """Who is signed in where."""
        from mcphost.host.servers.accounts import Accounts

        return Accounts(self._servers, self._opener, self.journal, partial(self.tell, "info"))

    def start(self, *, left_tasks: bool = True, only: Container[str] | None = None) -> None:
        """Start connecting every enabled server, side by side, and prepare the model. Returns at once.

        `only`: the names of the servers to start; None for all of them.
        `left_tasks`: follow what an earlier run left at the servers, and tell of it like of calls by hand.
        """
        self._left.shown = left_tasks
        for problem in self.config.problems:
            self.tell("warning", problem)
        self._servers.start_all(only)
        self._answering.prepare()
        if self._tasks is not None:
            self._tasks.start_soon(self.switches.known, name="switches")

    def events(self) -> Feed:
        """A new feed of everything from now on."""
        return self._feeds.open()

    def tell(self, level: Any, text: str, hint: str = "") -> None:
        """Tell every front one sentence."""
        self._feeds.put(Told(level, text, hint))

    # -- servers
    def servers(self) -> tuple[ServerView, ...]:
        """All configured servers in order."""
        return tuple(self._view(connection) for connection in self._servers)

    def server(self, name: str) -> ServerView:
        """One server. Raises UsageError for an unknown name."""
        return self._view(self._servers.find(name))

    def _view(self, connection: Connection) -> ServerView:
        view = connection.view()
        off = self.switches.among(view.config, view.catalog.tools)
        return replace(view, off=off) if off else view

    async def switch_tool(self, server: str, tool: str, *, on: bool) -> None:
        """Let the model have this tool or not, also in later runs. Raises UsageError, Declined."""
        await self.switches.switch(self._servers.find(server).config, tool, on=on)

    async def ready(self, server: str) -> ServerView:
        """Wait until it is ready, starting it when it is not. Raises ServerError, Declined or UsageError."""
        connection = self._servers.start(server)
        await connection.session()
        await self.switches.known()
        return self._view(connection)

    def restart(self, server: str) -> None:
        """Close the connection and open it again; also the retry key of a failed server."""
        self._servers.start(server).restart()

    def signing_in(self, event: SigningIn) -> None:
        """A sign-in to one of the servers goes on."""
        self._servers.find(event.server).signing_in(event)

    async def trusted(self, server: str) -> bool:
        """Whether an approval covers the server exactly as it is configured. Raises UsageError, StoreError."""
        return await self._trusting.knows(self._servers.find(server).config)

    async def trust(self, server: str) -> None:
        """The user's own approval, kept until command or address change. Raises UsageError, StoreError."""
        await self._trusting.approve(self._servers.find(server).config)

    async def call_tool(self, server: str, tool: str, arguments: dict[str, Any]) -> ToolOutcome:
        """The user's own call: asks nothing.

        Raises ServerError, UsageError (unknown tool), and Declined for a server that is not approved, a tool that is
        no longer what it was, or a call that the configuration never allows.
        """
        offered = await self._servers.tool(server, tool)
        if tool in offered.connection.drift.held:
            raise Declined(
                f"The tool {tool!r} of {server!r} is not what it was before, and is held back.",
                f"See how it changed, and keep it or not: mcphost servers changes {quote(server)}",
            )
        await self._pipeline.consent.may_run(offered, arguments)
        done = await self._pipeline.performing.by_hand(offered, arguments)
        return ToolOutcome(done.result, done.rendered.text, done.seconds, done.checked)

    async def misfit(self, server: str, tool: str, arguments: dict[str, Any]) -> "Misfit":
        """What in these arguments does not fit the tool's inputSchema; nothing when they may be sent.

        Raises ServerError, Declined, UsageError.
        """
        return await self._pipeline.calls.misfit(await self._servers.tool(server, tool), arguments)

    async def read_resource(self, server: str, uri: str) -> "ReadResult":
        """See Features.read."""
        return await self.features.read(server, uri)

    async def get_prompt(self, server: str, name: str, arguments: dict[str, str]) -> "PromptResult":
        """See Features.prompt."""
        return await self.features.prompt(server, name, arguments)

    # -- conversation
    @property
    def messages(self) -> tuple[Message, ...]:
        """The open conversation so far."""
        return tuple(self._conversation.messages)

    @property
    def conversation_id(self) -> str:
        """Its id; empty until something was said."""
        return self._conversation.id

    @property
    def conversation_title(self) -> str:
        """Its first line; empty until something was said."""
        return self._conversation.title

    @property
    def busy(self) -> bool:
        """Whether a turn runs."""
        return self._made is not None and self._made.turns.running

    def stop(self) -> bool:
        """Stop the running turn; False when none runs."""
        return self._made is not None and self._made.turns.stop()

    @property
    def running_unasked(self) -> "Running | None":
        """What runs unasked now, and what is left of its budget; None while everything is asked."""
        return None if self._made is None else self._made.autonomy.running

    def halt(self) -> bool:
        """The kill key: nothing runs unasked any more, and the running turn stops; False when there was neither."""
        ended = self._made is not None and self._made.autonomy.stop("ended by you")
        return self.stop() or ended

    async def send(self, text: str, attachments: Sequence[Part] = ()) -> TurnResult:
        """One turn: user message, model, tool calls, until done or stopped.

        What goes wrong in it is in the result, never raised; UsageError when a turn already runs. Cancelling the
        caller stops the turn.
        """
        return await self._pipeline.turns.send(text, attachments, self.switches.known)

    async def go_on(self) -> TurnResult:
        """Go on with an answer that was cut off or stopped; ask the model again when nothing came. See `send`.

        Raises UsageError when the last answer is complete.
        """
        last = self._conversation.messages[-1] if self._conversation.messages else None
        if last is not None and last.role == "assistant" and last.cut:
            return await self.send(GO_ON)
        if last is None or last.role == "assistant":
            raise UsageError("There is no answer that was cut off.", "Write a message.")
        return await self._pipeline.turns.send(None, (), self.switches.known)

    async def conversations(self, limit: int = 100, *, prefix: str = "") -> tuple[ConversationInfo, ...]:
        """Stored conversations, newest first; only those whose id begins with `prefix`. Raises StoreError."""
        rows = await (self._saved.find(prefix) if prefix else self._saved.recent(limit))
        return tuple(
            ConversationInfo(row.id, row.title, row.model, row.messages, row.created, row.updated) for row in rows
        )

    async def open_conversation(self, ident: str) -> None:
        """Show a stored one and go on with it. Raises UsageError for an unknown id, or while a turn runs."""
        self._no_turn()
        conversation = await Conversation.load(self._saved, self._tell_store, ident)
        if conversation is None:
            raise UsageError(f"There is no conversation {ident!r}.", "List them with: mcphost sessions")
        self._no_turn()
        self._show(conversation)

    def new_conversation(self) -> None:
        """Start afresh. Raises UsageError while a turn runs."""
        self._no_turn()
        self._show(Conversation(self._saved, self._tell_store))

    def _show(self, conversation: Conversation) -> None:
        self._conversation = conversation
        if self._made is not None:
            self._made.autonomy.stop("another conversation")
            self.features.skills.forget()
        self._feeds.put(ConversationOpened(conversation.id, conversation.title, len(conversation.messages)))

    def _no_turn(self) -> None:
        if self.busy:
            raise UsageError("A turn is running.", "Stop it first.")

    async def _follow(self, server: str, server_digest: str, tool: str, before: str, after: str) -> None:
        """Move grants along with a tool that the user kept."""
        await self._pipeline.standing.follow(server, server_digest, tool, before, after)

    def _tell_store(self, error: StoreError) -> None:
        self.tell("error", error.message, error.hint)

    # -- model
    @property
    def model(self) -> ChatModel | None:
        """The model that answers, or None when none is configured."""
        return self._answering.model

    @property
    def model_config(self) -> ModelConfig:
        """What was chosen."""
        return self._answering.config

    def use_model(self, config: ModelConfig) -> None:
        """Change the model for the next turn and prepare it. Raises UsageError while a turn runs, ModelError."""
        self._no_turn()
        self._answering.use(config)
