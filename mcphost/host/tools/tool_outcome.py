"""Outcomes of proposed calls: what the conversation keeps of each, and why a call did not run."""

import logging
from typing import Any, Literal

from mcphost.host.audit.audit_summary import arguments_digest
from mcphost.llm.messages import Outcome, ToolReturnPart, ToolUsePart
from mcphost.sanitize import strip_hidden_text
from mcphost.serialization import Struct, dumps, replace

DISABLED_TEXT = "The user turned this tool off; it was not called."
LOGGED_ARGUMENTS_LIMIT = 4_000
_ARGUMENTS_LIMIT = 4_000
_log = logging.getLogger(__name__)


class ToolCallOutcome(Struct, frozen=True):
    """The outcome of one proposed call."""

    part: ToolReturnPart
    is_declined: bool = False
    is_invalid: bool = False


class ToolFailure(Exception):
    """The reason why a proposed call did not run, in words for the user and for the model.

    `decision` is for the log; `outcome` is the end of the call as an event.
    """

    outcome: Literal["failed", "declined"] = "failed"
    decision = "not asked for"

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.user_text = self.model_text = text

    def to_outcome(self, use: ToolUsePart, server: str, tool: str) -> ToolCallOutcome:
        """Return the call's part of the conversation."""
        part = make_tool_return(use, server, tool, self.model_text, outcome=self.outcome)
        return ToolCallOutcome(part, is_declined=self.outcome == "declined", is_invalid=self.outcome == "failed")


class ToolUnavailable(ToolFailure):
    """The tool does not exist, is off, is quarantined, or cannot be listed."""


class InvalidArguments(ToolFailure):
    """The arguments are no JSON object, or do not match the tool's schema."""


class CallDeclined(ToolFailure):
    """The user or a never-rule declined the call."""

    outcome = "declined"
    decision = "declined"

    def __init__(self, reason: str) -> None:
        super().__init__("The user declined this call; the tool did not run.")
        self.user_text = reason or "Declined."
        if reason:
            self.model_text = f"{self.model_text} Reason: {reason}"


def make_tool_return(use: ToolUsePart, server: str, tool: str, text: str, *, outcome: Outcome) -> ToolReturnPart:
    """Return a tool result with one text, without hidden characters: an error may quote a server."""
    is_error = outcome != "ok"
    return ToolReturnPart(use.id, use.name, strip_hidden_text(text), is_error, server, tool, outcome=outcome)


def add_edit_note(outcome: ToolCallOutcome, use: ToolUsePart, arguments: dict[str, Any]) -> ToolCallOutcome:
    """Prepend the arguments that really ran, if the user edited them."""
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


def log_call(server: str, tool: str, arguments: dict[str, Any] | None, decision: str, outcome: str) -> None:
    """Log a call with its approval and outcome; the log adds the time and redacts secrets.

    Arguments are logged as size and digest, as in the audit log, and as text only at the level debug.
    """
    text = dumps(arguments)
    if _log.isEnabledFor(logging.DEBUG):
        description = text[:LOGGED_ARGUMENTS_LIMIT]
    else:
        description = (
            f"of {len(text)} characters (sha256 {arguments_digest(arguments)})" if arguments is not None else "none"
        )
    _log.info("tool %r of %r, arguments %s, decision: %s, outcome: %s", tool, server, description, decision, outcome)
