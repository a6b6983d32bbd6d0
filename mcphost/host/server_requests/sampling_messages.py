"""A sampling request as what the model takes, and the model's answer as what the server takes."""

import re
from collections.abc import Container, Iterator
from typing import Any, Literal, cast

from mcphost.errors import MalformedMessage
from mcphost.host.results.presentation import render_block
from mcphost.host.results.structured_content import without_base64
from mcphost.llm.messages import ImagePart, Message, Part, TextPart, ToolReturnPart, ToolUsePart
from mcphost.llm.model import ModelFacts, ModelRequest, ToolSpec
from mcphost.protocol.base import is_set
from mcphost.protocol.content import AudioBlock, ImageBlock, TextBlock
from mcphost.protocol.sampling import MAX_TOOLS, SamplingMessage, ToolAnswer, ToolUse
from mcphost.protocol.server_requests import CreateMessage
from mcphost.protocol.tools import Tool
from mcphost.serialization import Data, Raw, decode, loads

MAX_STOPS = 16
MAX_STOP = 1_000
MAX_ID = 512
NAME_LIMIT = 64
_FORBIDDEN = re.compile(r"[^a-zA-Z0-9_-]+")
PROVIDER = "mcphost/provider-id"
"""The member of a tool use's `_meta` that carries the provider's own id to the next round."""
Choice = Literal["auto", "required", "none"]


class Asked(Data, frozen=True, kw_only=True):
    """A request, checked and ready for a model. `names` maps model-facing tool names to the server's."""

    request: ModelRequest
    tools_raw: tuple[Raw, ...]
    names: dict[str, str]
    choice: Choice
    stop: tuple[str, ...]
    sounds: int
    answered: frozenset[str] = frozenset()
    """The ids of tool calls whose results are in it."""

    @property
    def system(self) -> str:
        """The server's own system prompt."""
        return self.request.system

    @property
    def max_tokens(self) -> int:
        """The most the model may write."""
        return self.request.max_output_tokens

    def left_out(self, facts: ModelFacts) -> Iterator[str]:
        """What that model cannot take of it, in words that go on from "sent the model"."""
        if self.sounds:
            yield "sound, which no model here can hear."
        if facts.takes_images is False and any(
            isinstance(part, ImagePart) for message in self.request.messages for part in message.parts
        ):
            yield "pictures, which this model does not see."


def asked_of(
    ask: CreateMessage, messages: tuple[SamplingMessage, ...], choice: Choice, issued: Container[str] = frozenset()
) -> Asked:
    """The request for the model. Raises MalformedMessage for tools or stop sequences that cannot be.

    `issued` are the provider's ids that this server was given; another one would be text of the server's that the
    model reads and the review does not show.
    """
    raws = decode(ask.tools, tuple[Raw, ...], "tools of the sampling request") if is_set(ask.tools) else ()
    if len(raws) > MAX_TOOLS:
        raise MalformedMessage(f"The sampling request has {len(raws)} tools; at most {MAX_TOOLS} are taken.")
    tools = [decode(raw, Tool, "tool of the sampling request") for raw in raws]
    names = _names([tool.name for tool in tools])
    specs = tuple(
        ToolSpec(name, (tool.description or tool.title or "")[:8192], tool.input_schema)
        for (name, _), tool in zip(names.items(), tools, strict=True)
    )
    if len(ask.stop_sequences) > MAX_STOPS or any(len(stop) > MAX_STOP for stop in ask.stop_sequences):
        raise MalformedMessage(f"The sampling request has more than {MAX_STOPS} stop sequences, or too long ones.")
    request = ModelRequest(
        messages=tuple(_messages(messages, {server: name for name, server in names.items()}, issued)),
        system=ask.system_prompt or "",
        tools=specs,
        max_output_tokens=int(min(ask.max_tokens, 1e9)),
        tool_choice=choice if specs else "auto",
        temperature=ask.temperature,
    )
    sounds = sum(isinstance(block, AudioBlock) for message in messages for block in message.blocks)
    answered = frozenset(answer.tool_use_id for message in messages for answer in message.answers)
    return Asked(
        request=request, tools_raw=raws, names=names, choice=choice, stop=ask.stop_sequences, sounds=sounds,
        answered=answered,
    )  # fmt: skip


