"""One call that was allowed: sent as what it was allowed as, its result checked, how it ended told and recorded."""

import itertools
import logging
import time
from collections.abc import Callable
from typing import Any

from mcphost.client.session import Session
from mcphost.errors import ConnectionLost, ConsentDenied, McpHostError, RequestNotSent, RequestRefused, ServerError
from mcphost.host.audit.audit_log import AuditLog, AuditSpan, AuditSubject
from mcphost.host.audit.audit_summary import arguments_digest
from mcphost.host.event_queue import EventBus
from mcphost.host.events import ToolFinished, ToolStarted
from mcphost.host.questions.result_review_questions import ResultPart
from mcphost.host.results.presentation import RenderedResult, join_parts, make_parts_async
from mcphost.host.results.tool_schemas import OutputValidation, validate_output
from mcphost.host.servers.orphaned_tasks import OrphanedTasks, ProgressTracker, TrackedTask
from mcphost.host.servers.tool_registry import OfferedTool
from mcphost.host.tools.result_tool import ResultTool
from mcphost.protocol.base import Notification
from mcphost.protocol.jsonrpc import INVALID_PARAMS
from mcphost.protocol.notifications import LoggingMessageNotification, ProgressNotification
from mcphost.protocol.tasks import TaskStatusNotification
from mcphost.protocol.tools import CallTool, CallToolResult
from mcphost.sandbox.schema_validator import SchemaValidator
from mcphost.serialization import Struct, dumps

MAY_HAVE_RUN = "The tool may have run."
RELISTING_PROGRESS = ProgressNotification(
    progress_token="", progress=0, message="The server's tools changed and are being listed anew."
)
LOGGED_ARGUMENTS_LIMIT = 4_000
_log = logging.getLogger(__name__)


class CallExecution(Struct, frozen=True):
    """A call that was made and answered; `failed` when the tool says so, or when it broke its own promise.

    `kept` is the file that holds all of a result that is too big for the model.
    """

    result: CallToolResult
    parts: tuple[ResultPart, ...]
    rendered: RenderedResult
    validation: OutputValidation
    seconds: float
    is_error: bool
    stored_file: str = ""


class ToolChanged(ConsentDenied):
    """The tool is no longer what the consent was given to."""


class AccountChanged(ToolChanged):
    """The server is used with another account than the one that the consent was given for."""


class GrantRevoked(ToolChanged):
    """The grant that allowed the call was revoked before it was sent."""


class ToolExecutor:
    """Sends calls and hears of them to their end."""

    def __init__(
        self,
        events: EventBus,
        validator: SchemaValidator,
        result_tool: ResultTool,
        orphaned_tasks: OrphanedTasks,
        audit: AuditLog,
        is_grant_active: Callable[[str], bool],
    ) -> None:
        """`stands` says whether the grant with that id still counts; "" is none."""
        self._is_grant_active = is_grant_active
        self._events = events
        self._validator = validator
        self._result_tool = result_tool
        self._orphaned_tasks = orphaned_tasks
        self._audit = audit
        self._manual_numbers = itertools.count(1)

    async def execute_manual(self, offered: OfferedTool, arguments: dict[str, Any]) -> CallExecution:
        """The user's own call; raises what `perform` does."""
        return await self.execute(f"hand-{next(self._manual_numbers)}", offered, arguments, "user")

    async def execute(
        self, call: str, offered: OfferedTool, arguments: dict[str, Any], by: str, grant: str = ""
    ) -> CallExecution:
        """Send a call that was allowed, check what came, and tell how it went. Raises ServerError, Declined.

        Right before each sending the definition, the account and the grant are looked at, also when the call is sent
        again with answers, or because somebody signed in: what was allowed is what runs. Otherwise ToolChanged is
        raised, and the ledger has an end that says so.
        """
        server, tool = offered.connection.config.name, offered.definition.name
        kept = self._orphaned_tasks.track(server, offered.connection.identity, tool)
        act = AuditSubject(kind="tool", server=server, name=tool, call=call, arguments=arguments,
                  definition=offered.definition.digest)  # fmt: skip
        effect = AuditSpan(self._audit, act)
        sending = _PendingCall(
            self._events, call, offered, arguments, by, kept, effect, lambda: self._is_grant_active(grant)
        )
        try:
            await offered.connection.refresh_if_stale()
            await sending.wait_for_listing()
            session = await offered.connection.session()
            await effect.start(who=by, grant=grant)
            sending.check_allowed()
            self._events.publish(ToolStarted(call, server, tool, arguments, by))
            session, result = await sending.send(session, CallTool(tool, arguments))
            kept.finish(None)
            revision = session.facts.revision
            checked = await validate_output(self._validator, offered.definition.tool, result, revision)
            parts = await make_parts_async(result, null_counts=revision.has_non_object_output, note=checked.text)
        except ToolChanged as error:
            kept.finish(error)
            effect.end(sending.unsent_reason(error))
            raise
        except McpHostError as error:
            kept.finish(error)
            if isinstance(error, RequestRefused) and error.code == INVALID_PARAMS:
                offered.connection.mark_stale()
            sending.finish("failed", RenderedResult(error_text(error)))
            if error_text(error) != error.message and "may have" not in error.hint:
                error.hint = f"{error.hint} {MAY_HAVE_RUN}".strip()
            raise
        except BaseException as error:
            kept.finish(error)
            sending.finish("stopped", RenderedResult("Stopped; the server was told."))
            raise
        rendered, kept = join_parts(parts), ""
        # What the user calls by hand goes to no model; what the user reviews is kept once that is over, if it is given.
        if by != "user" and not offered.connection.config.review_results:
            rendered, kept = await self._result_tool.store(rendered)
        failed = result.is_error or checked.outcome == "misfit"
        seconds = sending.finish("error" if failed else "ok", rendered, _result_size(result), kept)
        return CallExecution(result, parts, rendered, checked, seconds, failed, kept)


