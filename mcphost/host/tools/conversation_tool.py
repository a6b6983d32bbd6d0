"""The built-in tool `read_conversation`, which returns messages that a summary has replaced."""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

import anyio.to_thread

from mcphost.errors import UsageError
from mcphost.host.active_conversation import ActiveConversation
from mcphost.host.builtin_tool_names import READ_CONVERSATION
from mcphost.host.content_rendering import MODEL_TEXT_LIMIT, truncate_text
from mcphost.host.conversation_messages import Conversation
from mcphost.host.event_bus import EventBus
from mcphost.host.events import ToolFinished, ToolProposed, ToolStarted
from mcphost.host.message_text import describe_message, format_numbers, parse_numbers
from mcphost.host.model_selection import ModelSelection
from mcphost.host.tools.tool_outcome import ToolCallOutcome, make_tool_return
from mcphost.llm.messages import Message, ToolUsePart
from mcphost.llm.model import ToolSpec
from mcphost.llm.token_estimate import BYTES_PER_TOKEN
from mcphost.sanitize import strip_hidden_text
from mcphost.serialization import Raw, dumps, encode

_MAX_ARGUMENT = 1_000
_MAX_HITS = 20
_EXCERPT = 400
_MIN_BYTES = 2_000
_WINDOW_SHARE = 0.15
_SCHEMA = {
    "type": "object",
    "properties": {
        "numbers": {"type": "string", "description": "Message numbers, such as 12, 14-16"},
        "search": {"type": "string", "description": "Words that a message must contain, instead of numbers"},
        "offset": {"type": "integer", "minimum": 0, "description": "Offset in characters in the first message"},
    },
    "additionalProperties": False,
}
_SPEC = ToolSpec(
    READ_CONVERSATION,
    "Read earlier messages of this conversation that a summary replaces, by number or with a search.",
    Raw(encode(_SCHEMA)),
)


class _Arguments(NamedTuple):
    numbers: str
    search: str
    offset: int
    max_bytes: int
    """Maximum number of bytes of messages that are returned."""


class ConversationTool:
    """The tool `read_conversation`, which is offered while a summary replaces earlier messages.

    It needs no approval, because the model has received these messages before.
    """

    def __init__(self, conversation: ActiveConversation, model_selection: ModelSelection, events: EventBus) -> None:
        self._conversation = conversation
        self._model_selection = model_selection
        self._events = events

    def specs(self) -> tuple[ToolSpec, ...]:
        """Return the tool's definition if a summary replaces messages, else ()."""
        return (_SPEC,) if self._conversation.current.compaction is not None else ()

    async def run(self, use: ToolUsePart, _why: str) -> ToolCallOutcome:
        """Run one call proposed by the model. Errors are part of the outcome; only cancellation is raised."""
        self._events.publish(ToolProposed(use.id, "", READ_CONVERSATION, use.arguments, use.raw))
        try:
            arguments = _parse_arguments(use.arguments or {}, self._max_bytes())
        except UsageError as error:
            self._events.publish(ToolFinished(use.id, "", READ_CONVERSATION, "failed", str(error)))
            part = make_tool_return(use, "", READ_CONVERSATION, str(error), outcome="failed")
            return ToolCallOutcome(part, is_invalid=True)
        self._events.publish(ToolStarted(use.id, "", READ_CONVERSATION, use.arguments or {}, "session"))
        covered = _list_covered(self._conversation.current)
        text = strip_hidden_text(await anyio.to_thread.run_sync(partial(_read, covered, arguments)))
        self._events.publish(ToolFinished(use.id, "", READ_CONVERSATION, "ok", text))
        return ToolCallOutcome(make_tool_return(use, "", READ_CONVERSATION, text, outcome="ok"))

    def _max_bytes(self) -> int:
        """Return the maximum size of a result in bytes, which is a share of the model's context window."""
        share = int(self._model_selection.window * _WINDOW_SHARE) * BYTES_PER_TOKEN
        return min(max(share, _MIN_BYTES), MODEL_TEXT_LIMIT)


def _parse_arguments(values: Mapping[str, Any], max_bytes: int) -> _Arguments:
    numbers, search, offset = values.get("numbers", ""), values.get("search", ""), values.get("offset", 0)
    if not isinstance(numbers, str) or not isinstance(search, str) or bool(numbers.strip()) == bool(search.strip()):
        raise UsageError("Pass either numbers, such as 12, 14-16, or a search text.")
    if isinstance(offset, bool) or not isinstance(offset, int) or not 0 <= offset < 2**53:
        raise UsageError("offset must be a whole number of characters.")
    return _Arguments(numbers[:_MAX_ARGUMENT], search[:_MAX_ARGUMENT], offset, max_bytes)


def _list_covered(conversation: Conversation) -> dict[int, Message]:
    """Return the messages that the current summary replaces, keyed by their numbers in the conversation."""
    count = conversation.covered
    return dict(zip(conversation.numbers[:count], conversation.messages[:count], strict=True))


def _read(messages: Mapping[int, Message], arguments: _Arguments) -> str:
    """Return messages or search results as JSON lines.

    With JSON, text in a message cannot be mistaken for another message.
    """
    if arguments.search.strip():
        return "\n".join(_search(messages, arguments))
    numbers = parse_numbers(arguments.numbers, sorted(messages))
    if not numbers:
        known = format_numbers(sorted(messages)) or "none"
        return f"[mcphost: no message has these numbers. Available: {known[:_MAX_ARGUMENT]}]"
    return "\n".join(_list_messages(messages, numbers, arguments))


def _list_messages(messages: Mapping[int, Message], numbers: tuple[int, ...], arguments: _Arguments) -> Iterator[str]:
    bytes_left = arguments.max_bytes
    for at, number in enumerate(numbers):
        text = describe_message(messages[number], whole=True)
        start = arguments.offset if at == 0 else 0
        shown = truncate_text(text[start : start + bytes_left], bytes_left)
        yield dumps({"n": number, "role": messages[number].role, "text": shown})
        bytes_left -= len(shown.encode())
        end = start + len(shown)
        if end < len(text):
            yield f"[mcphost: message {number} has {len(text)} characters; it continues at offset {end}]"
        if bytes_left <= 0 and at + 1 < len(numbers):
            yield f"[mcphost: not shown: {format_numbers(numbers[at + 1 :])}]"
            return


def _search(messages: Mapping[int, Message], arguments: _Arguments) -> Iterator[str]:
    words = arguments.search.casefold().split()
    hits, most = 0, min(_MAX_HITS, arguments.max_bytes // _EXCERPT)
    for number, message in messages.items():
        text = describe_message(message, whole=True)
        folded = text.casefold()
        if all(word in folded for word in words):
            hits += 1
            if hits <= most:
                at = max(0, folded.find(words[0]) - _EXCERPT // 4)
                yield dumps({"n": number, "role": message.role, "excerpt": text[at : at + _EXCERPT]})
    if hits > most:
        yield f"[mcphost: {hits - most} more messages contain these words; add words to narrow the search]"
    if not hits:
        yield "[mcphost: no summarized message contains these words]"
