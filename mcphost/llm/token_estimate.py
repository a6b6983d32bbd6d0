"""Token estimates for text, messages and tools, made without the model's tokenizer.

One token is assumed for about four Latin characters, for two characters of other alphabets, or for one Chinese,
Japanese or Korean character. The estimate for a message is cached as long as the message exists, so estimating
a request takes only one addition per message.
"""

import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Generic, TypeVar, assert_never

from mcphost.llm.messages import (
    FilePart,
    ImagePart,
    Message,
    Part,
    ResourcePart,
    TextPart,
    ThinkingPart,
    ToolReturnPart,
    ToolUsePart,
)
from mcphost.llm.model import ModelRequest, ToolSpec
from mcphost.serialization import encode

T = TypeVar("T")
IMAGE_TOKENS = 1_500
"""Approximate tokens of an image of one megapixel at OpenAI and Anthropic; the actual size is not examined."""
BYTES_PER_FILE_TOKEN = 40
"""A PDF page of about 100 kB takes 1,500 to 3,000 tokens; audio of that size takes slightly fewer."""
BYTES_PER_TOKEN = 3
"""Number of UTF-8 bytes per token that is assumed for limits; English has about four, Chinese three."""
IMPOSSIBLE_FACTOR = 4
"""A token count below a quarter of the estimate is impossible: no tokenizer has 16 characters per token."""
MESSAGE_TOKENS = 4
"""Overhead of each message and part, for its role and separators."""


class MessageCache(Generic[T]):
    """Cache for values computed from messages; a value is dropped when its message is garbage-collected.

    Messages are compared by identity, because comparing the text of long messages would be too slow.
    """

    def __init__(self, compute: Callable[[Message], T]) -> None:
        self._compute = compute
        self._values: dict[int, tuple[weakref.ref[Message], T]] = {}

    def get(self, message: Message) -> T:
        """Return the value for *message*; it is computed on first use."""
        key = id(message)
        found = self._values.get(key)
        if found is not None and found[0]() is message:
            return found[1]
        values = self._values  # without self, so that a message does not keep this cache alive
        value = self._compute(message)
        values[key] = weakref.ref(message, lambda _: values.pop(key, None)), value
        return value


def estimate_text_tokens(text: str) -> int:
    """Estimate the number of tokens in *text*."""
    if text.isascii():
        return (len(text) + 3) // 4
    latin = len(text.encode("ascii", "ignore"))
    # UTF-8 takes one extra byte for a letter of most alphabets, two for a Chinese character, three for an emoji.
    more_bytes = len(text.encode("utf-8", "replace")) - len(text)
    return (latin + 2 * more_bytes + 3) // 4


def bound_tokens(texts: Iterable[bytes]) -> int:
    """Return a deliberately high estimate of the number of tokens in *texts*, for enforcing limits."""
    return sum(map(len, texts)) // BYTES_PER_TOKEN


def estimate_tool_tokens(spec: ToolSpec) -> int:
    """Estimate the number of tokens in a tool's definition."""
    return estimate_definition(spec.name, spec.description, bytes(spec.schema))


def estimate_definition(name: str, description: str, schema: bytes) -> int:
    """Estimate the number of tokens in a tool's definition from the parts that are sent to the model."""
    return MESSAGE_TOKENS + (len(name) + len(description.encode("utf-8", "replace")) + len(schema) + 3) // 4


def estimate_message_tokens(message: Message) -> int:
    """Estimate the number of tokens in a message; this is computed only once for each message object."""
    return _message_tokens.get(message)


_message_tokens = MessageCache(lambda message: MESSAGE_TOKENS + sum(estimate_parts(message)))


_text_tokens = MessageCache(lambda message: estimate_text_tokens("".join(_iter_texts(message))))


def _iter_texts(message: Message) -> Iterator[str]:
    """Yield the texts in those parts of a message that every provider counts as input."""
    for part in message.parts:
        if isinstance(part, TextPart | ToolReturnPart | ResourcePart):
            yield part.text


def estimate_parts(message: Message) -> Iterator[int]:
    """Return the estimated number of tokens in each part of a message, in order."""
    # One reasoning part contains the provider's data for all of them.
    is_replayed = any(isinstance(part, ThinkingPart) and part.replay for part in message.parts)
    return (estimate_part_tokens(part, is_replayed=is_replayed) for part in message.parts)


def estimate_part_tokens(part: Part, *, is_replayed: bool = False) -> int:
    """Estimate the number of tokens in one part of a message.

    Reasoning counts only if it is sent back to the provider: if it has `replay` data, or if *is_replayed* is true.
    """
    match part:
        case TextPart():
            return estimate_text_tokens(part.text)
        case ThinkingPart():
            return estimate_text_tokens(part.text) if is_replayed or part.replay else 0
        case ToolUsePart():
            arguments = part.raw or encode(part.arguments).decode()
            return MESSAGE_TOKENS + estimate_text_tokens(part.name) + estimate_text_tokens(arguments)
        case ToolReturnPart():
            return MESSAGE_TOKENS + estimate_text_tokens(part.text) + IMAGE_TOKENS * len(part.images)
        case ImagePart():
            return IMAGE_TOKENS
        case FilePart():
            return MESSAGE_TOKENS + max(IMAGE_TOKENS, len(part.data) * 3 // 4 // BYTES_PER_FILE_TOKEN)
        case ResourcePart():
            return MESSAGE_TOKENS + estimate_text_tokens(part.uri) + estimate_text_tokens(part.text)
    assert_never(part)


def estimate_request_tokens(request: ModelRequest, since: float) -> int:
    """Estimate the size of a request in tokens.

    If possible, the estimate is the provider's token count for the latest answer, plus estimates for the later
    messages. The whole request is estimated instead in two cases:

    - The answer is not newer than *since*, the time in seconds since 1970 at which earlier parts of the conversation
      last changed: because of a new system prompt, a summary of earlier messages, or tool results that were shortened.
    - The provider's count is impossibly low, because some servers, such as older versions of Ollama, do not count
      tokens from their cache. With such a count, mcphost would not notice that the conversation exceeds the context
      window, and the server would drop the beginning of the conversation without an error.
    """
    size = 0
    for message in reversed(request.messages):
        usage = message.usage
        if usage is not None and usage.input_tokens and message.at > since:
            counted = size + usage.input_tokens + usage.output_tokens
            if counted >= sum(map(_text_tokens.get, request.messages)) // IMPOSSIBLE_FACTOR:
                return counted
            return sum(map(estimate_message_tokens, request.messages)) + _estimate_beginning(request)
        size += estimate_message_tokens(message)
    return size + _estimate_beginning(request)


def _estimate_beginning(request: ModelRequest) -> int:
    return estimate_text_tokens(request.system) + sum(map(estimate_tool_tokens, request.tools))
