"""prompts/list, prompts/get (server/prompts) and completion/complete (server/utilities/completion)."""

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


MAX_VALUES = 100
"""Maximum number of values read from one response, as in the specification."""


class PromptReference(WireStruct, frozen=True, tag="ref/prompt", tag_field="type"):
    """A reference to a prompt by name."""

    name: str


class ResourceTemplateReference(WireStruct, frozen=True, tag="ref/resource", tag_field="type"):
    """A reference to a resource template by its text, with variables."""

    uri: str


CompletionReference = PromptReference | ResourceTemplateReference


class CompletionArgument(WireStruct, frozen=True, omit_defaults=False):
    """The argument to complete, with its current value."""

    name: str
    value: str


class CompletionContext(WireStruct, frozen=True):
    """The arguments that are already filled in."""

    arguments: dict[str, str]


class Completion(WireStruct, frozen=True):
    """Suggestions, best first; `total` may be larger, or unknown if only `has_more` is set."""

    values: tuple[str, ...] = ()
    total: float | None = None
    has_more: bool = False


class CompleteResult(Result, frozen=True):
    """The response to a completion request."""

    completion: Completion = Completion()


class Complete(ClientRequest[CompleteResult], frozen=True):
    """completion/complete; `context` is None before 2025-06-18 and without filled-in arguments."""

    METHOD: ClassVar[str] = "completion/complete"
    RESULT: ClassVar[type[Any]] = CompleteResult
    ref: CompletionReference
    argument: CompletionArgument
    context: CompletionContext | None = None
