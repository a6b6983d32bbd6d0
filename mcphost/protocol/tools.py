"""Messages for tools: tools/list and tools/call (specification: server/tools)."""

from typing import Any, ClassVar

from mcphost.protocol.base import ClientRequest, Icon, PaginatedResult, Result, is_set
from mcphost.protocol.content import ContentBlock, decode_known_blocks, parse_content_blocks
from mcphost.serialization import Raw, WireStruct, decode_array, field

MAX_BLOCKS = 5_000
"""Maximum number of content blocks that are read from a result; the others are only counted."""
_SMALL_CONTENT = 16 * 1024
"""Size in bytes up to which content cannot contain more than MAX_BLOCKS blocks."""


class ToolAnnotations(WireStruct, frozen=True):
    """A server's claims about one of its tools.

    The claims are not verified; a claim that the tool is read-only has an effect only if the user trusts the server's
    annotations.
    """

    title: str | None = None
    read_only_hint: bool | None = None
    destructive_hint: bool | None = None
    idempotent_hint: bool | None = None
    open_world_hint: bool | None = None


class ToolExecution(WireStruct, frozen=True):
    """The `execution` of a tool definition (revision 2025-11-25): whether the tool can run as a task.

    `task_support` is "required", "optional" or "forbidden"; "" means forbidden.
    """

    task_support: str = ""


class Tool(WireStruct, frozen=True):
    """A tool definition; the schemas stay raw JSON until a form or a model needs them."""

    name: str
    title: str | None = None
    description: str | None = None
    input_schema: Raw = Raw(b'{"type":"object"}')
    output_schema: Raw = Raw()
    annotations: ToolAnnotations | None = None
    icons: tuple[Icon, ...] = ()
    execution: ToolExecution | None = None

    @property
    def display_name(self) -> str:
        """The name to display: `title`, or the title in the annotations, or `name`. Requests always use `name`."""
        return self.title or (self.annotations.title if self.annotations else None) or self.name


class ListToolsResult(PaginatedResult, frozen=True):
    """One page of tool definitions, each as raw JSON, so that a malformed tool does not hide the others."""

    tools: tuple[Raw, ...] = ()


class ListTools(ClientRequest[ListToolsResult], frozen=True):
    """The tools/list request, which returns one page of tool definitions."""

    METHOD: ClassVar[str] = "tools/list"
    RESULT: ClassVar[type[Any]] = ListToolsResult
    cursor: str | None = None


class CallToolResult(Result, frozen=True):
    """The result of a tool call; the content stays raw JSON until `parse_blocks` is called."""

    raw_content: Raw = field(default=Raw(b"[]"), name="content")
    structured_content: Raw = Raw()
    is_error: bool = False
    meta: Raw = field(default=Raw(), name="_meta")

    def __post_init__(self) -> None:
        raw = self.raw_content
        if len(raw) and memoryview(raw)[0] == 0x5B:
            return
        if not bytes(memoryview(raw)[:64]).lstrip().startswith(b"["):
            raise ValueError("its content is not an array")

    def split_content(self) -> tuple[tuple[Raw, ...], int]:
        """Return the first MAX_BLOCKS content blocks as raw JSON, and a lower bound for the number of remaining blocks.

        The bound is 0 only if no blocks remain.
        """
        return decode_array(self.raw_content, MAX_BLOCKS, "content")

    @property
    def content(self) -> tuple[Raw, ...]:
        """The first MAX_BLOCKS content blocks, as raw JSON."""
        return self.split_content()[0]

    def parse_blocks(self) -> tuple[ContentBlock, ...]:
        """Decode the content blocks; unknown or invalid blocks become UnknownContent."""
        raw = self.raw_content
        known = (
            decode_known_blocks(bytes(raw)) if len(raw) <= _SMALL_CONTENT else None
        )  # a view would keep the whole message in memory
        return parse_content_blocks(self.content) if known is None else known

    def parse_structured_content(self, *, allow_null: bool) -> Raw | None:
        """Return the structured content, or None if there is none.

        If *allow_null* is true (protocol revision 2026-07-28 and later), null is a valid value; otherwise, it means
        that there is no structured content.
        """
        raw = self.structured_content
        return raw if is_set(raw) or (allow_null and bytes(raw) == b"null") else None


class CallTool(ClientRequest[CallToolResult], frozen=True, omit_defaults=False):
    """The tools/call request. Arguments are sent even if empty, because some servers fail if they are missing."""

    METHOD: ClassVar[str] = "tools/call"
    RESULT: ClassVar[type[Any]] = CallToolResult
    name: str
    arguments: dict[str, Any] | Raw = {}  # noqa: RUF012 - msgspec copies mutable defaults
