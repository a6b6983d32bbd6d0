"""Content that a page sends: the text of a message that it proposes, and its context for the model."""

from typing import Any, cast

from mcphost.errors import MalformedMessage
from mcphost.host.app_pages.page_bridge import PageRequestRejected, decode_params
from mcphost.host.page_contexts import CONTEXT_LIMIT
from mcphost.protocol.base import Annotations
from mcphost.protocol.jsonrpc import INVALID_PARAMS
from mcphost.serialization import Raw, WireStruct, convert, dumps

MESSAGE_LIMIT = 20_000
MAX_BLOCKS = 100


class _TextBlock(WireStruct, frozen=True):
    type: str
    text: str = ""
    annotations: Annotations | None = None

    @property
    def is_for_model(self) -> bool:
        audience = self.annotations.audience if self.annotations is not None else ()
        return "assistant" in audience or "user" not in audience


class _MessageParams(WireStruct, frozen=True):
    role: str
    content: Any


class _ContextParams(WireStruct, frozen=True):
    content: list[Any] | None = None
    structured_content: dict[str, Any] | None = None


def read_message(params: Raw) -> str:
    """Return the text of a `ui/message` request.

    Raises PageRequestRejected if the text is empty or too long, or if the message is not text with the role "user".
    """
    proposed = decode_params(params, _MessageParams)
    content = cast("list[Any]", proposed.content) if isinstance(proposed.content, list) else [proposed.content]
    blocks = _read_blocks(content) if proposed.role == "user" else None
    text = "\n".join(block.text for block in blocks) if blocks is not None else ""
    if not text.strip():
        raise PageRequestRejected("Only a text with the role user is supported.", INVALID_PARAMS)
    if len(text) > MESSAGE_LIMIT:
        raise PageRequestRejected(f"The message is over {MESSAGE_LIMIT:,} characters.", INVALID_PARAMS)
    return text


def read_context(params: Raw) -> str:
    """Return the text of a `ui/update-model-context` request; "" if the page has no context.

    Structured content is added as JSON, after the text blocks. Raises PageRequestRejected if the context is too long,
    or if it contains anything other than text blocks and structured content.
    """
    given = decode_params(params, _ContextParams)
    blocks = _read_blocks(given.content or [])
    if blocks is None:
        raise PageRequestRejected("Only texts and structured content are supported.", INVALID_PARAMS)
    texts = [block.text for block in blocks if block.is_for_model]
    if given.structured_content:
        texts.append(dumps(given.structured_content))
    text = "\n".join(texts)
    if len(text.encode("utf-8", "replace")) > CONTEXT_LIMIT:
        raise PageRequestRejected(f"The context is over {CONTEXT_LIMIT // 1024} kB.", INVALID_PARAMS)
    return text


def _read_blocks(content: list[Any]) -> list[_TextBlock] | None:
    """Return the text blocks in *content*, or None if it contains other blocks or too many."""
    try:
        blocks = [convert(block, _TextBlock) for block in content[: MAX_BLOCKS + 1]]
    except MalformedMessage:
        return None
    return blocks if len(blocks) <= MAX_BLOCKS and all(block.type == "text" for block in blocks) else None
