"""Messages of a conversation and their parts, independent of any provider."""

from collections.abc import Mapping
from typing import Any, Literal, TypeGuard

from mcphost.serialization import Struct, replace

Role = Literal["user", "assistant", "tool"]
Outcome = Literal["ok", "error", "failed", "declined", "stopped", "background"]


class Usage(Struct, frozen=True, kw_only=True):
    """Tokens and cost of one model request.

    - `cached_tokens`: the number of input tokens that were read from the provider's cache.
    - `cost`: the cost in US dollars, or None if unknown.
    - `saved`: the amount in US dollars that the cache saved.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    cost: float | None = None
    saved: float = 0

    def __add__(self, other: "Usage") -> "Usage":
        costs = [cost for cost in (self.cost, other.cost) if cost is not None]
        return Usage(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cached_tokens=self.cached_tokens + other.cached_tokens,
            cost=sum(costs) if costs else None,
            saved=self.saved + other.saved,
        )


class CopiedText(Struct, frozen=True):
    """The parts of a message's text that were copied from one prompt or resource of a server.

    - `source`: the name of the prompt or resource.
    - `spans`: the start and end of each copied part. If there are none, the server's text was too long to be compared
      with the message, so any part of the message's text may be a copy.
    - `target`: see `Message.servers`.
    """

    server: str
    source: str
    spans: tuple[tuple[int, int], ...] = ()
    target: str = ""


class TextPart(Struct, frozen=True, tag="text", omit_defaults=True):
    """Text of a message, in Markdown if the model wrote it.

    `copies` are the parts of a user's text that came from servers, for example from a prompt that the user edited.
    """

    text: str
    copies: tuple[CopiedText, ...] = ()


class ThinkingPart(Struct, frozen=True, tag="thinking"):
    """Reasoning that the provider disclosed.

    `replay` is JSON that the next request must send back to the provider, or "" if there is nothing to send back.
    """

    text: str
    replay: str = ""


class ToolUsePart(Struct, frozen=True, tag="tool_use"):
    """A tool call by the model.

    - `id`: an id from mcphost that is unique in the conversation.
    - `name`: the name under which the model knows the tool.
    - `arguments`: the decoded arguments, or None if `raw` is not a JSON object.
    - `raw`: the text of the arguments.
    - `provider_id`: the provider's own id, or "" if it sent none.
    """

    id: str
    name: str
    arguments: dict[str, Any] | None
    raw: str = ""
    provider_id: str = ""


class ToolReturnPart(Struct, frozen=True, tag="tool_return"):
    """Result of a tool call, as sent to the model.

    - `server`, `tool`: the tool's server, and the tool's name there; "" if the tool is unknown.
    - `kept`: the path of the file with the complete result if `text` is truncated, otherwise "".
    - `reviewed`: whether the user reviewed the result.
    - `outcome`: how the call ended, for display. "background" means that the call is still running, and that its result
      follows in a separate message. It is "" in results stored by earlier versions.
    - `reused_at`: if not 0, the tool was not called again: the result was copied from an identical call made at this
      time, in seconds since 1970.
    - `is_unsent`: whether the call was rejected or stopped before it was sent to the server.
    - `seconds`: the duration of the call, or 0 if unknown.
    - `user_text`: the text shown to the user instead of `text`, or "" if they are the same.
    - `target`: see `Message.servers`.
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
    reused_at: float = 0.0
    is_unsent: bool = False
    seconds: float = 0.0
    user_text: str = ""
    target: str = ""


class ImagePart(Struct, frozen=True, tag="image"):
    """A base64-encoded image.

    - `name`: the path or URI of an attached image.
    - `server`: the server that provided an attached image, or "" for a local file.
    - `target`: see `Message.servers`.
    """

    mime_type: str
    data: str
    name: str = ""
    server: str = ""
    target: str = ""


class FilePart(Struct, frozen=True, tag="file"):
    """A base64-encoded PDF or audio file that the user attached; `server` is "" for a local file.

    For `target`, see `Message.servers`.
    """

    name: str
    mime_type: str
    data: str
    server: str = ""
    target: str = ""


class ResourcePart(Struct, frozen=True, tag="resource"):
    """Text that the user attached, or the result of a tool call that continued in the background.

    The user can attach a server's resource, the result of a tool, text from a tool's interactive page, or a local file
    or folder.

    - `server`: "" for a local file or folder.
    - `uri`: the URI of the resource or page, the path of the file or folder, or "tool:" and the name of the tool.
    - `text`: the text for the model. For a binary resource that the model does not accept, `text` is only a note about
      that.
    - `use_id`: the id of the tool call that continued in the background, or "" for an attachment.
    - `kept`: the path of the file with the complete result if `text` contains only its beginning, otherwise "".
    - `whole`: if not "", an earlier version of the resource was already attached. `text` is then a unified diff from
      that version, and `whole` is the complete new text.
    - `tool`: the name of the tool if the text is a tool's result or comes from its page, otherwise "".
    - `target`: see `Message.servers`.
    - `is_from_page`: whether an interactive page of the tool wrote the text.
    """

    server: str
    uri: str
    text: str
    mime_type: str = ""
    use_id: str = ""
    kept: str = ""
    whole: str = ""
    tool: str = ""
    target: str = ""
    is_from_page: bool = False

    @property
    def source(self) -> str:
        """The URI of a resource, the path of a file, or the name of the tool that returned a result."""
        if self.tool:
            return self.tool
        return self.uri.removeprefix("tool:") if self.use_id else self.uri  # stored before `tool` was added


Part = TextPart | ThinkingPart | ToolUsePart | ToolReturnPart | ImagePart | ResourcePart | FilePart


