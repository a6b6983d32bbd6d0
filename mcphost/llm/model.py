"""Chat model interface (ChatModel), with the requests that a model receives and the events that it streams."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Literal, Protocol

from mcphost.llm.messages import Message, ToolUsePart, Usage
from mcphost.serialization import Raw, Struct


class ToolSpec(Struct, frozen=True):
    """A tool as described to the model; `schema` is the JSON Schema for the arguments, as raw JSON."""

    name: str
    description: str
    schema: Raw
    is_simplified: bool = False
    """Whether `schema` is simplified because the provider rejected the tool's own schema."""


class TokenShare(Struct, frozen=True):
    """Estimated input tokens of one part of a model request.

    `kind` is one of these:

    - "system": the system prompt
    - "definitions": the tool definitions of a server
    - "results": the results of a tool
    - "attachments": attachments from a server, or from the user if `server` is ""
    - "messages": the messages
    - "sampling": a complete request from a server
    """

    kind: str
    server: str = ""
    tool: str = ""
    tokens: int = 0


class ModelRequest(Struct, frozen=True, kw_only=True):
    """Request to a model: the conversation so far and the available tools.

    - `tool_choice`: "required" requires at least one tool call, and "none" forbids tool calls.
    - `is_parallel`: if False, the answer is limited to one tool call.

    These two fields and `temperature` have no effect if the provider does not support them.
    """

    messages: tuple[Message, ...]
    system: str = ""
    tools: tuple[ToolSpec, ...] = ()
    max_output_tokens: int = 0
    tool_choice: Literal["auto", "required", "none"] = "auto"
    temperature: float | None = None
    is_parallel: bool = True
    answer_schema: Raw = Raw(b"")
    """JSON Schema that the answer should match; sent to the provider if it can be combined with tools."""


class TextDelta(Struct, frozen=True):
    """A piece of the answer's text."""

    text: str


class ThinkingDelta(Struct, frozen=True):
    """A piece of the model's reasoning; see ThinkingPart.

    `replay` is data of the provider that is sent back with the reasoning in later requests. If it is not "", it
    replaces that of earlier pieces.
    """

    text: str
    replay: str = ""


class ToolUseStarted(Struct, frozen=True):
    """Start of a tool call; the arguments follow in ToolUseDelta events."""

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
    """Event before a retry: nothing was received, and the request will be sent again in `seconds` seconds."""

    seconds: float
    reason: str
    attempt: int


class ToolsRefused(Struct, frozen=True):
    """Event before an answer without tools, sent once for each model that does not support tools.

    - `reason`: the provider's error message, or "" if the lack of support is known from the facts about the model.
    - `refused_at`: if not 0, the provider rejected tools in an earlier run, at this time in seconds since 1970.
    """

    reason: str = ""
    refused_at: float = 0.0


class ToolQuarantined(Struct, frozen=True):
    """Event for a tool that later requests will omit, because the provider rejected its definition."""

    name: str
    reason: str


class ToolSimplified(Struct, frozen=True):
    """Event for a tool whose schema was simplified because the provider rejected the original one.

    Later requests contain the simpler schema.
    """

    name: str
    reason: str


class StreamFinished(Struct, frozen=True):
    """End of the stream.

    `reason` is only a hint: if the answer contains tool calls, the turn continues regardless of `reason`.
    """

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
    """Known facts about a model; a value of 0 or None means unknown."""

    context_window: int = 0
    max_output_tokens: int = 0
    supports_images: bool | None = None
    supports_tools: bool | None = None
    supports_pdf: bool | None = None
    supports_audio: bool | None = None
    input_price: float | None = None
    """US dollars per input token."""

    cached_input_price: float | None = None
    """US dollars per input token that is read from the provider's cache."""

    output_price: float | None = None
    """US dollars per output token."""


class ChatModel(Protocol):
    """Interface for a chat model, which can stream several answers concurrently."""

    @property
    def name(self) -> str:
        """Name of the model in the configuration."""
        ...

    @property
    def label(self) -> str:
        """Display name of the model; the demo model's label states that it is not an AI."""
        ...

    @property
    def facts(self) -> ModelFacts:
        """Facts known about the model; more may become known with the first answer."""
        ...

    def stream(self, request: ModelRequest) -> AbstractAsyncContextManager[AsyncIterator[ModelEvent]]:
        """Return a context manager that sends the request and yields an iterator over the answer's events.

        Leaving the block closes the connection. Iteration may raise ModelError.
        """
        ...

    async def prepare(self) -> None:
        """Prepare for the first request, for example by importing libraries. Safe to cancel.

        Raises ModelError if the model cannot be used, for example because its API key is missing.
        """
        ...

    async def load_facts(self) -> None:
        """Load the facts about the model without an API key or a request to the provider.

        Raises ModelError; safe to cancel.
        """
        ...

    async def close(self) -> None:
        """Release all resources."""
        ...
