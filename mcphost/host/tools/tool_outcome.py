"""What a call that the model proposed came to, and the part of the conversation that says so."""

from typing import Any

from mcphost.host.audit.audit_summary import digest
from mcphost.llm.messages import Outcome, ToolReturnPart, ToolUsePart
from mcphost.sanitize import readable
from mcphost.serialization import Data, dumps, replace

_TOLD = 4_000


class Called(Data, frozen=True):
    """What one proposed call came to."""

    part: ToolReturnPart
    declined: bool = False
    bad: bool = False


def part(use: ToolUsePart, server: str, tool: str, text: str, *, outcome: Outcome) -> ToolReturnPart:
    """The return of a call that is text alone; an error's words may be the server's, so nothing is hidden in them."""
    is_error = outcome != "ok"
    return ToolReturnPart(use.id, use.name, readable(text), is_error, server, tool, outcome=outcome)


def with_edit(called: Called, use: ToolUsePart, arguments: dict[str, Any]) -> Called:
    """The same, beginning with what ran instead when the user changed the arguments."""
    if digest(arguments) == digest(use.arguments):
        return called
    text = dumps(arguments)
    text = text if len(text) <= _TOLD else f"{text[:_TOLD]}… ({len(text) - _TOLD:,} more characters)"
    told = f"The user changed the arguments before the call ran. It ran with: {readable(text)}\n\n"
    return replace(called, part=replace(called.part, text=told + called.part.text))
