"""Outcomes of tool calls proposed by the model: what the model receives, and why a call did not run."""

import logging
from shlex import quote
from typing import Any, Literal

from mcphost.host.audit.audit_summary import arguments_digest
from mcphost.host.questions.questions import Deny
from mcphost.llm.messages import Outcome, ToolReturnPart, ToolUsePart
from mcphost.sanitize import strip_hidden_text
from mcphost.serialization import Struct, dumps, replace

UNSENT_TEXT = "Stopped before it ran."
DISABLED_TEXT = "The user turned this tool off; it was not called."
LOGGED_ARGUMENTS_LIMIT = 4_000
_ARGUMENTS_LIMIT = 4_000
_log = logging.getLogger(__name__)


class ToolCallOutcome(Struct, frozen=True):
    """The outcome of a tool call proposed by the model; `part` is the result to add to the conversation.

    `is_declined` means that the user refused the call or its tool, or withheld its result. `is_invalid` means that the
    call could not be run as proposed.
    """

    part: ToolReturnPart
    is_declined: bool = False
    is_invalid: bool = False


class ToolFailure(Exception):
    """Raised when a tool call proposed by the model cannot run.

    `user_text` and `model_text` give the reason to the user and to the model. `decision` is written to mcphost's log
    file: whether the user was asked about the call, and whether the user declined it. `outcome` is the outcome in the
    ToolFinished event.
    """

    outcome: Literal["failed", "declined"] = "failed"
    decision = "not asked for"

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.user_text = self.model_text = text

    def to_outcome(self, use: ToolUsePart, server: str, tool: str) -> ToolCallOutcome:
        """Return an outcome that tells the model why the call did not run."""
        part = make_tool_return(use, server, tool, self.model_text, outcome=self.outcome)
        part = replace(part, is_unsent=True)
        if self.user_text != self.model_text:
            part = replace(part, user_text=self.user_text)
        return ToolCallOutcome(part, is_declined=self.outcome == "declined", is_invalid=self.outcome == "failed")


class ToolUnavailable(ToolFailure):
    """Raised when the tool does not exist, is turned off, or cannot be listed."""


class ToolInQuarantine(ToolFailure):
    """Raised when the tool changed and the user did not accept the change."""

    outcome = "declined"
    decision = "declined"

    def __init__(self, server: str, tool: str) -> None:
        super().__init__(f"The tool {tool!r} changed and is quarantined until the user reviews it; it was not called.")
        self.user_text = f"{self.model_text} To review it: mcphost servers changes {quote(server)}"


class InvalidArguments(ToolFailure):
    """Raised when the arguments are not a JSON object or do not match the tool's input schema."""


class CallDeclined(ToolFailure):
    """Raised when the user declines the call, a configured `never` rule forbids it, or there is no user to ask."""

    outcome = "declined"
    decision = "declined"

    def __init__(self, denial: Deny) -> None:
        what = "The user declined this call" if denial.is_by_user else "This call was not allowed"
        super().__init__(f"{what}; the tool did not run.")
        self.user_text = denial.reason or "Declined."
        if denial.reason:
            self.model_text = f"{self.model_text} Reason: {denial.reason}"


def make_tool_return(use: ToolUsePart, server: str, tool: str, text: str, *, outcome: Outcome) -> ToolReturnPart:
    """Build the result of a tool call from *text*, which may be an error message that quotes the server.

    Hidden characters are therefore removed from it.
    """
    is_error = outcome not in ("ok", "background")
    return ToolReturnPart(use.id, use.name, strip_hidden_text(text), is_error, server, tool, outcome=outcome)


def add_edit_note(
    outcome: ToolCallOutcome, use: ToolUsePart, arguments: dict[str, Any], editor: str = "The user"
) -> ToolCallOutcome:
    """Insert a note before the result if the arguments used differ from those the model proposed.

    The note contains the arguments used; *editor* names who changed them, for example "The user".
    """
    if arguments_digest(arguments) == arguments_digest(use.arguments):
        return outcome
    text = dumps(arguments)
    text = (
        text
        if len(text) <= _ARGUMENTS_LIMIT
        else f"{text[:_ARGUMENTS_LIMIT]}… ({len(text) - _ARGUMENTS_LIMIT:,} more characters)"
    )
    note = f"{editor} changed the arguments before the call ran. It ran with: {strip_hidden_text(text)}\n\n"
    return replace(outcome, part=replace(outcome.part, text=note + outcome.part.text))


def log_call(server: str, tool: str, arguments: dict[str, Any] | None, decision: str, outcome: str) -> None:
    """Log a tool call with the decision about it and its outcome; the logger removes secrets.

    At level DEBUG the text of the arguments is logged, otherwise only their length and digest.
    """
    text = dumps(arguments)
    if _log.isEnabledFor(logging.DEBUG):
        description = text[:LOGGED_ARGUMENTS_LIMIT]
    else:
        description = (
            f"of {len(text)} characters (sha256 {arguments_digest(arguments)})" if arguments is not None else "none"
        )
    _log.info("tool %r of %r, arguments %s, decision: %s, outcome: %s", tool, server, description, decision, outcome)
