"""The demo server's tools, resources and prompt: what they are called, what they claim, and what they do."""

import os
import threading
from collections.abc import Callable
from typing import Any

SLOW_TOOLS = frozenset({"count_slowly"})
ProgressFn = Callable[[float, float, str], None]


class DemoToolError(Exception):
    """The arguments do not fit; the text says how to correct them."""


class CallCancelled(Exception):
    """The caller no longer wants the result."""


def object_schema(required: list[str], **properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def tool_annotations(
    title: str, *, read_only: bool, destructive: bool = False, idempotent: bool = False
) -> dict[str, Any]:
    return {
        "title": title,
        "readOnlyHint": read_only,
        "destructiveHint": destructive,
        "idempotentHint": idempotent or read_only,
        "openWorldHint": False,
    }


_NUMBER = {"type": "number", "description": "A number"}

TOOLS: list[dict[str, Any]] = [
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
    """The notes, and the tools that work on them; safe to use from several threads."""

    def __init__(self) -> None:
        self._notes: list[str] = []
        self._lock = threading.Lock()

    def call(self, name: str, arguments: dict[str, Any], report_progress: ProgressFn, stop: threading.Event) -> str:
        """Run one tool. Raises DemoToolError for wrong arguments, Stopped when `stop` is set, KeyError if unknown."""
        tool = next((tool for tool in TOOLS if tool["name"] == name), None)
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
        """All notes, numbered, a line each; empty when there are none."""
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
    """MIME type and text of a resource; None when there is no such one."""
    match uri:
        case "demo://guide":
            return "text/markdown", GUIDE
        case "demo://notes":
            return "text/plain", tools.notes() or "There are no notes."
        case _:
            return None


def render_prompt(arguments: dict[str, Any]) -> str:
    """The text of the `plan` prompt. Raises DemoToolError."""
    topic, tone = arguments.get("topic"), arguments.get("tone", "")
    if not isinstance(topic, str) or not topic.strip():
        raise DemoToolError("The prompt needs the argument topic, a text.")
    if not isinstance(tone, str):
        raise DemoToolError("The argument tone is a text.")
    sound = f" Keep the tone {tone.strip()}." if tone.strip() else ""
    return f"Make a short plan about {topic.strip()}: three steps, each with a first action.{sound}"


def _count_slowly(to: int, seconds: float, report_progress: ProgressFn, stop: threading.Event) -> str:
    for number in range(1, to + 1):
        if stop.wait(seconds / to):
            raise CallCancelled
        report_progress(number, to, f"{number} of {to}")
    return f"Counted to {to}."


def validate_arguments(schema: dict[str, Any], arguments: dict[str, Any]) -> dict[str, Any]:
    """The arguments with defaults filled in; the small part of JSON Schema that these tools use."""
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
                f"The argument {name!r} is a text of {rule['minLength']} to {rule['maxLength']} characters."
            )
        return value
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or abs(value) > 1e300 or (kind == "integer" and value % 1 != 0):
        raise DemoToolError(f"The argument {name!r} is {'a whole number' if kind == 'integer' else 'a number'}.")
    if not rule.get("minimum", value) <= value <= rule.get("maximum", value):
        raise DemoToolError(f"The argument {name!r} is between {rule['minimum']} and {rule['maximum']}.")
    return int(value) if kind == "integer" else value


def _format_number(number: float) -> str:
    return str(int(number)) if isinstance(number, int) or (number.is_integer() and abs(number) < 1e15) else repr(number)
