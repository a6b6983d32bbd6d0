"""completion/complete: suggestions for an argument (specification: server/utilities/completion)."""

from typing import Any, ClassVar

from mcphost.protocol.base import ClientRequest, Result
from mcphost.serialization import WireStruct

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
