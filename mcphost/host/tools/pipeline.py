"""Pipeline for tool calls proposed by the model: resolve, validate, authorize, execute, present."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import anyio

from mcphost.errors import McpHostError, ServerError
from mcphost.host.audit.audit_summary import arguments_digest
from mcphost.host.consent.grants import identify_tool
from mcphost.host.consent.policy import Approval, ConsentPolicy, tool_question
from mcphost.host.events import EventBus, ToolFinished, ToolProposed
from mcphost.host.questions.questions import Deny
from mcphost.host.servers.orphaned_tasks import ProgressTracker
from mcphost.host.servers.tool_registry import OfferedTool, ToolRegistry
from mcphost.host.tools.builtin_tools import BuiltinTools
from mcphost.host.tools.executor import (
    RELISTING_PROGRESS,
    AccountChanged,
    CallExecution,
    GrantRevoked,
    ToolChanged,
    ToolExecutor,
)
from mcphost.host.tools.presenter import ProposedCall, ResultPresenter
from mcphost.host.tools.schema_validation import ArgumentValidator
from mcphost.host.tools.tool_outcome import (
    DISABLED_TEXT,
    CallDeclined,
    InvalidArguments,
    ToolCallOutcome,
    ToolFailure,
    ToolUnavailable,
    log_call,
)
from mcphost.llm.messages import ToolUsePart


class ToolPipeline:
    """Pipeline that runs tool calls proposed by the model, a limited number of them concurrently."""

    def __init__(
        self,
        tool_registry: ToolRegistry,
        validator: ArgumentValidator,
        consent: ConsentPolicy,
        executor: ToolExecutor,
        presenter: ResultPresenter,
        builtin_tools: BuiltinTools,
        events: EventBus,
        max_parallel: int,
    ) -> None:
        self._tool_registry = tool_registry
        self._validator = validator
        self._consent = consent
        self._executor = executor
        self._presenter = presenter
        self._builtin_tools = builtin_tools
        self._events = events
        self._limiter = anyio.CapacityLimiter(max_parallel)

    async def run(self, use: ToolUsePart, why: str) -> ToolCallOutcome:
        """Run one tool call and return what the model receives.

        Errors are part of the outcome; cancelling stops the call. *why* is the reason shown in questions to the user.
        """
        if self._builtin_tools.has_tool(use.name):
            return await self._builtin_tools.run(use, why)
        offered = self._tool_registry.resolve(use.name)
        server, tool = (offered.connection.config.name, offered.definition.name) if offered else ("", use.name)
        call = ProposedCall(use, server, tool, why)
        self._events.publish(ToolProposed(use.id, server, tool, use.arguments, use.raw))
        try:
            offered = _require_available(offered, f"There is no tool named {use.name!r}.")
            if use.arguments is None:
                raise InvalidArguments("The arguments are not a JSON object; the tool was not called.")
            arguments, has_changed = use.arguments, False
            while True:
                offered, approval = await self._authorize(call, offered, arguments, has_changed=has_changed)
                try:
                    # Results are reviewed outside the limiter, so that a review does not block other calls.
                    async with self._limiter:
                        result: CallExecution | McpHostError = await self._executor.execute(use.id, offered, approval)
                except ToolChanged as error:
                    # The approval was for the previous definition: resolve the tool again and ask about the new one.
                    offered = _require_available(self._tool_registry.resolve(use.name), error.message)
                    arguments = approval.arguments
                    has_changed = has_changed or not isinstance(error, AccountChanged | GrantRevoked)
                    continue
                except McpHostError as error:
                    result = error
                return await self._presenter.present(call, offered, approval, result)
        except ToolFailure as failure:
            self._events.publish(ToolFinished(use.id, server, tool, failure.outcome, failure.user_text))
            log_call(server, tool, use.arguments, failure.decision, "not run")
            return failure.to_outcome(use, server, tool)

    async def _authorize(
        self, call: ProposedCall, offered: OfferedTool, arguments: dict[str, Any], *, has_changed: bool
    ) -> tuple[OfferedTool, Approval]:
        """Validate the arguments and ask for approval; ask again if the user edits the arguments and they are invalid.

        Return the tool as currently listed, and the approval. Raises ToolFailure if the call must not run.
        """

        async def is_valid(values: dict[str, Any]) -> bool:
            return not await self._validator.validate(offered, values)

        with self._reporting_stop(call, arguments):
            offered = await self._wait_until_current(call.use, offered)
            errors = await self._validator.validate(offered, arguments)
            if errors:
                raise InvalidArguments(errors.sentence)
            while True:
                question = tool_question(
                    offered, arguments, call=call.use.id, why=call.why, arguments_error=errors.sentence
                )
                verdict = await self._consent.authorize(
                    identify_tool(offered), arguments, question,
                    call=call.use.id, has_changed=has_changed, is_valid=is_valid,
                )  # fmt: skip
                if isinstance(verdict, Deny):
                    raise CallDeclined(verdict.reason)
                if arguments_digest(verdict.arguments) == arguments_digest(arguments):
                    if errors:
                        raise InvalidArguments(errors.sentence)
                    return offered, verdict
                arguments = verdict.arguments
                errors = await self._validator.validate(offered, arguments)
                if not errors:
                    return offered, verdict

    @contextmanager
    def _reporting_stop(self, call: ProposedCall, arguments: dict[str, Any]) -> Generator[None]:
        """Publish that the call was stopped if the block is cancelled; convert ServerError to ToolUnavailable."""
        try:
            yield
        except ServerError as error:
            raise ToolUnavailable(error.message) from error
        except ToolFailure:
            raise
        except BaseException:
            self._events.publish(ToolFinished(call.use.id, call.server, call.tool, "stopped", "Stopped before it ran."))
            log_call(call.server, call.tool, arguments, "not asked for to the end", "stopped")
            raise

    async def _wait_until_current(self, use: ToolUsePart, offered: OfferedTool) -> OfferedTool:
        """Return the tool as currently listed, once the user has reviewed any change to it.

        If the server reported a change, its tools are listed again first. Raises ServerError if that fails, and
        ToolUnavailable if the user does not accept the change.
        """
        connection = offered.connection
        if not connection.is_listing_current:
            event = ProgressTracker(use.id, connection.config.name).to_event(RELISTING_PROGRESS)
            if event is not None:
                self._events.publish(event)
            await connection.wait_for_listing()
            offered = self._tool_registry.resolve(use.name) or offered
        name = offered.definition.name
        if not await offered.connection.tool_changes.wait_for_decision(name):
            raise ToolUnavailable(
                f"The tool {name!r} changed and is quarantined until the user reviews it; it was not called."
            )
        return offered


def _require_available(offered: OfferedTool | None, missing_text: str) -> OfferedTool:
    if offered is None:
        raise ToolUnavailable(missing_text)
    if offered.is_disabled():
        raise ToolUnavailable(DISABLED_TEXT)
    return offered
