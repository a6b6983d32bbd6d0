"""Conversion of a server's prompt to conversation messages, with roles and all kinds of content."""

from collections.abc import Sequence
from functools import partial

import anyio.to_thread

from mcphost.errors import UsageError
from mcphost.host.conversation.resource_attachments import make_resource_attachments
from mcphost.host.results.presentation import render_block, truncate_text
from mcphost.llm.messages import Message, Part, PromptSource, ResourcePart, Role, TextPart
from mcphost.llm.model import ModelFacts
from mcphost.protocol.content import (
    AudioContent,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    ResourceContents,
    TextContent,
)
from mcphost.protocol.prompts import GetPromptResult, PromptMessage
from mcphost.sanitize import strip_hidden_text
from mcphost.serialization import replace

MAX_PROMPT_MESSAGES = 100
MAX_PROMPT_SIZE = 20 * 1024 * 1024
"""The maximum size of all messages together, as JSON in bytes."""


async def make_prompt_messages(
    server: str, name: str, result: GetPromptResult, facts: ModelFacts
) -> tuple[Message, ...]:
    """Return the prompt's messages; media that the model does not accept are replaced with a note.

    *facts* describe the model. Blocks, so call it on a thread. Raises UsageError if there are no messages, or if they
    are too many or too large.
    """
    size = sum(len(bytes(message.content)) for message in result.messages)
    if not result.messages:
        raise UsageError(f"The prompt {name!r} of {server!r} is empty.")
    if len(result.messages) > MAX_PROMPT_MESSAGES:
        raise UsageError(
            f"The prompt {name!r} of {server!r} has {len(result.messages):,} messages; at most "
            f"{MAX_PROMPT_MESSAGES} can be inserted."
        )
    if size > MAX_PROMPT_SIZE:
        raise UsageError(
            f"The prompt {name!r} of {server!r} has {size:,} bytes; at most {MAX_PROMPT_SIZE:,} can be inserted."
        )
    return await anyio.to_thread.run_sync(partial(_convert, PromptSource(server, name), result.messages, facts))


def is_plain_text(messages: Sequence[Message]) -> bool:
    """Return whether the messages are a single user message of text, which the user can edit."""
    return (
        len(messages) == 1
        and messages[0].role == "user"
        and all(isinstance(one, TextPart) for one in messages[0].parts)
    )


def _convert(source: PromptSource, messages: Sequence[PromptMessage], facts: ModelFacts) -> tuple[Message, ...]:
    # Any other role than the two of the specification counts as the user's, which has no more weight.
    roles: list[Role] = ["assistant" if one.role == "assistant" else "user" for one in messages]
    return tuple(
        Message(role=role, parts=(_convert_block(source, one.parse_content(), facts),), prompt=source)
        for role, one in zip(roles, messages, strict=True)
    )


def _convert_block(source: PromptSource, block: ContentBlock, facts: ModelFacts) -> Part:
    match block:
        case TextContent():
            return TextPart(_clean(block.text))
        case ImageContent() | AudioContent():
            kind = "image" if isinstance(block, ImageContent) else "audio"
            contents = ResourceContents(uri=f"{kind} of {source.name}", mime_type=block.mime_type, blob=block.data)
        case EmbeddedResource():
            contents = block.resource
        case _:  # a link stays a link; the model is told its address
            return TextPart(_clean(render_block(block)[0]))
    (attachment,) = make_resource_attachments(source.server, (contents,), facts)
    part = attachment.part
    return replace(part, text=_clean(part.text)) if isinstance(part, ResourcePart) else part


def _clean(text: str) -> str:
    return strip_hidden_text(truncate_text(text))
