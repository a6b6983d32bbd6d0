"""Messages and metadata of MCP Apps: interactive pages of tools (SEP-1865, io.modelcontextprotocol/ui)."""

import re
from typing import Any, ClassVar, cast

from mcphost.protocol.base import CacheableResult, ClientRequest
from mcphost.serialization import Raw, Struct, WireStruct, decode_or_none, field

EXTENSION = "io.modelcontextprotocol/ui"
MIME_TYPE = "text/html;profile=mcp-app"
CLIENT_SETTINGS: dict[str, Any] = {"mimeTypes": [MIME_TYPE]}
"""The settings of the extension in the client's capabilities."""
PROTOCOL_VERSION = "2026-01-26"
"""The version of the messages between a page and its host."""
URI_LIMIT = 2_000
MAX_ORIGINS = 20
"""Maximum number of origins in each list of a page's content security policy."""
MAX_PAGE_CONTENTS = 10
_ORIGIN_LIMIT = 300
_ORIGIN = re.compile(r"(https|wss)://(\*\.)?[a-z0-9_-]+(\.[a-z0-9_-]+)+(:[0-9]{1,5})?", re.ASCII | re.IGNORECASE)
_LOCAL_DOMAINS = frozenset({"localhost", "localdomain"})
"""Domains whose names lead to this machine (RFC 6761, section 6.3); browsers do not even look up the first."""


class ToolPage(Struct, frozen=True):
    """The settings for MCP Apps in a tool's definition.

    - `resource_uri`: the ui:// URI of the tool's page, or "" if the tool has no page that can be used.
    - `for_model`, `for_pages`: whether the model may call the tool, and whether pages may.
    - `fault`: why the page in the definition cannot be used, or "" if there is no such problem.
    """

    resource_uri: str = ""
    for_model: bool = True
    for_pages: bool = True
    fault: str = ""


class _ToolUi(WireStruct, frozen=True):
    resource_uri: Any = None
    visibility: Any = None


class _ToolMeta(WireStruct, frozen=True, rename={"flat_uri": "ui/resourceUri"}):
    ui: Raw = Raw()
    flat_uri: Any = None


class _ToolWithMeta(WireStruct, frozen=True, rename={"meta": "_meta"}):
    meta: _ToolMeta | None = None


DEFAULT_TOOL_PAGE = ToolPage()


def parse_tool_page(definition: bytes | Raw) -> ToolPage:
    """Return the settings for MCP Apps in a tool's definition; an invalid setting is treated as absent.

    If `visibility` is absent, both the model and pages may call the tool.
    """
    tool = decode_or_none(definition, _ToolWithMeta)
    if tool is None or tool.meta is None:
        return DEFAULT_TOOL_PAGE
    meta = tool.meta
    ui = decode_or_none(meta.ui, _ToolUi) or _ToolUi()
    uri = ui.resource_uri if ui.resource_uri is not None else meta.flat_uri
    fault = "" if uri is None else find_uri_fault(uri)
    names = cast("list[Any]", ui.visibility) if isinstance(ui.visibility, list) else ["model", "app"]
    return ToolPage("" if uri is None or fault else uri, "model" in names, "app" in names, fault)


def find_uri_fault(uri: object) -> str:
    """Explain why *uri* cannot be the address of a page, or return "" if it can be."""
    if not isinstance(uri, str):
        return "its address is not a text"
    if not uri.startswith("ui://") or len(uri) == len("ui://"):
        return "its address does not begin with ui://"
    if len(uri) > URI_LIMIT:
        return f"its address is over {URI_LIMIT:,} characters"
    return "" if uri.isprintable() and " " not in uri else "its address has invalid characters"


class PageContents(WireStruct, frozen=True):
    """One content item of a page's resource."""

    uri: str = ""
    mime_type: str | None = None
    text: str | None = None
    blob: str | None = None
    meta: Raw = field(default=Raw(), name="_meta")


