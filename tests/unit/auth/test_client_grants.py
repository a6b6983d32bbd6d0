"""Tests for sign-ins without a user and for tokens bound to a key: what is sent, where, and how often."""

import base64
import json
import re
from pathlib import Path
from typing import Any

import pytest

from mcphost import redact
from mcphost.auth.client_grants import JWT_BEARER, ClientGrant
from mcphost.auth.discovery import UntrustedMetadata
from mcphost.auth.dpop import JwtSigner
from mcphost.auth.oauth_http import OAuthHttpClient
from mcphost.auth.oauth_provider import OAuthProvider
from mcphost.auth.secret_store import SecretStorage
from mcphost.auth.sign_in_context import SignInFailed, SignInTarget
from mcphost.auth.token_store import TokenStore
from mcphost.auth.tokens import InvalidScopes, TokenError
from mcphost.auth.url_policy import UrlPolicy
from mcphost.errors import ConfigError
from mcphost.host.servers.accounts import describe_storage, describe_validity, validity
from tests.fakes.memory_backend import MemoryBackend
from tests.unit.auth.grant_servers import DpopServer, MachineTokenServer, create_private_key_pem, decode_jwt
from tests.unit.auth.oauth_peer import BrowserUser, OAuthPeer, RefusedRequest, create_oauth, run_peer, send_request
from tests.unit.auth.storage import OpenMemoryBackend, StorageUser

pytestmark = pytest.mark.anyio


def create_machine_oauth(
    peer: OAuthPeer, *, client_secret: str = "", issuer: str | None = None, **settings: Any
) -> OAuthProvider:
    where = peer.origin if issuer is None else issuer
    target = SignInTarget(server="peer", url=peer.url, client_id="me", client_secret=client_secret, issuer=where)
    requests = OAuthHttpClient(UrlPolicy(peer.url))
    grant = ClientGrant(target=target, **settings)
    return OAuthProvider(target, requests, TokenStore(MemoryBackend(), None), None, grant)


@pytest.mark.req("auth.ext.client-credentials")
async def test_a_client_with_a_secret_gets_its_token_without_a_browser() -> None:
    async with run_peer(
        kind=MachineTokenServer, document={"token_endpoint_auth_methods_supported": ["client_secret_basic"]}
    ) as peer:
        auth = create_machine_oauth(peer, grant="client_credentials", client_secret="my-secret-7")
        assert await send_request(auth, peer) == 200
        assert await send_request(auth, peer) == 200
    (form,) = peer.forms
    assert form["grant_type"] == "client_credentials"
    assert form["resource"] == peer.url
    assert base64.b64decode(form["authorization"].removeprefix("Basic ")) == b"me:my-secret-7"
    assert {"/authorize", "/register"}.isdisjoint(peer.paths())


async def test_a_client_grant_stores_nothing_asks_nothing_and_is_shown_as_renewable(tmp_path: Path) -> None:
    backend = OpenMemoryBackend()
    owner = StorageUser()
    async with run_peer(kind=MachineTokenServer, lifetime=2) as peer:
        user = create_oauth(peer, BrowserUser(), TokenStore(backend, tmp_path))
        signed = await user.login()
        before = dict(backend.secrets)
        peer.forms.clear()

        def run() -> OAuthProvider:
            token_store = TokenStore(SecretStorage(backend, tmp_path, interaction=owner), tmp_path)
            grant = ClientGrant(target=target, grant="client_credentials")
            return OAuthProvider(target, OAuthHttpClient(UrlPolicy(peer.url)), token_store, None, grant)

        target = SignInTarget(server="peer", url=peer.url, client_id="me", issuer=peer.origin)
        for _ in range(2):
            auth = run()
            assert await send_request(auth, peer) == 200
            assert auth.account is not None
            assert (validity(auth.account), describe_validity(auth.account)) == ("good", "renewed automatically")
            assert describe_storage(auth.account).startswith("not stored")
        # A user's sign-in at the same server is neither used for it nor changed.
        assert [form["grant_type"] for form in peer.forms] == ["client_credentials"] * 2
        assert f"Bearer {signed.tokens.access}" not in [seen.headers.get("authorization") for seen in peer.seen[-4:]]
        assert await auth.resolve_storage(await auth.login()) == "earned"
        gone, revoked = await auth.logout()
        assert gone is not None
        assert revoked
    assert backend.secrets == before
    assert owner.asked == []