class _PendingCall:
    """One call on its way: what is heard of it, whether it may be sent again, and how it ended."""

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
        """What the server says meanwhile."""
        event = self._progress.to_event(notification)
        if event is not None:
            self._events.publish(event)
        if isinstance(notification, TaskStatusNotification):
            self._tracked_task.update(notification.task)
        elif isinstance(notification, LoggingMessageNotification):
            self._offered.connection.log(notification, self._call)

    async def send(self, session: Session, call: CallTool) -> tuple[Session, CallToolResult]:
        """The result, and the session that gave it: another one when the first had ended before anything was sent."""
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
        """See BeforeSendFn. Raises ToolChanged."""
        if has_new_session:
            await self._offered.connection.relist()
            # Whoever nobody was signed in for may just have been asked to sign in for this very call.
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
        """Wait for the tools of a server that said that they changed. Raises ServerError."""
        if not self._offered.connection.is_listing_current:
            self.on_notification(RELISTING_PROGRESS)
            await self._offered.connection.wait_for_listing()

    def check_allowed(self) -> None:
        """Whether the call may be sent now. Raises ToolChanged."""
        _check_unchanged(self._offered, self._account)
        if not self._is_grant_active():
            raise GrantRevoked(
                f"What allowed the tool {self._offered.definition.name!r}"
                f" of {self._offered.connection.config.name!r} was "
                "revoked before the call was sent; it did not run.",
                "Repeat the call to be asked about it.",
            )

    def unsent_reason(self, error: ToolChanged) -> str:
        """How the call ended, for the ledger."""
        why: dict[type[ToolChanged], str] = {
            GrantRevoked: "its grant was revoked",
            AccountChanged: "another account is used",
        }
        return f"not sent{' again' * self._is_sent}: {why.get(type(error), 'the tool changed')}"

    def finish(self, outcome: Any, shown: RenderedResult, size: int = 0, stored_file: str = "") -> float:
        """Tell and record it; after how many seconds that was."""
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
    """Whether the tool is still what the call was allowed for, and used with that account, unless nobody is signed in
    now. Raises ToolChanged."""
    now = offered.connection.account
    if now not in ("", account):
        raise AccountChanged(
            f"The server {offered.connection.config.name!r} is used with the account {now!r} now, not with "
            f"{account or 'none'!r}, which the call was allowed for; it did not run.",
            "Repeat the call, if it is meant for that account.",
        )
    if not offered.is_current:
        raise ToolChanged(
            f"The tool {offered.definition.name!r} of {offered.connection.config.name!r} is not what it was when the "
            "call was allowed; it did not run.",
            "Look at it again, and repeat the call.",
        )


def _result_size(result: CallToolResult) -> int:
    return len(bytes(result.raw_content)) + len(bytes(result.structured_content))


def error_text(error: McpHostError) -> str:
    """What the user and the model are told of a failed call."""
    if isinstance(error, ServerError) and error.may_have_run:
        return f"{error.message} {MAY_HAVE_RUN}"
    return error.message


def log_call(server: str, tool: str, arguments: dict[str, Any] | None, decision: str, outcome: str) -> None:
    """Log who wanted what of whom, what allowed it and how it ended; the log has the time, and takes secrets out.

    Of the arguments the size and the digest that the ledger has, too; their text only at the level debug.
    """
    text = dumps(arguments)
    if _log.isEnabledFor(logging.DEBUG):
        given = text[:LOGGED_ARGUMENTS_LIMIT]
    else:
        given = f"of {len(text)} characters (sha256 {arguments_digest(arguments)})" if arguments is not None else "none"
    _log.info("tool %r of %r, arguments %s, decision: %s, outcome: %s", tool, server, given, decision, outcome)
