"""Tests that stored discovery results are bounded in size, contain no secrets, and survive token refreshes."""

import json
from pathlib import Path
from time import time

import pytest

from mcphost.auth.accounts import INDEX_FILE, Account, DiscoverySummary
from mcphost.auth.token_store import TokenStore
from mcphost.host.servers.accounts import describe_discovery
from mcphost.serialization import encode
from tests.fakes.memory_backend import MemoryBackend
from tests.unit.auth.oauth_peer import BrowserUser, OAuthPeer, create_oauth, run_peer, send_with_sign_in
from tests.unit.auth.storage import age_sign_in

pytestmark = pytest.mark.anyio


async def sign_in_and_reload(peer: OAuthPeer, folder: Path) -> Account:
    """Sign in, and return the stored account as another process would read it from the index."""
    assert await send_with_sign_in(create_oauth(peer, BrowserUser(), TokenStore(MemoryBackend(), folder)), peer) == 200
    (entry,) = await TokenStore(MemoryBackend(), folder).accounts()
    return entry


async def test_the_index_lists_what_the_servers_report(tmp_path: Path) -> None:
    async with run_peer() as peer:
        peer.document = {
            "device_authorization_endpoint": f"{peer.origin}/device",
            "code_challenge_methods_supported": ["plain", "S256"],
            "authorization_response_iss_parameter_supported": True,
        }
        peer.redirect = {"iss": peer.origin}
        entry = await sign_in_and_reload(peer, tmp_path)
    assert entry.client_kind == "registered"
    assert entry.discovery == DiscoverySummary(
        resource_metadata=f"{peer.origin}/.well-known/oauth-protected-resource/mcp",
        issuer_metadata=f"{peer.origin}/.well-known/oauth-authorization-server",
        metadata_kind="oauth",
        authorization_endpoint=f"{peer.origin}/authorize",
        token_endpoint=f"{peer.origin}/token",
        registration_endpoint=f"{peer.origin}/register",
        device_endpoint=f"{peer.origin}/device",
        revocation_endpoint=f"{peer.origin}/revoke",
        pkce_methods=("plain", "S256"),
        sends_issuer=True,
    )
    words = dict(describe_discovery(entry))
    assert words["issuer metadata"].endswith("oauth-authorization-server (RFC 8414)")
    assert words["it supports"] == "PKCE plain, S256; issuer in responses (RFC 9207); device codes (RFC 8628)"
    text = (tmp_path / INDEX_FILE).read_text()
    assert not any(token in text for token in (*peer.valid, *peer.families))


async def test_openid_discovery_is_distinguished_from_rfc_8414(tmp_path: Path) -> None:
    async with run_peer() as peer:
        peer.answers["/.well-known/oauth-authorization-server"] = (404, b"{}", "application/json")
        document = json.dumps(peer.metadata()).encode()
        peer.answers["/.well-known/openid-configuration"] = (200, document, "application/json")
        entry = await sign_in_and_reload(peer, tmp_path)
    assert entry.discovery.metadata_kind == "oidc"
    assert entry.discovery.issuer_metadata == f"{peer.origin}/.well-known/openid-configuration"


async def test_the_defaults_of_2025_03_26_are_labelled_as_defaults(tmp_path: Path) -> None:
    async with run_peer(challenge="Bearer") as peer:
        for path in ("oauth-protected-resource/mcp", "oauth-authorization-server"):
            peer.answers[f"/.well-known/{path}"] = (404, b"", "")
        entry = await sign_in_and_reload(peer, tmp_path)
    found = entry.discovery
    assert (found.metadata_kind, found.resource_metadata, found.issuer_metadata) == ("legacy", "", "")
    assert dict(describe_discovery(entry))["issuer metadata"] == "none: default addresses of 2025-03-26"


async def test_a_refreshed_token_keeps_its_discovery_results(tmp_path: Path) -> None:
    backend = MemoryBackend()
    async with run_peer() as peer:
        token_store = TokenStore(backend, tmp_path)
        client = create_oauth(peer, BrowserUser(), token_store)
        assert await send_with_sign_in(client, peer) == 200
        await age_sign_in(client, token_store)
        assert await send_with_sign_in(client, peer) == 200
        assert peer.forms[-1]["grant_type"] == "refresh_token"
        (entry,) = await TokenStore(backend, tmp_path).accounts()
        assert entry.discovery.metadata_kind == "oauth"


async def test_endless_output_of_a_server_there_is_bounded(tmp_path: Path) -> None:
    async with run_peer() as peer:
        peer.document = {
            "code_challenge_methods_supported": ["S256", *("x" * 1_000 for _ in range(500))],
            "revocation_endpoint": f"{peer.origin}/{'r' * 3_000}",
        }
        entry = await sign_in_and_reload(peer, tmp_path)
    assert len(entry.discovery.pkce_methods) == 8
    assert len(encode(entry.discovery)) < 2_000


async def test_an_entry_of_an_earlier_version_is_still_a_sign_in(tmp_path: Path) -> None:
    old = {"server": "tracker", "url": "https://a.example/mcp", "issuer": "https://as.example", "renews": True}
    (tmp_path / INDEX_FILE).write_text(json.dumps({"accounts": [{**old, "expires": time() + 60}]}))
    (entry,) = await TokenStore(MemoryBackend(), tmp_path).accounts()
    assert (entry.server, entry.discovery) == ("tracker", DiscoverySummary())
    assert describe_discovery(entry) == []