def _names(wire: list[str]) -> dict[str, str]:
    """Names that every provider takes, to the server's own. Raises MalformedMessage for two tools of one name."""
    if len(set(wire)) != len(wire):
        raise MalformedMessage("The sampling request has two tools of the same name.")
    names: dict[str, str] = {}
    for number, name in enumerate(wire, 1):
        plain = _FORBIDDEN.sub("_", name)[: NAME_LIMIT - 5] or "tool"
        names[plain if plain == name and plain not in names else f"{plain}_{number}"] = name
    return names


def _messages(
    messages: tuple[SamplingMessage, ...], names: dict[str, str], issued: Container[str]
) -> Iterator[Message]:
    """Ids of tool uses are made anew: the server's could be anything, and providers are choosy."""
    ids: dict[str, ToolUsePart] = {}
    for message in messages:
        if message.answers:
            yield Message(role="tool", parts=tuple(_returned(answer, ids) for answer in message.answers))
            continue
        parts: list[Part] = []
        for block in message.blocks:
            if isinstance(block, ToolUse):
                name = names.get(block.name) or _FORBIDDEN.sub("_", block.name)[:NAME_LIMIT] or "tool"
                theirs = _provider_id(block.meta)
                use = ToolUsePart(
                    f"call_{len(ids) + 1}", name, block.input, provider_id=theirs if theirs in issued else ""
                )
                ids[block.id] = use
                parts.append(use)
            elif not isinstance(block, ToolAnswer):
                parts.append(_part(block, message.role))
        yield Message(role=message.role, parts=tuple(parts))


def _part(block: TextBlock | ImageBlock | AudioBlock, role: str) -> Part:
    if isinstance(block, TextBlock):
        return TextPart(block.text)
    text, image = render_block(block)
    # Providers take pictures of the user only; everything else is named, so that nothing vanishes unsaid.
    return image if image is not None and role == "user" else TextPart(text)


def _returned(answer: ToolAnswer, ids: dict[str, ToolUsePart]) -> ToolReturnPart:
    use = ids[answer.tool_use_id]
    rendered = [render_block(block) for block in answer.blocks()]
    lines = [text for text, _ in rendered]
    if not lines and is_set(answer.structured_content):
        lines = [without_base64(bytes(answer.structured_content).decode("utf-8", "replace"))]
    images = tuple(image for _, image in rendered if image is not None)
    return ToolReturnPart(use.id, use.name, "\n".join(lines), answer.is_error, images=images)


def _provider_id(meta: Raw) -> str:
    try:
        value: Any = loads(meta) if is_set(meta) else None
    except MalformedMessage:
        return ""
    found = value.get(PROVIDER) if isinstance(value, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    return found if isinstance(found, str) else ""


def reply_blocks(text: str, uses: tuple[ToolUsePart, ...], asked: Asked) -> tuple[dict[str, Any], ...]:
    """The answer as content blocks; calls carry the names the server gave its tools."""
    blocks: list[dict[str, Any]] = [{"type": "text", "text": text}] if text or not uses else []
    for use in uses:
        block: dict[str, Any] = {
            "type": "tool_use",
            "id": use.id,
            "name": asked.names.get(use.name, use.name),
            "input": use.arguments if use.arguments is not None else {"not_valid_json": use.raw[:2000]},
        }
        if 0 < len(use.provider_id) <= MAX_ID:
            block["_meta"] = {PROVIDER: use.provider_id}
        blocks.append(block)
    return tuple(blocks)


def issued_ids(blocks: tuple[dict[str, Any], ...]) -> Iterator[str]:
    """The provider's ids that a server gets with these blocks."""
    for block in blocks:
        meta = block.get("_meta") if block.get("type") == "tool_use" else None
        found = cast("dict[str, Any]", meta).get(PROVIDER) if isinstance(meta, dict) else None
        if isinstance(found, str) and 0 < len(found) <= MAX_ID:
            yield found