def make_result_part(server: str, tool: str, text: str, target: str = "") -> ResourcePart:
    """Return a message part that contains a tool result attached by the user; see `Message.servers` for *target*."""
    return ResourcePart(server, f"tool:{tool}", text, tool=tool, target=target)


def format_tool_name(name: str) -> str:
    """Format the name of a tool for display: `notes__add`, the name used by models, becomes `notes · add`."""
    server, _separator, tool = name.partition("__")
    return f"{server} · {tool}" if server and tool else name


def resource_key(part: Part) -> tuple[str, str] | None:
    """Return the server and URI of an attached resource, or None if *part* is not an attached resource."""
    match part:
        case ResourcePart() if part.server and not part.use_id and not part.tool:
            return part.server, part.uri
        case ImagePart() | FilePart() if part.server and part.name:
            return part.server, part.name
        case _:
            return None


def is_local_file(part: Part) -> bool:
    """Return whether *part* is the content of a local file or folder that the user attached."""
    match part:
        case ResourcePart():
            return not part.server and not part.use_id and not part.tool
        case ImagePart() | FilePart():
            return not part.server and bool(part.name)
        case _:
            return False


def is_result(part: Part) -> TypeGuard[ToolReturnPart | ResourcePart]:
    """Return whether *part* is the actual result of a tool call, not just a note that the result will follow."""
    if isinstance(part, ToolReturnPart):
        return part.outcome != "background"
    return isinstance(part, ResourcePart) and bool(part.use_id)


class PromptSource(Struct, frozen=True):
    """The source of a message that came from an MCP prompt: the prompt's server and name."""

    server: str
    name: str


class Message(Struct, frozen=True, kw_only=True, weakref=True):
    """A message in a conversation.

    - `at`: the time of the message in seconds since 1970.
    - `cut`: whether the message is incomplete because it was stopped or interrupted.
    - `usage`: the token usage of the request that produced the message. It is None for other messages, and for messages
      stored by early versions.
    - `prompt`: the MCP prompt that the message came from, or None.
    - `is_automatic`: whether mcphost wrote the message, because the user asked to continue an answer that was cut off,
      or because an answer did not match the requested schema.
    - `servers`: the servers that parts of the message came from, as pairs of name and target. A target is a digest of
      the server's program or URL at the time of the message. Messages stored by early versions have no such pairs.

    A part from a server also has a `target`, which is usually "": the target in `servers` then applies. It is set only
    if the server had a different target when it sent the part.
    """

    role: Role
    parts: tuple[Part, ...]
    at: float = 0.0
    model: str = ""
    cut: bool = False
    usage: Usage | None = None
    prompt: PromptSource | None = None
    is_automatic: bool = False
    servers: tuple[tuple[str, str], ...] = ()

    @property
    def text(self) -> str:
        """The text of the message: the concatenation of its text parts."""
        return "".join(part.text for part in self.parts if isinstance(part, TextPart))

    @property
    def has_images(self) -> bool:
        """Whether the message contains an image, either directly or in the result of a tool call."""
        return any(
            isinstance(part, ImagePart) or (isinstance(part, ToolReturnPart) and part.images) for part in self.parts
        )

    @property
    def late_result(self) -> ResourcePart | None:
        """The result of a background tool call that this message contains, or None if it contains none."""
        return next((part for part in self.parts if isinstance(part, ResourcePart) and part.use_id), None)

    @property
    def results(self) -> "tuple[ToolReturnPart | ResourcePart, ...]":
        """The results of tool calls in the message; the result of a background call is a ResourcePart."""
        if self.role == "assistant":
            return ()
        return tuple(part for part in self.parts if is_result(part))

    @property
    def is_typed(self) -> bool:
        """Whether the user typed the message.

        False for messages from an MCP prompt, results of background calls, messages that mcphost wrote, and
        messages whose role is not "user".
        """
        return self.is_from_user and self.prompt is None

    @property
    def is_from_user(self) -> bool:
        """Whether the user typed the message, or inserted it from an MCP prompt."""
        return self.role == "user" and self.late_result is None and not self.is_automatic

    @property
    def tool_uses(self) -> tuple[ToolUsePart, ...]:
        """The tool calls in the message."""
        return tuple(part for part in self.parts if isinstance(part, ToolUsePart))


def with_targets(message: Message, targets: Mapping[str, str]) -> Message:
    """Return *message* with the current targets of the servers that its parts came from; see `Message.servers`.

    *targets* maps the names of all known servers to their current targets. A target that the message or a part already
    has is kept, because the server may have been replaced since it sent the part.
    """
    if message.role == "assistant" and message.prompt is None:
        return message
    names = {getattr(part, "server", "") for part in message.parts}
    names |= {copied.server for part in message.parts if isinstance(part, TextPart) for copied in part.copies}
    names |= {message.prompt.server} if message.prompt is not None else set[str]()
    known = {**{name: targets[name] for name in sorted(names) if name in targets}, **dict(message.servers)}
    return replace(message, servers=tuple(known.items())) if known else message


FromServer = ToolReturnPart | ResourcePart | ImagePart | FilePart | CopiedText | PromptSource


def find_target(part: FromServer, message: Message) -> str:
    """Return the target that a part's server had when it sent the part, or "" if that is unknown.

    See `Message.servers` for targets.
    """
    target = "" if isinstance(part, PromptSource) else part.target
    return target or dict(message.servers).get(part.server, "")


def with_target(part: Part, targets: Mapping[str, str]) -> Part:
    """Return *part* with `target` set to the target of its server in *targets*, unless it is already set.

    See `Message.servers` for targets.
    """
    if isinstance(part, TextPart | ThinkingPart | ToolUsePart) or not part.server or part.target:
        return part
    return replace(part, target=targets.get(part.server, ""))
