"""The demo server's tools that ask back: a form, an address, and a question to the client's model."""

import secrets
import threading
from collections.abc import Callable
from typing import Any, cast

from mcphost.demo.tools import CallCancelled, DemoToolError, object_schema, tool_annotations

VISIT_TIMEOUT = 120.0
"""Seconds that a page waits for a visit."""
_PAGE_HTML = b"""<!doctype html><meta charset="utf-8"><title>mcphost demo</title>
<p>You are here. That is all the demo server wanted to know; you can close this page and go back to the terminal.</p>
"""

INTERACTIVE_TOOLS: list[dict[str, Any]] = [
    {
        "name": "order_tea",
        "title": "Order tea",
        "description": "Order imaginary tea. The server asks you with a form how you want it.",
        "inputSchema": object_schema([]),
        "annotations": tool_annotations("Order tea", read_only=False),
    },
    {
        "name": "open_page",
        "title": "Open a page",
        "description": "Sends you to a page on this machine, and goes on when you were there.",
        "inputSchema": object_schema([]),
        "annotations": tool_annotations("Open a page", read_only=True),
    },
    {
        "name": "ask_model",
        "title": "Ask your model",
        "description": "The server asks your model something and shows the answer. You see both before they are sent.",
        "inputSchema": object_schema(
            [], question={"type": "string", "minLength": 1, "maxLength": 500, "default": "Say: the kettle is on."}
        ),
        "annotations": tool_annotations("Ask your model", read_only=True),
    },
]
INTERACTIVE_TOOL_NAMES = frozenset(str(tool["name"]) for tool in INTERACTIVE_TOOLS)

_TEAS = {"black": "Black, strong", "green": "Green", "mint": "Fresh mint"}
_TEA_FORM: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "title": "Your name", "description": "For the cup", "minLength": 1, "maxLength": 40},
        "cups": {"type": "integer", "title": "Cups", "minimum": 1, "maximum": 6, "default": 1},
        "tea": {
            "type": "string",
            "title": "Tea",
            "oneOf": [{"const": value, "title": title} for value, title in _TEAS.items()],
            "default": "black",
        },
        "with": {
            "type": "array",
            "title": "With",
            "items": {"type": "string", "enum": ["milk", "sugar", "lemon"]},
            "maxItems": 2,
        },
        "day": {"type": "string", "title": "Day", "format": "date", "description": "Today, when you leave it out"},
        "hot": {"type": "boolean", "title": "Hot", "default": True},
    },
    "required": ["name"],
}
_REQUIRED_CAPABILITIES = {
    "order_tea": ("elicitation", "form", "show a form"),
    "open_page": ("elicitation", "url", "show an address"),
    "ask_model": ("sampling", "", "ask a model"),
}


class VisitPage:
    """One page on 127.0.0.1, there until it was visited or nobody came; anything but its own address is a 404."""

    def __init__(self) -> None:
        from http.server import BaseHTTPRequestHandler, HTTPServer  # not before it is needed: the server starts fast

        self.key = secrets.token_urlsafe(16)
        self.visited = threading.Event()
        page = self

        class Visit(BaseHTTPRequestHandler):
            timeout = 5

            def do_GET(self) -> None:
                """The page, to whoever has its whole address."""
                known = secrets.compare_digest(self.path.encode(), f"/tea?key={page.key}".encode())
                self.send_response(200 if known else 404)
                self.send_header("Content-Type", "text/html")
                self.send_header("Cache-Control", "no-store")
                self.end_headers()
                if known:
                    self.wfile.write(_PAGE_HTML)
                    page.visited.set()

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the library's name
                """Nothing: standard error is for people."""

        self._server = HTTPServer(("127.0.0.1", 0), Visit)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.1,), daemon=True, name="page")
        self._thread.start()

    @property
    def url(self) -> str:
        """Its whole address."""
        return f"http://127.0.0.1:{self._server.server_address[1]}/tea?key={self.key}"

    def wait(self, stop: threading.Event) -> bool:
        """Whether somebody came. Raises CallCancelled when `stop` is set first."""
        waited = 0.0
        while not self.visited.wait(0.1) and waited < VISIT_TIMEOUT:
            waited += 0.1
            if stop.is_set():
                raise CallCancelled
        return self.visited.is_set()

    def close(self) -> None:
        """No page any more."""
        self._server.shutdown()
        self._server.server_close()


def require_capability(name: str, capabilities: dict[str, Any]) -> None:
    """Raises DemoToolError when that client did not declare that it can answer what the tool asks."""
    feature, mode, words = _REQUIRED_CAPABILITIES[name]
    declared = capabilities.get(feature)
    offered = cast("dict[str, Any]", declared) if isinstance(declared, dict) else None
    # Without a mode a client shows forms.
    if (
        offered is None
        or (mode == "url" and mode not in offered)
        or (mode == "form" and offered and mode not in offered)
    ):
        raise DemoToolError(f"Your client did not say that it can {words}.")


def build_request(name: str, arguments: dict[str, Any], page: VisitPage | None, is_stateless: bool) -> dict[str, Any]:
    """What is asked: method and params."""
    if name == "order_tea":
        form = {"mode": "form", "message": "How would you like your tea?", "requestedSchema": _TEA_FORM}
        return {"method": "elicitation/create", "params": form}
    if name == "open_page" and page is not None:
        there = {"mode": "url", "message": "Please come by, the page is on your own machine.", "url": page.url}
        return {
            "method": "elicitation/create",
            "params": there if is_stateless else {**there, "elicitationId": page.key},
        }
    asked = {"role": "user", "content": {"type": "text", "text": arguments["question"]}}
    brief = {"messages": [asked], "systemPrompt": "Answer in one short sentence.", "maxTokens": 60}
    return {"method": "sampling/createMessage", "params": brief}


def describe_reply(
    name: str, reply: dict[str, Any], page: VisitPage | None, stop: threading.Event, on_visited: Callable[[], None]
) -> str:
    """What came of it, in words; `told` hears when the page was visited."""
    if name == "ask_model":
        return f"{reply.get('model', 'Your model')} answered: {_content_text(reply.get('content'))}"
    action = reply.get("action")
    if action != "accept":
        return "You declined: you said no." if action == "decline" else "You left the question without an answer."
    if name == "order_tea":
        return _describe_order(reply.get("content"))
    if page is None or not page.wait(stop):
        return "You agreed to come by, and nobody came."
    on_visited()
    return "You came by. The server knows that and nothing else."


def _content_text(content: Any) -> str:
    blocks: list[Any] = cast("list[Any]", content) if isinstance(content, list) else [content]
    texts = [cast("dict[str, Any]", block).get("text") for block in blocks if isinstance(block, dict)]
    return " ".join(text for text in texts if isinstance(text, str)).strip() or "nothing"


def _describe_order(content: Any) -> str:
    got = cast("dict[str, Any]", content) if isinstance(content, dict) else {}
    cups = got.get("cups", 1)
    tea = str(_TEAS.get(str(got.get("tea")), "black")).partition(",")[0].lower()
    extras = got.get("with")
    added = f" with {' and '.join(str(one) for one in cast('list[Any]', extras))}" if isinstance(extras, list) else ""
    warm = "" if got.get("hot", True) else "iced "
    day = f" on {got['day']}" if got.get("day") else ""
    return f"{cups} cup{'' if cups == 1 else 's'} of {warm}{tea} tea{added} for {got.get('name', 'nobody')}{day}."
