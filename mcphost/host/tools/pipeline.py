"""Pipeline of a proposed tool call: resolve, validate, authorize, execute, present."""

from pathlib import Path
from typing import Any

import anyio

from mcphost.errors import McpHostError, ServerError
from mcphost.host.audit.audit_summary import arguments_digest
from mcphost.host.consent.policy import Approval, ConsentPolicy
from mcphost.host.events import EventBus, ToolFinished, ToolProposed
from mcphost.host.questions.questions import Deny, ResultPart
from mcphost.host.reserved_names import RESERVED_TOOL_NAMES
from mcphost.host.results import tool_schemas
from mcphost.host.results.tool_schemas import SchemaErrors
from mcphost.host.servers.orphaned_tasks import ProgressTracker
from mcphost.host.servers.tool_registry import OfferedTool, ToolRegistry
from mcphost.host.tools.builtin_tools import BuiltinTools
from mcphost.host.tools.executor import (
    RELISTING_PROGRESS,
    AccountChanged,
    GrantRevoked,
    ToolChanged,
    ToolExecutor,
    error_text,
    log_call,
)
from mcphost.host.tools.result_review import STOPPED_AFTER_RUN, ResultReviewer
from mcphost.host.tools.tool_outcome import ToolCallOutcome, add_edit_note, make_tool_return
from mcphost.llm.messages import ImagePart, Outcome, ToolReturnPart, ToolUsePart
from mcphost.sandbox.schema_validator import SchemaValidator
from mcphost.sanitize import strip_hidden_text
from mcphost.serialization import replace

STOPPED_TEXT = "The user stopped this call before its result arrived."


DISABLED_TEXT = "The user turned this tool off; it was not called."


