"""Interactive pages of tools, which are opened only if the user agrees."""

import base64
import binascii
import itertools
import logging
from functools import partial
from typing import Any

import anyio
from anyio.abc import TaskGroup

from mcphost.apps.page_server import PageDocument, PageServer, run_page_server
from mcphost.errors import ConsentDenied, McpHostError, RequestRefused, ServerError, UsageError, unwrap_error
from mcphost.host.active_conversation import ActiveConversation
from mcphost.host.app_pages.page_bridge import MAX_HEIGHT, PageBridge
from mcphost.host.app_pages.page_calls import PageCall, PageCallRecorder
from mcphost.host.app_pages.page_requests import PageRequests, PageServices
from mcphost.host.app_pages.stored_pages import StoredPages
from mcphost.host.audit.audit_log import AuditSubject
from mcphost.host.events import PagesChanged
from mcphost.host.lifetime import Lifetime
from mcphost.host.questions.pages import OpenPage
from mcphost.host.server_views import OpenedPage
from mcphost.host.servers.connection import ServerConnection
from mcphost.llm.messages import ResourcePart
from mcphost.protocol.apps import MIME_TYPE, PageContents, PageOrigins, ReadPage, parse_page_origins
from mcphost.store.database import Database
from mcphost.translation import N_

_log = logging.getLogger(__name__)
MAX_PAGES = 8
HTML_LIMIT = 4 * 1024 * 1024
CHECK_SECONDS = 1.0
"""Seconds between checks of whether a page's server is still connected."""
LOST_CHECKS = 5
"""After this many checks without a connection to its server, a page is closed."""
IDLE_SECONDS = 1_800.0
"""Seconds after which a page that no browser shows is closed."""
END_SECONDS = 1.5
"""Seconds in which all pages together must close when mcphost quits."""
ENDED = "mcphost ended"
_CALL_AGAIN = "Call the tool again, or let the model call it."


class _Page:
    """A page that is open or is being opened."""

    def __init__(self, number: int, call: PageCall) -> None:
        self.number = number
        self.call = call
        self.server: PageServer | None = None
        self.bridge: PageBridge | None = None
        self.failure: BaseException | None = None
        self.ready = anyio.Event()
        self.closing = anyio.Event()
        self.ended = anyio.Event()
        self.reason = ""

    def close(self, reason: str) -> None:
        self.reason = self.reason or reason
        self.closing.set()

    def view(self) -> OpenedPage:
        server, call = self.server, self.call
        url, port = (server.url, server.port) if server is not None else ("", 0)
        is_shown = server is not None and server.is_shown
        return OpenedPage(self.number, call.server, call.tool, call.uri, url, port, is_shown)


