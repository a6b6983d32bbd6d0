"""Conversion of an MCP prompt to conversation messages, preserving roles and all kinds of content."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from itertools import islice

from mcphost.errors import UsageError
from mcphost.host.content_rendering import render_block, truncate_text
from mcphost.host.conversation.attachment_fitting import AttachmentFitter
from mcphost.host.conversation.resource_attachments import make_resource_attachments
from mcphost.llm.messages import Message, Part, PromptSource, ResourcePart, Role, TextPart
from mcphost.llm.model import ModelFacts
from mcphost.protocol.content import (
    AudioContent,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    ResourceContents,
    ResourceLink,
    TextContent,
)
from mcphost.protocol.prompts import GetPromptResult, PromptMessage
from mcphost.protocol.resources import ReadResourceResult
from mcphost.sanitize import strip_hidden_text
from mcphost.serialization import replace
from mcphost.threads import run_in_thread

MAX_PROMPT_MESSAGES = 100
MAX_PROMPT_SIZE = 20 * 1024 * 1024
"""The maximum size of all messages together, as JSON in bytes."""
MAX_LINKS = 20
MAX_CONTENTS = 20
"""Maximum number of content items that are read from a linked resource."""

ReadResourceFn = Callable[[str, str], Awaitable[ReadResourceResult]]
"""Reads a resource, given the name of a server and a URI."""


async def make_prompt_messages(
    server: str, name: str, result: GetPromptResult, facts: ModelFacts, fitter: AttachmentFitter
) -> tuple[Message, ...]:
    """Return the messages of an MCP prompt; media that the model does not accept are converted or replaced with a note.

    *facts* describe the model. Raises UsageError if there are no messages, or if they are too many or too large.
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
    source = PromptSource(server, name)
    messages = await run_in_thread(partial(_convert, source, result.messages, facts))
    return tuple([replace(one, parts=await fitter.fit_parts(one.parts, facts)) for one in messages])


def find_links(result: GetPromptResult) -> dict[int, str]:
    """Return the URIs of the resources that a prompt links to, keyed by message index; at most MAX_LINKS."""
    blocks = ((at, one.parse_content()) for at, one in enumerate(result.messages[:MAX_PROMPT_MESSAGES]))
    return dict(islice(((at, block.uri) for at, block in blocks if isinstance(block, ResourceLink)), MAX_LINKS))


async def read_links(
    messages: Sequence[Message],
    links: Mapping[int, str],
    read: ReadResourceFn,
    facts: ModelFacts,
    fitter: AttachmentFitter,
) -> tuple[Message, ...]:
    """Return the messages with the contents of linked resources added.

    *links* maps the index of a message to the URI that the message links to; *read* requests a resource from a server.
    The links stay in the messages, so the model still sees the URIs. Errors raised by *read* are passed on. Raises
    UsageError if the contents are too large.
    """
    out = list(messages)
    size = 0
    for at, uri in links.items():
        source = messages[at].prompt
        if source is None:
            continue
        contents = (await read(source.server, uri)).contents[:MAX_CONTENTS]
        size += sum(len(one.text or one.blob or "") for one in contents)
        if size > MAX_PROMPT_SIZE:
            raise UsageError(
                f"The linked resources have more than {MAX_PROMPT_SIZE:,} bytes together.", "Insert only the links."
            )
        parts = await run_in_thread(partial(_convert_contents, source, contents, facts))
        out[at] = replace(messages[at], parts=(*messages[at].parts, *await fitter.fit_parts(parts, facts)))
    return tuple(out)


def is_plain_text(messages: Sequence[Message]) -> bool:
    """Return whether the prompt is a single user message that contains only text and can therefore be edited."""
    return (
        len(messages) == 1
        and messages[0].role == "user"
        and all(isinstance(one, TextPart) for one in messages[0].parts)
    )


def _convert(source: PromptSource, messages: Sequence[PromptMessage], facts: ModelFacts) -> tuple[Message, ...]:
    # A role that the specification does not define is treated as "user", which gives it no advantage.
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
        case _:  # the link is kept, so that the model receives the address
            return TextPart(_clean(render_block(block)[0]))
    (part,) = _convert_contents(source, (contents,), facts)
    return part


def _convert_contents(
    source: PromptSource, contents: Sequence[ResourceContents], facts: ModelFacts
) -> tuple[Part, ...]:
    parts = (one.part for one in make_resource_attachments(source.server, contents, facts))
    return tuple(replace(part, text=_clean(part.text)) if isinstance(part, ResourcePart) else part for part in parts)


def _clean(text: str) -> str:
    return strip_hidden_text(truncate_text(text))
