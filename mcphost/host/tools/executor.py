"""Executor of tool calls, which sends an approved call, validates its result, and reports the outcome."""

import itertools
import time
from collections.abc import Awaitable, Callable
from shlex import quote
from typing import Any, NamedTuple

from mcphost.client.session import Session
from mcphost.errors import ConnectionLost, ConsentDenied, McpHostError, RequestNotSent, RequestRefused, ServerError
from mcphost.host.audit.audit_log import AuditLog, AuditSpan, AuditSubject
from mcphost.host.consent.grants import identify_tool
from mcphost.host.consent.policy import Approval, ConsentPolicy
from mcphost.host.content_rendering import RenderedResult, join_parts, make_parts_async
from mcphost.host.event_bus import EventBus
from mcphost.host.events import ToolFinished, ToolStarted
from mcphost.host.questions.questions import ResultPart
from mcphost.host.servers.orphaned_tasks import OrphanedTasks, ProgressTracker, TrackedTask
from mcphost.host.servers.running_calls import ActiveCall, RunningCalls
from mcphost.host.servers.servers import Servers
from mcphost.host.servers.tool_registry import OfferedTool
from mcphost.host.tools.builtin_tools import ResultTool
from mcphost.host.tools.hooks import HookDenied, HookNotes, ToolHooks
from mcphost.host.tools.schema_validation import ArgumentValidator, OutputValidation, SchemaErrors, validate_output
from mcphost.host.tools.tool_outcome import log_call
from mcphost.host.views import ManualCallResult
from mcphost.protocol.base import Notification
from mcphost.protocol.jsonrpc import INVALID_PARAMS
from mcphost.protocol.notifications import LoggingMessageNotification, ProgressNotification
from mcphost.protocol.tasks import TaskStatusNotification
from mcphost.protocol.tools import CallTool, CallToolResult
from mcphost.sandbox.schema_validator import SchemaValidator
from mcphost.serialization import Struct, replace

MAY_HAVE_RUN = "The tool may have run."
RELISTING_PROGRESS = ProgressNotification(
    progress_token="", progress=0, message="The server's tools changed and are being listed again."
)


class CallExecution(Struct, frozen=True):
    """A completed tool call with its rendered result.

    `is_error` means that the tool reported an error, or that the result does not match the tool's output schema.
    `stored_file` is the file with the complete result if it is too big for the model, else "".
    """

    result: CallToolResult
    parts: tuple[ResultPart, ...]
    rendered: RenderedResult
    validation: OutputValidation
    seconds: float
    is_error: bool
    stored_file: str = ""


class ToolChanged(ConsentDenied):
    """Raised if a tool changed after the user approved the call; the call was not sent."""


class AccountChanged(ToolChanged):
    """Raised if the server no longer uses the account for which the call was approved; the call was not sent."""


class GrantRevoked(ToolChanged):
    """Raised if the grant that allowed the call was revoked; the call was not sent."""


class CallForbidden(ToolChanged):
    """Raised if a new `never` rule in the configuration forbids an approved call; the call was not sent."""


class ApprovalChecks(NamedTuple):
    """Checks, made just before sending, that an approved call is still allowed.

    `is_grant_active` returns whether the grant with this id is still valid in this process, and True for "" (no grant).
    `was_revoked` returns whether any process revoked the grant. `is_forbidden` returns whether a `never` rule forbids a
    call of the tool with these arguments.
    """

    is_grant_active: Callable[[str], bool]
    is_forbidden: Callable[[OfferedTool, dict[str, Any]], Awaitable[bool]]
    was_revoked: Callable[[str], Awaitable[bool]]


