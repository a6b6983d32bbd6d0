"""initialize, server/discover, capabilities, ping (specification: basic/lifecycle)."""

from typing import Any, ClassVar

from mcphost.errors import MalformedMessage
from mcphost.protocol.base import CacheableResult, ClientRequest, EmptyResult, Notification, Result
from mcphost.protocol.revisions import Revision
from mcphost.serialization import Raw, WireStruct, decode

NAME_LIMIT = 200
TEXT_LIMIT = 2_000
ICONS_LIMIT = 1024 * 1024


class Implementation(WireStruct, frozen=True):
    """The name and version of a peer; for display only, never a reason to trust."""

    name: str = ""
    version: str = ""
    title: str | None = None
    description: str | None = None
    website_url: str | None = None
    icons: Raw = Raw()


def parse_implementation(raw: Raw) -> Implementation:
    """Return the peer's `Implementation`, shortened for display; empty if it is invalid."""
    try:
        info = decode(raw, Implementation, "serverInfo")
    except MalformedMessage:
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
    """A feature with lists that may change and, for resources, be subscribed to."""

    list_changed: bool = False
    subscribe: bool = False


class ServerCapabilities(WireStruct, frozen=True):
    """The capabilities of a server; an absent member means that it is not offered."""

    tools: ListCapability | None = None
    resources: ListCapability | None = None
    prompts: ListCapability | None = None
    logging: Raw = Raw()
    completions: Raw = Raw()
    tasks: Raw = Raw()
    experimental: Raw = Raw()
    extensions: Raw = Raw()


class InitializeResult(Result, frozen=True):
    """The server's response to initialize."""

    protocol_version: str = ""
    capabilities: ServerCapabilities = ServerCapabilities()
    server_info: Raw = Raw()
    instructions: str | None = None


class Initialize(ClientRequest[InitializeResult], frozen=True):
    """initialize; `capabilities` is a plain object because its form differs by revision."""

    METHOD: ClassVar[str] = "initialize"
    RESULT: ClassVar[type[Any]] = InitializeResult
    protocol_version: str
    capabilities: dict[str, Any]
    client_info: Implementation


class InitializedNotification(Notification, frozen=True):
    """notifications/initialized."""

    METHOD: ClassVar[str] = "notifications/initialized"


class DiscoverResult(CacheableResult, frozen=True):
    """The facts of a server in the stateless era."""

    supported_versions: tuple[str, ...] = ()
    capabilities: ServerCapabilities = ServerCapabilities()
    instructions: str | None = None


class _ServerMeta(WireStruct, frozen=True, rename={"info": "io.modelcontextprotocol/serverInfo"}):
    info: Raw = Raw()


class DiscoverMeta(WireStruct, frozen=True, rename={"meta": "_meta"}):
    """The `_meta` member of a discover result with the server's `Implementation`."""

    meta: Raw = Raw()

    @property
    def info(self) -> Implementation:
        """The server's `Implementation`."""
        try:
            return parse_implementation(decode(self.meta, _ServerMeta, "_meta").info)
        except MalformedMessage:
            return Implementation()


class Discover(ClientRequest[DiscoverResult], frozen=True):
    """server/discover."""

    METHOD: ClassVar[str] = "server/discover"
    RESULT: ClassVar[type[Any]] = DiscoverResult


class Ping(ClientRequest[EmptyResult], frozen=True):
    """ping (handshake era, both directions)."""

    METHOD: ClassVar[str] = "ping"
    RESULT: ClassVar[type[Any]] = EmptyResult


PROTOCOL_VERSION = "io.modelcontextprotocol/protocolVersion"
CLIENT_INFO = "io.modelcontextprotocol/clientInfo"
CLIENT_CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
SERVER_INFO = "io.modelcontextprotocol/serverInfo"
LOG_LEVEL = "io.modelcontextprotocol/logLevel"
SUBSCRIPTION_ID = "io.modelcontextprotocol/subscriptionId"


def build_request_meta(revision: Revision, client: Implementation, capabilities: dict[str, Any]) -> dict[str, Any]:
    """Return the `_meta` members that identify the client to a stateless server."""
    return {PROTOCOL_VERSION: revision.value, CLIENT_INFO: client, CLIENT_CAPABILITIES: capabilities}