class ToolPipeline:
    """The pipeline of proposed calls; calls may run concurrently."""

    def __init__(
        self,
        tool_registry: ToolRegistry,
        consent: ConsentPolicy,
        events: EventBus,
        validator: SchemaValidator,
        builtin_tools: BuiltinTools,
        executor: ToolExecutor,
        reviewer: ResultReviewer,
        max_parallel: int,
    ) -> None:
        self._executor = executor
        self._reviewer = reviewer
        self._tool_registry = tool_registry
        self._consent = consent
        self._events = events
        self._validator = validator
        self._builtin_tools = builtin_tools
        self._limiter = anyio.CapacityLimiter(max_parallel)

    async def run(self, use: ToolUsePart, why: str) -> ToolCallOutcome:
        """Run one call that the model proposed. Raises nothing but cancellation."""
        if use.name in RESERVED_TOOL_NAMES and self._builtin_tools.has_tool(use.name):
            return await self._builtin_tools.run(use, why)
        offered = self._tool_registry.resolve(use.name)
        server, tool = (offered.connection.config.name, offered.definition.name) if offered else ("", use.name)
        self._events.publish(ToolProposed(use.id, server, tool, use.arguments, use.raw))
        if offered is None:
            return self._reject(use, server, tool, f"There is no tool named {use.name!r}.")
        if offered.is_disabled():
            return self._reject(use, server, tool, DISABLED_TEXT)
        if use.arguments is None:
            return self._reject(use, server, tool, "The arguments are not a JSON object; the tool was not called.")
        return await self._authorize_and_execute(use, offered, use.arguments, why)

    async def _authorize_and_execute(
        self, use: ToolUsePart, offered: OfferedTool, arguments: dict[str, Any], why: str
    ) -> ToolCallOutcome:
        """Authorize and execute; ask again about a tool that changes before it is called."""
        server, tool = offered.connection.config.name, offered.definition.name
        changed = False
        while True:
            try:
                offered = await self._refresh_definition(use, offered)
                verdict = await self._wait_for_quarantine(offered) or await self._authorize(
                    use.id, offered, arguments, why, changed=changed
                )
            except ServerError as error:
                return self._reject(use, server, tool, error.message)
            except BaseException:
                self._finish(use.id, server, tool, "stopped", "Stopped before it ran.")
                log_call(server, tool, arguments, "not asked for to the end", "stopped")
                raise
            if isinstance(verdict, str):
                return self._reject(use, server, tool, verdict)
            if isinstance(verdict, Deny):
                return self._decline(use, server, tool, verdict.reason)
            arguments = verdict.arguments
            try:
                return add_edit_note(await self._execute(use, offered, arguments, verdict, why), use, arguments)
            except ToolChanged as error:
                # The approval was for the previous definition: resolve the tool again and ask about the new one.
                current = self._tool_registry.resolve(use.name)
                changed = changed or not isinstance(error, AccountChanged | GrantRevoked)
                if current is None or current.is_disabled():
                    return self._reject(use, server, tool, DISABLED_TEXT if current else error.message)
                offered = current

    async def _authorize(
        self, call: str, offered: OfferedTool, arguments: dict[str, Any], why: str, *, changed: bool
    ) -> Approval | Deny | str:
        """Return the decision, or the error of invalid arguments; ask again about edited ones."""
        edited = False

        async def is_valid(values: dict[str, Any]) -> bool:
            return not await self.validate_arguments(offered, values)

        while True:
            fault = await self.validate_arguments(offered, arguments)
            if fault and not edited:
                return fault.sentence
            verdict = await self._consent.authorize(
                offered, arguments, call=call, why=why, has_changed=changed, fault=fault.sentence, is_valid=is_valid
            )
            if isinstance(verdict, Deny):
                return verdict
            if arguments_digest(verdict.arguments) == arguments_digest(arguments):
                return fault.sentence or verdict
            arguments, edited = verdict.arguments, True
            if not await self.validate_arguments(offered, arguments):
                return verdict

    async def _execute(
        self, use: ToolUsePart, offered: OfferedTool, arguments: dict[str, Any], approval: Approval, why: str
    ) -> ToolCallOutcome:
        """Execute an approved call. Raises ToolChanged; other failures are in the outcome."""
        server, tool = offered.connection.config.name, offered.definition.name
        review = offered.connection.config.review_results
        try:
            # The review is outside the limiter, so that it does not block other calls.
            async with self._limiter:
                outcome = await self._executor.execute(use.id, offered, arguments, approval.source, approval.grant_id)
        except ToolChanged:
            raise
        except McpHostError as error:
            text = f"The call failed: {error_text(error)}"
            if not review or not isinstance(error, ServerError):
                return ToolCallOutcome(make_tool_return(use, server, tool, text, outcome="failed"))
            parts, is_error = (ResultPart(kind="error", text=text, size=len(text)),), True
        else:
            parts, is_error = outcome.parts, outcome.is_error
            if not review:
                rendered, stored_file = outcome.rendered, outcome.stored_file
                text = rendered.bounded_model_text(Path(stored_file).stem)
                return ToolCallOutcome(
                    _make_tool_return(use, server, tool, text, rendered.images, stored_file, is_error=is_error)
                )
        return await self._review(use, offered, arguments, parts, why, is_error=is_error)

    async def _review(
        self,
        use: ToolUsePart,
        offered: OfferedTool,
        arguments: dict[str, Any],
        parts: tuple[ResultPart, ...],
        why: str,
        *,
        is_error: bool,
    ) -> ToolCallOutcome:
        """Have the user review the result and return the reviewed outcome."""
        server, tool = offered.connection.config.name, offered.definition.name
        reviewed = await self._reviewer.review(server, use.id, tool, arguments, parts, why, is_error=is_error)
        if reviewed.replacement:
            self._reviewer.publish(use.id, server, tool, reviewed, parts, "")
            return ToolCallOutcome(
                make_tool_return(use, server, tool, reviewed.replacement, outcome="ok"), is_declined=True
            )
        rendered, stored_file = await self._builtin_tools.result_tool.store(reviewed.rendered)
        self._reviewer.publish(use.id, server, tool, reviewed, parts, stored_file)
        text = rendered.bounded_model_text(Path(stored_file).stem)
        returned = _make_tool_return(use, server, tool, text, rendered.images, stored_file, is_error=is_error)
        return ToolCallOutcome(replace(returned, reviewed=True))

    def make_stopped_return(self, use: ToolUsePart) -> ToolReturnPart:
        """Return the result of a stopped call for the model: whether it ran, without its result."""
        text = STOPPED_AFTER_RUN if self._reviewer.pop_interrupted(use.id) else STOPPED_TEXT
        return ToolReturnPart(use.id, use.name, text, is_error=True, outcome="stopped")

    async def _refresh_definition(self, use: ToolUsePart, offered: OfferedTool) -> OfferedTool:
        """Return the tool from the listing after a change notification, so that the question shows it.

        Raises ServerError when it cannot be listed in time.
        """
        connection = offered.connection
        if connection.is_listing_current:
            return offered
        event = ProgressTracker(use.id, connection.config.name).to_event(RELISTING_PROGRESS)
        if event is not None:
            self._events.publish(event)
        await connection.wait_for_listing()
        return self._tool_registry.resolve(use.name) or offered

    async def _wait_for_quarantine(self, offered: OfferedTool) -> str:
        """Wait for the user's decision on a changed tool; return why it cannot be called, or ""."""
        name = offered.definition.name
        if await offered.connection.tool_changes.wait_for_decision(name):
            return ""
        return f"The tool {name!r} changed and is quarantined until the user reviews it; it was not called."

    async def validate_arguments(self, offered: OfferedTool, arguments: dict[str, Any]) -> SchemaErrors:
        """Return what must be corrected before the question; nothing if valid or unchecked."""
        tool = offered.definition.tool
        verdict = await tool_schemas.validate_arguments(self._validator, tool, arguments)
        if verdict.outcome == "unchecked":
            offered.connection.warn(f"The arguments for the tool {tool.name!r} were not checked: {verdict.summary}.")
        if verdict.outcome != "misfit":
            return SchemaErrors()
        message = f"The arguments do not match the tool's inputSchema; the tool was not called. {verdict.summary}."
        return SchemaErrors(strip_hidden_text(message), verdict.violations)

    def _decline(self, use: ToolUsePart, server: str, tool: str, reason: str) -> ToolCallOutcome:
        text = "The user declined this call; the tool did not run."
        if reason:
            text = f"{text} Reason: {reason}"
        self._finish(use.id, server, tool, "declined", reason or "Declined.")
        log_call(server, tool, use.arguments, "declined", "not run")
        return ToolCallOutcome(make_tool_return(use, server, tool, text, outcome="declined"), is_declined=True)

    def _reject(self, use: ToolUsePart, server: str, tool: str, text: str) -> ToolCallOutcome:
        self._finish(use.id, server, tool, "failed", text)
        log_call(server, tool, use.arguments, "not asked for", "not run")
        return ToolCallOutcome(make_tool_return(use, server, tool, text, outcome="failed"), is_invalid=True)

    def _finish(self, call: str, server: str, tool: str, outcome: Any, text: str, seconds: float = 0.0) -> None:
        self._events.publish(ToolFinished(call, server, tool, outcome, text, seconds))


def _make_tool_return(
    use: ToolUsePart,
    server: str,
    tool: str,
    text: str,
    images: tuple[ImagePart, ...],
    stored_file: str,
    *,
    is_error: bool,
) -> ToolReturnPart:
    """Return the part for a call that the server answered."""
    outcome: Outcome = "error" if is_error else "ok"
    return ToolReturnPart(use.id, use.name, text, is_error, server, tool, images, stored_file, outcome=outcome)
