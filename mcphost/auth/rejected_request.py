"""A refused request, as a transport saw it, or as it is had by asking; what it sent tells who was quicker."""

from typing import Protocol

from mcphost.auth.oauth_http import Requests
from mcphost.serialization import Struct

_PROBE = {"jsonrpc": "2.0", "id": 1, "method": "ping"}


class Refusal(Protocol):
    """A 401 or 403, as the transport saw it; `sent` is the Authorization header of the refused request."""

    @property
    def status(self) -> int: ...

    @property
    def www_authenticate(self) -> str: ...

    @property
    def authorization(self) -> str: ...

    @property
    def dpop_nonce(self) -> str: ...


class Asked(Struct, frozen=True):
    """The refusal of a question that we asked to be refused."""

    status: int
    www_authenticate: str
    authorization: str
    dpop_nonce: str = ""

    def __repr__(self) -> str:
        return f"Asked({self.status})"


async def probed(requests: Requests, url: str) -> Asked:
    """What the server says to somebody it does not know. Raises Unsafe, Unreachable."""
    headers = {"accept": "application/json, text/event-stream"}
    reply = await requests.post_json(url, _PROBE, "MCP server", headers)
    return Asked(reply.status, reply.headers.get("www-authenticate", "") if reply.status == 401 else "", "")
