"""Token shares: estimates of how many input tokens each part of a model request takes."""

from collections import Counter
from collections.abc import Callable, Iterator

from mcphost.llm.messages import FilePart, ImagePart, Message, Part, ResourcePart, ToolReturnPart
from mcphost.llm.model import ModelRequest, TokenShare
from mcphost.llm.token_estimate import (
    MESSAGE_TOKENS,
    MessageCache,
    estimate_parts,
    estimate_text_tokens,
    estimate_tool_tokens,
)


def measure_shares(request: ModelRequest, server_of: Callable[[str], str]) -> tuple[TokenShare, ...]:
    """Return the estimated input tokens of each part of a request; parts without tokens are omitted.

    *server_of* returns the server of a tool, given the name that the model uses for it, or "" for a built-in tool.
    """
    counts: Counter[tuple[str, str, str]] = Counter({("system", "", ""): estimate_text_tokens(request.system)})
    for spec in request.tools:
        counts["definitions", server_of(spec.name), ""] += estimate_tool_tokens(spec)
    for message in request.messages:
        for share in _message_shares.get(message):
            counts[share.kind, share.server, share.tool] += share.tokens
    return tuple(TokenShare(*key, tokens) for key, tokens in counts.items() if tokens)


def _measure_message(message: Message) -> tuple[TokenShare, ...]:
    counts: Counter[tuple[str, str, str]] = Counter()
    for key, tokens in _iter_parts(message):
        counts[key] += tokens
    return tuple(TokenShare(*key, tokens) for key, tokens in counts.items())


_message_shares = MessageCache(_measure_message)


def _iter_parts(message: Message) -> Iterator[tuple[tuple[str, str, str], int]]:
    extra = MESSAGE_TOKENS  # for the message as a whole, counted with its first part
    for part, tokens in zip(message.parts, estimate_parts(message), strict=True):
        yield _key(part), tokens + extra
        extra = 0


def _key(part: Part) -> tuple[str, str, str]:
    match part:
        case ResourcePart() if part.use_id:
            return "results", part.server, part.source
        case ToolReturnPart():
            return "results", part.server, part.tool or part.name
        case ResourcePart() | ImagePart() | FilePart():
            return "attachments", part.server, ""
        case _:
            return "messages", "", ""
