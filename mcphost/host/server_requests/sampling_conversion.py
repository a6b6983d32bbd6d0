"""Conversion of sampling requests and replies between MCP content and messages for the model."""

import re
from collections.abc import Container, Iterator
from itertools import chain, count
from typing import Any, Literal

from mcphost.errors import MalformedMessage
from mcphost.host.content_rendering import render_block
from mcphost.host.structured_content import remove_base64
from mcphost.llm.messages import ImagePart, Message, Part, TextPart, ToolReturnPart, ToolUsePart
from mcphost.llm.model import ModelFacts, ModelRequest, ToolSpec
from mcphost.protocol.base import is_set
from mcphost.protocol.content import AudioContent, ImageContent, TextContent
from mcphost.protocol.sampling import (
    MAX_TOOLS,
    SamplingMessage,
    ToolResultContent,
    ToolUseContent,
)
from mcphost.protocol.server_requests import CreateMessage
from mcphost.protocol.tools import Tool
from mcphost.serialization import Raw, Struct, as_object, decode, find_member, loads_or_none

MAX_STOP_SEQUENCES = 16
MAX_STOP_LENGTH = 1_000
"""Maximum characters of all stop sequences together; the review shows them whole."""
MAX_ID = 512
NAME_LIMIT = 64
_FORBIDDEN = re.compile(r"[^a-zA-Z0-9_-]+")
PROVIDER_ID_KEY = "mcphost/provider-id"
"""The key in a tool use's `_meta` under which the provider's id is returned in the next request."""
SamplingToolChoice = Literal["auto", "required", "none"]


class SamplingRequest(Struct, frozen=True, kw_only=True):
    """A validated sampling request; `tool_names` maps the tool names that the model sees to the server's own."""

    request: ModelRequest
    tools_raw: tuple[Raw, ...]
    tool_names: dict[str, str]
    tool_choice: SamplingToolChoice
    stop_sequences: tuple[str, ...]
    audio_count: int
    tool_result_ids: frozenset[str] = frozenset()
    """The ids of the tool calls whose results the request contains."""

    @property
    def system(self) -> str:
        """The system prompt from the server, "" for none."""
        return self.request.system

    @property
    def max_tokens(self) -> int:
        """The maximum number of tokens in the model's response."""
        return self.request.max_output_tokens

    def unsupported_content(self, facts: ModelFacts) -> Iterator[str]:
        """Yield a phrase for each kind of content that the model described by *facts* cannot process.

        The phrases follow "sent the model", for example "images, which this model does not support.".
        """
        if self.audio_count:
            yield "audio, which is not supported."
        if facts.supports_images is False and any(
            isinstance(part, ImagePart) for message in self.request.messages for part in message.parts
        ):
            yield "images, which this model does not support."


def parse_sampling_request(
    wire_request: CreateMessage,
    messages: tuple[SamplingMessage, ...],
    choice: SamplingToolChoice,
    issued_ids: Container[str] = frozenset(),
) -> SamplingRequest:
    """Convert a server's sampling request to a request for the model.

    *messages* and *choice* are the decoded messages and tool choice of the request. Raises MalformedMessage for
    invalid tools or stop sequences.

    *issued_ids* are the ids that the model's provider gave to tool calls in earlier responses, which were sent to
    this server. Any other id in *messages* is dropped: a server could hide text for the model in an id, because the
    user does not see ids when reviewing the request.
    """
    raws = (
        decode(wire_request.tools, tuple[Raw, ...], "list of tools of the sampling request")
        if is_set(wire_request.tools)
        else ()
    )
    if len(raws) > MAX_TOOLS:
        raise MalformedMessage(f"The sampling request has {len(raws)} tools; at most {MAX_TOOLS} are allowed.")
    tools = [decode(raw, Tool, "tool of the sampling request") for raw in raws]
    names = _unique_names([tool.name for tool in tools])
    specs = tuple(
        ToolSpec(name, (tool.description or tool.title or "")[:8192], tool.input_schema)
        for (name, _), tool in zip(names.items(), tools, strict=True)
    )
    stops = wire_request.stop_sequences
    if len(stops) > MAX_STOP_SEQUENCES or sum(map(len, stops)) > MAX_STOP_LENGTH:
        raise MalformedMessage(
            f"The sampling request has more than {MAX_STOP_SEQUENCES} stop sequences, or more than "
            f"{MAX_STOP_LENGTH:,} characters in them."
        )
    request = ModelRequest(
        messages=tuple(_convert_messages(messages, {server: name for name, server in names.items()}, issued_ids)),
        system=wire_request.system_prompt or "",
        tools=specs,
        max_output_tokens=int(min(wire_request.max_tokens, 1e9)),
        tool_choice=choice if specs else "auto",
        temperature=wire_request.temperature,
    )
    audio_count = sum(isinstance(block, AudioContent) for message in messages for block in message.blocks)
    tool_result_ids = frozenset(result.tool_use_id for message in messages for result in message.tool_results)
    return SamplingRequest(
        request=request,
        tools_raw=raws,
        tool_names=names,
        tool_choice=choice,
        stop_sequences=wire_request.stop_sequences,
        audio_count=audio_count,
        tool_result_ids=tool_result_ids,
    )


