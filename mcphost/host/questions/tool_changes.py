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
    """Answer that accepts the changes to these tools; all others stay in quarantine.

    `for_session` also accepts later changes of the server's tools, until mcphost exits or the user revokes it. It is
    ignored unless the question offers it.
    """

    tools: tuple[str, ...] = ()
    for_session: bool = False


class ReviewToolChanges(Question[AcceptToolChanges], frozen=True, kw_only=True):
    """Question that asks which changed tool definitions to accept.

    The tools changed after they were first seen or last accepted. Until a change is accepted, the tool is
    quarantined: it is neither offered to the model nor called. `offers_session` means that the user may accept the
    later changes of this server as well, because the user's own configuration watches its source files.
    """

    KIND: ClassVar[str] = kinds.TOOLS_CHANGED
    changes: tuple[ToolChange, ...]
    offers_session: bool = False

    def refusal(self) -> AcceptToolChanges:
        """Return an answer that accepts no change."""
        return AcceptToolChanges()
