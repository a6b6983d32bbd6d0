"""Requests from a page that need the server or the user: tool calls, reads, messages and links."""

from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import anyio

from mcphost.errors import MalformedMessage, RequestRefused
from mcphost.host.app_pages.page_bridge import PageRequestHandler, PageRequestRejected, decode_params
from mcphost.host.app_pages.page_calls import PageCall
from mcphost.host.app_pages.page_content import read_context, read_message
from mcphost.host.audit.audit_log import AuditLog, AuditSubject
from mcphost.host.audit.audit_summary import arguments_digest
from mcphost.host.consent.grants import identify_tool
from mcphost.host.consent.policy import Approval, ConsentPolicy, tool_question
from mcphost.host.event_bus import EventBus
from mcphost.host.events import PageDrafted
from mcphost.host.lifetime import Lazy
from mcphost.host.questions.frontend import Frontend, QuestionBudget
from mcphost.host.questions.pages import PageMessage
from mcphost.host.questions.questions import AcceptUrl, Deny, VisitUrl
from mcphost.host.questions.sign_in import OpenUrl
from mcphost.host.server_requests.elicitation import inspect_url
from mcphost.host.server_requests.request_handler import QuestionRateLimiter
from mcphost.host.servers.features import EditableTexts
from mcphost.host.servers.servers import Servers
from mcphost.host.servers.tool_registry import OfferedTool
from mcphost.host.tools.call_executor import ToolExecutor
from mcphost.host.tools.call_scheduler import CallScheduler
from mcphost.host.tools.hooks import HookDenied, HookNotes, ToolHooks
from mcphost.host.tools.page_records import result_for_page
from mcphost.llm.messages import ResourcePart
from mcphost.protocol.apps import ReadForPage
from mcphost.protocol.jsonrpc import INVALID_PARAMS
from mcphost.sandbox.schema_validator import SchemaValidator
from mcphost.serialization import Raw, WireStruct, replace

URI_LIMIT = 64 * 1024
READ_LIMIT = 8 * 1024 * 1024
MAX_EDITS = 5
"""Maximum number of times that the user is asked about one call, because hooks change what the user edited."""
DECLINED = "The user declined."
FORBIDDEN = "The user's configuration does not allow it."
HOOK_DENIED = "One of the user's hooks denied this call; the tool did not run."
MAX_PAGE_REQUESTS = 4
"""Maximum number of requests that are sent at the same time for one page."""
MAX_SERVER_REQUESTS = 6
"""Maximum number of requests that are sent to one server at the same time for all of its pages."""


class _CallParams(WireStruct, frozen=True):
    name: str
    arguments: dict[str, Any] = {}  # noqa: RUF012 - msgspec copies mutable defaults


class _ReadParams(WireStruct, frozen=True):
    uri: str


class _LinkParams(WireStruct, frozen=True):
    url: str


class PageServices(NamedTuple):
    """The parts of the host that pages need for their requests; each page can use them only for its own server."""

    servers: Servers
    consent: ConsentPolicy
    executor: ToolExecutor
    validator: SchemaValidator
    hooks: ToolHooks
    frontend: Frontend
    audit: AuditLog
    events: EventBus
    question_budget: QuestionBudget
    editable_texts: Lazy[EditableTexts]
    open_url: OpenUrl | None
    limits: "PageLimits"
    numbers: Iterator[int]
    """Numbers for the tool calls that pages make."""


