"""Token estimates for texts, messages and tools, made without the model's tokenizer.

A token is about four Latin characters, two characters of other alphabets, or one Chinese, Japanese or Korean character.
The estimate of a message is cached for the message's lifetime, so that a round costs one addition per message.
"""

import weakref
from typing import assert_never

from mcphost.host.active_conversation import Conversation
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
from mcphost.llm.model import ModelRequest, ToolSpec, Usage
from mcphost.serialization import Struct, encode

IMAGE_TOKENS = 1_500
"""About what OpenAI and Anthropic count for an image of one megapixel; the actual size is not examined."""
BYTES_PER_FILE_TOKEN = 40
"""A PDF page of about 100 kB takes 1,500 to 3,000 tokens; audio of that size takes slightly fewer."""
MESSAGE_TOKENS = 4
"""Overhead of each message and part, for its role and separators."""
_MIN_RATIO, _MAX_RATIO = 0.5, 2.0

_cache: dict[int, tuple["weakref.ref[Message]", int]] = {}


def estimate_text_tokens(text: str) -> int:
    """Estimate the tokens of a text."""
    if text.isascii():
        return (len(text) + 3) // 4
    latin = len(text.encode("ascii", "ignore"))
    # UTF-8 has one more byte for each letter of most alphabets, two for each Chinese character, three for an emoji.
    more_bytes = len(text.encode("utf-8", "replace")) - len(text)
    return (latin + 2 * more_bytes + 3) // 4


def estimate_tool_tokens(spec: ToolSpec) -> int:
    """Estimate the tokens of a tool definition."""
    return MESSAGE_TOKENS + (len(spec.name) + len(spec.description.encode()) + len(bytes(spec.schema)) + 3) // 4


def estimate_message_tokens(message: Message) -> int:
    """Estimate the tokens of a message; the result is cached for each message object."""
    key = id(message)
    found = _cache.get(key)
    if found is not None and found[0]() is message:
        return found[1]
    tokens = MESSAGE_TOKENS + sum(map(estimate_part_tokens, message.parts))
    _cache[key] = weakref.ref(message, lambda _: _cache.pop(key, None)), tokens
    return tokens


def estimate_part_tokens(part: Part) -> int:
    """Estimate the tokens of one message part."""
    match part:
        case TextPart():
            return estimate_text_tokens(part.text)
        case ThinkingPart():
            return estimate_text_tokens(part.text) if part.replay else 0
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


def estimate_request_tokens(request: ModelRequest, conversation: Conversation) -> int:
    """Estimate the size of a request in tokens.

    The estimate starts from the provider's count for the last answer, unless the beginning of requests has changed
    since then.
    """
    size = 0
    for message in reversed(request.messages):
        usage = message.usage
        if usage is not None and usage.input_tokens and message.at > conversation.beginning_changed_at:
            return size + usage.input_tokens + usage.output_tokens
        size += estimate_message_tokens(message)
    return size + estimate_text_tokens(request.system) + sum(map(estimate_tool_tokens, request.tools))


class TokenCalibration(Struct, frozen=True):
    """Ratio of the provider's last token count to our estimate of the same request; 1 until there is one."""

    ratio: float = 1.0

    def update(self, estimated: int, usage: Usage | None) -> "TokenCalibration":
        """Return a calibration from the *usage* that was reported for a request of *estimated* tokens.

        The ratio is kept between 0.5 and 2, whatever the provider reports.
        """
        if usage is None or usage.input_tokens <= 0 or estimated <= 0:
            return self
        return TokenCalibration(min(max(usage.input_tokens / estimated, _MIN_RATIO), _MAX_RATIO))

    def apply(self, estimated: int) -> int:
        """Return the calibrated number of tokens."""
        return round(estimated * self.ratio)
