"""The demo model: a rule-based ChatModel, labelled as not an AI, that streams text and calls tools.

The rules only recognize requests; every result that the model reports comes from a tool of a connected server.
"""

import re
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import aclosing, asynccontextmanager
from typing import Any, cast

import anyio

from mcphost.errors import MalformedMessage
from mcphost.llm.messages import Message, ResourcePart, ToolReturnPart, ToolUsePart
from mcphost.llm.model import (
    ModelEvent,
    ModelFacts,
    ModelRequest,
    StreamFinished,
    TextDelta,
    ToolSpec,
    ToolUseDelta,
    ToolUseReady,
    ToolUseStarted,
)
from mcphost.serialization import Struct, as_object, decode_or_none, dumps, loads, loads_or_none, replace

LABEL = "demo (not an AI)"
DELTA_INTERVAL = 0.01
"""Delay in seconds between two streamed pieces of text."""
_EXCERPT_LENGTH = 60
MAX_REQUEST_LENGTH = 4_000
"""Maximum number of characters of a message that the rules examine."""

HELP = """I follow a few fixed rules and am not an AI, but the tools are real. Try one of these:

- `add 2 and 40` or `what is 6 x 7`
- `note: buy milk`, `list my notes`, `forget my notes`
- `count slowly to 5`
- `roll a die`
- `add 1 and 2 and list my notes` for two calls at once
- `order tea` for a form from the server
- `open a page` for a web page
- `ask the model` for a request to the model
- `call TOOL key=value` or `call TOOL {"key": "value"}` for any other tool
"""

_NUMBER = r"(-?(?<!\d)\d++(?:\.\d++)?)"
_VERBS = r"add|what|multiply|list|show|count|clear|forget|delete|roll|remember|note|call|order|open|ask"
_NOTES = r"(?:all\s++)?(?:of\s++)?(?:(?:my|the|your)\s*+)?notes"


class DemoRule(Struct, frozen=True):
    """A rule of the demo model: a regular expression for a request, and the tool to call.

    `argument_names` has an argument name for each group of the pattern; see `match_arguments`.
    """

    pattern: str
    tool: str
    argument_names: tuple[str, ...] = ()


RULES = (
    DemoRule(rf"\b(?:add|sum(?: of)?)\s+{_NUMBER}\s*(?:and|to|plus|with|,|\+)\s*{_NUMBER}", "add", ("a", "b")),
    DemoRule(rf"{_NUMBER}\s*(?:\+|plus)\s*{_NUMBER}", "add", ("a", "b")),
    DemoRule(rf"\bmultiply\s+{_NUMBER}\s*(?:and|by|with|times|,)\s*{_NUMBER}", "multiply", ("a", "b")),
    DemoRule(rf"{_NUMBER}\s*(?:\*|x|×|times)\s*{_NUMBER}", "multiply", ("a", "b")),
    DemoRule(rf"\b(?:list|show|read|what are)\s++(?:me\s++)?{_NOTES}", "list_notes"),
    DemoRule(rf"\b(?:forget|clear|delete|remove)\s++(?:{_NOTES}|everything)", "clear_notes"),
    DemoRule(
        rf"\b(?:note|remember)(?:\s+that)?(?:\s*:)?\s++(?!s\b)(.+?)(?=(?<!\s)\s+and\s+(?:{_VERBS})\b|$|\n)",
        "add_note",
        ("text",),
    ),
    DemoRule(
        rf"\bcount\s+(?:slowly\s+)?(?:up\s+)?to\s+(\d+)(?:\s+(?:slowly\s+)?(?:in|over|for)\s+{_NUMBER}\s*s\w*)?",
        "count_slowly",
        ("to", "seconds"),
    ),
    DemoRule(r"\b(?:slow|slowly)\b", "count_slowly", ("to",)),
    DemoRule(
        r"\b(?:order|make|want)\s+(?:me\s+)?(?:some\s+)?tea\b|\b(?:try|show)\s+(?:me\s+)?(?:the|a)\s+form\b",
        "order_tea",
    ),
    DemoRule(r"\b(?:open|visit|try)\s+(?:me\s+)?(?:a|the)\s+(?:page|address)\b", "open_page"),
    DemoRule(r"\bask\s+(?:the|your|my)\s+model(?:(?:\s*:)?\s++(.+))?", "ask_model", ("question",)),
    DemoRule(r"\broll\s+(?:a\s+|the\s+)?d(\d+)\b", "roll_dice", ("sides",)),
    DemoRule(r"\broll\s+(?:a\s+|the\s+)?(?:die|dice)(?:\s+with\s+(\d+)\s+sides)?", "roll_dice", ("sides",)),
)


