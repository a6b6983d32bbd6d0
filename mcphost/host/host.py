"""Host: the root task group and the whole API a front end may use."""

import itertools
import logging
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from functools import partial
from types import TracebackType
from typing import Any, Self

import anyio
from anyio.abc import TaskGroup

from mcphost.clean import whole
from mcphost.client.session import Opener
from mcphost.config.schema import HostConfig, ModelConfig
from mcphost.errors import Declined, McpHostError, ModelError, StoreError, UsageError
from mcphost.host.consent import Consent
from mcphost.host.conversation import Conversation
from mcphost.host.desk import Desks
from mcphost.host.events import ConversationOpened, ModelChanged, Told, TurnFinished, TurnStarted
from mcphost.host.features import Features
from mcphost.host.feed import Feed, Feeds
from mcphost.host.front import Front
from mcphost.host.left_tasks import LeftTasks
from mcphost.host.roots import Roots, started_in
from mcphost.host.servers import Servers
from mcphost.host.sign_in import OpenUrl
from mcphost.host.skill_tool import SkillTool
from mcphost.host.system import system_prompt
from mcphost.host.tool_calls import ToolCalls
from mcphost.host.toolbox import Toolbox
from mcphost.host.trust import Trusting
from mcphost.host.turn import Ended, Turn
from mcphost.host.views import ConversationInfo, ServerView, ToolOutcome, TurnResult
from mcphost.llm.model import ChatModel, ModelRequest, ToolSpec
from mcphost.llm.parts import Message, Part, TextPart
from mcphost.protocol.prompts import PromptResult
from mcphost.protocol.resources import ReadResult
from mcphost.schemas.checker import Checker
from mcphost.store.conversations import Conversations
from mcphost.store.database import Database
from mcphost.store.grants import Grants
from mcphost.store.tasks import StoredTasks

