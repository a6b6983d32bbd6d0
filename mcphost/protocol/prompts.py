"""Messages for prompts (specification: server/prompts) and completion (server/utilities/completion)."""

from typing import Any, ClassVar

from mcphost.protocol.base import ClientRequest, Icon, PaginatedResult, Result
from mcphost.protocol.content import ContentBlock, parse_content_block
from mcphost.serialization import Raw, WireStruct

MAX_MESSAGES = 10_000
MAX_ARGUMENTS = 100
"""Maximum number of arguments of a prompt; each has an input in the form for the prompt."""


class PromptArgument(WireStruct, frozen=True):
    """An argument of a prompt; the value is always text."""

    name: str
    title: str | None = None
    description: str | None = None
    required: bool = False


class Prompt(WireStruct, frozen=True):
    """A prompt that a server offers."""

    name: str
    title: str | None = None
    description: str | None = None
    arguments: tuple[PromptArgument, ...] = ()
    icons: tuple[Icon, ...] = ()

    def __post_init__(self) -> None:
        """Raise ValueError if there are too many arguments; `decode` turns the error into MalformedMessage."""
        if len(self.arguments) > MAX_ARGUMENTS:
            raise ValueError(f"a prompt of more than {MAX_ARGUMENTS} arguments")


class ListPromptsResult(PaginatedResult, frozen=True):
    """One page of prompts, each as raw JSON."""

    prompts: tuple[Raw, ...] = ()


class ListPrompts(ClientRequest[ListPromptsResult], frozen=True):
    """The prompts/list request, which returns one page of prompts."""

    METHOD: ClassVar[str] = "prompts/list"
    RESULT: ClassVar[type[Any]] = ListPromptsResult
    cursor: str | None = None


class PromptMessage(WireStruct, frozen=True):
    """One message in a prompt."""

    role: str
    content: Raw

    def parse_content(self) -> ContentBlock:
        """Decode the content; an unknown or invalid block becomes UnknownContent."""
        return parse_content_block(self.content)


class GetPromptResult(Result, frozen=True):
    """Result of prompts/get: the messages of a prompt with its arguments filled in."""

    description: str | None = None
    messages: tuple[PromptMessage, ...] = ()

    def __post_init__(self) -> None:
        """Raise ValueError if there are too many messages; `decode` turns the error into MalformedMessage."""
        if len(self.messages) > MAX_MESSAGES:
            raise ValueError(f"a prompt of more than {MAX_MESSAGES:,} messages")


class GetPrompt(ClientRequest[GetPromptResult], frozen=True):
    """The prompts/get request, with the values of the prompt's arguments."""

    METHOD: ClassVar[str] = "prompts/get"
    RESULT: ClassVar[type[Any]] = GetPromptResult
    name: str
    arguments: dict[str, str] = {}  # noqa: RUF012 - msgspec copies mutable defaults


MAX_VALUES = 100
"""Maximum number of suggested values that are read from a response, as in the specification."""


class PromptReference(WireStruct, frozen=True, tag="ref/prompt", tag_field="type"):
    """A reference, by name, to the prompt whose argument is to be completed."""

    name: str


class ResourceTemplateReference(WireStruct, frozen=True, tag="ref/resource", tag_field="type"):
    """A reference, by URI template, to the resource template whose variable is to be completed."""

    uri: str


CompletionReference = PromptReference | ResourceTemplateReference


class CompletionArgument(WireStruct, frozen=True, omit_defaults=False):
    """The argument to complete, with the value entered so far."""

    name: str
    value: str


class CompletionContext(WireStruct, frozen=True):
    """The values of arguments that the user has already entered, keyed by argument name."""

    arguments: dict[str, str]


class Completion(WireStruct, frozen=True):
    """Suggested values, best first.

    `total` is the number of all matching values, including those that were not sent, or None if it is unknown.
    """

    values: tuple[str, ...] = ()
    total: float | None = None
    has_more: bool = False


class CompleteResult(Result, frozen=True):
    """Result of completion/complete."""

    completion: Completion = Completion()


class Complete(ClientRequest[CompleteResult], frozen=True):
    """The completion/complete request.

    `context` is None if the protocol revision is earlier than 2025-06-18, or if no other argument has a value.
    """

    METHOD: ClassVar[str] = "completion/complete"
    RESULT: ClassVar[type[Any]] = CompleteResult
    ref: CompletionReference
    argument: CompletionArgument
    context: CompletionContext | None = None
