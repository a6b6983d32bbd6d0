"""An in-process server with interactive pages (MCP Apps), and a front end that can open them."""

from typing import Any

from mcphost.host.questions import kinds
from mcphost.protocol.apps import MIME_TYPE
from mcphost.protocol.jsonrpc import ErrorData
from tests.fakes.frontend import ScriptedFrontend
from tests.unit.host.scripted_host import InProcessServer, create_peer, text_result, tool_definition, tools_result

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
