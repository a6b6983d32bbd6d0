"""The demo server's tools, resources and prompt: what they are called, what they claim, and what they do."""

import os
import threading
from collections.abc import Callable
from typing import Any

SLOW = frozenset({"count_slowly"})
Say = Callable[[float, float, str], None]


class Mistake(Exception):
    """The arguments do not fit; the text says how to correct them."""


class Stopped(Exception):
    """The caller no longer wants the result."""


def schema(required: list[str], **properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def claims(title: str, *, reads: bool, destroys: bool = False, repeats: bool = False) -> dict[str, Any]:
    return {
        "title": title,
        "readOnlyHint": reads,
        "destructiveHint": destroys,
        "idempotentHint": repeats or reads,
        "openWorldHint": False,
    }


_NUMBER = {"type": "number", "description": "A number"}

TOOLS: list[dict[str, Any]] = [
    {
        "name": "add",
        "title": "Add",
        "description": "Add two numbers.",
        "inputSchema": schema(["a", "b"], a=_NUMBER, b=_NUMBER),
        "annotations": claims("Add", reads=True),
    },
    {
        "name": "multiply",
        "title": "Multiply",
        "description": "Multiply two numbers.",
        "inputSchema": schema(["a", "b"], a=_NUMBER, b=_NUMBER),
        "annotations": claims("Multiply", reads=True),
    },
    {
        "name": "add_note",
        "title": "Add a note",
        "description": "Keep a short note in this server's memory until it ends.",
        "inputSchema": schema(["text"], text={"type": "string", "minLength": 1, "maxLength": 2000}),
        "annotations": claims("Add a note", reads=False),
    },
    {
        "name": "list_notes",
        "title": "List notes",
        "description": "Show all notes, oldest first.",
        "inputSchema": schema([]),
        "annotations": claims("List notes", reads=True),
    },
    {
        "name": "clear_notes",
        "title": "Delete all notes",
        "description": "Delete every note. This cannot be undone; the answer says how many there were.",
        "inputSchema": schema([]),
        "annotations": claims("Delete all notes", reads=False, destroys=True, repeats=True),
    },
    {
        "name": "count_slowly",
        "title": "Count slowly",
        "description": "Count from 1 up to a number over some seconds, with progress; can be stopped.",
        "inputSchema": schema(
            ["to"],
            to={"type": "integer", "minimum": 1, "maximum": 1000},
            seconds={"type": "number", "minimum": 0, "maximum": 600, "default": 5},
        ),
        "annotations": claims("Count slowly", reads=True),
    },
    {
        "name": "roll_dice",
        "title": "Roll a die",
        "description": "Roll one die with that many sides.",
        "inputSchema": schema([], sides={"type": "integer", "minimum": 2, "maximum": 1000, "default": 6}),
        "annotations": {**claims("Roll a die", reads=True), "idempotentHint": False},
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

_NOTES_LIMIT = 1000


class Room:
    """The notes, and the tools that work on them; safe to use from several threads."""

    def __init__(self) -> None:
        self._notes: list[str] = []
        self._lock = threading.Lock()

    def call(self, name: str, arguments: dict[str, Any], say: Say, stop: threading.Event) -> str:
        """Run one tool. Raises Mistake for wrong arguments, Stopped when `stop` is set, KeyError for no such tool."""
        tool = next((tool for tool in TOOLS if tool["name"] == name), None)
        if tool is None:
            raise KeyError(name)
        given = checked(tool["inputSchema"], arguments)
        match name:
            case "add":
                return f"{_shown(given['a'])} + {_shown(given['b'])} = {_shown(given['a'] + given['b'])}"
            case "multiply":
                return f"{_shown(given['a'])} × {_shown(given['b'])} = {_shown(given['a'] * given['b'])}"
            case "add_note":
                return self._add(given["text"])
            case "list_notes":
                return self.notes() or "There are no notes."
            case "clear_notes":
                return self._clear()
            case "count_slowly":
                return _count(given["to"], given["seconds"], say, stop)
            case _:
                return f"The die shows {int.from_bytes(os.urandom(8), 'big') % given['sides'] + 1}."

    def notes(self) -> str:
        """All notes, numbered, a line each; empty when there are none."""
        with self._lock:
            return "\n".join(f"{number}. {note}" for number, note in enumerate(self._notes, 1))

    def _add(self, text: str) -> str:
        with self._lock:
            if len(self._notes) >= _NOTES_LIMIT:
                raise Mistake(f"There are {_NOTES_LIMIT} notes already; clear them first.")
            self._notes.append(text)
            return f"Noted as number {len(self._notes)}."

    def _clear(self) -> str:
        with self._lock:
            count = len(self._notes)
            self._notes.clear()
        return f"Deleted {count} note{'' if count == 1 else 's'}."


def read(uri: str, room: Room) -> tuple[str, str] | None:
    """MIME type and text of a resource; None when there is no such one."""
    match uri:
        case "demo://guide":
            return "text/markdown", GUIDE
        case "demo://notes":
            return "text/plain", room.notes() or "There are no notes."
        case _:
            return None


def prompt(arguments: dict[str, Any]) -> str:
    """The text of the `plan` prompt. Raises Mistake."""
    topic, tone = arguments.get("topic"), arguments.get("tone", "")
    if not isinstance(topic, str) or not topic.strip():
        raise Mistake("The prompt needs the argument topic, a text.")
    if not isinstance(tone, str):
        raise Mistake("The argument tone is a text.")
    sound = f" Keep the tone {tone.strip()}." if tone.strip() else ""
    return f"Make a short plan about {topic.strip()}: three steps, each with a first action.{sound}"


def _count(to: int, seconds: float, say: Say, stop: threading.Event) -> str:
    for number in range(1, to + 1):
        if stop.wait(seconds / to):
            raise Stopped
        say(number, to, f"{number} of {to}")
    return f"Counted to {to}."


def checked(schema: dict[str, Any], arguments: dict[str, Any]) -> dict[str, Any]:
    """The arguments with defaults filled in; the small part of JSON Schema that these tools use."""
    properties: dict[str, dict[str, Any]] = schema["properties"]
    for name in arguments:
        if name not in properties:
            raise Mistake(f"There is no argument {name!r}; there are: {', '.join(properties) or 'none'}.")
    given: dict[str, Any] = {}
    for name, rule in properties.items():
        if name in arguments:
            given[name] = _fits(name, arguments[name], rule)
        elif name in schema["required"]:
            raise Mistake(f"The argument {name!r} is missing.")
        else:
            given[name] = rule["default"]
    return given


def _fits(name: str, value: Any, rule: dict[str, Any]) -> Any:
    kind = rule["type"]
    if kind == "string":
        if not isinstance(value, str) or not rule["minLength"] <= len(value) <= rule["maxLength"]:
            raise Mistake(f"The argument {name!r} is a text of {rule['minLength']} to {rule['maxLength']} characters.")
        return value
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or abs(value) > 1e300 or (kind == "integer" and value % 1 != 0):
        raise Mistake(f"The argument {name!r} is {'a whole number' if kind == 'integer' else 'a number'}.")
    if not rule.get("minimum", value) <= value <= rule.get("maximum", value):
        raise Mistake(f"The argument {name!r} is between {rule['minimum']} and {rule['maximum']}.")
    return int(value) if kind == "integer" else value


def _shown(number: float) -> str:
    return str(int(number)) if isinstance(number, int) or (number.is_integer() and abs(number) < 1e15) else repr(number)