def _unique_names(server_names: list[str]) -> dict[str, str]:
    """Return a mapping from tool names for the model, which are unique and valid, to the server's tool names.

    Raises MalformedMessage if the server uses a name twice.
    """
    if len(set(server_names)) != len(server_names):
        raise MalformedMessage("The sampling request has two tools of the same name.")
    names: dict[str, str] = {}
    for number, name in enumerate(server_names, 1):
        clean = _FORBIDDEN.sub("_", name)[: NAME_LIMIT - 5] or "tool"
        numbered = (f"{clean}_{later}" for later in count(number))  # a server may have chosen the first of these names
        names[next(one for one in chain([clean] if clean == name else [], numbered) if one not in names)] = name
    return names


def _convert_messages(
    messages: tuple[SamplingMessage, ...], names: dict[str, str], issued_ids: Container[str]
) -> Iterator[Message]:
    """Convert the messages for the model; tool calls get new ids, because providers do not accept every id.

    *names* maps the server's tool names to the names for the model. See `parse_sampling_request` for *issued_ids*.
    """
    ids: dict[str, ToolUsePart] = {}
    for message in messages:
        if message.tool_results:
            yield Message(role="tool", parts=tuple(_make_tool_return(result, ids) for result in message.tool_results))
            continue
        parts: list[Part] = []
        for block in message.blocks:
            if isinstance(block, ToolUseContent):
                name = names.get(block.name) or _FORBIDDEN.sub("_", block.name)[:NAME_LIMIT] or "tool"
                provider_id = _provider_id(block.meta)
                use = ToolUsePart(
                    f"call_{len(ids) + 1}",
                    name,
                    block.input,
                    provider_id=provider_id if provider_id in issued_ids else "",
                )
                ids[block.id] = use
                parts.append(use)
            elif not isinstance(block, ToolResultContent):
                parts.append(_convert_block(block, message.role))
        yield Message(role=message.role, parts=tuple(parts))


def _convert_block(block: TextContent | ImageContent | AudioContent, role: str) -> Part:
    if isinstance(block, TextContent):
        return TextPart(block.text)
    text, image = render_block(block)
    # Providers accept images of the user only; anything else becomes text, so that nothing is lost.
    return image if image is not None and role == "user" else TextPart(text)


def _make_tool_return(result: ToolResultContent, ids: dict[str, ToolUsePart]) -> ToolReturnPart:
    use = ids[result.tool_use_id]
    rendered = [render_block(block) for block in result.parse_blocks()]
    lines = [text for text, _ in rendered]
    if not lines and is_set(result.structured_content):
        lines = [remove_base64(bytes(result.structured_content).decode("utf-8", "replace"))]
    images = tuple(image for _, image in rendered if image is not None)
    return ToolReturnPart(use.id, use.name, "\n".join(lines), result.is_error, images=images)


def _provider_id(meta: Raw) -> str:
    provider_id = find_member(loads_or_none(meta), (PROVIDER_ID_KEY,)) if is_set(meta) else None
    return provider_id if isinstance(provider_id, str) else ""


def reply_blocks(text: str, tool_uses: tuple[ToolUsePart, ...], request: SamplingRequest) -> tuple[dict[str, Any], ...]:
    """Return the model's response as MCP content blocks, with the tool names from the server's request."""
    blocks: list[dict[str, Any]] = [{"type": "text", "text": text}] if text or not tool_uses else []
    for use in tool_uses:
        block: dict[str, Any] = {
            "type": "tool_use",
            "id": use.id,
            "name": request.tool_names.get(use.name, use.name),
            "input": use.arguments if use.arguments is not None else {"not_valid_json": use.raw[:2000]},
        }
        if 0 < len(use.provider_id) <= MAX_ID:
            block["_meta"] = {PROVIDER_ID_KEY: use.provider_id}
        blocks.append(block)
    return tuple(blocks)


def issued_ids(blocks: tuple[dict[str, Any], ...]) -> Iterator[str]:
    """Yield the ids that the model's provider gave to the tool calls in a reply to a server.

    *blocks* are the content blocks of the reply.
    """
    for block in blocks:
        meta = block.get("_meta") if block.get("type") == "tool_use" else None
        provider_id = as_object(meta).get(PROVIDER_ID_KEY)
        if isinstance(provider_id, str) and 0 < len(provider_id) <= MAX_ID:
            yield provider_id
