"""The conversation's own data: messages and parts, independent of any provider."""

from typing import Any, Literal

from mcphost.serialization import Struct

Role = Literal["user", "assistant", "tool"]
Outcome = Literal["ok", "error", "failed", "declined", "stopped"]


class Usage(Struct, frozen=True, kw_only=True):
    """Tokens and cost of one round; `cost` in US dollars, None when unknown (not zero)."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    cost: float | None = None

    def __add__(self, other: "Usage") -> "Usage":
        costs = [cost for cost in (self.cost, other.cost) if cost is not None]
        return Usage(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cached_tokens=self.cached_tokens + other.cached_tokens,
            cost=sum(costs) if costs else None,
        )


class TextPart(Struct, frozen=True, tag="text"):
    """Text; Markdown when the model wrote it."""

    text: str


class ThinkingPart(Struct, frozen=True, tag="thinking"):
    """Reasoning the provider showed. `replay` is what it wants back on the next round, JSON text or empty."""

    text: str
    replay: str = ""


class ToolUsePart(Struct, frozen=True, tag="tool_use"):
    """The model wants to call a tool.

    `name` is the model-facing name; `arguments` is None when `raw` is not a JSON object. `id` is ours and unique in
    the conversation; `provider_id` is the provider's and may be empty.
    """

    id: str
    name: str
    arguments: dict[str, Any] | None
    raw: str = ""
    provider_id: str = ""


class ToolReturnPart(Struct, frozen=True, tag="tool_return"):
    """What goes back to the model for one tool use. `server` and `tool` are empty when the tool is unknown.

    `kept` is the file that holds all of a result of which this is the beginning only; `reviewed`: the user read all of
    that before the model got it. `outcome` is how the call ended, for people; empty in what earlier versions stored.
    """

    use_id: str
    name: str
    text: str
    is_error: bool = False
    server: str = ""
    tool: str = ""
    images: tuple["ImagePart", ...] = ()
    kept: str = ""
    reviewed: bool = False
    outcome: Outcome | Literal[""] = ""


class ImagePart(Struct, frozen=True, tag="image"):
    """A picture, base64."""

    mime_type: str
    data: str


class ResourcePart(Struct, frozen=True, tag="resource"):
    """A resource the user attached; text only, binary ones carry a note instead."""

    server: str
    uri: str
    text: str
    mime_type: str = ""


Part = TextPart | ThinkingPart | ToolUsePart | ToolReturnPart | ImagePart | ResourcePart


class Message(Struct, frozen=True, kw_only=True):
    """One message. `cut` marks one that was stopped or broke off; `at` is seconds since 1970.

    `usage` is what the model's round used that made it; None for other messages and for what earlier versions stored.
    """

    role: Role
    parts: tuple[Part, ...]
    at: float = 0.0
    model: str = ""
    cut: bool = False
    usage: Usage | None = None

    @property
    def text(self) -> str:
        """The text parts, joined."""
        return "".join(part.text for part in self.parts if isinstance(part, TextPart))

    @property
    def tool_uses(self) -> tuple[ToolUsePart, ...]:
        """The calls the model wants."""
        return tuple(part for part in self.parts if isinstance(part, ToolUsePart))
