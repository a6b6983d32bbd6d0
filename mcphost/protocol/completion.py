"""completion/complete: suggestions for an argument of a prompt or a template (server/utilities/completion)."""

from typing import Any, ClassVar

from mcphost.protocol.base import ClientRequest, Result
from mcphost.serialization import WireStruct

MAX_VALUES = 100
"""More than these of one answer are not taken; the specification allows no more."""


class PromptReference(WireStruct, frozen=True, tag="ref/prompt", tag_field="type"):
    """A prompt by its name."""

    name: str


class ResourceTemplateReference(WireStruct, frozen=True, tag="ref/resource", tag_field="type"):
    """A resource template by its text, variables still in it."""

    uri: str


CompletionReference = PromptReference | ResourceTemplateReference


class CompletionArgument(WireStruct, frozen=True, omit_defaults=False):
    """The argument that is being typed, and what of it is there."""

    name: str
    value: str


class CompletionContext(WireStruct, frozen=True):
    """What was filled in before."""

    arguments: dict[str, str]


class Completion(WireStruct, frozen=True):
    """Suggestions, best first; `total` may be larger, `has_more` says only that it is."""

    values: tuple[str, ...] = ()
    total: float | None = None
    has_more: bool = False


class CompleteResult(Result, frozen=True):
    """What a server suggests."""

    completion: Completion = Completion()


class Complete(ClientRequest[CompleteResult], frozen=True):
    """completion/complete; `context` is None for servers older than 2025-06-18 and when nothing was filled in."""

    METHOD: ClassVar[str] = "completion/complete"
    RESULT: ClassVar[type[Any]] = CompleteResult
    ref: CompletionReference
    argument: CompletionArgument
    context: CompletionContext | None = None
