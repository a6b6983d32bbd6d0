"""Messages for initialize, server/discover and ping, and capabilities (specification: basic/lifecycle)."""

from typing import Any, ClassVar

from mcphost.protocol.base import CacheableResult, ClientRequest, EmptyResult, Notification, Result
from mcphost.protocol.revisions import Revision
from mcphost.serialization import Raw, WireStruct, decode_or_none

NAME_LIMIT = 200
TEXT_LIMIT = 2_000
ICONS_LIMIT = 1024 * 1024


class Implementation(WireStruct, frozen=True):
    """The name and version that a client or server reports about itself; for display only."""

    name: str = ""
    version: str = ""
    title: str | None = None
    description: str | None = None
    website_url: str | None = None
    icons: Raw = Raw()


def parse_implementation(raw: Raw) -> Implementation:
    """Parse an `Implementation`, truncating its strings; return an empty one if it is invalid."""
    info = decode_or_none(raw, Implementation)
    if info is None:
        return Implementation()
    return Implementation(
        info.name[:NAME_LIMIT],
        info.version[:NAME_LIMIT],
        info.title and info.title[:NAME_LIMIT],
        info.description and info.description[:TEXT_LIMIT],
        info.website_url and info.website_url[:TEXT_LIMIT],
        # A copy: a view would keep the whole message in memory.
        Raw(bytes(info.icons)) if len(bytes(info.icons)) <= ICONS_LIMIT else Raw(),
    )


class ListCapability(WireStruct, frozen=True):
    """A server's capability for tools, prompts or resources.

    `list_changed` states whether the server sends a notification when the list changes, and `subscribe` whether
    clients can subscribe to individual resources.
    """

    list_changed: bool = False
    subscribe: bool = False


class ServerCapabilities(WireStruct, frozen=True):
    """The capabilities that a server declared; undeclared ones are None or an empty Raw."""

    tools: ListCapability | None = None
    resources: ListCapability | None = None
    prompts: ListCapability | None = None
    logging: Raw = Raw()
    completions: Raw = Raw()
    tasks: Raw = Raw()
    experimental: Raw = Raw()
    extensions: Raw = Raw()


class InitializeResult(Result, frozen=True):
    """Result of initialize: the negotiated revision, and the server's capabilities and instructions."""

    protocol_version: str = ""
    capabilities: ServerCapabilities = ServerCapabilities()
    server_info: Raw = Raw()
    instructions: str | None = None


class Initialize(ClientRequest[InitializeResult], frozen=True):
    """The initialize request; `capabilities` is a dict because its members depend on the revision."""

    METHOD: ClassVar[str] = "initialize"
    RESULT: ClassVar[type[Any]] = InitializeResult
    protocol_version: str
    capabilities: dict[str, Any]
    client_info: Implementation


class InitializedNotification(Notification, frozen=True):
    """The notifications/initialized notification, which the client sends to end the handshake."""

    METHOD: ClassVar[str] = "notifications/initialized"


class DiscoverResult(CacheableResult, frozen=True):
    """Result of server/discover: the server's protocol revisions, capabilities and instructions."""

    supported_versions: tuple[str, ...] = ()
    capabilities: ServerCapabilities = ServerCapabilities()
    instructions: str | None = None


class _ServerMeta(WireStruct, frozen=True, rename={"info": "io.modelcontextprotocol/serverInfo"}):
    info: Raw = Raw()


class DiscoverMeta(WireStruct, frozen=True, rename={"meta": "_meta"}):
    """A server/discover result, decoded only for its `_meta`, which contains the server's `Implementation`."""

    meta: Raw = Raw()

    @property
    def info(self) -> Implementation:
        """The server's `Implementation`, or an empty one if it is absent or invalid."""
        meta = decode_or_none(self.meta, _ServerMeta)
        return Implementation() if meta is None else parse_implementation(meta.info)


class Discover(ClientRequest[DiscoverResult], frozen=True):
    """The server/discover request (protocol revision 2026-07-28 and later)."""

    METHOD: ClassVar[str] = "server/discover"
    RESULT: ClassVar[type[Any]] = DiscoverResult


class Ping(ClientRequest[EmptyResult], frozen=True):
    """The ping request, which either side can send in protocol revisions earlier than 2026-07-28."""

    METHOD: ClassVar[str] = "ping"
    RESULT: ClassVar[type[Any]] = EmptyResult


PROTOCOL_VERSION = "io.modelcontextprotocol/protocolVersion"
CLIENT_INFO = "io.modelcontextprotocol/clientInfo"
CLIENT_CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
LOG_LEVEL = "io.modelcontextprotocol/logLevel"
SUBSCRIPTION_ID = "io.modelcontextprotocol/subscriptionId"


def build_request_meta(revision: Revision, client: Implementation, capabilities: dict[str, Any]) -> dict[str, Any]:
    """Return the `_meta` members that identify the client in every request (revision 2026-07-28 and later)."""
    return {PROTOCOL_VERSION: revision.value, CLIENT_INFO: client, CLIENT_CAPABILITIES: capabilities}