class DemoRequest(Struct, frozen=True):
    """A recognized request; `tool` is a tool's full name or just the last part of it (see `find_tool`)."""

    tool: str
    arguments: dict[str, Any]


class DemoModel:
    """Rule-based ChatModel that needs no network, API key or preparation."""

    def __init__(self, interval: float = DELTA_INTERVAL) -> None:
        self._interval = interval

    @property
    def name(self) -> str:
        """Name of the model in the configuration."""
        return "demo"

    @property
    def label(self) -> str:
        """Display name, which states that the model is not an AI."""
        return LABEL

    @property
    def facts(self) -> ModelFacts:
        """Facts about the model: it supports tools but not images, and is free."""
        return ModelFacts(supports_images=False, supports_tools=True, input_price=0.0, output_price=0.0)

    async def load_facts(self) -> None:
        """Do nothing: the demo model's facts are built in."""

    async def prepare(self) -> None:
        """Do nothing: no preparation is needed."""

    async def close(self) -> None:
        """Do nothing: nothing was started."""

    @asynccontextmanager
    async def stream(self, request: ModelRequest) -> AsyncGenerator[AsyncIterator[ModelEvent]]:
        """Stream the answer to one request; see ChatModel.stream."""
        async with aclosing(self._events(request)) as events:
            yield events

    async def _events(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        text, uses = make_answer(request if request.tool_choice != "none" else replace(request, tools=()))
        for count, piece in enumerate(re.findall(r"\S+\s*|\s+", text)):
            if 0 < request.max_output_tokens <= count:
                yield StreamFinished("length", api_route="demo")
                return
            await anyio.sleep(self._interval)
            yield TextDelta(piece)
        for use in uses:
            yield ToolUseStarted(use.id, use.name)
            for start in range(0, len(use.raw), 12):
                await anyio.sleep(self._interval)
                yield ToolUseDelta(use.id, use.raw[start : start + 12])
        for use in uses:
            yield ToolUseReady(use)
        yield StreamFinished("tool_calls" if uses else "stop", api_route="demo")


def make_answer(request: ModelRequest) -> tuple[str, tuple[ToolUsePart, ...]]:
    """Return the text and the tool calls of the demo model's answer to a request."""
    last = request.messages[-1] if request.messages else None
    if last is None:
        return HELP, ()
    if last.role == "tool":
        return report_results(request.messages), ()
    if not request.tools and (summary := summarize_lines(last.text)):
        return summary, ()
    text = " ".join(last.text.split())[:MAX_REQUEST_LENGTH]
    if re.fullmatch(r"(?:help|hello|hi|hey|\?|what can you do\??|)[.!]?", text, re.IGNORECASE):
        return HELP + list_tools(request.tools) + list_attachments(last), ()
    if not request.tools and (echo := re.match(r"say\b(?:\s*:)?\s++(.+)$", text, re.IGNORECASE)):
        return echo[1], ()  # a sampling request of a server has no tools
    demo_requests = find_requests(text)
    if not demo_requests:
        return f"I don't have a rule for that.\n\n{HELP}{list_tools(request.tools)}{list_attachments(last)}", ()
    notes: list[str] = []
    uses: list[ToolUsePart] = []
    for demo_request in demo_requests:
        spec = find_tool(request.tools, demo_request.tool)
        if spec is None:
            notes.append(f"No connected server has a tool named `{demo_request.tool}`.")
        elif problem := describe_missing_arguments(spec, demo_request.arguments):
            notes.append(problem)
        else:
            uses.append(make_tool_use(spec, demo_request.arguments))
    if uses:
        names = " and ".join(f"`{use.name}`" for use in uses)
        notes.append(f"I am calling {names}.")
    return "\n\n".join(notes), tuple(uses)


def summarize_lines(text: str) -> str:
    """Summarize messages that are given as JSON lines; return "" if *text* has any other format.

    For each user message, the summary has one line: the beginning of the message, the beginning of the last answer to
    it, and the numbers of the messages in that turn. Sentences from an earlier summary are kept unchanged.
    """
    sentences: list[tuple[str, str]] = []
    question, answer, numbers = "", "", list[int]()

    def end_turn() -> None:
        if numbers:
            told = " ".join(filter(None, (question, answer)))
            sentences.append((told, f"{numbers[0]}-{numbers[-1]}" if len(numbers) > 1 else f"{numbers[0]}"))

    for line in text.splitlines():
        match decode_or_none(line.encode(), dict[str, Any]):
            case {"n": int(number), "role": str(role), "text": str(content)}:
                if role == "user":
                    end_turn()
                    question, answer, numbers = f"The user wrote: {_shorten(content)}", "", []
                elif role == "assistant":
                    answer = f"The answer was: {_shorten(content)}"
                numbers.append(number)
            case {"sentence": str(sentence), "for": str(sources)}:
                sentences.append((sentence, sources))
            case _:
                return ""
    end_turn()
    return "\n".join(f"{sentence} [{sources}]" if sources else sentence for sentence, sources in sentences)


def _shorten(text: str) -> str:
    words = " ".join(text[:MAX_REQUEST_LENGTH].split())
    return words if len(words) <= _EXCERPT_LENGTH else f"{words[:_EXCERPT_LENGTH]}…"


def find_requests(text: str) -> list[DemoRequest]:
    """Return the distinct requests in *text*, in order of appearance; matches never overlap."""
    if named := re.match(r"call\s+([\w./:-]+)\s*(.*)$", text, re.IGNORECASE):
        return [DemoRequest(named[1], parse_arguments(named[2]))]
    matches: list[tuple[int, int, DemoRequest]] = []
    for rule in RULES:
        for match in re.finditer(rule.pattern, text, re.IGNORECASE):
            start, end = match.span()
            if any(start < other_end and other_start < end for other_start, other_end, _request in matches):
                continue
            matches.append((start, end, DemoRequest(rule.tool, dict(match_arguments(rule, match)))))
    matches.sort(key=lambda item: item[0])
    requests: list[DemoRequest] = []
    for _start, _end, request in matches:
        if request not in requests:
            requests.append(request)
    return requests


def match_arguments(rule: DemoRule, match: re.Match[str]) -> Iterator[tuple[str, Any]]:
    """Yield the name and value of each argument that the rule's pattern captured in *match*.

    Numbers are converted to int or float. If the pattern has no groups but the rule names arguments, the first argument
    gets the default value 5.
    """
    groups = match.groups() or (("5",) if rule.argument_names else ())
    for name, value in zip(rule.argument_names, groups, strict=False):
        if value is not None:
            yield name, value.strip(" .!\"'") if name in ("text", "question") else parse_number(value)


def parse_number(text: str) -> int | float:
    """Convert text to a float if it contains a decimal point, otherwise to an int."""
    return float(text) if "." in text else int(text)


def parse_arguments(text: str) -> dict[str, Any]:
    """Parse arguments written as a JSON object or as `key=value …`; a value that is not JSON becomes a string."""
    text = text.strip()
    if text.startswith("{"):
        return as_object(loads_or_none(text))
    arguments: dict[str, Any] = {}
    for key, quoted, plain in re.findall(r"(?<![\w.-])([\w.-]++)=(?:\"([^\"]*)\"|(\S+))", text):
        try:
            arguments[key] = quoted if quoted or not plain else loads(plain)
        except MalformedMessage:
            arguments[key] = plain
    return arguments


def find_tool(tools: tuple[ToolSpec, ...], name: str) -> ToolSpec | None:
    """Return the tool named *name*, or else the first tool whose name ends with *name* after a separator.

    Returns None if there is no such tool. Case is ignored, and all separators are considered equal.
    """
    normalized = _normalize_name(name)
    for tool in tools:
        if _normalize_name(tool.name) == normalized:
            return tool
    return next((tool for tool in tools if _normalize_name(tool.name).endswith(f"_{normalized}")), None)


def _normalize_name(name: str) -> str:
    """Return the name in lower case, with `_` as the only separator."""
    return re.sub(r"[\W_]+", "_", name.lower())


def parse_schema(tool: ToolSpec) -> dict[str, Any]:
    """Return a tool's schema as a dict, which is empty if the schema is not a JSON object."""
    return as_object(loads_or_none(tool.schema))


def describe_missing_arguments(tool: ToolSpec, arguments: dict[str, Any]) -> str:
    """Return a sentence that asks for the required arguments that are missing, or "" if none are missing."""
    required: Any = parse_schema(tool).get("required")
    required_names = cast("list[Any]", required) if isinstance(required, list) else []
    names = [str(name) for name in required_names if name not in arguments]
    if not names:
        return ""
    example = " ".join(f"{name}=…" for name in names)
    return f"`{tool.name}` needs more arguments. Type: `call {tool.name} {example}`"


def make_tool_use(tool: ToolSpec, arguments: dict[str, Any]) -> ToolUsePart:
    """Create a call of *tool*, omitting any arguments that the tool's schema does not define."""
    properties = parse_schema(tool).get("properties")
    if isinstance(properties, dict) and properties:
        arguments = {name: value for name, value in arguments.items() if name in properties}
    return ToolUsePart(id=f"call_{uuid.uuid4().hex[:16]}", name=tool.name, arguments=arguments, raw=dumps(arguments))


def report_results(messages: tuple[Message, ...]) -> str:
    """Describe the tool results at the end of the conversation."""
    parts: list[ToolReturnPart] = []
    for message in reversed(messages):
        if message.role != "tool":
            break
        parts = [part for part in message.parts if isinstance(part, ToolReturnPart)] + parts
    lines = [describe_result(part) for part in parts]
    if len(lines) == 1:
        return lines[0]
    return "Results:\n\n" + "\n".join(f"- {line}" for line in lines)


def describe_result(part: ToolReturnPart) -> str:
    """Describe one tool result."""
    name, text = f"**{part.tool or part.name}**", part.text.strip() or "(no text)"
    if part.is_error and (part.outcome == "declined" or "declined" in text.lower()):
        return f"{name} was declined. {text}"
    if part.is_error:
        return f"{name} failed: {text}"
    if "\n" in text:
        return f"{name} returned:\n\n" + "\n".join(f"  > {line}" for line in text.splitlines())
    return f"{name} returned: {text}"


def list_tools(tools: tuple[ToolSpec, ...]) -> str:
    """Return a sentence that lists the tools of the connected servers."""
    if not tools:
        return "\nNo tools are available."
    return "\nAvailable tools: " + ", ".join(f"`{tool.name}`" for tool in tools[:40]) + "."


def list_attachments(message: Message) -> str:
    """Return a sentence that lists the resources attached to a message, to show that the model received them."""
    parts = [part for part in message.parts if isinstance(part, ResourcePart)]
    if not parts:
        return ""
    return "\n\nYou attached:\n\n" + "\n".join(f"- `{part.uri}`, {len(part.text)} characters" for part in parts)
