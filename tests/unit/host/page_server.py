"""An in-process server with interactive pages (MCP Apps), a front end that can open them, and a browser that does."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from mcphost.host.audit.audit_log import AuditLog
from mcphost.host.host import Host
from mcphost.host.questions import kinds
from mcphost.host.server_views import OpenedPage
from mcphost.protocol.apps import MIME_TYPE
from mcphost.protocol.jsonrpc import ErrorData
from tests.fakes.frontend import ScriptedFrontend
from tests.unit.apps.browser import Browser
from tests.unit.host.scripted_host import (
    InProcessServer,
    create_peer,
    open_host_with,
    text_result,
    tool_definition,
    tools_result,
)

PAGE_URI = "ui://weather/page"
HTML = "<!doctype html><title>Weather</title><p>sunny</p>"
SHOW = tool_definition("show", description="Show the weather.", _meta={"ui": {"resourceUri": PAGE_URI}})
REFRESH = tool_definition("refresh", _meta={"ui": {"resourceUri": PAGE_URI, "visibility": ["app"]}})
HIDDEN_FROM_PAGES = tool_definition("secret", _meta={"ui": {"visibility": ["model"]}})


class PageFrontend(ScriptedFrontend):
    """A front end with prepared answers that can open pages, as the chat can."""

    kinds = ScriptedFrontend.kinds | {kinds.OPEN_PAGE, kinds.PAGE_MESSAGE}


def page_result(
    html: str = HTML, *, mime_type: str = MIME_TYPE, csp: dict[str, Any] | None = None, **members: Any
) -> dict[str, Any]:
    """Return a resources/read result with a page; *csp* is the policy that it declares."""
    meta = {"_meta": {"ui": {"csp": csp}}} if csp is not None else {}
    content = {"uri": PAGE_URI, "mimeType": mime_type, "text": html, **meta, **members}
    return {"contents": [content], "ttlMs": 0, "cacheScope": "private"}


def create_page_peer(*tools: dict[str, Any], revision: str = "2026-07-28", **answers: Any) -> InProcessServer:
    """Return a server with the tools `show`, `refresh` and `secret` (or *tools*) and one page."""

    def call(params: dict[str, Any]) -> Any:
        result = text_result(f"{params['name']}: sunny", structuredContent={"sky": "sunny"}, _meta={"source": "sensor"})
        return result if params["name"] != "broken" else ErrorData(code=-32000, message="out of order")

    given: dict[str, Any] = {
        "tools__list": tools_result(*(tools or (SHOW, REFRESH, HIDDEN_FROM_PAGES))),
        "tools__call": call,
        "resources__read": page_result(),
        **answers,
    }
    return create_peer(revision, {"tools": {}, "resources": {}}, **given)


def browser_for(page: OpenedPage) -> Browser:
    return Browser(page.port, page.url.removeprefix(f"http://127.0.0.1:{page.port}"))


@asynccontextmanager
async def open_page(
    folder: Path,
    *answers: Any,
    peer: InProcessServer | None = None,
    frontend: ScriptedFrontend | None = None,
    audit_log: AuditLog | None = None,
    **options: Any,
) -> AsyncGenerator[tuple[Host, Browser, InProcessServer, ScriptedFrontend]]:
    """Call the tool `show` by hand, open its page, and load it; *answers* follow the one about the page."""
    peer = peer or create_page_peer()
    frontend = frontend or PageFrontend(True, *answers)
    async with open_host_with(folder, peer, frontend=frontend, audit_log=audit_log, **options) as host:
        await host.tools.call("peer", "show", {"city": "Bern"})
        page, is_opened = await host.pages.open()
        assert not is_opened
        browser = browser_for(page)
        await browser.load()
        await browser.connect()
        try:
            yield host, browser, peer, frontend
        finally:
            await browser.close()


async def initialize(browser: Browser) -> Any:
    answer = await browser.call("ui/initialize", {"appInfo": {"name": "a", "version": "1"}, "appCapabilities": {}})
    await browser.notify("ui/notifications/initialized")
    return answer["result"]