class ReadPageResult(CacheableResult, frozen=True):
    """Result of a resources/read request for a page, including the `_meta` of each content item."""

    contents: tuple[PageContents, ...] = ()

    def __post_init__(self) -> None:
        """Raise ValueError if there are too many contents; `decode` turns the error into MalformedMessage."""
        if len(self.contents) > MAX_PAGE_CONTENTS:
            raise ValueError(f"a page of more than {MAX_PAGE_CONTENTS} entries")


class ReadPage(ClientRequest[ReadPageResult], frozen=True):
    """The resources/read request for a page."""

    METHOD: ClassVar[str] = "resources/read"
    RESULT: ClassVar[type[Any]] = ReadPageResult
    uri: str


class RelayedReadResult(CacheableResult, frozen=True):
    """Result of a resources/read request made by a page; the contents stay raw JSON and are passed on unchanged."""

    contents: Raw = Raw()


class ReadForPage(ReadPage, frozen=True):
    """A resources/read request made by a page; the contents in its result are not decoded, to save time."""

    RESULT: ClassVar[type[Any]] = RelayedReadResult


class PageOrigins(Struct, frozen=True):
    """The origins that a page may load from and connect to, as declared by its server.

    The first four fields are the lists of `McpUiResourceCsp`: `connect` is `connectDomains`, and so on. `left_out`
    contains the entries that are not allowed, for example because they are not https or wss origins.
    """

    connect: tuple[str, ...] = ()
    resource: tuple[str, ...] = ()
    frame: tuple[str, ...] = ()
    base_uri: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()

    @property
    def all(self) -> tuple[str, ...]:
        """All allowed origins without duplicates, in order."""
        return tuple(dict.fromkeys((*self.connect, *self.resource, *self.frame, *self.base_uri)))


class _ResourceCsp(WireStruct, frozen=True):
    connect_domains: Any = None
    resource_domains: Any = None
    frame_domains: Any = None
    base_uri_domains: Any = None


class _ResourceUi(WireStruct, frozen=True):
    csp: _ResourceCsp | None = None


class _ResourceMeta(WireStruct, frozen=True):
    ui: _ResourceUi | None = None


def parse_page_origins(meta: bytes | Raw) -> PageOrigins:
    """Return the origins declared in the `_meta` of a page, or an empty PageOrigins if it declares none.

    An invalid `_meta` is treated as absent.
    """
    found = decode_or_none(meta, _ResourceMeta)
    if found is None or found.ui is None or found.ui.csp is None:
        return PageOrigins()
    csp = found.ui.csp
    left_out: list[str] = []
    lists = (csp.connect_domains, csp.resource_domains, csp.frame_domains, csp.base_uri_domains)
    connect, resource, frame, base_uri = (_select_origins(values, left_out) for values in lists)
    return PageOrigins(connect, resource, frame, base_uri, tuple(left_out[:MAX_ORIGINS]))


def _select_origins(values: object, left_out: list[str]) -> tuple[str, ...]:
    """Return the allowed origins in *values*; append all other values to *left_out*.

    An allowed origin has the scheme https or wss, and a host of at least two labels. For example, `https:` is not
    allowed because it stands for any host, and `https://localhost` because it stands for this machine.
    """
    kept: list[str] = []
    for value in cast("list[Any]", values) if isinstance(values, list) else ():
        text = value.removesuffix("/") if isinstance(value, str) else ""
        is_origin = len(text) <= _ORIGIN_LIMIT and _ORIGIN.fullmatch(text) is not None and not _is_local(text)
        if is_origin and len(kept) < MAX_ORIGINS:
            kept.append(text.lower())
        else:
            left_out.append(str(value)[:_ORIGIN_LIMIT])
    return tuple(dict.fromkeys(kept))


def _is_local(origin: str) -> bool:
    """Return whether an origin's host is an IP address, in any notation that browsers accept, or names this machine."""
    last = origin.rpartition("//")[2].partition(":")[0].rpartition(".")[2].lower()
    return last.isdecimal() or last.startswith("0x") or last in _LOCAL_DOMAINS