class PageRequests:
    """Handlers of the requests that one page sends."""

    def __init__(self, services: PageServices, call: PageCall, set_context: Callable[[ResourcePart], None]) -> None:
        self._services = services
        self._set_context = set_context
        self._call = call
        self._server = call.server
        self._connection = call.offered.connection
        self._rate_limiter = QuestionRateLimiter(self._server, services.audit)
        self._limit = services.limits.for_page(self._server)

    @property
    def handlers(self) -> dict[str, PageRequestHandler]:
        """The handler of each request that pages may send, keyed by method name."""
        return {
            "tools/call": self.call_tool,
            "resources/read": self.read_resource,
            "ui/message": self.propose_message,
            "ui/update-model-context": self.update_context,
            "ui/open-link": self.open_link,
        }

    @property
    def _why(self) -> str:
        return f"the page of its tool {self._call.tool!r} asks for it"

    def _count_declined(self, reason: str = DECLINED) -> PageRequestRejected:
        """Count a declined request against the page's rate limit; return the error that gives the page the *reason*."""
        self._rate_limiter.count_declined()
        return PageRequestRejected(reason)

    def _check_connection(self) -> None:
        """Raise PageRequestRejected unless the server of the page is connected, with the same configuration."""
        if self._services.servers.find(self._server) is not self._connection or not self._connection.is_ready:
            raise PageRequestRejected(f"The server {self._server!r} is not connected.")

    # -- tools/call
    async def call_tool(self, params: Raw) -> Any:
        """Call a tool of the page's server, with the same hooks, checks and questions as for a call by the model."""
        wanted = decode_params(params, _CallParams)
        offered = await self._find_tool(wanted.name)
        call = f"page-{next(self._services.numbers)}"
        subject = AuditSubject(
            kind="page", server=self._server, name=self._call.uri, call=call, definition=self._connection.digest
        )
        with self._services.question_budget.reserve(self._server, len(params)), self._rate_limiter.acquire():
            notes = HookNotes()
            arguments = await self._prepare(offered, wanted.arguments, notes)
            detail = {"tool": offered.definition.name}
            await self._services.audit.record_event(subject, "asked", who="page", detail=detail)
            approval = await self._authorize(call, offered, arguments, notes)
        async with self._limit.call_slot():
            self._check_connection()  # it may have been lost while other calls were running
            execution = await self._services.executor.execute(call, offered, replace(approval, source="page"))
        return result_for_page(execution.result)

    async def _find_tool(self, name: str) -> OfferedTool:
        self._check_connection()
        listed = self._connection.tool(name)
        if listed is None or not listed.page.for_pages:
            raise PageRequestRejected(f"The server has no tool {name[:200]!r} for pages.", INVALID_PARAMS)
        servers, server = self._services.servers, self._server

        def is_disabled() -> bool:
            return name in servers.view(server).disabled_tools

        if is_disabled():
            raise PageRequestRejected("The user turned this tool off.")
        offered = await servers.get_tool(server, name)
        if offered.connection is not self._connection or not offered.definition.page.for_pages:
            raise PageRequestRejected(f"The server {server!r} is not connected.")
        # Checked again directly before the call is sent: the user may turn the tool off during the question.
        return replace(offered, is_disabled=is_disabled)

    async def _prepare(self, offered: OfferedTool, arguments: dict[str, Any], notes: HookNotes) -> dict[str, Any]:
        """Check the arguments of a call and run the hooks that precede it; return the arguments, which hooks may alter.

        Raises PageRequestRejected if the tool is quarantined, if the arguments are invalid, or if a hook denies the
        call.
        """
        if offered.connection.tool_changes.is_quarantined(offered.definition.name):
            await self._services.consent.record_quarantined_call(offered, arguments)
            raise self._count_declined("The tool changed and is quarantined until the user reviews it.")
        await self._check_arguments(offered, arguments)
        await self._services.hooks.refresh()
        return await self._run_hooks(offered, arguments, notes)

    async def _run_hooks(
        self, offered: OfferedTool, arguments: dict[str, Any], notes: HookNotes, *, is_edited: bool = False
    ) -> dict[str, Any]:
        try:
            checked = await self._services.hooks.check("", identify_tool(offered).to_rule_input(arguments), notes)
        except HookDenied as error:
            if is_edited:  # the user allowed the call; a page cannot cause this notice by itself
                self._services.events.notify("warning", f"{self._server}: {error.user_text}", HOOK_DENIED)
            # Without the reason, which the user's hook wrote for the user and the model, not for the server.
            raise self._count_declined(HOOK_DENIED) from error
        await self._check_arguments(offered, checked)
        return checked

    async def _check_arguments(self, offered: OfferedTool, arguments: dict[str, Any]) -> None:
        if errors := await offered.validate(arguments, self._services.validator):
            raise PageRequestRejected(errors.sentence, INVALID_PARAMS)

    async def _authorize(
        self, call: str, offered: OfferedTool, arguments: dict[str, Any], notes: HookNotes
    ) -> Approval:
        """Return the approval for a call; ask the user unless a grant allows the call.

        Auto-approve mode does not apply to pages. If the user edits the arguments, the hooks check them. If a hook
        then changes them, the user is asked again. Raises PageRequestRejected if the user or the configuration
        denies the call.
        """

        async def is_valid(values: dict[str, Any]) -> bool:
            return not await offered.validate(values, self._services.validator)

        for _ in range(MAX_EDITS):
            question = tool_question(offered, arguments, call=call, why=notes.why(self._why))
            verdict = await self._services.consent.authorize(
                identify_tool(offered), arguments, question, call=call, is_valid=is_valid, may_auto_approve=False
            )
            if isinstance(verdict, Deny):
                # Refusals without a question count, too: each of them adds rows to the audit log.
                raise self._count_declined(DECLINED if verdict.is_by_user else FORBIDDEN)
            if arguments_digest(verdict.arguments) == arguments_digest(arguments):
                return verdict
            await self._check_arguments(offered, verdict.arguments)
            arguments = await self._run_hooks(offered, verdict.arguments, notes, is_edited=True)
            if arguments_digest(verdict.arguments) == arguments_digest(arguments):
                return verdict
        raise PageRequestRejected(HOOK_DENIED)

    # -- resources/read
    async def read_resource(self, params: Raw) -> Any:
        """Read a resource of the page's server."""
        wanted = decode_params(params, _ReadParams)
        if not 0 < len(wanted.uri) <= URI_LIMIT:
            raise PageRequestRejected("The address is empty or too long.", INVALID_PARAMS)
        self._check_connection()
        async with self._limit.read_slot():
            self._check_connection()
            session = await self._connection.session()
            try:
                result = await session.request(ReadForPage(wanted.uri))
            except RequestRefused as error:
                raise PageRequestRejected(error.server_message, error.code or INVALID_PARAMS) from error
        if len(result.contents) > READ_LIMIT:
            raise PageRequestRejected(f"The resource is over {READ_LIMIT // 1024**2} MB.")
        return {"contents": result.contents if len(result.contents) else ()}

    # -- ui/update-model-context, ui/message and ui/open-link
    async def update_context(self, params: Raw) -> Any:
        """Replace the page's context for the model, which is sent with the user's next message."""
        text = read_context(params)
        target = self._connection.target
        part = ResourcePart(self._server, self._call.uri, text, tool=self._call.tool, target=target, is_from_page=True)
        self._set_context(part)
        return {}

    async def propose_message(self, params: Raw) -> Any:
        """Ask the user whether to use a message as a draft; it is never sent automatically."""
        text = read_message(params)
        with self._services.question_budget.reserve(self._server, len(params)), self._rate_limiter.acquire():
            question = PageMessage(server=self._server, why=self._why, tool=self._call.tool, text=text)
            is_taken = await self._services.frontend.ask(question)
        if not is_taken:
            raise self._count_declined()
        # Known as a text of the server before it can be sent, so that its copies are found in later calls.
        self._services.editable_texts.get().note_text(self._server, "page", text)
        self._services.events.publish(PageDrafted(self._server, text))
        return {}

    async def open_link(self, params: Raw) -> Any:
        """Ask the user whether to open an address in the browser."""
        try:
            inspected = inspect_url(decode_params(params, _LinkParams).url)
        except MalformedMessage as error:
            raise PageRequestRejected(error.message) from error
        question = VisitUrl(
            server=self._server, why=self._why, message="", url=inspected.url, host=inspected.host,
            warnings=inspected.warnings,
        )  # fmt: skip
        services = self._services
        with services.question_budget.reserve(self._server, len(params)), self._rate_limiter.acquire():
            verdict = await services.frontend.ask(question)
            if isinstance(verdict, AcceptUrl) and services.open_url is not None:
                is_opened = await services.open_url(question.url)
                if not is_opened:
                    verdict = await services.frontend.ask(replace(question, is_browser_missing=True))
        if not isinstance(verdict, AcceptUrl):
            raise self._count_declined()
        return {}


