"""The demo server's tools, resources and prompt."""

import os
import secrets
import threading
from collections.abc import Callable
from typing import Any, cast

SLOW_TOOLS = frozenset({"count_slowly"})
ProgressFn = Callable[[float, float, str], None]


class DemoToolError(Exception):
    """Raised when a tool fails, for example because of invalid arguments; the message is for the user or the model."""


class CallCancelled(Exception):
    """Raised inside a tool when the client has cancelled the call."""


def object_schema(required: list[str], **properties: dict[str, Any]) -> dict[str, Any]:
    """Return the JSON Schema of an object with *properties* and no others; those named in *required* are required."""
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def tool_annotations(
    title: str, *, read_only: bool, destructive: bool = False, idempotent: bool = False
) -> dict[str, Any]:
    """Return the annotations of a tool, as defined by MCP; `openWorldHint` is always false."""
    return {
        "title": title,
        "readOnlyHint": read_only,
        "destructiveHint": destructive,
        "idempotentHint": idempotent or read_only,
        "openWorldHint": False,
    }


_NUMBER = {"type": "number", "description": "A number"}

BASIC_TOOLS: list[dict[str, Any]] = [
    {
        "name": "add",
        "title": "Add",
        "description": "Add two numbers.",
        "inputSchema": object_schema(["a", "b"], a=_NUMBER, b=_NUMBER),
        "annotations": tool_annotations("Add", read_only=True),
    },
    {
        "name": "multiply",
        "title": "Multiply",
        "description": "Multiply two numbers.",
        "inputSchema": object_schema(["a", "b"], a=_NUMBER, b=_NUMBER),
        "annotations": tool_annotations("Multiply", read_only=True),
    },
    {
        "name": "add_note",
        "title": "Add a note",
        "description": "Keep a short note in this server's memory until it ends.",
        "inputSchema": object_schema(["text"], text={"type": "string", "minLength": 1, "maxLength": 2000}),
        "annotations": tool_annotations("Add a note", read_only=False),
    },
    {
        "name": "list_notes",
        "title": "List notes",
        "description": "Show all notes, oldest first.",
        "inputSchema": object_schema([]),
        "annotations": tool_annotations("List notes", read_only=True),
    },
    {
        "name": "clear_notes",
        "title": "Delete all notes",
        "description": "Delete every note. This cannot be undone; the answer says how many there were.",
        "inputSchema": object_schema([]),
        "annotations": tool_annotations("Delete all notes", read_only=False, destructive=True, idempotent=True),
    },
    {
        "name": "count_slowly",
        "title": "Count slowly",
        "description": "Count from 1 up to a number over some seconds, with progress; can be stopped.",
        "inputSchema": object_schema(
            ["to"],
            to={"type": "integer", "minimum": 1, "maximum": 1000},
            seconds={"type": "number", "minimum": 0, "maximum": 600, "default": 5},
        ),
        "annotations": tool_annotations("Count slowly", read_only=True),
    },
    {
        "name": "roll_dice",
        "title": "Roll a die",
        "description": "Roll one die with that many sides.",
        "inputSchema": object_schema([], sides={"type": "integer", "minimum": 2, "maximum": 1000, "default": 6}),
        "annotations": {**tool_annotations("Roll a die", read_only=True), "idempotentHint": False},
    },
]

RESOURCES: list[dict[str, Any]] = [
    {
        "uri": "demo://guide",
        "name": "guide",
        "title": "What this server offers",
        "mimeType": "text/markdown",
        "description": "A short guide to the demo server.",
    },
    {
        "uri": "demo://notes",
        "name": "notes",
        "title": "Your notes",
        "mimeType": "text/plain",
        "description": "The notes as they are now.",
    },
]

PROMPTS: list[dict[str, Any]] = [
    {
        "name": "plan",
        "title": "Plan something",
        "description": "Ask for a short plan about a topic.",
        "arguments": [
            {"name": "topic", "description": "What the plan is about", "required": True},
            {"name": "tone", "description": "How it should sound, for instance: cheerful", "required": False},
        ],
    },
]

