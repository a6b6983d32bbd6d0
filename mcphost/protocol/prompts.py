"""prompts/list and prompts/get (specification: server/prompts)."""

from typing import Any, ClassVar

from mcphost.protocol.base import ClientRequest, Icon, PaginatedResult, Result
from mcphost.protocol.content import ContentBlock, parse_content_block
from mcphost.serialization import Raw, WireStruct

MAX_MESSAGES = 10_000


class PromptArgument(WireStruct, frozen=True):
    """One argument of a prompt; its value is always text."""

    name: str
    title: str | None = None
    description: str | None = None
    required: bool = False


class Prompt(WireStruct, frozen=True):
    """A prompt of a server."""

    name: str
    title: str | None = None
    description: str | None = None
    arguments: tuple[PromptArgument, ...] = ()
    icons: tuple[Icon, ...] = ()


class ListPromptsResult(PaginatedResult, frozen=True):
    """One page with undecoded entries."""

    prompts: tuple[Raw, ...] = ()


class ListPrompts(ClientRequest[ListPromptsResult], frozen=True):
    """prompts/list."""

    METHOD: ClassVar[str] = "prompts/list"
    RESULT: ClassVar[type[Any]] = ListPromptsResult
    cursor: str | None = None


class PromptMessage(WireStruct, frozen=True):
    """One message of a prompt."""

    role: str
    content: Raw

    def parse_content(self) -> ContentBlock:
        """Return the decoded content, which may be of an unknown type."""
        return parse_content_block(self.content)


class GetPromptResult(Result, frozen=True):
    """A prompt with its arguments filled in."""

    description: str | None = None
    messages: tuple[PromptMessage, ...] = ()

    def __post_init__(self) -> None:
        """Limit the number of messages; the ValueError becomes MalformedMessage when decoding."""
        if len(self.messages) > MAX_MESSAGES:
            raise ValueError(f"a prompt of more than {MAX_MESSAGES:,} messages")


class GetPrompt(ClientRequest[GetPromptResult], frozen=True):
    """prompts/get."""

    METHOD: ClassVar[str] = "prompts/get"
    RESULT: ClassVar[type[Any]] = GetPromptResult
    name: str
    arguments: dict[str, str] = {}  # noqa: RUF012 - msgspec copies mutable defaults
