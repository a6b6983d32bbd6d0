"""Pipeline for tool calls by the model: resolve, validate, run hooks, authorize, execute, run hooks, present."""

from collections.abc import Generator
from contextlib import AsyncExitStack, contextmanager
from typing import Any

from mcphost.errors import McpHostError, ServerError
from mcphost.host.audit.audit_summary import arguments_digest
from mcphost.host.consent.grants import has_read_only_hint, identify_tool
from mcphost.host.consent.policy import Approval, ConsentPolicy, tool_question
from mcphost.host.event_bus import EventBus
from mcphost.host.events import ToolFinished, ToolProposed
from mcphost.host.questions.questions import Deny
from mcphost.host.servers.orphaned_tasks import ProgressTracker
from mcphost.host.servers.running_calls import CANCELLED_TEXT, RunningCallCancelled
from mcphost.host.servers.tool_registry import OfferedTool, ToolRegistry
from mcphost.host.tools.approval_checks import ApprovalVoid, ToolChanged
from mcphost.host.tools.builtin_tools import BuiltinTools
from mcphost.host.tools.call_executor import RELISTING_PROGRESS, CallExecution, ToolExecutor, error_text, replace_result
from mcphost.host.tools.call_scheduler import CallScheduler
from mcphost.host.tools.hooks import HookDenied, HookNotes, ToolHooks
from mcphost.host.tools.result_presenter import ProposedCall, ResultPresenter, is_review_required
from mcphost.host.tools.result_reuse import ResultReuse
from mcphost.host.tools.tool_outcome import (
    DISABLED_TEXT,
    UNSENT_TEXT,
    CallDeclined,
    InvalidArguments,
    ToolCallOutcome,
    ToolFailure,
    ToolInQuarantine,
    ToolUnavailable,
    log_call,
    make_tool_return,
)
from mcphost.llm.messages import ToolUsePart
from mcphost.sandbox.schema_validator import SchemaValidator
from mcphost.serialization import replace

_MAX_SUGGESTED_NAMES = 3
_MAX_HOOK_ROUNDS = 5
"""Maximum number of times that hooks run for one call, because the user may edit the arguments in between."""