class AppPages:
    """The interactive pages of tools in the open conversation."""

    def __init__(
        self, services: PageServices, conversation: ActiveConversation, lifetime: Lifetime, database: Database
    ) -> None:
        self._services = services
        self._lifetime = lifetime
        self._stored = StoredPages(database, conversation, services.servers, lifetime)
        self.calls = PageCallRecorder(services.events, self._stored.keep, partial(self._stored.keep, is_passed=True))
        self._contexts = conversation.page_contexts
        conversation.on_replaced(self.leave_conversation)
        conversation.on_rewound(self._handle_rewound)
        self._before_rewind: frozenset[str] = frozenset()  # calls that may not be on the current branch
        self._pages: dict[int, _Page] = {}
        self._numbers = itertools.count(1)
        self._approved: set[tuple[str, str, PageOrigins]] = set()
        self.theme = ""
        """The theme of the front end, "dark" or "light"; "" if it is unknown."""
        self.locale = ""
        """The language of the front end as a BCP 47 tag; "" if it is unknown."""

    # -- the open pages
    def list_open(self) -> tuple[OpenedPage, ...]:
        """Return the open pages, oldest first."""
        return tuple(page.view() for page in self._pages.values() if page.server is not None)

    def close(self, number: int) -> bool:
        """Close the page with this number (`OpenedPage.number`); return False if no such page is open."""
        page = self._pages.get(number)
        if page is not None:
            self._close(page, "the user closed it")
        return page is not None

    def _close(self, page: _Page, reason: str) -> None:
        page.close(reason)
        self._contexts.close(page.number)

    def use_theme(self, theme: str) -> None:
        """Use another theme, "dark" or "light", and tell all open pages."""
        if theme != self.theme:
            self.theme = theme
            for page in tuple(self._pages.values()):
                if page.bridge is not None:
                    page.bridge.change_context({"theme": theme})

    async def close_all(self) -> None:
        """Close all pages because mcphost is quitting; wait briefly while their browsers are notified."""
        pages = tuple(self._pages.values())
        for page in pages:
            self._close(page, ENDED)
        with anyio.move_on_after(END_SECONDS, shield=True):
            for page in pages:
                await page.ended.wait()

    def leave_conversation(self) -> None:
        """Close all pages and forget their calls, because another conversation is open."""
        self.calls.clear()
        self._before_rewind = frozenset()
        for page in tuple(self._pages.values()):
            self._close(page, N_("another conversation was opened"))

    def _handle_rewound(self) -> None:
        self._contexts.forget_sent()
        self._before_rewind = self.calls.ids

    async def _hide_other_branches(self) -> None:
        """Hide the ended calls that are not on the current branch of the conversation after a rewind.

        They stay in memory, because the user may return to their branch, and the store does not contain large
        results.
        """
        if ended := self._before_rewind & self.calls.ended:
            self.calls.hidden = ended - await self._stored.find_calls()

    async def list_stored_calls(self) -> tuple[str, ...]:
        """Return the ids of the open conversation's calls whose pages can be opened in a later run, oldest first."""
        return await self._stored.list_calls()

    async def list_calls(self) -> frozenset[str]:
        """Return the ids of the current branch's calls whose pages can be opened, including those of earlier runs."""
        await self._hide_other_branches()
        return frozenset(await self._stored.list_calls()) | (self.calls.ended - self.calls.hidden)

    # -- opening
    async def open(self, call: str = "") -> tuple[OpenedPage, bool]:
        """Open and return the page of the call with this id, or of the newest call if *call* is "".

        The call may be from an earlier run. The second value of the result is whether a browser was opened. If it
        is False, the user must open the page's address in a browser.

        Raises UsageError if there is no such page or too many are open, ConsentDenied if the user refuses, and
        ServerError if the server is not available, has changed, or does not return the page.
        """
        await self._hide_other_branches()
        known = self.calls.find(call)
        if known is None and (known := await self._stored.load(call)) is not None:
            self.calls.restore(known)
        if known is None:
            raise UsageError("There is no page to open.", _CALL_AGAIN) if not call else _result_is_gone()
        open_pages = (one for one in self._pages.values() if one.server is not None and not one.closing.is_set())
        page = next((one for one in open_pages if one.call is known), None)
        if page is None:
            if len(self._pages) >= MAX_PAGES:
                raise UsageError(f"{MAX_PAGES} pages are already open.", "Close one of them: /tasks")
            page = await self._start(known)
        view = page.view()
        is_opened = self._services.open_url is not None and await self._services.open_url(view.url)
        return view, is_opened

    async def _start(self, call: PageCall) -> _Page:
        connection = self._require_connection(call)
        html, origins = await self._read(connection, call)
        await self._ask(connection, call, origins, len(html))
        if self.calls.find(call.call) is not call:
            raise _result_is_gone()  # another conversation was opened during the question
        if len(self._pages) >= MAX_PAGES:  # others may have been opened during the question
            raise UsageError(f"{MAX_PAGES} pages are already open.", "Close one of them: /tasks")
        self._require_connection(call)
        page = _Page(next(self._numbers), call)
        subject = AuditSubject(kind="page", server=call.server, name=call.uri, call=call.call,
                               definition=connection.digest)  # fmt: skip
        await self._services.audit.record_event(
            subject, "opened", who="person", detail={"origins": list(origins.all), "bytes": len(html)}
        )
        if self.calls.find(call.call) is not call:
            page.close(N_("another conversation was opened"))
        self._pages[page.number] = page
        self._lifetime.start_soon(self._run, page, html, origins, name=f"page {page.number}")
        await page.ready.wait()
        if page.failure is not None:
            raise ServerError(f"The page cannot be served on this machine: {page.failure}.") from page.failure
        if page.closing.is_set():
            raise _result_is_gone()
        return page

    def _require_connection(self, call: PageCall) -> ServerConnection:
        """Return the connection to a page's server.

        Raises ServerError if the server is not connected, or has changed since the call.
        """
        connection = call.offered.connection
        if self._services.servers.find(call.server) is not connection or not connection.is_ready:
            raise ServerError(
                f"The server {call.server!r} is not connected as it was during the call.", "Call it again."
            )
        return connection

    async def _read(self, connection: ServerConnection, call: PageCall) -> tuple[bytes, PageOrigins]:
        """Read a page from its server. Raises ServerError."""
        session = await connection.session()
        try:
            result = await session.request(ReadPage(call.uri))
        except RequestRefused as error:
            raise ServerError(f"The server {call.server!r} did not return the page: {error.server_message}") from error
        content = next((one for one in result.contents if one.uri == call.uri), None)
        if content is None or not _is_page(content):
            raise ServerError(f"The server {call.server!r} returned no page of the type {MIME_TYPE}.")
        html = _decode_html(content)
        if not html or len(html) > HTML_LIMIT:
            raise ServerError(f"The page is empty, invalid or over {HTML_LIMIT // 1024**2} MB.")
        return html, parse_page_origins(content.meta)

    async def _ask(self, connection: ServerConnection, call: PageCall, origins: PageOrigins, size: int) -> None:
        """Ask the user whether to open the page. Raises ConsentDenied if the user refuses.

        Once the user has agreed, they are not asked about this page again until mcphost exits, unless the server, its
        account or the page's origins change.
        """
        key = (connection.identity, call.uri, origins)
        if key in self._approved:
            return
        tools = sum(1 for listed in connection.listing.tools.values() if listed.page.for_pages)
        question = OpenPage(
            server=call.server, why="you opened the page of its tool", account=connection.account, tool=call.tool,
            uri=call.uri, size=size, connect=origins.connect, resource=origins.resource, frame=origins.frame,
            base_uri=origins.base_uri, left_out=origins.left_out, tools=tools,
        )  # fmt: skip
        if not await self._services.frontend.ask(question):
            raise ConsentDenied("The page was not opened.")
        self._approved.add(key)

    # -- serving
    async def _run(self, page: _Page, html: bytes, origins: PageOrigins) -> None:
        call = page.call
        try:
            async with anyio.create_task_group() as tasks:
                bridge = self._create_bridge(page, origins, tasks)
                document = PageDocument(html, origins, call.server, call.tool)
                async with run_page_server(document, bridge) as server:
                    page.server = server
                    page.ready.set()
                    self._publish()
                    await self._watch(page, server)
                    self._contexts.close(page.number)
                    await bridge.tear_down(page.reason, is_shown=server.is_shown)
                    await server.end()
                tasks.cancel_scope.cancel()
        except Exception as error:  # noqa: BLE001 - a page must not end the program
            page.failure = unwrap_error(error)
            _log.warning("a page ended: %s", page.failure)
        finally:
            page.ready.set()
            page.ended.set()
            self._pages.pop(page.number, None)
            self._contexts.close(page.number)
            self._record_end(page)

    def _create_bridge(self, page: _Page, origins: PageOrigins, tasks: TaskGroup) -> PageBridge:
        requests = PageRequests(self._services, page.call, partial(self._set_context, page))

        def send(message: bytes) -> None:
            if page.server is not None:
                page.server.send(message)

        bridge = PageBridge(page.call, origins, tasks, send, requests.handlers)
        bridge.context = partial(self._host_context, page)
        page.bridge = bridge
        return bridge

    def _set_context(self, page: _Page, context: ResourcePart) -> None:
        if not page.closing.is_set():
            self._contexts.update(page.number, context)

    def _host_context(self, page: _Page) -> dict[str, Any]:
        width = page.server.width if page.server is not None else 0
        dimensions = {"width": width} if width else {}
        context: dict[str, Any] = {"containerDimensions": {**dimensions, "maxHeight": MAX_HEIGHT}}
        if self.theme:
            context["theme"] = self.theme
        if self.locale:
            context["locale"] = self.locale
        return context

    async def _watch(self, page: _Page, server: PageServer) -> None:
        """Wait until the page must be closed, and mark it as closing with the reason.

        A page must be closed if its server is no longer connected or configured, if no browser has shown the page for
        IDLE_SECONDS, or if the browser does not read the messages sent to the page. The wait also ends when another
        task closes the page.
        """
        connection, lost, was_shown = page.call.offered.connection, 0, False
        while not page.closing.is_set():
            with anyio.move_on_after(CHECK_SECONDS):
                await page.closing.wait()
            lost = 0 if connection.is_ready else lost + 1
            if lost >= LOST_CHECKS or not self._is_configured(connection):
                page.close(N_("its server is gone"))
            elif server.overflow.is_set():
                page.close(N_("the browser did not take its messages"))
            elif not server.is_shown and anyio.current_time() - server.last_seen > IDLE_SECONDS:
                page.close(N_("no browser showed it"))
            elif server.is_shown != was_shown:
                was_shown = server.is_shown
                self._publish()

    def _is_configured(self, connection: ServerConnection) -> bool:
        try:
            return self._services.servers.find(connection.config.name) is connection
        except McpHostError:
            return False

    def _record_end(self, page: _Page) -> None:
        call = page.call
        subject = AuditSubject(kind="page", server=call.server, name=call.uri, call=call.call,
                               definition=call.offered.connection.digest)  # fmt: skip
        if page.server is not None:
            self._services.audit.queue_event(subject, "closed", detail={"reason": page.reason or ENDED})
            is_by_user = page.reason in ("", "the user closed it", ENDED)
            self._services.events.publish(PagesChanged() if is_by_user else PagesChanged(call.server, page.reason))

    def _publish(self) -> None:
        self._services.events.publish(PagesChanged())


def _result_is_gone() -> UsageError:
    return UsageError("The page's result is gone.", _CALL_AGAIN)


def _is_page(content: PageContents) -> bool:
    """Return whether a content item has the MIME type of pages; case, spaces and quotes in it are ignored."""
    kind = "".join((content.mime_type or "").lower().replace('"', "").split())
    return kind == MIME_TYPE


def _decode_html(content: PageContents) -> bytes:
    if content.text is not None:
        return content.text.encode("utf-8", "replace")
    if content.blob is None or len(content.blob) > 2 * HTML_LIMIT:
        return b""
    try:
        return base64.b64decode(content.blob, validate=True)
    except (binascii.Error, ValueError):
        return b""