class PageLimit:
    """The limits on the number of concurrent requests that apply to one page.

    The page has its own limit, and shares a second limit with the other pages of its server. Its tool calls also count
    toward the limit on parallel calls by the model and by all pages.
    """

    def __init__(self, server: anyio.CapacityLimiter, scheduler: CallScheduler) -> None:
        self._page = anyio.CapacityLimiter(MAX_PAGE_REQUESTS)
        self._server = server
        self._scheduler = scheduler

    @asynccontextmanager
    async def read_slot(self) -> AsyncGenerator[None]:
        """Wait until the page may send another request to its server; inside the block, the request occupies a slot."""
        async with self._page, self._server:
            yield

    @asynccontextmanager
    async def call_slot(self) -> AsyncGenerator[None]:
        """Wait until the page may make another tool call; inside the block, the call occupies a slot."""
        async with self.read_slot(), self._scheduler.shared_slot():
            yield


class PageLimits:
    """The limits on concurrent requests of all pages; see `PageLimit`."""

    def __init__(self, scheduler: CallScheduler) -> None:
        self._scheduler = scheduler
        self._servers: dict[str, anyio.CapacityLimiter] = {}

    def for_page(self, server: str) -> PageLimit:
        """Return the limits of a new page of *server*."""
        limiter = self._servers.get(server)
        if limiter is None:
            limiter = self._servers[server] = anyio.CapacityLimiter(MAX_SERVER_REQUESTS)
        return PageLimit(limiter, self._scheduler)