class ToolExecutor:
    """Executor that sends approved calls to servers and tracks each call until it ends."""

    def __init__(
        self,
        events: EventBus,
        validator: SchemaValidator,
        result_tool: ResultTool,
        orphaned_tasks: OrphanedTasks,
        running_calls: RunningCalls,
        audit: AuditLog,
        checks: ApprovalChecks,
    ) -> None:
        self._checks = checks
        self._events = events
        self._validator = validator
        self._result_tool = result_tool
        self._orphaned_tasks = orphaned_tasks
        self._running_calls = running_calls
        self._audit = audit
        self._manual_numbers = itertools.count(1)

    async def execute_manual(self, offered: OfferedTool, arguments: dict[str, Any]) -> CallExecution:
        """Execute a call that the user makes without the model; see `execute`."""
        return await self.execute(f"hand-{next(self._manual_numbers)}", offered, Approval("user", arguments))

    async def execute(self, call: str, offered: OfferedTool, approval: Approval) -> CallExecution:
        """Send an approved call and return its validated and rendered result.

        *call* is the id of the call in events. Immediately before each request, including repeated ones, the tool's
        definition, the account, the grant and the `never` rules are checked again. Raises ToolChanged if one of them
        has changed since the approval, RunningCallCancelled if the user cancels this call, ServerError, or
        ConsentDenied.
        """
        server, tool = offered.connection.config.name, offered.definition.name
        with self._running_calls.track(call, server, tool, approval.source) as active:
            arguments, by = approval.arguments, approval.source
            tracked_task = self._orphaned_tasks.track(server, offered.connection.identity, tool)
            subject = AuditSubject(kind="tool", server=server, name=tool, call=call, arguments=arguments,
                      definition=offered.definition.digest, origins=approval.origins)  # fmt: skip
            span = AuditSpan(self._audit, subject)
            pending = _PendingCall(self._events, call, offered, approval, tracked_task, active, span, self._checks)
            try:
                await offered.connection.refresh_if_stale()
                await pending.wait_for_listing()
                session = await offered.connection.session()
                await span.start(who=by, grant=approval.grant_id)
                await pending.check_allowed()
                self._events.publish(ToolStarted(call, server, tool, arguments, by))
                session, result = await pending.send(session, CallTool(tool, arguments))
                tracked_task.finish(None)
                revision = session.facts.revision
                validation = await validate_output(self._validator, offered.definition.tool, result, revision)
                parts = await make_parts_async(result, null_counts=revision.has_non_object_output, note=validation.text)
            except ToolChanged as error:
                tracked_task.finish(error)
                span.end(pending.unsent_reason(error))
                raise
            except McpHostError as error:
                tracked_task.finish(error)
                if isinstance(error, RequestRefused) and error.code == INVALID_PARAMS:
                    offered.connection.mark_stale()
                pending.finish("failed", RenderedResult(error_text(error)))
                if error_text(error) != error.message and "may have" not in error.hint:
                    error.hint = f"{error.hint} {MAY_HAVE_RUN}".strip()
                raise
            except BaseException as error:
                tracked_task.finish(error)
                pending.finish("stopped", RenderedResult("Stopped; the server was notified."))
                raise
            rendered, stored_file = join_parts(parts), ""
            # The user's own calls are not for the model; reviewed results are stored after the review.
            if by != "user" and not offered.connection.config.review_results:
                rendered, stored_file = await self._result_tool.store(rendered)
            is_error = result.is_error or validation.outcome == "misfit"
            seconds = pending.finish("error" if is_error else "ok", rendered, _result_size(result), stored_file)
            return CallExecution(result, parts, rendered, validation, seconds, is_error, stored_file)


