"""What lies in a vault, and what the user entered, counts only for whom it was put there."""

from pathlib import Path

import pytest

from mcphost.auth.client_registration import Client
from mcphost.auth.discovery import Untrusted
from mcphost.auth.file_backend import PLAIN_FILE, FileVault
from mcphost.auth.keyring_backend import MemoryVault
from mcphost.auth.secret_store import referenced
from mcphost.auth.stored_sign_in import entry_name
from mcphost.auth.token_store import Keep
from mcphost.serialization import encode, replace
from tests.unit.auth.peer import Browser, Refused, oauth, peer, used

pytestmark = pytest.mark.anyio


@pytest.mark.req("auth.token.right-server")
async def test_a_configuration_cannot_refer_to_a_sign_in(tmp_path: Path) -> None:
    keyring, plain = MemoryVault(), FileVault(tmp_path / PLAIN_FILE)
    for name in (entry_name("tokens", "https://mcp.example", "https://as.example"), entry_name("client", "x"), "work"):
        await keyring.set(name, "in the keyring")
        assert await referenced(keyring, tmp_path, name) == ("in the keyring" if name == "work" else None)
    name = entry_name("tokens", "https://mcp.example", "https://as.example")
    for given in (name, "work"):
        await plain.set(given, "in the file")
    assert await referenced(keyring, tmp_path, "work") == "in the file"
    assert await referenced(keyring, tmp_path, name) is None


@pytest.mark.req("auth.token.right-server")
@pytest.mark.parametrize("other", [{"url": "https://x.example"}, {"issuer": "https://x.example"}, {"account": "x"}])
async def test_a_sign_in_that_lies_where_another_belongs_is_not_used(tmp_path: Path, other: dict[str, str]) -> None:
    vault = MemoryVault()
    async with peer() as one:
        auth = oauth(one, Browser(), Keep(vault, tmp_path))
        await used(auth, one)
        signed = auth._signed
        assert signed is not None
        assert await Keep(vault, tmp_path).load(one.url) == signed
        await vault.set(signed.entry, encode(replace(signed, **other)).decode())
        assert await Keep(vault, tmp_path).load(one.url) is None


@pytest.mark.req("auth.as.separate-state")
async def test_a_registration_that_lies_where_that_of_another_issuer_belongs_is_not_used(tmp_path: Path) -> None:
    vault = MemoryVault()
    for issuer, found in (("https://x.example", False), ("https://as.example", True)):
        client = Client(issuer=issuer, id="me", kind="registered")
        await vault.set(entry_name("client", "https://as.example"), encode(client).decode())
        assert await Keep(vault, tmp_path).client("https://as.example") == (client if found else None)


async def test_forgetting_a_registration_leaves_one_that_was_made_meanwhile(tmp_path: Path) -> None:
    keep = Keep(MemoryVault(), tmp_path)
    old, new = (Client(issuer="https://as.example", id=ident, kind="registered") for ident in ("old", "new"))
    await keep.save_client(new)
    await keep.forget_client(old)
    assert await keep.client("https://as.example") == new
    await keep.forget_client(new)
    assert await keep.client("https://as.example") is None


@pytest.mark.req("auth.as.separate-state")
async def test_a_client_id_that_was_used_at_one_issuer_is_not_sent_to_another_that_the_server_names_later() -> None:
    keep, person = Keep(MemoryVault(), None), Browser()
    async with peer() as other, peer() as one:
        auth = oauth(one, person, keep, client_id="mine", client_secret="my-secret-7")
        await used(auth, one)
        sent = f"Bearer {next(iter(one.valid))}"
        one.resource = {"authorization_servers": [other.origin]}
        with pytest.raises(Untrusted, match="belongs to the authorization server"):
            await auth.sign_in(Refused(401, "", sent), 1)
        assert not any(b"mine" in seen.body or "mine" in seen.path for seen in other.seen)
    assert len(person.urls) == 1
