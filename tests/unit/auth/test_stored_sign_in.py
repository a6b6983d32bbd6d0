"""Tests that stored sign-ins and client IDs are used only for the server they were stored for."""

import json
from pathlib import Path

import pytest

from mcphost.auth.accounts import INDEX_FILE
from mcphost.auth.discovery import UntrustedMetadata
from mcphost.auth.file_backend import PLAIN_FILE, FileBackend
from mcphost.auth.oauth_registry import OAuthRegistry
from mcphost.auth.registration import OAuthClient
from mcphost.auth.secret_store import resolve_reference
from mcphost.auth.token_store import StoredSignIn, TokenStore, make_entry_name
from mcphost.auth.tokens import TokenSet
from mcphost.auth.url_policy import canonical_url
from mcphost.config.schema import OAuthConfig, ServerConfig
from mcphost.errors import McpHostError
from mcphost.serialization import encode, replace
from tests.fakes.memory_backend import MemoryBackend
from tests.unit.auth.oauth_peer import BrowserUser, RefusedRequest, create_oauth, run_peer, send_with_sign_in
from tests.unit.auth.storage import read_all_files

pytestmark = pytest.mark.anyio


@pytest.mark.req("auth.token.right-server")
async def test_a_configuration_cannot_refer_to_a_sign_in(tmp_path: Path) -> None:
    keyring, plain = MemoryBackend(), FileBackend(tmp_path / PLAIN_FILE)
    for name in (
        make_entry_name("tokens", "https://mcp.example", "https://as.example"),
        make_entry_name("client", "x"),
        "work",
    ):
        await keyring.set(name, "in the keyring")
        assert await resolve_reference(keyring, tmp_path, name) == ("in the keyring" if name == "work" else None)
    name = make_entry_name("tokens", "https://mcp.example", "https://as.example")
    for given in (name, "work"):
        await plain.set(given, "in the file")
    assert await resolve_reference(keyring, tmp_path, "work") == "in the file"
    assert await resolve_reference(keyring, tmp_path, name) is None


@pytest.mark.req("auth.token.right-server")
@pytest.mark.parametrize("other", [{"url": "https://x.example"}, {"issuer": "https://x.example"}, {"account": "x"}])
async def test_a_sign_in_stored_under_another_key_is_not_used(tmp_path: Path, other: dict[str, str]) -> None:
    backend = MemoryBackend()
    async with run_peer() as peer:
        auth = create_oauth(peer, BrowserUser(), TokenStore(backend, tmp_path))
        await send_with_sign_in(auth, peer)
        signed = auth.current_sign_in
        assert signed is not None
        assert await TokenStore(backend, tmp_path).load(peer.url) == signed
        await backend.set(signed.entry_name, encode(replace(signed, **other)).decode())
        assert await TokenStore(backend, tmp_path).load(peer.url) is None


@pytest.mark.req("auth.as.separate-state")
async def test_a_registration_stored_under_another_issuer_is_not_used(tmp_path: Path) -> None:
    backend = MemoryBackend()
    for issuer, found in (("https://x.example", False), ("https://as.example", True)):
        client = OAuthClient(issuer=issuer, id="me", kind="registered")
        await backend.set(make_entry_name("client", "https://as.example"), encode(client).decode())
        assert await TokenStore(backend, tmp_path).load_client("https://as.example") == (client if found else None)


async def test_forgetting_a_registration_keeps_one_created_meanwhile(tmp_path: Path) -> None:
    token_store = TokenStore(MemoryBackend(), tmp_path)
    old, new = (OAuthClient(issuer="https://as.example", id=ident, kind="registered") for ident in ("old", "new"))
    await token_store.save_client(new)
    await token_store.delete_client(old)
    assert await token_store.load_client("https://as.example") == new
    await token_store.delete_client(new)
    assert await token_store.load_client("https://as.example") is None


@pytest.mark.req("auth.as.separate-state")
async def test_a_client_id_used_at_one_issuer_is_not_sent_to_another_issuer() -> None:
    token_store, user = TokenStore(MemoryBackend(), None), BrowserUser()
    async with run_peer() as other, run_peer() as peer:
        auth = create_oauth(peer, user, token_store, client_id="mine", client_secret="my-secret-7")
        await send_with_sign_in(auth, peer)
        sent = f"Bearer {next(iter(peer.valid))}"
        peer.resource = {"authorization_servers": [other.origin]}
        with pytest.raises(UntrustedMetadata, match="belongs to the authorization server"):
            await auth.sign_in(RefusedRequest(401, "", sent), 1)
        assert not any(b"mine" in seen.body or "mine" in seen.path for seen in other.seen)
    assert len(user.urls) == 1


