"""Interface of a model (ChatModel), the request that it takes, and the events that it streams."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Literal, Protocol

from mcphost.llm.messages import Message, ToolUsePart, Usage
from mcphost.serialization import Raw, Struct


class ToolSpec(Struct, frozen=True):
    """A tool as it is described to the model; `schema` is raw JSON Schema."""

    name: str
    description: str
    schema: Raw


class ModelRequest(Struct, frozen=True, kw_only=True):
    """Request to a model: the conversation so far and the available tools.

    With `tool_choice`, "required" demands at least one call and "none" forbids calls. A provider that does not support
    `tool_choice` or `temperature` ignores it. If `is_parallel` is False, it is told to ask for one call at a time.
    """

    messages: tuple[Message, ...]
    system: str = ""
    tools: tuple[ToolSpec, ...] = ()
    max_output_tokens: int = 0
    tool_choice: Literal["auto", "required", "none"] = "auto"
    temperature: float | None = None
    is_parallel: bool = True


class TextDelta(Struct, frozen=True):
    """A piece of the answer's text."""

    text: str


class ThinkingDelta(Struct, frozen=True):
    """A piece of reasoning; `replay`, if not "", replaces the previous one."""

    text: str
    replay: str = ""


class ToolUseStarted(Struct, frozen=True):
    """Start of a tool call; its arguments follow."""

    id: str
    name: str


class ToolUseDelta(Struct, frozen=True):
    """A piece of the arguments of a tool call, as JSON text."""

    id: str
    text: str


class ToolUseReady(Struct, frozen=True):
    """A complete tool call, sent once for each call before StreamFinished."""

    use: ToolUsePart


class RetryScheduled(Struct, frozen=True):
    """Nothing was received; the request will be repeated after `seconds`."""

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


class ToolSimplified(Struct, frozen=True):
    """The provider refused the definition of a tool, and gets a simpler form of its schema from now on."""

    name: str
    reason: str


class StreamFinished(Struct, frozen=True):
    """End of the stream. `reason` is only a hint: if tools were called, the turn continues whatever it is."""

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
    | ToolSimplified
    | StreamFinished
)


class ModelFacts(Struct, frozen=True, kw_only=True):
    """What is known about a model; 0 and None mean unknown."""

    context_window: int = 0
    max_output_tokens: int = 0
    supports_images: bool | None = None
    supports_tools: bool | None = None
    input_price: float | None = None
    """US dollars for an input token."""

    output_price: float | None = None
    """US dollars for an output token."""


class ChatModel(Protocol):
    """Interface of a model, which may stream several answers at the same time."""

    @property
    def name(self) -> str:
        """Name in the configuration."""
        ...

    @property
    def label(self) -> str:
        """Name that its messages have on the screen; that of the demo model says that it is not an AI."""
        ...

    @property
    def facts(self) -> ModelFacts:
        """What is known about the model; more may become known with the first answer."""
        ...

    def stream(self, request: ModelRequest) -> AbstractAsyncContextManager[AsyncIterator[ModelEvent]]:
        """Send a request and iterate over the answer's events. Leaving the block closes the connection.

        Iteration may raise ModelError.
        """
        ...

    async def prepare(self) -> None:
        """Prepare for the first request (start the worker, import libraries).

        Raises ModelError; may be cancelled.
        """
        ...

    async def load_facts(self) -> None:
        """Load the facts without a key or a request to the provider. Raises ModelError; may be cancelled."""
        ...

    async def close(self) -> None:
        """Release all resources."""
        ...