GUIDE = """# The demo server

A real MCP server: a process of its own that talks over standard input and output.

| tool | what it does |
|---|---|
| `add`, `multiply` | arithmetic |
| `add_note`, `list_notes` | notes, kept in memory until the server ends |
| `clear_notes` | deletes them all, and says how many there were |
| `count_slowly` | takes its time, shows progress, can be stopped |
| `roll_dice` | chance |
| `order_tea` | asks you with a form |
| `open_page` | sends you to a page on this machine, and waits until you were there |
| `ask_model` | asks your model, if you let it |

It touches no file and reaches no network. While `open_page` waits it listens on 127.0.0.1, for that one page.
"""

_MAX_NOTES = 1000


class DemoTools:
    """The demo server's tools that send no request to the client, and the stored notes. Thread-safe."""

    def __init__(self) -> None:
        self._notes: list[str] = []
        self._lock = threading.Lock()

    def call(self, name: str, arguments: dict[str, Any], report_progress: ProgressFn, stop: threading.Event) -> str:
        """Run a tool that sends no request to the client, and return the text of its result.

        Raises DemoToolError for invalid arguments, KeyError for an unknown tool, and CallCancelled when *stop* is set.
        """
        tool = next((tool for tool in BASIC_TOOLS if tool["name"] == name), None)
        if tool is None:
            raise KeyError(name)
        given = validate_arguments(tool["inputSchema"], arguments)
        match name:
            case "add":
                a, b = given["a"], given["b"]
                return f"{_format_number(a)} + {_format_number(b)} = {_format_number(a + b)}"
            case "multiply":
                a, b = given["a"], given["b"]
                return f"{_format_number(a)} × {_format_number(b)} = {_format_number(a * b)}"
            case "add_note":
                return self._add_note(given["text"])
            case "list_notes":
                return self.notes() or "There are no notes."
            case "clear_notes":
                return self._clear_notes()
            case "count_slowly":
                return _count_slowly(given["to"], given["seconds"], report_progress, stop)
            case _:
                return f"The die shows {int.from_bytes(os.urandom(8), 'big') % given['sides'] + 1}."

    def notes(self) -> str:
        """Return all notes as numbered lines, or "" if there are none."""
        with self._lock:
            return "\n".join(f"{number}. {note}" for number, note in enumerate(self._notes, 1))

    def _add_note(self, text: str) -> str:
        with self._lock:
            if len(self._notes) >= _MAX_NOTES:
                raise DemoToolError(f"There are {_MAX_NOTES} notes already; clear them first.")
            self._notes.append(text)
            return f"Noted as number {len(self._notes)}."

    def _clear_notes(self) -> str:
        with self._lock:
            count = len(self._notes)
            self._notes.clear()
        return f"Deleted {count} note{'' if count == 1 else 's'}."


def read_resource(uri: str, tools: DemoTools) -> tuple[str, str] | None:
    """Return the MIME type and text of a resource, or None if it does not exist."""
    match uri:
        case "demo://guide":
            return "text/markdown", GUIDE
        case "demo://notes":
            return "text/plain", tools.notes() or "There are no notes."
        case _:
            return None


def render_prompt(arguments: dict[str, Any]) -> str:
    """Return the text of the `plan` prompt. Raises DemoToolError for invalid arguments."""
    topic, tone = arguments.get("topic"), arguments.get("tone", "")
    if not isinstance(topic, str) or not topic.strip():
        raise DemoToolError("The prompt needs the argument topic, a string.")
    if not isinstance(tone, str):
        raise DemoToolError("The argument tone must be a string.")
    sound = f" Keep the tone {tone.strip()}." if tone.strip() else ""
    return f"Make a short plan about {topic.strip()}: three steps, each with a first action.{sound}"


