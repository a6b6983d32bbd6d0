"""The messages of sampling: their blocks, who may say what, and that every tool use is answered right after it.

Specification: client/sampling (messages, tool result messages, tool use and result balance).
"""

from typing import Any, Literal, cast

from mcphost.errors import MalformedMessage
from mcphost.protocol.base import is_set
from mcphost.protocol.content import AudioBlock, Block, EmbeddedResource, ImageBlock, ResourceLink, TextBlock, block
from mcphost.serialization import Data, Raw, Wire, decode, field

MAX_MESSAGES = 1_000
MAX_BLOCKS = 1_000
MAX_TOOLS = 128


class ToolUse(Wire, frozen=True, tag="tool_use"):
    """The model called one of the request's tools; the server runs it. `meta` goes back as it came."""

    id: str
    name: str
    input: dict[str, Any]
    meta: Raw = field(default=Raw(), name="_meta")


class ToolAnswer(Wire, frozen=True, tag="tool_result"):
    """What the server's tool gave back for one tool use."""

    tool_use_id: str
    content: tuple[Raw, ...] = ()
    structured_content: Raw = Raw()
    is_error: bool = False

    def blocks(self) -> tuple[Block, ...]:
        """The content, unknown kinds included."""
        return tuple(block(raw) for raw in self.content)


class ToolChoice(Wire, frozen=True):
    """How free the model is to use tools."""

    mode: str = "auto"


SamplingBlock = TextBlock | ImageBlock | AudioBlock | ToolUse | ToolAnswer
_TOOLS = cast("type[ToolUse | ToolAnswer]", ToolUse | ToolAnswer)


class _Message(Wire, frozen=True):
    role: str
    content: Raw


class SamplingMessage(Data, frozen=True):
    """One message, its content always as a sequence."""

    role: Literal["user", "assistant"]
    blocks: tuple[SamplingBlock, ...]

    @property
    def uses(self) -> tuple[ToolUse, ...]:
        """The calls in it."""
        return tuple(one for one in self.blocks if isinstance(one, ToolUse))

    @property
    def answers(self) -> tuple[ToolAnswer, ...]:
        """The results in it."""
        return tuple(one for one in self.blocks if isinstance(one, ToolAnswer))


def messages(raws: tuple[Raw, ...]) -> tuple[SamplingMessage, ...]:
    """The messages. Raises MalformedMessage naming the one that is not what the specification says."""
    if not raws:
        raise MalformedMessage("A sampling request needs at least one message.")
    if len(raws) > MAX_MESSAGES:
        raise MalformedMessage(f"The sampling request has {len(raws)} messages; at most {MAX_MESSAGES} are taken.")
    found = tuple(_message(raw, number) for number, raw in enumerate(raws, 1))
    _balanced(found)
    return found


def content(raw: Raw, where: str) -> tuple[SamplingBlock, ...]:
    """One block or an array of them. Raises MalformedMessage."""
    body = bytes(raw).lstrip()
    parts = decode(body, tuple[Raw, ...], where) if body[:1] == b"[" else (Raw(body),)
    if not 0 < len(parts) <= MAX_BLOCKS:
        raise MalformedMessage(f"The {where} has {len(parts)} blocks; 1 to {MAX_BLOCKS} are taken.")
    return tuple(_block(part, where) for part in parts)


def _message(raw: Raw, number: int) -> SamplingMessage:
    where = f"content of sampling message {number}"
    message = decode(raw, _Message, f"sampling message {number}")
    match message.role:
        case "user" | "assistant" as role:
            made = SamplingMessage(role, content(message.content, where))
        case _:
            raise MalformedMessage(f"Sampling message {number} is of the role {message.role[:40]!r}.")
    if made.uses and role != "assistant":
        raise MalformedMessage(f"Sampling message {number} uses tools, and is not the assistant's.")
    if made.answers and (role != "user" or len(made.answers) != len(made.blocks)):
        raise MalformedMessage(
            f"Sampling message {number} mixes tool results with something else, or is not the user's."
        )
    return made


def _block(raw: Raw, where: str) -> SamplingBlock:
    known = block(raw)
    if isinstance(known, TextBlock | ImageBlock | AudioBlock):
        return known
    if isinstance(known, ResourceLink | EmbeddedResource):
        raise MalformedMessage(f"The {where} has a resource, which sampling messages may not have.")
    if known.kind in ("tool_use", "tool_result"):
        return decode(raw, _TOOLS, where)
    raise MalformedMessage(known.fault or f"The {where} has a block of the unknown kind {known.kind[:40]!r}.")


def _balanced(found: tuple[SamplingMessage, ...]) -> None:
    """Each message of tool uses is followed by one with exactly their results, and no result stands anywhere else."""
    for number, message in enumerate(found, 1):
        before = found[number - 2].uses if number > 1 else ()
        asked = [use.id for use in before]
        given = [answer.tool_use_id for answer in message.answers]
        if sorted(asked) != sorted(given) or len(set(asked)) != len(asked):
            raise MalformedMessage(
                f"Sampling message {number} does not answer the tool uses before it, each exactly once."
            )
    if found[-1].uses:
        raise MalformedMessage("The last sampling message uses tools whose results are missing.")


def choice(raw: Raw) -> Literal["auto", "required", "none"]:
    """The mode of a toolChoice; auto when there is none. Raises MalformedMessage."""
    match decode(raw, ToolChoice, "toolChoice").mode if is_set(raw) else "auto":
        case "auto" | "required" | "none" as mode:
            return mode
        case other:
            raise MalformedMessage(f"The toolChoice mode {other[:40]!r} is not known.")
