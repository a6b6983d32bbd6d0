"""Messages in sampling requests: content blocks, roles, and checks that each tool use has a result.

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
    """A tool call by the model in a sampling conversation; the server runs the tool.

    `meta` is returned to the server unchanged.
    """

    id: str
    name: str
    input: dict[str, Any]
    meta: Raw = field(default=Raw(), name="_meta")


class ToolResultContent(WireStruct, frozen=True, tag="tool_result"):
    """The result of a tool call in a sampling conversation, sent by the server."""

    tool_use_id: str
    content: tuple[Raw, ...] = ()
    structured_content: Raw = Raw()
    is_error: bool = False

    def parse_blocks(self) -> tuple[ContentBlock, ...]:
        """Decode the content blocks; unknown or invalid blocks become UnknownContent."""
        return tuple(parse_content_block(raw) for raw in self.content)


class ToolChoice(WireStruct, frozen=True):
    """The `toolChoice` of a sampling request: whether the model may use tools, must use one, or must not."""

    mode: str = "auto"


SamplingContentBlock = TextContent | ImageContent | AudioContent | ToolUseContent | ToolResultContent
_TOOL_CONTENT = cast("type[ToolUseContent | ToolResultContent]", ToolUseContent | ToolResultContent)


class _RawMessage(WireStruct, frozen=True):
    role: str
    content: Raw


class SamplingMessage(Struct, frozen=True):
    """A message in a sampling request; `content` is a tuple even if there is only one block."""

    role: Literal["user", "assistant"]
    blocks: tuple[SamplingContentBlock, ...]

    @property
    def tool_uses(self) -> tuple[ToolUseContent, ...]:
        """The tool uses in the message."""
        return tuple(one for one in self.blocks if isinstance(one, ToolUseContent))

    @property
    def tool_results(self) -> tuple[ToolResultContent, ...]:
        """The tool results in the message."""
        return tuple(one for one in self.blocks if isinstance(one, ToolResultContent))


def parse_sampling_messages(raws: tuple[Raw, ...]) -> tuple[SamplingMessage, ...]:
    """Decode the messages of a sampling request, and check that each tool use has a result.

    Raises MalformedMessage.
    """
    if not raws:
        raise MalformedMessage("A sampling request needs at least one message.")
    if len(raws) > MAX_MESSAGES:
        raise MalformedMessage(f"The sampling request has {len(raws)} messages; at most {MAX_MESSAGES} are allowed.")
    messages = tuple(_parse_message(raw, number) for number, raw in enumerate(raws, 1))
    _check_tool_results(messages)
    return messages


def parse_sampling_content(raw: Raw, where: str) -> tuple[SamplingContentBlock, ...]:
    """Decode content that is either one block or an array of blocks. Raises MalformedMessage.

    *where* describes the content in error messages.
    """
    body = bytes(raw).lstrip()
    parts = decode(body, tuple[Raw, ...], where) if body[:1] == b"[" else (Raw(body),)
    if not 0 < len(parts) <= MAX_BLOCKS:
        raise MalformedMessage(f"The {where} has {len(parts)} blocks; 1 to {MAX_BLOCKS} are allowed.")
    return tuple(_parse_block(part, where) for part in parts)


def _parse_message(raw: Raw, number: int) -> SamplingMessage:
    where = f"content of sampling message {number}"
    message = decode(raw, _RawMessage, f"sampling message {number}")
    match message.role:
        case "user" | "assistant" as role:
            made = SamplingMessage(role, parse_sampling_content(message.content, where))
        case _:
            raise MalformedMessage(f"Sampling message {number} has the role {message.role[:40]!r}.")
    if made.tool_uses and role != "assistant":
        raise MalformedMessage(f"Sampling message {number} uses tools but does not have the role assistant.")
    if made.tool_results and (role != "user" or len(made.tool_results) != len(made.blocks)):
        raise MalformedMessage(
            f"Sampling message {number} mixes tool results with other content, or does not have the role user."
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


def _check_tool_results(messages: tuple[SamplingMessage, ...]) -> None:
    """Check that each message with tool uses is followed by a message with exactly their results.

    Raises MalformedMessage if results are missing, duplicated, or do not belong to the tool uses in the preceding
    message.
    """
    for number, message in enumerate(messages, 1):
        before = messages[number - 2].tool_uses if number > 1 else ()
        expected_ids = [use.id for use in before]
        result_ids = [answer.tool_use_id for answer in message.tool_results]
        if sorted(expected_ids) != sorted(result_ids) or len(set(expected_ids)) != len(expected_ids):
            raise MalformedMessage(f"Sampling message {number} must answer each preceding tool use exactly once.")
    if messages[-1].tool_uses:
        raise MalformedMessage("The last sampling message uses tools whose results are missing.")


def parse_tool_choice(raw: Raw) -> Literal["auto", "required", "none"]:
    """Return the mode of a `toolChoice`; "auto" if *raw* is absent. Raises MalformedMessage."""
    match decode(raw, ToolChoice, "toolChoice member").mode if is_set(raw) else "auto":
        case "auto" | "required" | "none" as mode:
            return mode
        case other:
            raise MalformedMessage(f"The toolChoice mode {other[:40]!r} is unknown.")