class _PendingCall:
    """A tool call in progress: its notifications, the check before each request, and its outcome."""

    def __init__(
        self,
        events: EventBus,
        call: str,
        offered: OfferedTool,
        approval: Approval,
        tracked_task: TrackedTask,
        active: ActiveCall,
        span: AuditSpan,
        checks: ApprovalChecks,
    ) -> None:
        self._checks = checks
        self._grant_id = approval.grant_id
        self._account = offered.account
        self._is_sent = False
        self._span = span
        self._events = events
        self._call = call
        self._offered = offered
        self._arguments, self._approved_by = approval.arguments, approval.source
        self._tracked_task = tracked_task
        self._active = active
        self._started_at = time.monotonic()
        self._progress = ProgressTracker(call, offered.connection.config.name)

    def on_notification(self, notification: Notification) -> None:
        """Publish progress, forward log messages, and track the status of the MCP task that runs the call."""
        event = self._progress.to_event(notification)
        if event is not None:
            self._active.progress = event
            self._events.publish(event)
        if isinstance(notification, TaskStatusNotification):
            self._active.task_id = notification.task.task_id
            self._tracked_task.update(notification.task)
        elif isinstance(notification, LoggingMessageNotification):
            self._offered.connection.log(notification, self._call)

    async def send(self, session: Session, call: CallTool) -> tuple[Session, CallToolResult]:
        """Send the request, and return the session that was used and the result.

        If the session ended before the call could run, reconnect and send the request once more.
        """
        for last in (False, True):
            try:
                return session, await session.request(
                    call, on_notification=self.on_notification, before_send=self.authorize_send
                )
            except ConnectionLost as error:
                if last or error.may_have_run or isinstance(error, RequestNotSent):
                    raise
                session = await self._offered.connection.session()
                await self.authorize_send(True)
        raise AssertionError("the second time is the last")

    async def authorize_send(self, has_new_session: bool) -> None:
        """Check immediately before a request that the call may still be sent. Raises ToolChanged.

        If *has_new_session* is true, the server's tools are listed again first.
        """
        if has_new_session:
            await self._offered.connection.relist()
            # The user may have signed in during this call.
            self._account = self._offered.account or self._offered.connection.account
        await self.wait_for_listing()
        try:
            await self.check_allowed()
        except ToolChanged as error:
            self._span.end(self.unsent_reason(error))
            self.finish("failed", RenderedResult(error.message))
            raise
        self._is_sent = True

    async def wait_for_listing(self) -> None:
        """Wait until the tools are listed again, if the server reported that they changed. Raises ServerError."""
        if not self._offered.connection.is_listing_current:
            self.on_notification(RELISTING_PROGRESS)
            await self._offered.connection.wait_for_listing()

    async def check_allowed(self) -> None:
        """Raise ToolChanged or a subclass if the call must no longer be sent.

        This is the case if the tool, the account or the grant changed since the approval, or if a new `never` rule
        forbids the call.
        """
        if await self._checks.is_forbidden(self._offered, self._arguments):
            raise CallForbidden(
                "A new rule in the user's configuration forbids this call of "
                f"{self._offered.definition.name!r}; it did not run.",
                "To allow it, change [consent] never in config.toml.",
            )
        was_revoked = bool(self._grant_id) and await self._checks.was_revoked(self._grant_id)
        # Last and without waiting, so that nothing can change between these checks and the request.
        _check_unchanged(self._offered, self._account)
        if was_revoked or not self._checks.is_grant_active(self._grant_id):
            raise GrantRevoked(
                f"The permission for the tool {self._offered.definition.name!r}"
                f" of {self._offered.connection.config.name!r} was "
                "revoked before the call was sent; it did not run.",
                "Repeat the call to be asked again.",
            )

    def unsent_reason(self, error: ToolChanged) -> str:
        """Return why the call was not sent, as a phrase for the audit log."""
        why: dict[type[ToolChanged], str] = {
            GrantRevoked: "its grant was revoked",
            AccountChanged: "another account is used",
            CallForbidden: "a rule forbids it",
        }
        return f"not sent{' again' * self._is_sent}: {why.get(type(error), 'the tool changed')}"

    def finish(self, outcome: Any, shown: RenderedResult, size: int = 0, stored_file: str = "") -> float:
        """Publish and record the outcome of the call; return its duration in seconds.

        *shown* is the result as shown to the user, *size* the size of the received result in bytes, and *stored_file*
        the path of the file with the complete result, "" for none.
        """
        self._span.end(outcome, size=size)
        seconds = time.monotonic() - self._started_at
        server, tool = self._offered.connection.config.name, self._offered.definition.name
        text = shown.user_text
        self._events.publish(
            ToolFinished(self._call, server, tool, outcome, text, seconds, stored_file, shown.user_images)
        )
        log_call(server, tool, self._arguments, self._approved_by, f"{outcome} after {seconds:.2f} s")
        return seconds


def _check_unchanged(offered: OfferedTool, account: str) -> None:
    """Raise ToolChanged if the tool, or AccountChanged if the server's account, is no longer the approved one."""
    account_now = offered.connection.account
    if account_now not in ("", account):
        raise AccountChanged(
            f"The server {offered.connection.config.name!r} now uses the account {account_now!r}, but the call was "
            f"approved for {account or 'none'!r}; it did not run.",
            "Repeat the call to use that account.",
        )
    if not offered.is_current:
        raise ToolChanged(
            f"The tool {offered.definition.name!r} of {offered.connection.config.name!r} changed after the call was "
            "approved; it did not run.",
            "Review the tool and repeat the call.",
        )


