"""Last stage of the tool call pipeline, which converts a result to what the model receives.

The user reviews the result if this is required, and long text is truncated.
"""

from pathlib import Path

from mcphost.errors import McpHostError, RequestNotSent, ServerError
from mcphost.host.consent.policy import Approval
from mcphost.host.content_rendering import RenderedResult
from mcphost.host.questions.questions import ResultPart
from mcphost.host.servers.tool_registry import OfferedTool
from mcphost.host.tools.builtin_tools import ResultTool
from mcphost.host.tools.call_executor import CallExecution, error_text
from mcphost.host.tools.result_review import ResultReviewer
from mcphost.host.tools.tool_outcome import ToolCallOutcome, add_edit_note, make_tool_return
from mcphost.llm.messages import ToolReturnPart, ToolUsePart
from mcphost.serialization import Struct, replace


class ProposedCall(Struct, frozen=True):
    """A tool call that the model proposed.

    `server` is "" for an unknown tool; `why` is the reason for the call, which is shown in questions to the user.
    """

    use: ToolUsePart
    server: str
    tool: str
    why: str


def is_review_required(offered: OfferedTool, result: CallExecution | McpHostError) -> bool:
    """Return whether the user must review a server's result or error before the model receives it."""
    is_own_error = isinstance(result, McpHostError) and not isinstance(result, ServerError)
    return offered.connection.config.review_results and not is_own_error


class ResultPresenter:
    """Pipeline stage that converts the result of a tool call to the text and images that the model receives."""

    def __init__(self, reviewer: ResultReviewer, result_tool: ResultTool) -> None:
        self._reviewer = reviewer
        self._result_tool = result_tool

    async def present(
        self,
        call: ProposedCall,
        offered: OfferedTool,
        approval: Approval,
        result: CallExecution | McpHostError,
        *,
        editor: str = "The user",
        notes: str = "",
    ) -> ToolCallOutcome:
        """Convert a result or an error for the model, after the user's review if the server requires one.

        If the arguments are not those that the model proposed, a note about this is added; *editor* names who changed
        them, such as "The user". *notes* is the text that hooks wrote about a result that must be reviewed; the user
        reviews it as the first part of the result.
        """
        if is_review_required(offered, result):
            outcome = await self._review(call, approval, result, notes.strip())
        elif isinstance(result, McpHostError):
            text = f"The call failed: {error_text(result)}"
            part = make_tool_return(call.use, call.server, call.tool, text, outcome="failed")
            outcome = ToolCallOutcome(replace(part, is_unsent=isinstance(result, RequestNotSent)))
        else:
            part = _make_part(call, result.rendered, result.stored_file, is_error=result.is_error)
            outcome = ToolCallOutcome(part)
        if isinstance(result, CallExecution):
            outcome = replace(outcome, part=replace(outcome.part, seconds=result.seconds))
        return add_edit_note(outcome, call.use, approval.arguments, editor)

    async def _review(
        self, call: ProposedCall, approval: Approval, result: CallExecution | McpHostError, notes: str
    ) -> ToolCallOutcome:
        if isinstance(result, McpHostError):
            text = f"The call failed: {error_text(result)}"
            parts, is_error = (ResultPart(kind="error", text=text, size=len(text)),), True
        else:
            parts, is_error = result.parts, result.is_error
        if notes:
            parts = (ResultPart(kind="text", text=notes, size=len(notes.encode("utf-8", "replace"))), *parts)
        use, server, tool = call.use, call.server, call.tool
        reviewed = await self._reviewer.review(
            server, use.id, tool, approval.arguments, parts, call.why, is_error=is_error
        )
        if reviewed.replacement:
            self._reviewer.publish(use.id, server, tool, reviewed, parts, "")
            part = make_tool_return(use, server, tool, reviewed.replacement, outcome="ok")
            return ToolCallOutcome(part, is_declined=True)
        rendered, stored_file = await self._result_tool.store(reviewed.rendered)
        self._reviewer.publish(use.id, server, tool, reviewed, parts, stored_file)
        return ToolCallOutcome(_make_part(call, rendered, stored_file, is_error=is_error, is_reviewed=True))


def _make_part(
    call: ProposedCall, rendered: RenderedResult, stored_file: str, *, is_error: bool, is_reviewed: bool = False
) -> ToolReturnPart:
    return ToolReturnPart(
        call.use.id,
        call.use.name,
        rendered.bounded_model_text(Path(stored_file).stem),
        is_error,
        call.server,
        call.tool,
        rendered.images,
        stored_file,
        outcome="error" if is_error else "ok",
        reviewed=is_reviewed,
    )
