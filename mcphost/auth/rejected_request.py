"""A refused request, as a transport saw it, or as it is had by asking; what it sent tells who was quicker."""

from typing import Protocol

from mcphost.auth.oauth_http import OAuthHttpClient
from mcphost.serialization import Struct

_PING_REQUEST = {"jsonrpc": "2.0", "id": 1, "method": "ping"}


class RejectedRequest(Protocol):
    """A 401 or 403, as the transport saw it; `sent` is the Authorization header of the refused request."""

    @property
    def status(self) -> int: ...

    @property
    def www_authenticate(self) -> str: ...

    @property
    def authorization(self) -> str: ...

    @property
    def dpop_nonce(self) -> str: ...


class ProbeResult(Struct, frozen=True):
    """The refusal of a question that we asked to be refused."""

    status: int
    www_authenticate: str
    authorization: str
    dpop_nonce: str = ""

    def __repr__(self) -> str:
        return f"ProbeResult({self.status})"


async def probe_server(http: OAuthHttpClient, url: str) -> ProbeResult:
    """What the server says to somebody it does not know. Raises UnsafeUrl, Unreachable."""
    headers = {"accept": "application/json, text/event-stream"}
    reply = await http.post_json(url, _PING_REQUEST, "MCP server", headers)
    return ProbeResult(reply.status, reply.headers.get("www-authenticate", "") if reply.status == 401 else "", "")