def _result_size(result: CallToolResult) -> int:
    return len(bytes(result.raw_content)) + len(bytes(result.structured_content))


def error_text(error: McpHostError) -> str:
    """Return the message of *error*, followed by a note if the tool may have run."""
    if isinstance(error, ServerError) and error.may_have_run:
        return f"{error.message} {MAY_HAVE_RUN}"
    return error.message


def replace_result(result: CallExecution | McpHostError, text: str) -> CallExecution | McpHostError:
    """Return a result whose only content is *text*, without images and stored file, or an error with this message."""
    if isinstance(result, CallExecution):
        part = ResultPart(kind="text", text=text, size=len(text.encode("utf-8", "replace")))
        return replace(result, parts=(part,), rendered=RenderedResult(text), stored_file="")
    return ServerError(text) if isinstance(result, ServerError) else McpHostError(text)


class ManualCalls:
    """Tool calls that the user makes without the model."""

    def __init__(
        self,
        servers: Servers,
        consent: ConsentPolicy,
        executor: ToolExecutor,
        validator: ArgumentValidator,
        hooks: ToolHooks,
    ) -> None:
        self._hooks = hooks
        self._servers = servers
        self._consent = consent
        self._executor = executor
        self._validator = validator

    async def call(self, server: str, tool: str, arguments: dict[str, Any]) -> ManualCallResult:
        """Call a tool and return its result.

        Raises ServerError, UsageError for an unknown tool, and ConsentDenied if the server is not approved, the tool
        has changed, or a hook or a configured rule forbids the call.
        """
        offered = await self._servers.get_tool(server, tool)
        if tool in offered.connection.tool_changes.quarantined:
            raise ConsentDenied(
                f"The tool {tool!r} of {server!r} changed and is quarantined.",
                f"Review the change: mcphost servers changes {quote(server)}",
            )
        arguments = await self._check_hooks(offered, arguments)
        await self._consent.check_manual_call(offered, arguments)
        execution = await self._executor.execute_manual(offered, arguments)
        return ManualCallResult(
            execution.result, execution.rendered.text, execution.seconds, execution.validation, arguments
        )

    async def release(self, server: str, tool: str, result: ManualCallResult) -> str:
        """Return the text of a result that the user passes on to the model, preceded by notes from hooks.

        The hooks that follow a call are run first. Raises ConsentDenied if a hook withholds the result, and ServerError
        or UsageError if the tool no longer exists.
        """
        offered = await self._servers.get_tool(server, tool)
        await self._hooks.refresh()
        notes = HookNotes()
        rule_input = identify_tool(offered).to_rule_input(result.arguments or {})
        is_error = result.result.is_error or result.validation.outcome == "misfit"
        withheld = await self._hooks.review("", rule_input, result.text, is_error=is_error, notes=notes)
        if withheld:
            raise ConsentDenied(f"A hook withheld the result of {tool!r}: {withheld}", "Nothing was attached.")
        return notes.text + (result.text if notes.result is None else notes.result)

    async def _check_hooks(self, offered: OfferedTool, arguments: dict[str, Any]) -> dict[str, Any]:
        """Run the hooks that precede a call; return the arguments, possibly changed. Raises ConsentDenied.

        The hooks that follow a call are run when the user gives the result to the model; see `release`.
        """
        await self._hooks.refresh()
        try:
            return await self._hooks.check("", identify_tool(offered).to_rule_input(arguments), HookNotes())
        except HookDenied as error:
            raise ConsentDenied(error.user_text, "Change the arguments, or the hook.") from error

    async def validate(self, server: str, tool: str, arguments: dict[str, Any]) -> SchemaErrors:
        """Validate arguments against a tool's input schema, without calling the tool, and return the errors.

        Raises ServerError, ConsentDenied, or UsageError for an unknown tool.
        """
        return await self._validator.validate(await self._servers.get_tool(server, tool), arguments)
