"""The outcome of a proposed call and its part of the conversation."""

from typing import Any

from mcphost.host.audit.audit_summary import arguments_digest
from mcphost.llm.messages import Outcome, ToolReturnPart, ToolUsePart
from mcphost.sanitize import strip_hidden_text
from mcphost.serialization import Struct, dumps, replace

_ARGUMENTS_LIMIT = 4_000


class ToolCallOutcome(Struct, frozen=True):
    """The outcome of one proposed call."""

    part: ToolReturnPart
    is_declined: bool = False
    is_invalid: bool = False


def make_tool_return(use: ToolUsePart, server: str, tool: str, text: str, *, outcome: Outcome) -> ToolReturnPart:
    """Return a text-only tool result without hidden text, as an error may have a server's text."""
    is_error = outcome != "ok"
    return ToolReturnPart(use.id, use.name, strip_hidden_text(text), is_error, server, tool, outcome=outcome)


def add_edit_note(outcome: ToolCallOutcome, use: ToolUsePart, arguments: dict[str, Any]) -> ToolCallOutcome:
    """Return the outcome, preceded by the arguments that ran if the user edited them."""
    if arguments_digest(arguments) == arguments_digest(use.arguments):
        return outcome
    text = dumps(arguments)
    text = (
        text
        if len(text) <= _ARGUMENTS_LIMIT
        else f"{text[:_ARGUMENTS_LIMIT]}… ({len(text) - _ARGUMENTS_LIMIT:,} more characters)"
    )
    note = f"The user changed the arguments before the call ran. It ran with: {strip_hidden_text(text)}\n\n"
    return replace(outcome, part=replace(outcome.part, text=note + outcome.part.text))
