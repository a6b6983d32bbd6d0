"""ChatModel: what the host needs of a model, as one streaming call; its request and its events."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Literal, Protocol

from mcphost.llm.messages import Message, ToolUsePart, Usage
from mcphost.serialization import Raw, Struct


class ToolSpec(Struct, frozen=True):
    """A tool as the model sees it; `schema` is JSON Schema, raw."""

    name: str
    description: str
    schema: Raw


class ModelRequest(Struct, frozen=True, kw_only=True):
    """One round: the whole conversation so far and the tools on offer.

    `tool_choice`: auto leaves it to the model, required wants at least one call, none forbids them; a provider that
    knows no such thing ignores it, and so does one that knows no `temperature`.
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
    """More reasoning; `replay` replaces what came before when set."""

    text: str
    replay: str = ""


class ToolUseStarted(Struct, frozen=True):
    """The model began a tool call; its arguments follow."""

    id: str
    name: str


class ToolUseDelta(Struct, frozen=True):
    """More of the arguments' JSON text."""

    id: str
    text: str


class ToolUseReady(Struct, frozen=True):
    """A tool call is complete; comes once for each, before Finished."""

    use: ToolUsePart


class RetryScheduled(Struct, frozen=True):
    """Nothing was received yet and the call will be tried again after `seconds`."""

    seconds: float
    reason: str
    attempt: int


class StreamFinished(Struct, frozen=True):
    """The stream is over. `reason` is a hint only; whether tools were called decides the loop."""

    reason: str = "stop"
    usage: Usage = Usage()
    api_route: str = ""


ModelEvent = TextDelta | ThinkingDelta | ToolUseStarted | ToolUseDelta | ToolUseReady | RetryScheduled | StreamFinished


class ModelFacts(Struct, frozen=True, kw_only=True):
    """What is known of a model; 0 and None mean unknown."""

    context_window: int = 0
    max_output_tokens: int = 0
    supports_images: bool | None = None
    supports_tools: bool | None = None
    input_price: float | None = None
    """US dollars for one token that goes in."""

    output_price: float | None = None
    """US dollars for one token that comes out."""


class ChatModel(Protocol):
    """A model. One object may serve several streams at once."""

    @property
    def name(self) -> str:
        """What the user calls it."""
        ...

    @property
    def label(self) -> str:
        """What the screen shows beside its messages; the demo model's label says that it is no AI."""
        ...

    @property
    def facts(self) -> ModelFacts:
        """What is known of it so far; may grow after the first answer."""
        ...

    def stream(self, request: ModelRequest) -> AbstractAsyncContextManager[AsyncIterator[ModelEvent]]:
        """One round. Leaving the block closes the provider's connection at once. Iterating raises ModelError."""
        ...

    async def prepare(self) -> None:
        """Get ready in the background (start the worker, import its libraries). Raises ModelError; cancellable."""
        ...

    async def load_facts(self) -> None:
        """Find out the facts, asking no provider and needing no key. Raises ModelError; cancellable."""
        ...

    async def close(self) -> None:
        """End everything it started."""
        ...
