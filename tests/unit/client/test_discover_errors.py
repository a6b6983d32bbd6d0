"""Tests for errors in response to `server/discover`: which ones lead to the handshake, and which are final."""

from typing import Any

import pytest

from mcphost.errors import RequestRefused, UnsupportedRevision
from mcphost.protocol.jsonrpc import ErrorData
from mcphost.protocol.revisions import HANDSHAKE_REVISIONS
from mcphost.serialization import Raw
from tests.unit.client.scripted_server import ScriptedServer, connect_to

pytestmark = pytest.mark.anyio


@pytest.mark.req("life.era.stdio-modern")
@pytest.mark.parametrize("code", [-32020, -32021, -32022])
@pytest.mark.parametrize("data", [b'{"supported":["2031-01-01"],"requested":"2026-07-28"}', b"{}"])
async def test_an_error_of_the_stateless_era_to_the_probe_is_final(code: int, data: bytes) -> None:
    def opening(peer: ScriptedServer, method: str, params: dict[str, Any]) -> Any:
        return ErrorData(code, "no", Raw(data)) if method == "server/discover" else None

    peer = ScriptedServer(opening=opening)
    with pytest.raises((RequestRefused, UnsupportedRevision)):
        async with connect_to(peer):
            pass
    assert peer.methods() == ["server/discover"]


@pytest.mark.req("life.era.stdio-fallback-any-error")
@pytest.mark.parametrize("revision", [revision.value for revision in HANDSHAKE_REVISIONS])
@pytest.mark.parametrize("code", [-32601, -32602, -32600, -32603, -32700, -32000, -32001, 0, 404])
async def test_any_other_error_to_the_probe_falls_back_to_the_handshake(code: int, revision: str) -> None:
    def opening(peer: ScriptedServer, method: str, params: dict[str, Any]) -> Any:
        return ErrorData(code, "no") if method == "server/discover" else None

    peer = ScriptedServer(opening=opening, revision=revision)
    async with connect_to(peer) as session:
        assert session.facts.revision.value == revision
    assert peer.methods() == ["server/discover", "initialize", "notifications/initialized"]
