"""Breakdown of a request's estimated input tokens into system prompt, tools, results and messages."""

from collections import Counter
from collections.abc import Callable

from mcphost.llm.messages import (
    FilePart,
    ImagePart,
    Part,
    ResourcePart,
    TextPart,
    ThinkingPart,
    ToolReturnPart,
    ToolUsePart,
)
from mcphost.llm.model import ModelRequest
from mcphost.store.spending import TokenShare

_IMAGE_TOKENS = 1_500
_PART_TOKENS = 4


def estimate_tokens(text: str | bytes) -> int:
    """Estimate the tokens of a text: one for every four bytes of ASCII text, one for every three otherwise."""
    if isinstance(text, bytes) or text.isascii():
        return len(text) // 4
    return len(text.encode("utf-8", "replace")) // 3


def measure_shares(request: ModelRequest, server_of: Callable[[str], str]) -> tuple[TokenShare, ...]:
    """Return the estimated input tokens of each part of a request; parts without tokens are omitted.

    *server_of* returns the server of the tool with a model-facing name, "" for a built-in tool of mcphost.
    """
    counts: Counter[tuple[str, str, str]] = Counter({("system", "", ""): estimate_tokens(request.system)})
    for spec in request.tools:
        tokens = estimate_tokens(spec.name) + estimate_tokens(spec.description) + estimate_tokens(bytes(spec.schema))
        counts["definitions", server_of(spec.name), ""] += tokens + _PART_TOKENS
    for message in request.messages:
        for part in message.parts:
            counts[_key(part)] += _count_part(part) + _PART_TOKENS
    return tuple(TokenShare(*key, tokens) for key, tokens in counts.items() if tokens)


def _key(part: Part) -> tuple[str, str, str]:
    match part:
        case ToolReturnPart():
            return "results", part.server, part.tool or part.name
        case ResourcePart() if part.use_id:
            return "results", part.server, part.source
        case ResourcePart():
            return "attachments", part.server, ""
        case ImagePart() | FilePart():
            return "attachments", part.server, ""
        case _:
            return "messages", "", ""


def _count_part(part: Part) -> int:
    match part:
        case TextPart():
            return estimate_tokens(part.text)
        case ThinkingPart():
            return estimate_tokens(part.replay or part.text)
        case ToolUsePart():
            return estimate_tokens(part.name) + estimate_tokens(part.raw or str(part.arguments or ""))
        case ToolReturnPart():
            return estimate_tokens(part.text) + _IMAGE_TOKENS * len(part.images)
        case ResourcePart():
            return estimate_tokens(part.text)
        case ImagePart():
            return _IMAGE_TOKENS
        case FilePart():
            return max(_IMAGE_TOKENS, len(part.data) // 50)
