"""A server that mcphost must never contact; it counts connections and answers like an authorization server."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.unit.auth.oauth_peer import OAuthPeer
from tests.unit.transport import raw_http
from tests.unit.transport.raw_http import RawServer


class ForbiddenOrigin(OAuthPeer):
    """A server on a forbidden origin; `connections` counts the clients, and `caught` contains everything they sent."""

    server: RawServer

    @property
    def connections(self) -> int:
        return self.server.connections

    @property
    def received_text(self) -> str:
        return " ".join(
            f"{message.method} {message.path} {message.headers} {message.body.decode('latin-1')}"
            for message in self.seen
        )


@asynccontextmanager
async def forbidden_origin() -> AsyncIterator[ForbiddenOrigin]:
    """Run a server on another origin (the same host with another port)."""
    origin = ForbiddenOrigin()
    async with raw_http.serve(origin.handle) as server:
        origin.server, origin.origin = server, f"http://127.0.0.1:{server.port}"
        yield origin