class ToolPipeline:
    """Pipeline that runs tool calls proposed by the model, up to a limited number concurrently."""

    def __init__(  # noqa: PLR0913 - its stages
        self,
        tool_registry: ToolRegistry,
        validator: SchemaValidator,
        consent: ConsentPolicy,
        executor: ToolExecutor,
        presenter: ResultPresenter,
        builtin_tools: BuiltinTools,
        hooks: ToolHooks,
        events: EventBus,
        scheduler: CallScheduler,
        recorded: ResultReuse,
    ) -> None:
        self._tool_registry = tool_registry
        self._validator = validator
        self._consent = consent
        self._executor = executor
        self._presenter = presenter
        self._builtin_tools = builtin_tools
        self._hooks = hooks
        self._events = events
        self._scheduler = scheduler
        self.recorded = recorded

    async def run(self, use: ToolUsePart, why: str) -> ToolCallOutcome:
        """Run one tool call proposed by the model, and return what the model receives as the result.

        Errors are part of the outcome; cancelling stops the call. *why* is the reason for the call, which is shown in
        questions to the user.
        """
        if self._builtin_tools.has_tool(use.name):
            return await self._builtin_tools.run(use, why)
        offered = self._tool_registry.resolve(use.name)
        server, tool = (offered.connection.config.name, offered.definition.name) if offered else ("", use.name)
        call = ProposedCall(use, server, tool, why)
        self._scheduler.describe_call(server, tool)
        self._events.publish(ToolProposed(use.id, server, tool, use.arguments, use.raw))
        notes = HookNotes()
        try:
            offered = self._require_offered(offered, use.name)
            if use.arguments is None:
                raise InvalidArguments("The arguments are not a JSON object; the tool was not called.")
            arguments, has_changed = use.arguments, False
            if self.recorded.is_available:
                reused = await self._reuse(call, offered, arguments, notes)
                if reused is not None:
                    return reused
                # The tool may have changed during a question about the result.
                offered = self._require_offered(self._tool_registry.resolve(use.name), use.name)
            while True:
                offered, approval = await self._authorize(call, offered, arguments, notes, has_changed=has_changed)
                try:
                    # Results are reviewed outside the limiter, so that a review does not block other calls.
                    async with AsyncExitStack() as stack:
                        with self._report_stop(call, approval.arguments, approval.source):
                            await stack.enter_async_context(self._scheduler.slot())
                        result: CallExecution | McpHostError = await self._executor.execute(use.id, offered, approval)
                except ApprovalVoid as error:
                    # The approval no longer applies: resolve the tool again, and ask about it as it is now.
                    offered = _require_available(self._tool_registry.resolve(use.name), error.message)
                    arguments = approval.arguments
                    has_changed = has_changed or isinstance(error, ToolChanged)
                    continue
                except RunningCallCancelled:
                    return ToolCallOutcome(make_tool_return(use, server, tool, CANCELLED_TEXT, outcome="stopped"))
                except McpHostError as error:
                    result = error
                try:
                    return await self._present(call, offered, approval, result, notes)
                finally:
                    self._executor.end_review(use.id, offered)
        except ToolFailure as failure:
            self._events.publish(
                ToolFinished(use.id, server, tool, failure.outcome, failure.user_text, arguments=notes.arguments)
            )
            log_call(server, tool, use.arguments, failure.decision, "not run")
            return failure.to_outcome(use, server, tool)

    def _require_offered(self, offered: OfferedTool | None, name: str) -> OfferedTool:
        # The text is made only if it is needed: a model may propose hundreds of calls in one answer.
        return _require_available(offered, "" if offered is not None else self._describe_missing(name))

    def _describe_missing(self, name: str) -> str:
        """Return the text for the model if no tool is offered as *name*.

        A model may have learned a tool's name on its server, for example from the user, instead of the name under which
        the tool is offered. The text therefore suggests the tools that servers call *name*.
        """
        text = f"There is no tool named {name!r}."
        known = [repr(found) for found in self._tool_registry.find_names(name)[:_MAX_SUGGESTED_NAMES]]
        return f"{text} Did you mean {' or '.join(known)}?" if known else text

    async def _present(
        self,
        call: ProposedCall,
        offered: OfferedTool,
        approval: Approval,
        result: CallExecution | McpHostError,
        notes: HookNotes,
    ) -> ToolCallOutcome:
        """Return what the model receives as the result of a call; only a note if a hook withholds the result.

        If the server's results must be reviewed, the user also reviews the hooks' notes, which may quote the result.
        """
        rule_input = identify_tool(offered).to_rule_input(approval.arguments)
        is_failed = isinstance(result, McpHostError)
        text = error_text(result) if isinstance(result, McpHostError) else result.rendered.model_text
        is_error = isinstance(result, McpHostError) or result.is_error
        withheld = await self._hooks.review(call.use.id, rule_input, text, is_error=is_error, notes=notes)
        needs_review = is_review_required(offered, result)
        if withheld:
            ran = "The call failed" if is_failed else "The tool ran"
            told = f"{ran}, but one of the user's hooks withheld the result."
            told = told if needs_review else f"{told} Reason: {withheld}"
            outcome = ToolCallOutcome(
                make_tool_return(call.use, call.server, call.tool, told, outcome="ok"), is_declined=True
            )
            return outcome if needs_review else notes.add_to(outcome)
        if notes.result is not None:
            result = replace_result(result, notes.result)
        outcome = await self._presenter.present(
            call, offered, approval, result, editor=notes.editor, notes=notes.written if needs_review else ""
        )
        outcome = notes.add_to(outcome, is_reviewed=needs_review)
        # The server may be replaced before the results of this round are added to the conversation.
        outcome = replace(outcome, part=replace(outcome.part, target=offered.connection.target))
        await self._record(call, offered, approval, outcome)
        return outcome

    async def _record(
        self, call: ProposedCall, offered: OfferedTool, approval: Approval, outcome: ToolCallOutcome
    ) -> None:
        """Record the result of a successful read-only call for reuse, unless the call's arguments were edited."""
        is_unchanged = arguments_digest(approval.arguments) == arguments_digest(call.use.arguments)
        is_given = outcome.part.outcome == "ok" and not outcome.is_declined
        if is_given and is_unchanged and has_read_only_hint(offered.definition.tool):
            identity = identify_tool(offered)
            await self.recorded.add(call.use.id, identity, approval.arguments, permission=approval.permission)

    async def _reuse(
        self, call: ProposedCall, offered: OfferedTool, arguments: dict[str, Any], notes: HookNotes
    ) -> ToolCallOutcome | None:
        """Return the recorded result of an identical read-only call, or None if the call must run.

        The tool's definition must be the same as in the earlier call. If the server's results must be reviewed now,
        only a result that the user has reviewed is returned. If the permission for the earlier call no longer applies
        and nothing else allows the call, the user is asked. Raises ToolFailure if the call is not allowed.

        The hooks that precede a call are run again; those that follow a call are not, because they have already
        processed the result. New notes from hooks are added to the result. The call must run if the hooks change its
        arguments, or if the user would have to review the new notes. What the hooks returned is then in *notes*, so
        that they are not run again.
        """
        with self._report_stop(call, arguments):
            offered = await self._wait_until_current(call.use, offered)
            identity = identify_tool(offered)
            is_read_only = has_read_only_hint(offered.definition.tool)
            needs_review = offered.connection.config.review_results
            found = await self.recorded.find(identity, arguments, only_reviewed=needs_review) if is_read_only else None
            if found is None or await offered.validate(arguments, self._validator):
                return None
            rule_input = identity.to_rule_input(arguments)
            checked = await self._hooks.check(call.use.id, rule_input, notes)
            notes.checked = rule_input, checked
            new_notes = notes.without_known(found.part.text)
            is_note_unreviewed = needs_review and bool(new_notes.notes)
            if is_note_unreviewed or arguments_digest(checked) != arguments_digest(arguments):
                return None
            # The grant may have been revoked, or may have expired, while the hooks ran.
            state = await self.recorded.find_permission(found, identity)
            if state == "revoked":
                return None
            permission = found.permission
            if state == "ask":
                why = notes.why(call.why)
                question = tool_question(offered, arguments, call=call.use.id, why=why, recorded_at=found.at)
                verdict = await self._consent.authorize(identity, arguments, question, call=call.use.id)
                if isinstance(verdict, Deny):
                    raise CallDeclined(verdict)
                permission = verdict.permission
            if not self._is_unchanged(call, offered, identity.account):
                return None
            denial = await self._consent.check_reuse(
                identity, arguments, call=call.use.id, recorded_call=found.part.use_id
            )
            if denial is not None:
                raise CallDeclined(denial)
        part = replace(found.part, use_id=call.use.id, name=call.use.name, reused_at=found.at)
        await self.recorded.add(call.use.id, identity, arguments, permission=permission, at=found.at)
        outcome = new_notes.add_to(ToolCallOutcome(part))
        text = outcome.part.text
        self._events.publish(
            ToolFinished(call.use.id, call.server, call.tool, "ok", text, 0.0, part.kept, part.images, found.at)
        )
        log_call(call.server, call.tool, arguments, "allowed before", "reused")
        return outcome

    def _is_unchanged(self, call: ProposedCall, offered: OfferedTool, account: str) -> bool:
        """Return whether the tool can still be called as *offered*, on the same server and with this *account*."""
        current = self._tool_registry.resolve(call.use.name)
        is_same_server = current is not None and current.connection is offered.connection
        return is_same_server and offered.is_current and offered.connection.account == account

    async def _authorize(
        self,
        call: ProposedCall,
        offered: OfferedTool,
        arguments: dict[str, Any],
        notes: HookNotes,
        *,
        has_changed: bool,
    ) -> tuple[OfferedTool, Approval]:
        """Validate the arguments, run the hooks and ask for approval; start again if the user edits the arguments.

        *has_changed* means that the tool changed after an earlier approval of this call. Returns the tool as currently
        listed, and the approval, whose arguments the hooks have accepted. Raises ToolFailure if the call must not run.
        """

        async def is_valid(values: dict[str, Any]) -> bool:
            return not await offered.validate(values, self._validator)

        approval: Approval | None = None
        hook_rounds = 0
        with self._report_stop(call, arguments):
            offered = await self._wait_until_current(call.use, offered)
            errors = await offered.validate(arguments, self._validator)
            if errors:
                raise InvalidArguments(errors.sentence)
            while hook_rounds < _MAX_HOOK_ROUNDS:
                if not errors:
                    hook_rounds += 1
                    rule_input = identify_tool(offered).to_rule_input(arguments)
                    if notes.checked is not None and notes.checked[0] == rule_input:
                        checked = notes.checked[1]
                    else:
                        checked = await self._hooks.check(call.use.id, rule_input, notes)
                    notes.checked = None
                    if arguments_digest(checked) != arguments_digest(arguments):
                        approval, arguments = None, checked
                        notes.arguments = checked
                        if errors := await offered.validate(arguments, self._validator):
                            raise HookDenied(notes.changed_by, f"its arguments are invalid. {errors.sentence}")
                    if approval is not None:
                        return offered, approval
                question = tool_question(
                    offered, arguments, call=call.use.id, why=notes.why(call.why), arguments_error=errors.sentence
                )
                verdict = await self._consent.authorize(
                    identify_tool(offered), arguments, question,
                    call=call.use.id, has_changed=has_changed, is_valid=is_valid,
                )  # fmt: skip
                if isinstance(verdict, Deny):
                    raise CallDeclined(verdict)
                if arguments_digest(verdict.arguments) == arguments_digest(arguments):
                    if errors:
                        raise InvalidArguments(errors.sentence)
                    return offered, verdict
                approval, arguments = verdict, verdict.arguments
                notes.arguments = arguments
                errors = await offered.validate(arguments, self._validator)
        raise HookDenied(notes.changed_by, "it changes the arguments each time they are edited")

    @contextmanager
    def _report_stop(
        self, call: ProposedCall, arguments: dict[str, Any], decision: str = "not decided"
    ) -> Generator[None]:
        """Report the call as stopped if the `with` block is cancelled; convert ServerError to ToolUnavailable.

        *decision* is logged as the decision about the call so far.
        """
        try:
            yield
        except ServerError as error:
            raise ToolUnavailable(error.message) from error
        except ToolFailure:
            raise
        except BaseException:
            self._events.publish(ToolFinished(call.use.id, call.server, call.tool, "stopped", UNSENT_TEXT))
            log_call(call.server, call.tool, arguments, decision, "stopped")
            raise

    async def _wait_until_current(self, use: ToolUsePart, offered: OfferedTool) -> OfferedTool:
        """Return the tool as currently listed by the server, after the user has accepted any change to it.

        If the server reported a change, its tools are listed again first. Raises ServerError if that fails, and
        ToolInQuarantine if the user does not accept the change.
        """
        connection = offered.connection
        if not connection.changes.is_listing_current:
            event = ProgressTracker(use.id, connection.config.name).to_event(RELISTING_PROGRESS)
            if event is not None:
                self._events.publish(event)
            await connection.changes.wait_for_listing()
            offered = self._tool_registry.resolve(use.name) or offered
        name = offered.definition.name
        if not await offered.connection.tool_changes.wait_for_decision(name):
            raise ToolInQuarantine(connection.config.name, name)
        return offered


def _require_available(offered: OfferedTool | None, missing_text: str) -> OfferedTool:
    if offered is None:
        raise ToolUnavailable(missing_text)
    if offered.is_disabled():
        raise ToolUnavailable(DISABLED_TEXT)
    return offered
