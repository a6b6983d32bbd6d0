"""Sign-ins without a person, and tokens that are bound to a key: what is sent, where, and how often."""

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
from mcphost.auth.keyring_backend import MemoryBackend
from mcphost.auth.oauth_http import OAuthHttpClient
from mcphost.auth.oauth_provider import OAuthProvider
from mcphost.auth.secret_store import SecretStorage
from mcphost.auth.token_store import TokenStore
from mcphost.auth.tokens import InvalidScopes, TokenError
from mcphost.auth.url_policy import UrlPolicy
from mcphost.auth.user_interaction import SignInFailed, SignInTarget
from mcphost.errors import ConfigError
from mcphost.host.servers.accounts import describe_storage, describe_validity, validity
from tests.unit.auth.grant_servers import DpopServer, MachineTokenServer, create_private_key_pem, decode_jwt
from tests.unit.auth.oauth_peer import BrowserUser, OAuthPeer, Refused, create_oauth, run_peer, send_request
from tests.unit.auth.storage import OpenMemoryBackend, StorageUser

pytestmark = pytest.mark.anyio


def machine(one: OAuthPeer, *, client_secret: str = "", issuer: str | None = None, **settings: Any) -> OAuthProvider:
    where = one.origin if issuer is None else issuer
    target = SignInTarget(server="peer", url=one.url, client_id="me", client_secret=client_secret, issuer=where)
    requests = OAuthHttpClient(UrlPolicy(one.url))
    made = ClientGrant(target=target, **settings)
    return OAuthProvider(target, requests, TokenStore(MemoryBackend(), None), None, made)


@pytest.mark.req("auth.ext.client-credentials")
async def test_a_client_with_a_secret_gets_its_token_without_a_browser() -> None:
    async with run_peer(
        kind=MachineTokenServer, document={"token_endpoint_auth_methods_supported": ["client_secret_basic"]}
    ) as one:
        auth = machine(one, grant="client_credentials", client_secret="my-secret-7")
        assert await send_request(auth, one) == 200
        assert await send_request(auth, one) == 200
    (form,) = one.forms
    assert form["grant_type"] == "client_credentials"
    assert form["resource"] == one.url
    assert base64.b64decode(form["authorization"].removeprefix("Basic ")) == b"me:my-secret-7"
    assert {"/authorize", "/register"}.isdisjoint(one.paths())


async def test_a_client_grant_stores_nothing_asks_nothing_and_is_shown_as_renewing(tmp_path: Path) -> None:
    vault = OpenMemoryBackend()
    owner = StorageUser()
    async with run_peer(kind=MachineTokenServer, lifetime=2) as one:
        person = create_oauth(one, BrowserUser(), TokenStore(vault, tmp_path))
        signed = await person.login()
        before = dict(vault.secrets)
        one.forms.clear()

        def run() -> OAuthProvider:
            keep = TokenStore(SecretStorage(vault, tmp_path, interaction=owner), tmp_path)
            made = ClientGrant(target=target, grant="client_credentials")
            return OAuthProvider(target, OAuthHttpClient(UrlPolicy(one.url)), keep, None, made)

        target = SignInTarget(server="peer", url=one.url, client_id="me", issuer=one.origin)
        for _ in range(2):
            auth = run()
            assert await send_request(auth, one) == 200
            assert auth.account is not None
            assert (validity(auth.account), describe_validity(auth.account)) == ("good", "renewed automatically")
            assert describe_storage(auth.account).startswith("not stored")
        # The sign-in of a person at the same server is neither used for it nor touched.
        assert [form["grant_type"] for form in one.forms] == ["client_credentials"] * 2
        assert f"Bearer {signed.tokens.access}" not in [seen.headers.get("authorization") for seen in one.seen[-4:]]
        assert await auth.resolve_storage(await auth.login()) == "earned"
        gone, revoked = await auth.logout()
        assert gone is not None
        assert revoked
    assert vault.secrets == before
    assert owner.asked == []


@pytest.mark.req("auth.ext.wif")
async def test_a_workload_sends_its_assertion_once_and_accepts_no() -> None:
    async with run_peer(kind=MachineTokenServer) as one:
        assert await send_request(machine(one, grant="workload", assertion="the.work.load"), one) == 200
        one.answers["/token"] = (400, b'{"error": "invalid_grant", "error_description": "expired"}', "application/json")
        with pytest.raises(TokenError, match="invalid_grant: expired"):
            await send_request(machine(one, grant="workload", assertion="another.work.load"), one)
    assert [form["assertion"] for form in one.forms] == ["the.work.load"]
    assert one.forms[0]["grant_type"] == JWT_BEARER
    assert one.paths().count("/token") == 2


@pytest.mark.req("auth.ext.ema")
async def test_a_company_vouches_for_its_user() -> None:
    async with run_peer(kind=MachineTokenServer) as idp, run_peer(kind=MachineTokenServer) as one:
        auth = machine(
            one, grant="enterprise", client_secret="my-secret-8", idp_token="the.id.token",
            idp_client_id="me-there", idp_token_endpoint=f"{idp.origin}/token",
        )  # fmt: skip
        assert await send_request(auth, one) == 200
    (asked,), (form,) = idp.forms, one.forms
    assert (asked["subject_token"], asked["audience"], asked["resource"]) == ("the.id.token", one.origin, one.url)
    assert asked["client_id"] == "me-there"
    assert (form["grant_type"], form["assertion"]) == (JWT_BEARER, "the-id-jag-assertion")
    assert not any(b"the.id.token" in seen.body for seen in one.seen), "the ID token is for the identity provider"


