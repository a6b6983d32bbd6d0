"""The messages of sampling: their blocks, who may say what, and that every tool use is answered right after it.

Specification: client/sampling (messages, tool result messages, tool use and result balance).
"""

from typing import Any, Literal, cast

from mcphost.errors import MalformedMessage
from mcphost.protocol.base import is_set
from mcphost.protocol.content import (
    AudioContent,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    parse_content_block,
)
from mcphost.serialization import Raw, Struct, WireStruct, decode, field

MAX_MESSAGES = 1_000
MAX_BLOCKS = 1_000
MAX_TOOLS = 128


class ToolUseContent(WireStruct, frozen=True, tag="tool_use"):
    """The model called one of the request's tools; the server runs it. `meta` goes back as it came."""

    id: str
    name: str
    input: dict[str, Any]
    meta: Raw = field(default=Raw(), name="_meta")


class ToolResultContent(WireStruct, frozen=True, tag="tool_result"):
    """What the server's tool gave back for one tool use."""

    tool_use_id: str
    content: tuple[Raw, ...] = ()
    structured_content: Raw = Raw()
    is_error: bool = False

    def parse_blocks(self) -> tuple[ContentBlock, ...]:
        """The content, unknown kinds included."""
        return tuple(parse_content_block(raw) for raw in self.content)


class ToolChoice(WireStruct, frozen=True):
    """How free the model is to use tools."""

    mode: str = "auto"


SamplingContentBlock = TextContent | ImageContent | AudioContent | ToolUseContent | ToolResultContent
_TOOL_CONTENT = cast("type[ToolUseContent | ToolResultContent]", ToolUseContent | ToolResultContent)


class _RawMessage(WireStruct, frozen=True):
    role: str
    content: Raw


class SamplingMessage(Struct, frozen=True):
    """One message, its content always as a sequence."""

    role: Literal["user", "assistant"]
    blocks: tuple[SamplingContentBlock, ...]

    @property
    def tool_uses(self) -> tuple[ToolUseContent, ...]:
        """The calls in it."""
        return tuple(one for one in self.blocks if isinstance(one, ToolUseContent))

    @property
    def tool_results(self) -> tuple[ToolResultContent, ...]:
        """The results in it."""
        return tuple(one for one in self.blocks if isinstance(one, ToolResultContent))


def parse_sampling_messages(raws: tuple[Raw, ...]) -> tuple[SamplingMessage, ...]:
    """The messages. Raises MalformedMessage naming the one that is not what the specification says."""
    if not raws:
        raise MalformedMessage("A sampling request needs at least one message.")
    if len(raws) > MAX_MESSAGES:
        raise MalformedMessage(f"The sampling request has {len(raws)} messages; at most {MAX_MESSAGES} are taken.")
    found = tuple(_parse_message(raw, number) for number, raw in enumerate(raws, 1))
    _check_tool_results(found)
    return found


def parse_sampling_content(raw: Raw, where: str) -> tuple[SamplingContentBlock, ...]:
    """One block or an array of them. Raises MalformedMessage."""
    body = bytes(raw).lstrip()
    parts = decode(body, tuple[Raw, ...], where) if body[:1] == b"[" else (Raw(body),)
    if not 0 < len(parts) <= MAX_BLOCKS:
        raise MalformedMessage(f"The {where} has {len(parts)} blocks; 1 to {MAX_BLOCKS} are taken.")
    return tuple(_parse_block(part, where) for part in parts)


def _parse_message(raw: Raw, number: int) -> SamplingMessage:
    where = f"content of sampling message {number}"
    message = decode(raw, _RawMessage, f"sampling message {number}")
    match message.role:
        case "user" | "assistant" as role:
            made = SamplingMessage(role, parse_sampling_content(message.content, where))
        case _:
            raise MalformedMessage(f"Sampling message {number} is of the role {message.role[:40]!r}.")
    if made.tool_uses and role != "assistant":
        raise MalformedMessage(f"Sampling message {number} uses tools, and is not the assistant's.")
    if made.tool_results and (role != "user" or len(made.tool_results) != len(made.blocks)):
        raise MalformedMessage(
            f"Sampling message {number} mixes tool results with something else, or is not the user's."
        )
    return made


def _parse_block(raw: Raw, where: str) -> SamplingContentBlock:
    known = parse_content_block(raw)
    if isinstance(known, TextContent | ImageContent | AudioContent):
        return known
    if isinstance(known, ResourceLink | EmbeddedResource):
        raise MalformedMessage(f"The {where} has a resource, which sampling messages may not have.")
    if known.type in ("tool_use", "tool_result"):
        return decode(raw, _TOOL_CONTENT, where)
    raise MalformedMessage(known.error or f"The {where} has a block of the unknown kind {known.type[:40]!r}.")


def _check_tool_results(found: tuple[SamplingMessage, ...]) -> None:
    """Each message of tool uses is followed by one with exactly their results, and no result stands anywhere else."""
    for number, message in enumerate(found, 1):
        before = found[number - 2].tool_uses if number > 1 else ()
        asked = [use.id for use in before]
        given = [answer.tool_use_id for answer in message.tool_results]
        if sorted(asked) != sorted(given) or len(set(asked)) != len(asked):
            raise MalformedMessage(
                f"Sampling message {number} does not answer the tool uses before it, each exactly once."
            )
    if found[-1].tool_uses:
        raise MalformedMessage("The last sampling message uses tools whose results are missing.")


def parse_tool_choice(raw: Raw) -> Literal["auto", "required", "none"]:
    """The mode of a toolChoice; auto when there is none. Raises MalformedMessage."""
    match decode(raw, ToolChoice, "toolChoice").mode if is_set(raw) else "auto":
        case "auto" | "required" | "none" as mode:
            return mode
        case other:
            raise MalformedMessage(f"The toolChoice mode {other[:40]!r} is not known.")
