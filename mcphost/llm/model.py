"""The interface of a model (ChatModel): one streaming call, its request and its events."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Literal, Protocol

from mcphost.llm.messages import Message, ToolUsePart, Usage
from mcphost.serialization import Raw, Struct


class ToolSpec(Struct, frozen=True):
    """A tool as the model sees it; `schema` is raw JSON Schema."""

    name: str
    description: str
    schema: Raw


class ModelRequest(Struct, frozen=True, kw_only=True):
    """The request of one round: the conversation so far and the available tools.

    With `tool_choice`, "required" demands at least one call and "none" forbids calls. A provider that does not support
    `tool_choice` or `temperature` ignores it.
    """

    messages: tuple[Message, ...]
    system: str = ""
    tools: tuple[ToolSpec, ...] = ()
    max_output_tokens: int = 0
    tool_choice: Literal["auto", "required", "none"] = "auto"
    temperature: float | None = None


class TextDelta(Struct, frozen=True):
    """More text."""

    text: str


class ThinkingDelta(Struct, frozen=True):
    """More reasoning; `replay`, if set, replaces the previous one."""

    text: str
    replay: str = ""


class ToolUseStarted(Struct, frozen=True):
    """The start of a tool call, whose arguments follow."""

    id: str
    name: str


class ToolUseDelta(Struct, frozen=True):
    """More of a call's arguments as JSON text."""

    id: str
    text: str


class ToolUseReady(Struct, frozen=True):
    """A complete tool call; sent once for each, before StreamFinished."""

    use: ToolUsePart


class RetryScheduled(Struct, frozen=True):
    """Nothing was received, and the request is repeated after `seconds`."""

    seconds: float
    reason: str
    attempt: int


class ToolsRefused(Struct, frozen=True):
    """The model does not support tools; the request is sent without them. Reported once per model.

    `reason` is the provider's message, or "" if it is a known fact.
    """

    reason: str = ""


class ToolQuarantined(Struct, frozen=True):
    """The provider refused the definition of a tool, which this request and later ones are sent without."""

    name: str
    reason: str


class StreamFinished(Struct, frozen=True):
    """The end of the stream. `reason` is only a hint; the turn continues if tools were called."""

    reason: str = "stop"
    usage: Usage = Usage()
    api_route: str = ""


ModelEvent = (
    TextDelta
    | ThinkingDelta
    | ToolUseStarted
    | ToolUseDelta
    | ToolUseReady
    | RetryScheduled
    | ToolsRefused
    | ToolQuarantined
    | StreamFinished
)


class ModelFacts(Struct, frozen=True, kw_only=True):
    """Known properties of a model; 0 and None mean unknown."""

    context_window: int = 0
    max_output_tokens: int = 0
    supports_images: bool | None = None
    supports_tools: bool | None = None
    input_price: float | None = None
    """US dollars for an input token."""

    output_price: float | None = None
    """US dollars for an output token."""


class ChatModel(Protocol):
    """A model; it may serve several streams at the same time."""

    @property
    def name(self) -> str:
        """Name in the configuration."""
        ...

    @property
    def label(self) -> str:
        """Label of its messages on the screen; the demo model's says that it is not an AI."""
        ...

    @property
    def facts(self) -> ModelFacts:
        """Known properties; they may become more after the first answer."""
        ...

    def stream(self, request: ModelRequest) -> AbstractAsyncContextManager[AsyncIterator[ModelEvent]]:
        """Run one round. Leaving the block closes the connection at once. Iteration may raise ModelError."""
        ...

    async def prepare(self) -> None:
        """Prepare for the first request (start the worker, import libraries). Raises ModelError; may be cancelled."""
        ...

    async def load_facts(self) -> None:
        """Load the facts without a key or a request to the provider. Raises ModelError; may be cancelled."""
        ...

    async def close(self) -> None:
        """Release all resources."""
        ...