async def test_a_sign_in_at_another_issuer_replaces_one_that_was_never_stored() -> None:
    class FullBackend(MemoryBackend):
        async def set(self, name: str, secret: str) -> None:
            raise McpHostError("The disk is full.")

    store = TokenStore(FullBackend(), None)
    for issuer in ("https://old.example", "https://new.example"):
        sign_in = StoredSignIn(
            server="peer",
            url="https://mcp.example",
            issuer=issuer,
            resource="",
            token_endpoint="",
            tokens=TokenSet("token"),
            client=OAuthClient(issuer, "me"),
        )
        await store.save(sign_in)
    assert [account.issuer for account in await store.accounts()] == ["https://new.example"]
    assert await store.load("https://mcp.example") == sign_in


QUERY_URL = "https://mcp.example/mcp?api_key=s3cret-of-the-url&tenant=a"


def sign_in_at(url: str) -> StoredSignIn:
    issuer = "https://as.example"
    return StoredSignIn(
        server="peer", url=url, issuer=issuer, resource="", token_endpoint="", tokens=TokenSet(f"token at {url}"),
        client=OAuthClient(issuer, "me"),
    )  # fmt: skip


async def test_the_list_of_sign_ins_has_no_query_of_a_server_address(tmp_path: Path) -> None:
    backend = MemoryBackend()
    one, other = sign_in_at(QUERY_URL), sign_in_at(QUERY_URL.replace("tenant=a", "tenant=b"))
    for sign_in in (one, other):
        await TokenStore(backend, tmp_path).save(sign_in)
    await TokenStore(backend, tmp_path).choose_account(QUERY_URL, "work")
    assert b"s3cret" not in read_all_files(tmp_path)
    store = TokenStore(backend, tmp_path)
    assert [await store.load(sign_in.url) for sign_in in (one, other)] == [one, other]
    assert await store.load("https://mcp.example/mcp") is None
    assert [await store.chosen_account(sign_in.url) for sign_in in (one, other)] == ["work", ""]
    assert await store.delete(other.url) == other
    assert [account.url.partition("?")[0] for account in await store.accounts()] == ["https://mcp.example/mcp"]
    assert await store.load(one.url, reload=True) == one


async def test_sign_ins_listed_with_their_query_before_are_kept_without_it(tmp_path: Path) -> None:
    backend, sign_in = MemoryBackend(), sign_in_at(QUERY_URL)
    await backend.set(make_entry_name("tokens", QUERY_URL, sign_in.issuer, ""), encode(sign_in).decode())
    account = {"server": "peer", "url": QUERY_URL, "issuer": sign_in.issuer}
    index = tmp_path / INDEX_FILE
    index.write_text(json.dumps({"accounts": [account], "chosen": [{"url": QUERY_URL, "account": "work"}]}))
    store = TokenStore(backend, tmp_path)
    (listed,) = await store.accounts()
    assert "s3cret" not in listed.url + index.read_text()
    assert await store.chosen_account(QUERY_URL) == "work"
    assert await TokenStore(backend, tmp_path).load(QUERY_URL) == sign_in
    assert await TokenStore(backend, tmp_path).delete(listed.url) == sign_in, "of a server that is not configured now"
    assert await store.accounts() == ()
    assert await backend.get(sign_in.entry_name) is None


async def test_a_sign_in_at_an_address_with_a_query_is_used_and_ended(tmp_path: Path) -> None:
    store = TokenStore(MemoryBackend(), tmp_path)
    async with run_peer() as peer:
        server = ServerConfig(name="peer", url=f"{peer.url}?key=s3cret")
        await store.save(sign_in_at(canonical_url(server.url)))
        registry = OAuthRegistry(store, BrowserUser())
        (stored,) = await registry.list_accounts([server])
        assert (stored.servers, stored.used_by) == (("peer",), ("peer",))
        await registry.choose_account(server, "default")
        erased, _ = await registry.sign_out_stored(stored.account, None, proxy_for=lambda _: "")
        assert erased
        assert await registry.list_accounts([server]) == ()


@pytest.mark.req("auth.token.right-server", "auth.signout")
@pytest.mark.parametrize("is_same", [True, False])
async def test_a_server_of_the_same_name_decides_nothing_about_where_tokens_are_revoked(
    tmp_path: Path, is_same: bool
) -> None:
    """`mcphost logout NAME` also ends a sign-in to the user's own server, of which a project has another one."""
    url = "https://203.0.113.7/mcp"
    async with run_peer() as peer:
        sign_in = StoredSignIn(
            server="tracker", url=url, issuer=peer.origin, resource=url, token_endpoint=f"{peer.origin}/token",
            revocation_endpoint=f"{peer.origin}/revoke", tokens=TokenSet("access-1"),
            client=OAuthClient(peer.origin, "me"),
        )  # fmt: skip
        token_store = TokenStore(MemoryBackend(), tmp_path)
        await token_store.save(sign_in)
        (account,) = await token_store.accounts()
        project_server = ServerConfig(
            name="tracker", url=f"{url}/" if is_same else "https://203.0.113.8/mcp", oauth=OAuthConfig(private=True)
        )
        registry = OAuthRegistry(token_store, None)
        gone, revoked = await registry.sign_out_stored(account, project_server, proxy_for=lambda address: "")
    assert gone
    assert revoked is is_same
    assert peer.paths() == (["/revoke"] if is_same else [])