def _count_slowly(to: int, seconds: float, report_progress: ProgressFn, stop: threading.Event) -> str:
    for number in range(1, to + 1):
        if stop.wait(seconds / to):
            raise CallCancelled
        report_progress(number, to, f"{number} of {to}")
    return f"Counted to {to}."


def validate_arguments(schema: dict[str, Any], arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments with defaults filled in. Raises DemoToolError if they do not fit the schema.

    Only the JSON Schema keywords that the demo's tools use are supported.
    """
    properties: dict[str, dict[str, Any]] = schema["properties"]
    for name in arguments:
        if name not in properties:
            raise DemoToolError(f"There is no argument {name!r}; there are: {', '.join(properties) or 'none'}.")
    given: dict[str, Any] = {}
    for name, rule in properties.items():
        if name in arguments:
            given[name] = _validate_value(name, arguments[name], rule)
        elif name in schema["required"]:
            raise DemoToolError(f"The argument {name!r} is missing.")
        else:
            given[name] = rule["default"]
    return given


def _validate_value(name: str, value: Any, rule: dict[str, Any]) -> Any:
    kind = rule["type"]
    if kind == "string":
        if not isinstance(value, str) or not rule["minLength"] <= len(value) <= rule["maxLength"]:
            raise DemoToolError(
                f"The argument {name!r} must be a string of {rule['minLength']} to {rule['maxLength']} characters."
            )
        return value
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or abs(value) > 1e300 or (kind == "integer" and value % 1 != 0):
        raise DemoToolError(f"The argument {name!r} must be {'a whole number' if kind == 'integer' else 'a number'}.")
    if not rule.get("minimum", value) <= value <= rule.get("maximum", value):
        raise DemoToolError(f"The argument {name!r} must be between {rule['minimum']} and {rule['maximum']}.")
    return int(value) if kind == "integer" else value


def _format_number(number: float) -> str:
    return str(int(number)) if isinstance(number, int) or (number.is_integer() and abs(number) < 1e15) else repr(number)


VISIT_TIMEOUT = 120.0
"""Seconds to wait until the user visits a page."""
_PAGE_HTML = b"""<!doctype html><meta charset="utf-8"><title>mcphost demo</title>
<p>Thank you for your visit. You can close this page and go back to the terminal.</p>
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
        "description": "Sends you to a page on this machine and waits for your visit.",
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
TOOLS = [*BASIC_TOOLS, *INTERACTIVE_TOOLS]
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
        "day": {"type": "string", "title": "Day", "format": "date", "description": "Default: today"},
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
    """A web page on 127.0.0.1 that the user is asked to visit once; any other URL returns 404."""

    def __init__(self) -> None:
        from http.server import BaseHTTPRequestHandler, HTTPServer  # imported late, so that the server starts fast

        self.key = secrets.token_urlsafe(16)
        self.visited = threading.Event()
        page = self

        class Visit(BaseHTTPRequestHandler):
            timeout = 5

            def do_GET(self) -> None:
                """Serve the page if the requested URL contains the secret key; otherwise, respond with 404."""
                is_authorized = secrets.compare_digest(self.path.encode(), f"/tea?key={page.key}".encode())
                self.send_response(200 if is_authorized else 404)
                self.send_header("Content-Type", "text/html")
                self.send_header("Cache-Control", "no-store")
                self.end_headers()
                if is_authorized:
                    self.wfile.write(_PAGE_HTML)
                    page.visited.set()

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the library's name
                """Suppress the access log, because it goes to standard error, which the user would see."""

        self._server = HTTPServer(("127.0.0.1", 0), Visit)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.1,), daemon=True, name="page")
        self._thread.start()

    @property
    def url(self) -> str:
        """The URL of the page, which contains the secret key."""
        return f"http://127.0.0.1:{self._server.server_address[1]}/tea?key={self.key}"

    def wait(self, stop: threading.Event) -> bool:
        """Wait until the page is visited, for at most VISIT_TIMEOUT seconds; return whether it was visited.

        Raises CallCancelled when *stop* is set.
        """
        waited = 0.0
        while not self.visited.wait(0.1) and waited < VISIT_TIMEOUT:
            waited += 0.1
            if stop.is_set():
                raise CallCancelled
        return self.visited.is_set()

    def close(self) -> None:
        """Stop serving the page."""
        self._server.shutdown()
        self._server.server_close()


