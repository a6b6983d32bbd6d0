"""prompts/list and prompts/get (specification: server/prompts)."""

from typing import Any, ClassVar

from mcphost.protocol.base import Call, Icon, Page, Result
from mcphost.protocol.content import Block, block
from mcphost.serialization import Raw, Wire

MOST_MESSAGES = 10_000


class PromptArgument(Wire, frozen=True):
    """One argument of a prompt; its value is always text."""

    name: str
    title: str | None = None
    description: str | None = None
    required: bool = False


class Prompt(Wire, frozen=True):
    """A prompt a server offers."""

    name: str
    title: str | None = None
    description: str | None = None
    arguments: tuple[PromptArgument, ...] = ()
    icons: tuple[Icon, ...] = ()


class PromptPage(Page, frozen=True):
    """One page, entries raw."""

    prompts: tuple[Raw, ...] = ()


class ListPrompts(Call[PromptPage], frozen=True):
    """prompts/list."""

    METHOD: ClassVar[str] = "prompts/list"
    RESULT: ClassVar[type[Any]] = PromptPage
    cursor: str | None = None


class PromptMessage(Wire, frozen=True):
    """One message of a filled prompt."""

    role: str
    content: Raw

    def block(self) -> Block:
        """The content, an unknown kind included."""
        return block(self.content)


class PromptResult(Result, frozen=True):
    """A filled prompt."""

    description: str | None = None
    messages: tuple[PromptMessage, ...] = ()

    def __post_init__(self) -> None:
        """Refuse more messages than anybody reads; raises ValueError, which decoding turns into MalformedMessage."""
        if len(self.messages) > MOST_MESSAGES:
            raise ValueError(f"a prompt of more than {MOST_MESSAGES:,} messages")


class GetPrompt(Call[PromptResult], frozen=True):
    """prompts/get."""

    METHOD: ClassVar[str] = "prompts/get"
    RESULT: ClassVar[type[Any]] = PromptResult
    name: str
    arguments: dict[str, str] = {}  # noqa: RUF012 - msgspec copies mutable defaults