@pytest.mark.parametrize("accepted", ["", "{origin}/", "{origin}/other"])
async def test_a_token_for_more_than_the_server_needs_the_users_word(accepted: str) -> None:
    async with run_peer(kind=MachineTokenServer) as peer:
        peer.resource = {"resource": peer.origin}
        auth = create_machine_oauth(
            peer, grant="client_credentials", client_secret="my-secret-7", resource=accepted.format(origin=peer.origin)
        )
        if accepted == "{origin}/":
            assert await send_request(auth, peer) == 200
        else:
            with pytest.raises(UntrustedMetadata, match="covers more") as exc_info:
                await send_request(auth, peer)
            assert f'"resource": "{peer.origin}"' in exc_info.value.hint
    assert [form["resource"] for form in peer.forms] == ([peer.origin] if accepted == "{origin}/" else [])


@pytest.mark.req("auth.ext.wif")
async def test_a_workload_sends_its_assertion_once_and_accepts_no() -> None:
    async with run_peer(kind=MachineTokenServer) as peer:
        assert await send_request(create_machine_oauth(peer, grant="workload", assertion="the.work.load"), peer) == 200
        peer.answers["/token"] = (
            400,
            b'{"error": "invalid_grant", "error_description": "expired"}',
            "application/json",
        )
        with pytest.raises(TokenError, match="invalid_grant: expired"):
            await send_request(create_machine_oauth(peer, grant="workload", assertion="another.work.load"), peer)
    assert [form["assertion"] for form in peer.forms] == ["the.work.load"]
    assert peer.forms[0]["grant_type"] == JWT_BEARER
    assert peer.paths().count("/token") == 2


@pytest.mark.req("auth.ext.ema")
async def test_a_company_vouches_for_its_user() -> None:
    async with run_peer(kind=MachineTokenServer) as idp, run_peer(kind=MachineTokenServer) as peer:
        auth = create_machine_oauth(
            peer, grant="enterprise", client_secret="my-secret-8", idp_token="the.id.token",
            idp_client_id="me-there", idp_token_endpoint=f"{idp.origin}/token",
        )  # fmt: skip
        assert await send_request(auth, peer) == 200
    (asked,), (form,) = idp.forms, peer.forms
    assert (asked["subject_token"], asked["audience"], asked["resource"]) == ("the.id.token", peer.origin, peer.url)
    assert asked["client_id"] == "me-there"
    assert (form["grant_type"], form["assertion"]) == (JWT_BEARER, "the-id-jag-assertion")
    assert not any(b"the.id.token" in seen.body for seen in peer.seen), "the ID token is for the identity provider"


@pytest.mark.req("auth.ext.ema")
async def test_an_invalid_company_domain_is_rejected() -> None:
    async with run_peer(kind=MachineTokenServer, registration={"issued_token_type": "access_token"}) as peer:
        auth = create_machine_oauth(
            peer, grant="enterprise", client_secret="my-secret-8", idp_token="the.id.token",
            idp_client_id="me-there", idp_token_endpoint=f"{peer.origin}/token",
        )  # fmt: skip
        with pytest.raises(TokenError, match="issued no ID-JAG"):
            await send_request(auth, peer)
    assert len(peer.forms) == 1


@pytest.mark.req("auth.as.separate-state")
async def test_a_client_secret_is_sent_to_no_other_authorization_server() -> None:
    async with run_peer(kind=MachineTokenServer) as peer:
        auth = create_machine_oauth(
            peer, grant="client_credentials", client_secret="my-secret-7", issuer="https://as.example"
        )
        with pytest.raises(UntrustedMetadata, match="does not name"):
            await send_request(auth, peer)
    assert peer.forms == []


@pytest.mark.req("auth.as.separate-state", "auth.token.right-server")
@pytest.mark.parametrize("grant", ["client_credentials", "workload", "enterprise"])
async def test_a_client_assertion_is_not_sent_to_an_authorization_server_that_only_the_server_names(grant: str) -> None:
    async with (
        run_peer(kind=MachineTokenServer) as trap,
        run_peer(kind=MachineTokenServer) as company,
        run_peer(kind=MachineTokenServer) as peer,
    ):
        peer.resource = {"authorization_servers": [trap.origin]}
        auth = create_machine_oauth(
            peer, grant=grant, issuer="", client_secret="my-secret-7", assertion="the.work.load",
            idp_token="the.id.token", idp_token_endpoint=f"{company.origin}/token",
        )  # fmt: skip
        with pytest.raises(UntrustedMetadata, match=re.escape(trap.origin)) as exc_info:
            await send_request(auth, peer)
        assert '"issuer"' in exc_info.value.hint
    assert trap.seen == company.seen == []


