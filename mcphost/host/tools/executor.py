"""Executor of approved and of manual calls: sends, validates the result, reports and records the outcome."""

import itertools
import time
from collections.abc import Callable
from shlex import quote
from typing import Any

from mcphost.client.session import Session
from mcphost.errors import ConnectionLost, ConsentDenied, McpHostError, RequestNotSent, RequestRefused, ServerError
from mcphost.host.audit.audit_log import AuditLog, AuditSpan, AuditSubject
from mcphost.host.consent.policy import Approval, ConsentPolicy
from mcphost.host.events import EventBus, ToolFinished, ToolStarted
from mcphost.host.questions.questions import ResultPart
from mcphost.host.results.presentation import RenderedResult, join_parts, make_parts_async
from mcphost.host.servers.orphaned_tasks import OrphanedTasks, ProgressTracker, TrackedTask
from mcphost.host.servers.servers import Servers
from mcphost.host.servers.tool_registry import OfferedTool
from mcphost.host.tools.builtin_tools import ResultTool
from mcphost.host.tools.schema_validation import ArgumentValidator, OutputValidation, SchemaErrors, validate_output
from mcphost.host.tools.tool_outcome import log_call
from mcphost.host.views import ManualCallResult
from mcphost.protocol.base import Notification
from mcphost.protocol.jsonrpc import INVALID_PARAMS
from mcphost.protocol.notifications import LoggingMessageNotification, ProgressNotification
from mcphost.protocol.tasks import TaskStatusNotification
from mcphost.protocol.tools import CallTool, CallToolResult
from mcphost.sandbox.schema_validator import SchemaValidator
from mcphost.serialization import Struct

MAY_HAVE_RUN = "The tool may have run."
RELISTING_PROGRESS = ProgressNotification(
    progress_token="", progress=0, message="The server's tools changed and are being listed again."
)


class CallExecution(Struct, frozen=True):
    """A completed call; `is_error` if the tool reported an error or its result violates its schema.

    `stored_file` is the file with the whole result when it is too big for the model.
    """

    result: CallToolResult
    parts: tuple[ResultPart, ...]
    rendered: RenderedResult
    validation: OutputValidation
    seconds: float
    is_error: bool
    stored_file: str = ""


class ToolChanged(ConsentDenied):
    """The tool changed after it was approved, so the call was not sent."""


class AccountChanged(ToolChanged):
    """The server now uses another account than the call was approved for."""


class GrantRevoked(ToolChanged):
    """The grant that allowed the call was revoked before it was sent."""