@pytest.mark.req("auth.ext.ema")
async def test_a_company_that_gives_anything_else_is_not_believed() -> None:
    async with run_peer(kind=MachineTokenServer, registration={"issued_token_type": "access_token"}) as one:
        auth = machine(
            one, grant="enterprise", client_secret="my-secret-8", idp_token="the.id.token",
            idp_client_id="me-there", idp_token_endpoint=f"{one.origin}/token",
        )  # fmt: skip
        with pytest.raises(TokenError, match="issued no ID-JAG"):
            await send_request(auth, one)
    assert len(one.forms) == 1


@pytest.mark.req("auth.as.separate-state")
async def test_a_machines_secret_goes_to_no_other_authorization_server() -> None:
    async with run_peer(kind=MachineTokenServer) as one:
        auth = machine(one, grant="client_credentials", client_secret="my-secret-7", issuer="https://as.example")
        with pytest.raises(UntrustedMetadata, match="does not name"):
            await send_request(auth, one)
    assert one.forms == []


@pytest.mark.req("auth.as.separate-state", "auth.token.right-server")
@pytest.mark.parametrize("grant", ["client_credentials", "workload", "enterprise"])
async def test_a_machine_proves_nothing_to_an_authorization_server_that_only_the_server_names(grant: str) -> None:
    async with (
        run_peer(kind=MachineTokenServer) as trap,
        run_peer(kind=MachineTokenServer) as company,
        run_peer(kind=MachineTokenServer) as one,
    ):
        one.resource = {"authorization_servers": [trap.origin]}
        auth = machine(
            one, grant=grant, issuer="", client_secret="my-secret-7", assertion="the.work.load",
            idp_token="the.id.token", idp_token_endpoint=f"{company.origin}/token",
        )  # fmt: skip
        with pytest.raises(UntrustedMetadata, match=re.escape(trap.origin)) as caught:
            await send_request(auth, one)
        assert '"issuer"' in caught.value.hint
    assert trap.seen == company.seen == []


@pytest.mark.req("auth.stepup.client-credentials")
async def test_a_machine_gives_up_when_more_scopes_are_wanted() -> None:
    async with run_peer(kind=MachineTokenServer) as one:
        auth = machine(one, grant="client_credentials", client_secret="my-secret-7")
        await send_request(auth, one)
        refused = Refused(403, 'Bearer error="insufficient_scope", scope="more"', "Bearer x")
        assert not await auth.recover(refused)
        with pytest.raises(SignInFailed):
            await auth.sign_in(refused, 1)
    assert len(one.forms) == 1


async def test_a_machine_asks_for_no_scope_beyond_the_configured_ones() -> None:
    async with run_peer(kind=MachineTokenServer, challenge='Bearer scope="read admin"') as one:
        few = machine(one, grant="client_credentials", client_secret="my-secret-7", scopes=("read", "write"))
        with pytest.raises(InvalidScopes, match="not configured: admin"):
            await send_request(few, one)
        assert one.forms == []
        all_of_them = machine(one, grant="client_credentials", client_secret="s-7", scopes=("admin", "read", "write"))
        assert await send_request(all_of_them, one) == 200
    assert [form["scope"] for form in one.forms] == ["read admin"]


async def test_a_machine_whose_fresh_token_is_refused_does_not_ask_forever() -> None:
    async with run_peer(kind=MachineTokenServer) as one:
        one.answers["/mcp"] = (401, b"", "")
        assert await send_request(machine(one, grant="client_credentials", client_secret="my-secret-7"), one) == 401
    assert len(one.forms) == 1


@pytest.mark.req("auth.ext.dpop")
async def test_a_bound_token_travels_with_a_fresh_proof_and_the_nonce_of_each_server() -> None:
    keep = TokenStore(MemoryBackend(), None)
    async with run_peer(kind=DpopServer) as one:
        signed = await create_oauth(one, BrowserUser(), keep).login()
        assert signed.tokens.kind == "DPoP"
        auth = create_oauth(one, None, keep)
        assert await send_request(auth, one) == 200
        assert await send_request(auth, one) == 200
        assert one.paths().count("/token") == 2, "one provoked the nonce"
    private = json.loads(signed.dpop_key)["d"]
    assert not any(private.encode() in seen.body + repr(seen.headers).encode() for seen in one.seen)
    assert redact.redact(f"x {private} y") == "x [secret] y"
    assert private not in repr(signed)


def test_an_assertion_names_one_audience_and_lives_shortly() -> None:
    head, claims = decode_jwt(
        JwtSigner.from_pem(create_private_key_pem(), "ES256").make_client_assertion("me", "https://as.example")
    )
    assert head["alg"] == "ES256"
    assert (claims["iss"], claims["sub"], claims["aud"]) == ("me", "me", "https://as.example")
    assert 0 < claims["exp"] - claims["iat"] <= 300


@pytest.mark.parametrize(("key", "algorithm"), [("not a key", "ES256"), ("", "none"), ("", "HS256")])
def test_an_invalid_key_is_reported_as_a_configuration_error(key: str, algorithm: str) -> None:
    with pytest.raises(ConfigError, match=r"mcphost\.oauth"):
        JwtSigner.from_pem(key, algorithm)
