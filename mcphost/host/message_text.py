"""Conversion of messages to plain text for models, and of message numbers to and from text such as `12, 14-16`."""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence

import anyio.to_thread

from mcphost.llm.messages import FilePart, ImagePart, Message, Part, ResourcePart, TextPart, ToolReturnPart, ToolUsePart
from mcphost.sanitize import PIECE_LENGTH, replace_surrogates, strip_hidden_text
from mcphost.serialization import dumps, replace

MAX_NUMBERS = 200
MAX_TEXT = 20_000
_MAX_RESULT = 6_000
_MAX_ARGUMENTS = 2_000
_RANGE_PATTERN = re.compile(r"(\d{1,9})(?:\s*[-\u2013]\s*(\d{1,9}))?")


def clean_text(text: str) -> str:
    """Return *text* for the model, without lone surrogates and without text that is invisible to the user."""
    return strip_hidden_text(replace_surrogates(text))


async def clean_parts(parts: Sequence[Part]) -> tuple[Part, ...]:
    """Return the parts of a user message without the hidden text that a file, resource or paste may contain.

    Long texts are cleaned on a worker thread.
    """
    if sum(len(part.text) for part in parts if isinstance(part, TextPart | ResourcePart)) <= PIECE_LENGTH:
        return _clean_parts(parts)
    return await anyio.to_thread.run_sync(_clean_parts, parts)


def _clean_parts(parts: Sequence[Part]) -> tuple[Part, ...]:
    return tuple(
        replace(part, text=clean_text(part.text)) if isinstance(part, TextPart | ResourcePart) else part
        for part in parts
    )


def describe_author(message: Message) -> str:
    """Return a heading that says where a message came from, such as "Background result".

    The heading is "" for messages that the user or the model wrote in the conversation.
    """
    if message.is_automatic:
        return "mcphost, to continue the answer"
    if message.late_result is not None:
        return "Background result"
    if message.prompt is not None:
        return f"{message.role.capitalize()}, from the prompt {message.prompt.name} of {message.prompt.server}"
    return ""


def describe_message(message: Message, *, whole: bool = False) -> str:
    """Return a message as plain text, including tool calls and results.

    Long parts are shortened in the middle, unless *whole* is true.
    """
    return "\n".join(_describe_parts(message, shorten=not whole))


def _describe_parts(message: Message, *, shorten: bool) -> Iterator[str]:
    def limited(text: str, limit: int) -> str:
        return shorten_middle(text, limit) if shorten else text

    for part in message.parts:
        match part:
            case TextPart():
                yield limited(part.text, MAX_TEXT)
            case ToolUsePart():
                arguments = part.raw if part.arguments is None else dumps(part.arguments)
                yield f"[calls {part.name} with {limited(arguments, _MAX_ARGUMENTS)}]"
            case ToolReturnPart():
                outcome = part.outcome or ("error" if part.is_error else "ok")
                yield f"[{part.name}: {outcome}] {limited(part.text, _MAX_RESULT)}"
            case ResourcePart() if part.use_id:
                yield f"[result of {part.source} of {part.server}] {limited(part.text, _MAX_RESULT)}"
            case ResourcePart() if not part.server:
                yield f"[attached file {part.uri}] {limited(part.text, _MAX_RESULT)}"
            case ResourcePart() if part.is_from_page:
                yield f"[written by the page of {part.tool} of {part.server}] {limited(part.text, _MAX_RESULT)}"
            case ResourcePart():
                yield f"[attached {part.uri} of {part.server}] {limited(part.text, _MAX_RESULT)}"
            case ImagePart():
                yield f"[an image, {part.mime_type}]"
            case FilePart():
                yield f"[attached file {part.name}, {part.mime_type}, not shown]"
            case _:
                pass


def shorten_middle(text: str, limit: int) -> str:
    """Return at most *limit* characters of *text*; if it is longer, a note replaces its middle."""
    if len(text) <= limit:
        return text
    head = limit * 2 // 3
    return f"{text[:head]}[… {len(text) - limit:,} characters …]{text[len(text) - (limit - head) :]}"


def parse_numbers(text: str, known: Sequence[int]) -> tuple[int, ...]:
    """Parse a list such as `12, 14-16`; return the numbers that are in *known*, sorted.

    *known* must be sorted. At most MAX_NUMBERS are returned. A range may be arbitrarily wide, because the numbers
    in it are not enumerated.
    """
    found: set[int] = set()
    for match in _RANGE_PATTERN.finditer(text):
        first, last = int(match[1]), int(match[2] or match[1])
        start, end = bisect_left(known, first), bisect_right(known, last)
        found.update(known[start : min(end, start + MAX_NUMBERS)])
        if len(found) >= MAX_NUMBERS:
            break
    return tuple(sorted(found)[:MAX_NUMBERS])


def format_numbers(numbers: Iterable[int]) -> str:
    """Return *numbers*, which must be sorted, as text with ranges, such as `12, 14-16`."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)