@pytest.mark.req("auth.stepup.client-credentials")
async def test_a_machine_gives_up_when_more_scopes_are_wanted() -> None:
    async with run_peer(kind=MachineTokenServer) as peer:
        auth = create_machine_oauth(peer, grant="client_credentials", client_secret="my-secret-7")
        await send_request(auth, peer)
        refused = RefusedRequest(403, 'Bearer error="insufficient_scope", scope="more"', "Bearer x")
        assert not await auth.recover(refused)
        with pytest.raises(SignInFailed):
            await auth.sign_in(refused, 1)
    assert len(peer.forms) == 1


async def test_a_machine_asks_for_no_scope_beyond_the_configured_ones() -> None:
    async with run_peer(kind=MachineTokenServer, challenge='Bearer scope="read admin"') as peer:
        few = create_machine_oauth(
            peer, grant="client_credentials", client_secret="my-secret-7", scopes=("read", "write")
        )
        with pytest.raises(InvalidScopes, match="not configured: admin"):
            await send_request(few, peer)
        assert peer.forms == []
        all_of_them = create_machine_oauth(
            peer, grant="client_credentials", client_secret="s-7", scopes=("admin", "read", "write")
        )
        assert await send_request(all_of_them, peer) == 200
    assert [form["scope"] for form in peer.forms] == ["read admin"]


async def test_a_client_grant_whose_fresh_token_is_refused_is_not_repeated_forever() -> None:
    async with run_peer(kind=MachineTokenServer) as peer:
        peer.answers["/mcp"] = (401, b"", "")
        assert (
            await send_request(
                create_machine_oauth(peer, grant="client_credentials", client_secret="my-secret-7"), peer
            )
            == 401
        )
    assert len(peer.forms) == 1


@pytest.mark.req("auth.ext.dpop")
async def test_a_bound_token_travels_with_a_fresh_proof_and_the_nonce_of_each_server() -> None:
    token_store = TokenStore(MemoryBackend(), None)
    async with run_peer(kind=DpopServer) as peer:
        signed = await create_oauth(peer, BrowserUser(), token_store).login()
        assert signed.tokens.kind == "DPoP"
        auth = create_oauth(peer, None, token_store)
        assert await send_request(auth, peer) == 200
        assert await send_request(auth, peer) == 200
        assert peer.paths().count("/token") == 2, "one provoked the nonce"
    private = json.loads(signed.dpop_key)["d"]
    assert not any(private.encode() in seen.body + repr(seen.headers).encode() for seen in peer.seen)
    assert redact.redact(f"x {private} y") == "x [secret] y"
    assert private not in repr(signed)


@pytest.mark.req("auth.ext.dpop")
async def test_an_unbound_token_is_not_used_where_the_server_requires_a_bound_one() -> None:
    token_store = TokenStore(MemoryBackend(), None)
    async with run_peer(resource={"dpop_bound_access_tokens_required": True}) as peer:
        auth = create_oauth(peer, BrowserUser(), token_store)
        with pytest.raises(TokenError, match="bound to a key"):
            await auth.login()
        assert auth.current_sign_in is None
        assert await token_store.load(peer.url, "", reload=True) is None


def test_an_assertion_names_one_audience_and_is_short_lived() -> None:
    head, claims = decode_jwt(
        JwtSigner.from_pem(create_private_key_pem(), "ES256").make_client_assertion("me", "https://as.example")
    )
    assert head["alg"] == "ES256"
    assert (claims["iss"], claims["sub"], claims["aud"]) == ("me", "me", "https://as.example")
    assert 0 < claims["exp"] - claims["iat"] <= 300


@pytest.mark.parametrize("algorithm", ["ES384", "ES512", "RS256", "Ed25519"])
def test_a_key_of_another_curve_or_type_is_refused(algorithm: str) -> None:
    with pytest.raises(ConfigError, match=algorithm):
        JwtSigner.from_pem(create_private_key_pem(), algorithm)


@pytest.mark.parametrize(("key", "algorithm"), [("not a key", "ES256"), ("", "none"), ("", "HS256")])
def test_an_invalid_key_is_reported_as_a_configuration_error(key: str, algorithm: str) -> None:
    with pytest.raises(ConfigError, match=r"mcphost\.oauth"):
        JwtSigner.from_pem(key, algorithm)