class ToolExecutor:
    """Sends calls to servers and follows each one to its end."""

    def __init__(
        self,
        events: EventBus,
        validator: SchemaValidator,
        result_tool: ResultTool,
        orphaned_tasks: OrphanedTasks,
        audit: AuditLog,
        is_grant_active: Callable[[str], bool],
    ) -> None:
        """*is_grant_active* returns whether the grant with this id is active; "" is no grant."""
        self._is_grant_active = is_grant_active
        self._events = events
        self._validator = validator
        self._result_tool = result_tool
        self._orphaned_tasks = orphaned_tasks
        self._audit = audit
        self._manual_numbers = itertools.count(1)

    async def execute_manual(self, offered: OfferedTool, arguments: dict[str, Any]) -> CallExecution:
        """Run the user's own call; raises what `execute` does."""
        return await self.execute(f"hand-{next(self._manual_numbers)}", offered, Approval("user", arguments))

    async def execute(self, call: str, offered: OfferedTool, approval: Approval) -> CallExecution:
        """Send an approved call, validate and report the result. Raises ServerError or ConsentDenied.

        The definition, the account and the grant are checked directly before each request, also before one that is
        repeated with answers or after a sign-in. If one of them changed, ToolChanged is raised and recorded.
        """
        server, tool = offered.connection.config.name, offered.definition.name
        arguments, by, grant = approval.arguments, approval.source, approval.grant_id
        tracked_task = self._orphaned_tasks.track(server, offered.connection.identity, tool)
        subject = AuditSubject(kind="tool", server=server, name=tool, call=call, arguments=arguments,
                  definition=offered.definition.digest)  # fmt: skip
        span = AuditSpan(self._audit, subject)
        pending = _PendingCall(
            self._events, call, offered, arguments, by, tracked_task, span, lambda: self._is_grant_active(grant)
        )
        try:
            await offered.connection.refresh_if_stale()
            await pending.wait_for_listing()
            session = await offered.connection.session()
            await span.start(who=by, grant=grant)
            pending.check_allowed()
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
    """One call in progress: its notifications, the checks before each request, and its outcome."""

    def __init__(
        self,
        events: EventBus,
        call: str,
        offered: OfferedTool,
        arguments: dict[str, Any],
        by: str,
        tracked_task: TrackedTask,
        span: AuditSpan,
        is_grant_active: Callable[[], bool],
    ) -> None:
        self._is_grant_active = is_grant_active
        self._account = offered.account
        self._is_sent = False
        self._span = span
        self._events = events
        self._call = call
        self._offered = offered
        self._arguments = arguments
        self._approved_by = by
        self._tracked_task = tracked_task
        self._started_at = time.monotonic()
        self._progress = ProgressTracker(call, offered.connection.config.name)

    def on_notification(self, notification: Notification) -> None:
        """Publish or log a notification of the call."""
        event = self._progress.to_event(notification)
        if event is not None:
            self._events.publish(event)
        if isinstance(notification, TaskStatusNotification):
            self._tracked_task.update(notification.task)
        elif isinstance(notification, LoggingMessageNotification):
            self._offered.connection.log(notification, self._call)

    async def send(self, session: Session, call: CallTool) -> tuple[Session, CallToolResult]:
        """Send the request; reconnect once if the session had ended. Return the session and the result."""
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
        """Check directly before a request that the call may still be sent (see BeforeSendFn). Raises ToolChanged."""
        if has_new_session:
            await self._offered.connection.relist()
            # The user may just have signed in for this call.
            self._account = self._offered.account or self._offered.connection.account
        await self.wait_for_listing()
        try:
            self.check_allowed()
        except ToolChanged as error:
            self._span.end(self.unsent_reason(error))
            self.finish("failed", RenderedResult(error.message))
            raise
        self._is_sent = True

    async def wait_for_listing(self) -> None:
        """After a change notification, wait until the tools were listed again. Raises ServerError."""
        if not self._offered.connection.is_listing_current:
            self.on_notification(RELISTING_PROGRESS)
            await self._offered.connection.wait_for_listing()

    def check_allowed(self) -> None:
        """Check that the call may be sent now. Raises ToolChanged."""
        _check_unchanged(self._offered, self._account)
        if not self._is_grant_active():
            raise GrantRevoked(
                f"The permission for the tool {self._offered.definition.name!r}"
                f" of {self._offered.connection.config.name!r} was "
                "revoked before the call was sent; it did not run.",
                "Repeat the call to be asked again.",
            )

    def unsent_reason(self, error: ToolChanged) -> str:
        """Return why a call was not sent, in the words of the audit log."""
        why: dict[type[ToolChanged], str] = {
            GrantRevoked: "its grant was revoked",
            AccountChanged: "another account is used",
        }
        return f"not sent{' again' * self._is_sent}: {why.get(type(error), 'the tool changed')}"

    def finish(self, outcome: Any, shown: RenderedResult, size: int = 0, stored_file: str = "") -> float:
        """Publish and record the outcome of the call; return its duration in seconds."""
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
    """Check that the tool and the account are still the approved ones. Raises ToolChanged or AccountChanged."""
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
    """Return the error message of a failed call, with a note if the call may have run."""
    if isinstance(error, ServerError) and error.may_have_run:
        return f"{error.message} {MAY_HAVE_RUN}"
    return error.message


class ManualCalls:
    """The user's own calls of tools."""

    def __init__(
        self, servers: Servers, consent: ConsentPolicy, executor: ToolExecutor, validator: ArgumentValidator
    ) -> None:
        self._servers = servers
        self._consent = consent
        self._executor = executor
        self._validator = validator

    async def call(self, server: str, tool: str, arguments: dict[str, Any]) -> ManualCallResult:
        """Run a call.

        Raises ServerError, UsageError (unknown tool), and ConsentDenied for an unapproved server, a changed tool, or a
        call that the configuration never allows.
        """
        offered = await self._servers.get_tool(server, tool)
        if tool in offered.connection.tool_changes.quarantined:
            raise ConsentDenied(
                f"The tool {tool!r} of {server!r} changed and is quarantined.",
                f"Review the change: mcphost servers changes {quote(server)}",
            )
        await self._consent.check_manual_call(offered, arguments)
        execution = await self._executor.execute_manual(offered, arguments)
        return ManualCallResult(execution.result, execution.rendered.text, execution.seconds, execution.validation)

    async def validate(self, server: str, tool: str, arguments: dict[str, Any]) -> SchemaErrors:
        """Return the errors of these arguments against the tool's inputSchema, none if they may be sent.

        Raises ServerError, ConsentDenied or UsageError.
        """
        return await self._validator.validate(await self._servers.get_tool(server, tool), arguments)
