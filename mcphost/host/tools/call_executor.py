"""Executor of tool calls, which sends an approved call, validates its result, and reports the outcome."""

import secrets
from typing import Any, Protocol

from mcphost.client.error_mapping import make_era_hint
from mcphost.client.session import Session
from mcphost.errors import (
    ConnectionLost,
    McpHostError,
    RequestNotSent,
    RequestRefused,
    ServerError,
    join_sentences,
)
from mcphost.host.audit.audit_log import AuditLog, AuditSpan, AuditSubject
from mcphost.host.consent.policy import Approval
from mcphost.host.content_rendering import RenderedResult, join_parts, make_parts_async
from mcphost.host.event_bus import EventBus
from mcphost.host.events import CallOutcome, ToolFinished, ToolStarted
from mcphost.host.lifetime import Lazy
from mcphost.host.questions.questions import ResultPart
from mcphost.host.servers.orphaned_tasks import OrphanedTasks, ProgressTracker, TrackedTask
from mcphost.host.servers.running_calls import ActiveCall, RunningCalls
from mcphost.host.servers.tool_registry import OfferedTool
from mcphost.host.tools.approval_checks import ApprovalChecks, ApprovalVoid
from mcphost.host.tools.builtin_tools import ResultTool
from mcphost.host.tools.output_validation import OutputValidation, validate_output
from mcphost.host.tools.tool_outcome import log_call
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

_WAITING_PROGRESS = ProgressNotification(progress_token="", progress=0, message="Waiting until the server is ready.")


_WITHOUT_MODEL = ("user", "page")
"""Sources of calls whose results are not for the model."""


