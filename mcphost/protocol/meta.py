"""Reserved `_meta` keys, and the metadata of every request in the stateless era."""

from typing import Any

from mcphost.protocol.lifecycle import Implementation
from mcphost.protocol.revisions import Revision

PROTOCOL_VERSION = "io.modelcontextprotocol/protocolVersion"
CLIENT_INFO = "io.modelcontextprotocol/clientInfo"
CLIENT_CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
SERVER_INFO = "io.modelcontextprotocol/serverInfo"
LOG_LEVEL = "io.modelcontextprotocol/logLevel"
SUBSCRIPTION_ID = "io.modelcontextprotocol/subscriptionId"


def build_request_meta(revision: Revision, client: Implementation, capabilities: dict[str, Any]) -> dict[str, Any]:
    """Return the `_meta` members that identify the client to a stateless server."""
    return {PROTOCOL_VERSION: revision.value, CLIENT_INFO: client, CLIENT_CAPABILITIES: capabilities}
