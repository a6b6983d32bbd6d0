"""Host: the root task group and the whole API a front end may use."""

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, Protocol

from mcphost.config.schema import HostConfig, ModelConfig
from mcphost.host.events import HostEvent
from mcphost.host.front import Front
from mcphost.host.views import ConversationInfo, ServerView, ToolOutcome, TurnResult
from mcphost.llm.model import ChatModel
from mcphost.llm.parts import Message, Part
from mcphost.protocol.prompts import PromptResult
from mcphost.protocol.resources import ReadResult

ModelFactory = Callable[[ModelConfig], ChatModel]


class Feed(Protocol):
    """A reader's queue of events; text deltas merge, the last progress wins, nothing else is dropped."""

    def __aiter__(self) -> AsyncIterator[HostEvent]: ...


class Host:
    """Owns everything that lives: servers, the model, the conversation.

    `async with Host(...) as host` opens the root task group and starts nothing; `start()` does. Leaving cancels all,
    saves the conversation and closes the servers.
    """

    def __init__(self, config: HostConfig, *, store: Any, opener: Any, models: ModelFactory, front: Front) -> None:
        self.config = config

    async def __aenter__(self) -> "Host":
        return self

    async def __aexit__(self, *exc: object) -> None: ...

    def start(self) -> None:
        """Start connecting every enabled server, side by side, and prepare the model. Returns at once."""

    def events(self) -> Feed:
        """A new feed of everything from now on."""
        ...

    # -- servers
    def servers(self) -> tuple[ServerView, ...]:
        """All configured servers in order."""
        ...

    def server(self, name: str) -> ServerView:
        """One server. Raises UsageError for an unknown name."""
        ...

    async def ready(self, server: str) -> ServerView:
        """Wait until it is ready (starting it when it is not). Raises ServerError or Declined when it cannot be."""
        ...

    def restart(self, server: str) -> None:
        """Close the connection and open it again; also the retry key of a failed server."""

    async def call_tool(self, server: str, tool: str, arguments: dict[str, Any]) -> ToolOutcome:
        """The user's own call: asks nothing. Raises ServerError, UsageError for an unknown tool."""
        ...

    async def read_resource(self, server: str, uri: str) -> ReadResult:
        """Read one resource. Raises ServerError."""
        ...

    async def get_prompt(self, server: str, name: str, arguments: dict[str, str]) -> PromptResult:
        """Fill one prompt. Raises ServerError."""
        ...

    # -- conversation
    @property
    def messages(self) -> tuple[Message, ...]:
        """The open conversation so far."""
        ...

    @property
    def conversation_id(self) -> str:
        """Its id; empty until something was said."""
        ...

    async def send(self, text: str, attachments: Sequence[Part] = ()) -> TurnResult:
        """One turn: user message, model, tool calls, until done or stopped. Never raises for what goes wrong in it."""
        ...

    def stop(self) -> bool:
        """Stop the running turn; False when none runs."""
        ...

    @property
    def busy(self) -> bool:
        """Whether a turn runs."""
        ...

    async def conversations(self, limit: int = 100) -> tuple[ConversationInfo, ...]:
        """Stored conversations, newest first."""
        ...

    async def open_conversation(self, ident: str) -> None:
        """Show a stored one and go on with it. Raises UsageError for an unknown id, or while a turn runs."""

    def new_conversation(self) -> None:
        """Start afresh. Raises UsageError while a turn runs."""

    # -- model
    @property
    def model(self) -> ChatModel | None:
        """The model that answers, or None when none is configured."""
        ...

    def use_model(self, config: ModelConfig) -> None:
        """Change the model for the next turn and prepare it."""