class PageCallObserver(Protocol):
    """Interface of the object that remembers calls of tools with an interactive page, for display in the page."""

    def start(self, call: str, offered: OfferedTool, arguments: dict[str, Any]) -> None:
        """Remember a call that is being sent."""
        ...

    def finish(self, call: str, result: CallToolResult) -> None:
        """Remember the result of a call."""
        ...

    def end_review(self, call: str) -> None:
        """Record that the result of a call needs no further review."""
        ...

    def cancel(self, call: str, error: McpHostError | None) -> None:
        """Remember that a call ended without a result, because of *error* if that is not None.

        Do nothing if `finish` has recorded a result of the call.
        """
        ...


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
        self.page_calls: Lazy[PageCallObserver] | None = None
        """Receives the calls of tools with a page, except for those that a page makes; None if no page can be shown."""

    def make_manual_id(self) -> str:
        """Return a new id for a call that the user makes without the model."""
        return f"hand-{secrets.token_hex(8)}"  # unique in all runs, because it also names the stored page of the call

    def end_review(self, call: str, offered: OfferedTool) -> None:
        """Record that the result of a call needs no further review; see `PageCallObserver`."""
        if self.page_calls is not None and offered.definition.page.resource_uri:
            self.page_calls.get().end_review(call)

    async def execute_manual(self, call: str, offered: OfferedTool, arguments: dict[str, Any]) -> CallExecution:
        """Execute a call that the user makes without the model; see `execute`."""
        return await self.execute(call, offered, Approval("user", arguments))

    async def execute(self, call: str, offered: OfferedTool, approval: Approval) -> CallExecution:
        """Send an approved call and return its validated and rendered result.

        *call* is the id of the call in events. Immediately before each request, including repeated ones, the tool's
        definition, the account, the grant, auto-approve mode and the `never` rules are checked again. Raises
        ApprovalVoid if one of them has changed since the approval, RunningCallCancelled if the user cancels this call,
        ServerError, or ConsentDenied.
        """
        server, tool = offered.connection.config.name, offered.definition.name
        with self._running_calls.track(call, server, tool, approval.source) as active:
            arguments, by = approval.arguments, approval.source
            tracked_task = self._orphaned_tasks.track(server, offered.connection.identity, tool)
            subject = AuditSubject(kind="tool", server=server, name=tool, call=call, arguments=arguments,
                      definition=offered.definition.digest, origins=approval.origins)  # fmt: skip
            span = AuditSpan(self._audit, subject)
            pending = _PendingCall(self._events, call, offered, approval, tracked_task, active, span, self._checks)
            pending.page_calls = self.page_calls if offered.definition.page.resource_uri and by != "page" else None
            try:
                if not offered.connection.is_ready:
                    pending.on_notification(_WAITING_PROGRESS)
                await offered.connection.changes.refresh_if_stale()
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
            except ApprovalVoid as error:
                tracked_task.finish(error)
                span.end(pending.unsent_reason(error))
                raise
            except McpHostError as error:
                tracked_task.finish(error)
                _mark_lists(offered, error)
                view = offered.connection.view() if isinstance(error, ConnectionLost) else None
                if view is not None and view.state in ("stopped", "waiting") and view.detail:
                    error.message = view.detail  # the user ended the connection, or saved a watched file
                pending.finish("failed", RenderedResult(error_text(error)), error=error)
                # The user's own calls show the hint themselves.
                if error.hint == (hint := make_era_hint(server)) and by not in _WITHOUT_MODEL:
                    self._events.notify("warning", f"The server {server!r} cannot ask you anything.", hint)
                if error_text(error) != error.message and "may have" not in error.hint:
                    error.hint = join_sentences(MAY_HAVE_RUN, error.hint)  # a hint may end with a path
                raise
            except BaseException as error:
                tracked_task.finish(error)
                pending.finish("stopped", RenderedResult("Stopped; the server was notified."))
                raise
            rendered, stored_file = join_parts(parts), ""
            # The user's own calls are not for the model; reviewed results are stored after the review.
            if by not in _WITHOUT_MODEL and not offered.connection.config.review_results:
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
        self._approval = approval
        self._account = offered.account
        self._is_sent = False
        self._span = span
        self._events = events
        self._call = call
        self._offered = offered
        self._tracked_task = tracked_task
        self._active = active
        self._progress = ProgressTracker(call, offered.connection.config.name)
        self.page_calls: Lazy[PageCallObserver] | None = None

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
        if self.page_calls is not None:
            self.page_calls.get().start(self._call, self._offered, self._approval.arguments)
            if self._approval.source in _WITHOUT_MODEL:
                self.page_calls.get().end_review(self._call)
        for last in (False, True):
            try:
                result = await session.request(
                    call, on_notification=self.on_notification, before_send=self.authorize_send
                )
                if self.page_calls is not None:
                    self.page_calls.get().finish(self._call, result)
                return session, result
            except ConnectionLost as error:
                if last or error.may_have_run or isinstance(error, RequestNotSent):
                    raise
                session = await self._offered.connection.session()
                await self.authorize_send(True)
        raise AssertionError("the second time is the last")

    async def authorize_send(self, has_new_session: bool) -> None:
        """Check, immediately before a request, that the call may still be sent; raise ApprovalVoid if not.

        *has_new_session* means that the session was replaced during the call. In that case, the server's tools are
        listed again before the check. Raises ServerError if tools that the server reported as changed cannot be listed.
        """
        if has_new_session:
            await self._offered.connection.changes.relist()
            # The user may have signed in during this call.
            self._account = self._offered.account or self._offered.connection.account
        await self.wait_for_listing()
        try:
            await self.check_allowed()
        except ApprovalVoid as error:
            self._span.end(self.unsent_reason(error))
            if self._approval.source in _WITHOUT_MODEL:  # the model's continue: the user is asked about them again
                self.finish("failed", RenderedResult(error.message), error=error)
            raise
        self._is_sent = True

    async def wait_for_listing(self) -> None:
        """If the server reported that its tools changed, wait until they are listed again. Raises ServerError."""
        if not self._offered.connection.changes.is_listing_current:
            self.on_notification(RELISTING_PROGRESS)
            await self._offered.connection.changes.wait_for_listing()

    async def check_allowed(self) -> None:
        """Raise ApprovalVoid if the call must no longer be sent; see `ApprovalChecks.check`."""
        await self._checks.check(self._offered, self._approval, self._account)

    def unsent_reason(self, error: ApprovalVoid) -> str:
        """Return the reason why the call was not sent, as a phrase for the audit log."""
        return f"not sent{' again' * self._is_sent}: {error.reason}"

    def finish(
        self,
        outcome: CallOutcome,
        shown: RenderedResult,
        size: int = 0,
        stored_file: str = "",
        *,
        error: McpHostError | None = None,
    ) -> float:
        """Publish and record the outcome of the call; return its duration in seconds.

        The duration does not include the time that the user took to answer questions. *shown* is the result as
        shown to the user, *size* the size of the received result in bytes, and *stored_file* the path of the
        file with the complete result, "" for none. *error* is the error that ended the call.
        """
        self._span.end(outcome, size=size)
        seconds = self._active.stopwatch.seconds
        server, tool = self._offered.connection.config.name, self._offered.definition.name
        text = shown.user_text
        if self.page_calls is not None:
            self.page_calls.get().cancel(self._call, error)
        self._events.publish(
            ToolFinished(self._call, server, tool, outcome, text, seconds, stored_file, shown.user_images)
        )
        log_call(server, tool, self._approval.arguments, self._approval.source, f"{outcome} after {seconds:.2f} s")
        return seconds


def _mark_lists(offered: OfferedTool, error: McpHostError) -> None:
    """Mark the server's lists as outdated if *error*, which ended a call, suggests that the lists have changed."""
    if isinstance(error, RequestRefused) and error.code == INVALID_PARAMS:
        offered.connection.changes.mark_stale()
    elif isinstance(error, ConnectionLost) and not isinstance(error, RequestNotSent):
        offered.connection.changes.list_again()


def _result_size(result: CallToolResult) -> int:
    return len(bytes(result.raw_content)) + len(bytes(result.structured_content))


def error_text(error: McpHostError) -> str:
    """Return the message of *error*, followed by a note if the tool may have run."""
    if isinstance(error, ServerError) and error.may_have_run:
        return join_sentences(error.message, MAY_HAVE_RUN)
    return error.message


def replace_result(result: CallExecution | McpHostError, text: str) -> CallExecution | McpHostError:
    """Replace the content of a result, including its images and its stored file, with *text*.

    If *result* is an error, return an error with *text* as its message.
    """
    if isinstance(result, CallExecution):
        part = ResultPart(kind="text", text=text, size=len(text.encode("utf-8", "replace")))
        return replace(result, parts=(part,), rendered=RenderedResult(text), stored_file="")
    return ServerError(text) if isinstance(result, ServerError) else McpHostError(text)