def require_capability(name: str, capabilities: dict[str, Any]) -> None:
    """Raise DemoToolError if the client did not declare the capability that the tool *name* requires."""
    feature, mode, words = _REQUIRED_CAPABILITIES[name]
    declared = capabilities.get(feature)
    offered = cast("dict[str, Any]", declared) if isinstance(declared, dict) else None
    # A client that declares no mode supports forms.
    if (
        offered is None
        or (mode == "url" and mode not in offered)
        or (mode == "form" and offered and mode not in offered)
    ):
        raise DemoToolError(f"Your client did not declare that it can {words}.")


def build_request(name: str, arguments: dict[str, Any], page: VisitPage | None, is_stateless: bool) -> dict[str, Any]:
    """Return the method and params of the request that the interactive tool *name* sends to the client.

    *arguments* are the arguments of the tool call, and *page* is the page that `open_page` asks the user to visit.
    *is_stateless* is true for protocol revisions since 2026-07-28.
    """
    if name == "order_tea":
        form = {"mode": "form", "message": "How would you like your tea?", "requestedSchema": _TEA_FORM}
        return {"method": "elicitation/create", "params": form}
    if name == "open_page" and page is not None:
        visit = {"mode": "url", "message": "Please visit this page on your own machine.", "url": page.url}
        return {
            "method": "elicitation/create",
            "params": visit if is_stateless else {**visit, "elicitationId": page.key},
        }
    message = {"role": "user", "content": {"type": "text", "text": arguments["question"]}}
    sampling = {"messages": [message], "systemPrompt": "Answer in one short sentence.", "maxTokens": 60}
    return {"method": "sampling/createMessage", "params": sampling}


def describe_reply(
    name: str, reply: dict[str, Any], page: VisitPage | None, stop: threading.Event, on_visited: Callable[[], None]
) -> str:
    """Return the text of an interactive tool's result, which describes the client's *reply* to the tool's request.

    For `open_page`, wait until the page is visited, and then call *on_visited*. Raises CallCancelled when *stop* is
    set.
    """
    if name == "ask_model":
        return f"{reply.get('model', 'Your model')} answered: {_content_text(reply.get('content'))}"
    action = reply.get("action")
    if action != "accept":
        return "You declined." if action == "decline" else "You cancelled the question."
    if name == "order_tea":
        return _describe_order(reply.get("content"))
    if page is None or not page.wait(stop):
        return "You agreed to visit the page, but it was not visited."
    on_visited()
    return "You visited the page. The server knows that and nothing else."


def _content_text(content: Any) -> str:
    blocks: list[Any] = cast("list[Any]", content) if isinstance(content, list) else [content]
    texts = [cast("dict[str, Any]", block).get("text") for block in blocks if isinstance(block, dict)]
    return " ".join(text for text in texts if isinstance(text, str)).strip() or "nothing"


def _describe_order(content: Any) -> str:
    answers = cast("dict[str, Any]", content) if isinstance(content, dict) else {}
    cups = answers.get("cups", 1)
    tea = str(_TEAS.get(str(answers.get("tea")), "black")).partition(",")[0].lower()
    extras = answers.get("with")
    added = f" with {' and '.join(str(one) for one in cast('list[Any]', extras))}" if isinstance(extras, list) else ""
    warm = "" if answers.get("hot", True) else "iced "
    day = f" on {answers['day']}" if answers.get("day") else ""
    return f"{cups} cup{'' if cups == 1 else 's'} of {warm}{tea} tea{added} for {answers.get('name', 'nobody')}{day}."
