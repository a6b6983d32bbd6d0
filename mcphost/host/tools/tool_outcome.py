"""What a call that the model proposed came to, and the part of the conversation that says so."""

from typing import Any

from mcphost.host.audit.audit_summary import arguments_digest
from mcphost.llm.messages import Outcome, ToolReturnPart, ToolUsePart
from mcphost.sanitize import strip_hidden_text
from mcphost.serialization import Struct, dumps, replace

_ARGUMENTS_LIMIT = 4_000


class ToolCallOutcome(Struct, frozen=True):
    """What one proposed call came to."""

    part: ToolReturnPart
    is_declined: bool = False
    is_invalid: bool = False


def make_tool_return(use: ToolUsePart, server: str, tool: str, text: str, *, outcome: Outcome) -> ToolReturnPart:
    """The return of a call that is text alone; an error's words may be the server's, so nothing is hidden in them."""
    is_error = outcome != "ok"
    return ToolReturnPart(use.id, use.name, strip_hidden_text(text), is_error, server, tool, outcome=outcome)


def add_edit_note(outcome: ToolCallOutcome, use: ToolUsePart, arguments: dict[str, Any]) -> ToolCallOutcome:
    """The same, beginning with what ran instead when the user changed the arguments."""
    if arguments_digest(arguments) == arguments_digest(use.arguments):
        return outcome
    text = dumps(arguments)
    text = (
        text
        if len(text) <= _ARGUMENTS_LIMIT
        else f"{text[:_ARGUMENTS_LIMIT]}… ({len(text) - _ARGUMENTS_LIMIT:,} more characters)"
    )
    told = f"The user changed the arguments before the call ran. It ran with: {strip_hidden_text(text)}\n\n"
    return replace(outcome, part=replace(outcome.part, text=told + outcome.part.text))
