"""Consent prompt for tool definitions that a server has changed, and the possible answers."""

from typing import ClassVar

from mcphost.host.questions import kinds
from mcphost.host.questions.frontend import Question
from mcphost.serialization import Struct


class ToolChange(Struct, frozen=True, kw_only=True):
    """A changed tool; `difference` contains sanitized diff lines that begin with "- ", "+ " or two spaces."""

    tool: str
    digest: str
    difference: tuple[str, ...]


class AcceptToolChanges(Struct, frozen=True):
    """Answer that accepts the changes of the tools in `tools`; all others stay in quarantine.

    If `for_session` is true, later changes of the server's tools are also accepted, until mcphost exits or the user
    revokes this decision. `for_session` has an effect only if the question has `offers_session` set.
    """

    tools: tuple[str, ...] = ()
    for_session: bool = False


class ReviewToolChanges(Question[AcceptToolChanges], frozen=True, kw_only=True):
    """Question that asks which changed tool definitions to accept.

    A changed tool is quarantined, which means that it is neither offered to the model nor called, until the user
    accepts its new definition. `offers_session` means that the user may accept later changes of this server as well;
    this is offered if the user's own configuration watches the server's source files.
    """

    KIND: ClassVar[str] = kinds.TOOLS_CHANGED
    changes: tuple[ToolChange, ...]
    offers_session: bool = False

    def refusal(self) -> AcceptToolChanges:
        """Return an answer that accepts no change."""
        return AcceptToolChanges()