ModelFactory = Callable[[ModelConfig], ChatModel]
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
    ) -> None:
        self.config = config
        self._front = front
        self._feeds = Feeds()
        self._saved = Conversations(store)
        grants = Grants(store)
        self._trusting = Trusting(grants, front)
        self.roots = Roots(config.roots if config.roots is not None else started_in())
        desks = Desks(front, lambda: self._model, self.roots, partial(self.tell, "warning"), open_url)
        self._left = LeftTasks(StoredTasks(store), self._feeds, lambda: self._conversation.id, self._tell_store)
        self._servers = Servers(
            config.servers,
            opener=opener,
            trusting=self._trusting,
            feeds=self._feeds,
            desks=desks,
            left=self._left,
        )
        self.features = Features(self._servers)
        self._toolbox = Toolbox(lambda: self._servers)
        self._consent = Consent(grants, front, self._tell_store)
        self._checker = Checker()
        self._skills = SkillTool(self.features.skills, self._consent, self._feeds)
        self._calls = ToolCalls(
            self._toolbox,
            self._consent,
            self._feeds,
            self._checker,
            self._skills,
            self._left,
            config.limits.parallel_calls,
        )
        self._conversation = Conversation(self._saved, self._tell_store)
        self._models = models
        self._model_config = config.model
        self._model: ChatModel | None = models(config.model) if config.model.name else None
        self._turn: anyio.CancelScope | None = None
        self._turns = itertools.count(1)
        self._by_hand = itertools.count(1)
        self._told_tools = 0
        self._tasks: TaskGroup | None = None
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        self._tasks = await self._stack.enter_async_context(anyio.create_task_group())
        self._left.own(self._tasks)
        self._servers.own(self._tasks)
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
                await self._checker.close()
                if self._model is not None:
                    await self._model.close()

    def start(self, *, left_tasks: bool = True) -> None:
        """Start connecting every enabled server, side by side, and prepare the model. Returns at once.

        `left_tasks`: follow what an earlier run left at the servers, and tell of it like of calls by hand.
        """
        self._left.shown = left_tasks
        for problem in self.config.problems:
            self.tell("warning", problem)
        self._servers.start_all()
        self._prepare()

    def events(self) -> Feed:
        """A new feed of everything from now on."""
        return self._feeds.open()

    def tell(self, level: Any, text: str, hint: str = "") -> None:
        """Tell every front one sentence."""
        self._feeds.put(Told(level, text, hint))

    # -- servers
    def servers(self) -> tuple[ServerView, ...]:
        """All configured servers in order."""
        return tuple(connection.view() for connection in self._servers)

    def server(self, name: str) -> ServerView:
        """One server. Raises UsageError for an unknown name."""
        return self._servers.find(name).view()

    async def ready(self, server: str) -> ServerView:
        """Wait until it is ready, starting it when it is not. Raises ServerError, Declined or UsageError."""
        connection = self._servers.start(server)
        await connection.session()
        return connection.view()

    def restart(self, server: str) -> None:
        """Close the connection and open it again; also the retry key of a failed server."""
        self._servers.start(server).restart()

    def signing_in(self, server: str) -> None:
        """The user is being asked to sign in to it, on behalf of its connection."""
        self._servers.find(server).signing_in()

    async def login(self, server: str) -> ServerView:
        """Have the user sign in anew, then connect again. Raises ServerError, Declined, UsageError."""
        await self._servers.find(server).login()
        return await self.ready(server)

    async def trusted(self, server: str) -> bool:
        """Whether an approval covers the server exactly as it is configured. Raises UsageError, StoreError."""
        return await self._trusting.knows(self._servers.find(server).config)

    async def trust(self, server: str) -> None:
        """The user's own approval, kept until command or address change. Raises UsageError, StoreError."""
        await self._trusting.approve(self._servers.find(server).config)

    async def call_tool(self, server: str, tool: str, arguments: dict[str, Any]) -> ToolOutcome:
        """The user's own call: asks nothing.

        Raises ServerError, UsageError (unknown tool), and Declined for a server that is not approved or a tool that is
        no longer what "always" was given to.
        """
        offered = await self._servers.tool(server, tool)
        if await self._consent.drifted(offered):
            raise Declined(
                f"The tool {tool!r} of {server!r} is not what it was when it was allowed for always.",
                "Let the model ask for it in a chat: the question there says that it changed.",
            )
        done = await self._calls.perform(f"hand-{next(self._by_hand)}", offered, arguments, "user")
        return ToolOutcome(done.result, done.rendered.text, done.seconds, done.checked)

    async def read_resource(self, server: str, uri: str) -> ReadResult:
        """See Features.read."""
        return await self.features.read(server, uri)

    async def get_prompt(self, server: str, name: str, arguments: dict[str, str]) -> PromptResult:
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
        return self._turn is not None

    def stop(self) -> bool:
        """Stop the running turn; False when none runs."""
        if self._turn is None:
            return False
        self._turn.cancel()
        return True

    async def send(self, text: str, attachments: Sequence[Part] = ()) -> TurnResult:
        """One turn: user message, model, tool calls, until done or stopped.

        What goes wrong in it is in the result, never raised; UsageError when a turn already runs. Cancelling the
        caller stops the turn.
        """
        if self._turn is not None:
            raise UsageError("A turn is running.", "Wait for it, or stop it first.")
        if self._tasks is None:
            raise UsageError("The host is not running.", "Enter it with `async with` first.")
        done = anyio.Event()
        results: list[TurnResult] = []
        scope = self._turn = anyio.CancelScope()

        async def work() -> None:
            try:
                results.append(await self._run_turn(scope, text, attachments))
            finally:
                self._turn = None
                done.set()

        # The turn belongs to the host, so that it ends in order even when the front end goes away first.
        self._tasks.start_soon(work, name="turn")
        try:
            await done.wait()
        except BaseException:
            scope.cancel()
            raise
        return results[0] if results else TurnResult("stopped", "")

    async def _run_turn(self, scope: anyio.CancelScope, text: str, attachments: Sequence[Part]) -> TurnResult:
        number = next(self._turns)
        message = Message(role="user", parts=(*attachments, TextPart(whole(text))))
        message = await self._conversation.append(message, self._model.name if self._model else "")
        self._feeds.put(TurnStarted(number, message))
        if self._model is None:
            return self._failed(
                number, ModelError("No model is chosen.", "Start with --model PROVIDER/MODEL, or try: mcphost demo"), 3
            )
        turn = Turn(
            number, model=self._model, request=self._request, conversation=self._conversation, calls=self._calls,
            telling=(self._feeds, self._front), limits=self.config.limits,
        )  # fmt: skip
        ended = Ended("stopped")
        try:
            with scope:
                ended = await turn.run()
        except McpHostError as error:
            return self._failed(number, error, error.exit_code, turn)
        except Exception as error:  # noqa: BLE001
            # The boundary of a turn: a bug of ours must not take the conversation with it.
            _log.exception("turn %d", number)
            ours = next((one for one in getattr(error, "exceptions", ()) if isinstance(one, McpHostError)), None)
            fault = ours or McpHostError(f"mcphost made a mistake: {error!r}.", "The log has the details.")
            return self._failed(number, fault, fault.exit_code, turn)
        self._feeds.put(TurnFinished(number, ended.outcome, turn.usage))  # pyright: ignore[reportArgumentType]
        return TurnResult(ended.outcome, turn.text, turn.declined, exit_code=5 if turn.declined else 0)

    def _failed(self, number: int, error: McpHostError, exit_code: int, turn: Turn | None = None) -> TurnResult:
        text, declined = (turn.text, turn.declined) if turn else ("", 0)
        if turn:
            self._feeds.put(TurnFinished(number, "failed", turn.usage, error.message, error.hint))
        else:
            self._feeds.put(TurnFinished(number, "failed", error=error.message, hint=error.hint))
        return TurnResult("failed", text, declined, error.message, error.hint, exit_code)

    def _request(self) -> ModelRequest:
        return ModelRequest(
            messages=tuple(self._conversation.messages),
            system=system_prompt(self.config.system_prompt, self._servers),
            tools=self._specs(),
            max_output_tokens=self._model_config.max_output_tokens,
        )

    def _specs(self) -> tuple[ToolSpec, ...]:
        limit = self.config.limits.tools_to_model
        left_out = len(self._toolbox.all()) - limit
        if left_out > 0 and left_out != self._told_tools:
            self.tell("warning", f"{left_out} tools are not offered to the model: it gets {limit} at most.",
                      "Disable servers that this conversation does not need.")  # fmt: skip
            self._told_tools = left_out
        own = self._skills.specs()
        return (*self._toolbox.specs(limit - len(own)), *own)

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
        self.features.skills.forget()
        self._feeds.put(ConversationOpened(conversation.id, conversation.title, len(conversation.messages)))

    def _no_turn(self) -> None:
        if self._turn is not None:
            raise UsageError("A turn is running.", "Stop it first.")

    def _tell_store(self, error: StoreError) -> None:
        self.tell("error", error.message, error.hint)

    # -- model
    @property
    def model(self) -> ChatModel | None:
        """The model that answers, or None when none is configured."""
        return self._model

    @property
    def model_config(self) -> ModelConfig:
        """What was chosen."""
        return self._model_config

    def use_model(self, config: ModelConfig) -> None:
        """Change the model for the next turn and prepare it. Raises UsageError while a turn runs, ModelError."""
        self._no_turn()
        old, self._model = self._model, self._models(config) if config.name else None
        self._model_config = config
        if old is not None and self._tasks is not None:
            self._tasks.start_soon(old.close, name="close model")
        self._prepare()

    def _prepare(self) -> None:
        model = self._model
        if model is None:
            self._feeds.put(ModelChanged("", "", "none"))
        elif self._tasks is not None:
            self._feeds.put(ModelChanged(model.name, model.label, "loading"))
            self._tasks.start_soon(self._prepare_model, model, name="prepare model")

    async def _prepare_model(self, model: ChatModel) -> None:
        try:
            await model.prepare()
        except ModelError as error:
            self._feeds.put(ModelChanged(model.name, model.label, "failed", str(error)))
            return
        if model is self._model:
            self._feeds.put(ModelChanged(model.name, model.label, "ready"))
