"""tools/list and tools/call (specification: server/tools)."""

from typing import Any, ClassVar

from mcphost.protocol.base import ClientRequest, Icon, PaginatedResult, Result, is_set
from mcphost.protocol.content import ContentBlock, decode_known_blocks, parse_content_blocks
from mcphost.serialization import Raw, WireStruct, decode_array, field

MAX_BLOCKS = 5_000
"""Parts of one result that are read; what lies beyond is counted."""
_SMALL_CONTENT = 16 * 1024
"""Bytes of content that cannot hold more parts than are read."""


class ToolAnnotations(WireStruct, frozen=True):
    """What the server claims about a tool; claims, never checked and never a reason to run anything."""

    title: str | None = None
    read_only_hint: bool | None = None
    destructive_hint: bool | None = None
    idempotent_hint: bool | None = None
    open_world_hint: bool | None = None

    @property
    def effective(self) -> "ToolAnnotations":
        """The same with what is not claimed filled in as the specification counts it: writes, destroys, reaches out."""
        return ToolAnnotations(
            title=self.title,
            read_only_hint=bool(self.read_only_hint),
            destructive_hint=self.destructive_hint is not False,
            idempotent_hint=bool(self.idempotent_hint),
            open_world_hint=self.open_world_hint is not False,
        )


class ToolExecution(WireStruct, frozen=True):
    """How a tool wants to be called (2025-11-25): `task_support` is required, optional or forbidden (also when "")."""

    task_support: str = ""


class Tool(WireStruct, frozen=True):
    """A tool as its server defines it; schemas stay raw until a form or a model needs them."""

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
        """What people read: `title`, else the title among the annotations, else the name; calls use the name."""
        return self.title or (self.annotations.title if self.annotations else None) or self.name


class ListToolsResult(PaginatedResult, frozen=True):
    """One page of definitions, each still raw: one broken entry must not hide the others."""

    tools: tuple[Raw, ...] = ()


class ListTools(ClientRequest[ListToolsResult], frozen=True):
    """tools/list."""

    METHOD: ClassVar[str] = "tools/list"
    RESULT: ClassVar[type[Any]] = ListToolsResult
    cursor: str | None = None


class CallToolResult(Result, frozen=True):
    """What a tool gave back; the content stays raw, `blocks()` reads it."""

    raw_content: Raw = field(default=Raw(b"[]"), name="content")
    structured_content: Raw = Raw()
    is_error: bool = False

    def __post_init__(self) -> None:
        raw = self.raw_content
        if len(raw) and memoryview(raw)[0] == 0x5B:
            return
        if not bytes(memoryview(raw)[:64]).lstrip().startswith(b"["):
            raise ValueError("its content is not an array")

    def split_content(self) -> tuple[tuple[Raw, ...], int]:
        """Return the parts of the content that are read, and how many there are at least besides."""
        return decode_array(self.raw_content, MAX_BLOCKS, "content")

    @property
    def content(self) -> tuple[Raw, ...]:
        """The parts that are read."""
        return self.split_content()[0]

    def parse_blocks(self) -> tuple[ContentBlock, ...]:
        """The parts that are read as blocks, unknown kinds included."""
        raw = self.raw_content
        known = (
            decode_known_blocks(bytes(raw)) if len(raw) <= _SMALL_CONTENT else None
        )  # a view would keep the whole message
        return parse_content_blocks(self.content) if known is None else known

    def parse_structured_content(self, *, allow_null: bool) -> Raw | None:
        """The structured content; None when there is none. A null is a value from 2026-07-28 on, and nothing before."""
        raw = self.structured_content
        return raw if is_set(raw) or (allow_null and bytes(raw) == b"null") else None


class CallTool(ClientRequest[CallToolResult], frozen=True, omit_defaults=False):
    """tools/call; empty arguments are sent too, since there are servers that fail without the member."""

    METHOD: ClassVar[str] = "tools/call"
    RESULT: ClassVar[type[Any]] = CallToolResult
    name: str
    arguments: dict[str, Any] | Raw = {}  # noqa: RUF012 - msgspec copies mutable defaults
