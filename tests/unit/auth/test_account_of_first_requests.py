"""Tests that the first requests to a server use the selected account, even if they overlap or are cancelled."""

import time
from collections.abc import Mapping
from pathlib import Path

import anyio
import pytest

from mcphost.auth.oauth_http import OAuthHttpClient
from mcphost.auth.oauth_provider import OAuthProvider
from mcphost.auth.registration import OAuthClient
from mcphost.auth.sign_in_context import SignInTarget
from mcphost.auth.token_store import StoredSignIn, TokenStore
from mcphost.auth.tokens import TokenSet
from mcphost.auth.url_policy import UrlPolicy
from mcphost.errors import SignInRequired
from mcphost.sign_in_types import AuthChallenge
from tests.fakes.memory_backend import MemoryBackend

pytestmark = pytest.mark.anyio
PEER_URL = "https://mcp.example/mcp"
WORK_HEADERS = {"authorization": "Bearer token-of-work"}
REFUSAL = AuthChallenge(401, "Bearer", "", "")


class SlowTokenStore(TokenStore):
    """A token store that reads the selected account only once `may_read` is set."""

    def __init__(self, directory: Path) -> None:
        super().__init__(MemoryBackend(), directory)
        self.may_read = anyio.Event()
        self.is_reading = anyio.Event()

    async def chosen_account(self, url: str) -> str:
        self.is_reading.set()
        await self.may_read.wait()
        return await super().chosen_account(url)


def make_sign_in(account: str) -> StoredSignIn:
    issuer = "https://as.example"
    now = time.time()
    return StoredSignIn(
        server="s", url=PEER_URL, issuer=issuer, resource=PEER_URL, token_endpoint=f"{issuer}/token", account=account,
        client=OAuthClient(issuer, "c"),
        tokens=TokenSet(f"token-of-{account or 'nobody'}", issued=now - 100, expires=now + 9000),
    )  # fmt: skip


async def make_store(tmp_path: Path) -> SlowTokenStore:
    token_store = SlowTokenStore(tmp_path)
    for account in ("", "work"):
        await token_store.save(make_sign_in(account))
    await token_store.choose_account(PEER_URL, "work")
    return token_store


def make_provider(token_store: TokenStore) -> OAuthProvider:
    return OAuthProvider(
        SignInTarget(server="s", url=PEER_URL), OAuthHttpClient(UrlPolicy(PEER_URL)), token_store, None
    )


async def test_a_request_after_a_cancelled_first_one_uses_the_selected_account(tmp_path: Path) -> None:
    token_store = await make_store(tmp_path)
    auth = make_provider(token_store)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(auth.headers, "POST", PEER_URL)
        await token_store.is_reading.wait()
        tasks.cancel_scope.cancel()
    assert auth.account_name is None
    token_store.may_read.set()
    assert await auth.headers("POST", PEER_URL) == WORK_HEADERS
    assert auth.account_name == "work"


async def test_overlapping_first_requests_wait_for_the_selected_account(tmp_path: Path) -> None:
    token_store = await make_store(tmp_path)
    auth = make_provider(token_store)
    sent: list[Mapping[str, str]] = []

    async def send() -> None:
        sent.append(await auth.headers("POST", PEER_URL))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(send)
        await token_store.is_reading.wait()
        tasks.start_soon(send)
        await anyio.wait_all_tasks_blocked()
        assert sent == []
        token_store.may_read.set()
    assert sent == [WORK_HEADERS, WORK_HEADERS]


async def test_a_refused_request_is_sent_again_with_the_selected_account(tmp_path: Path) -> None:
    token_store = await make_store(tmp_path)
    token_store.may_read.set()
    auth = make_provider(token_store)
    assert await auth.recover(REFUSAL)
    assert auth.current_headers("POST", PEER_URL) == WORK_HEADERS


async def test_a_sign_in_first_finds_out_which_account_is_selected(tmp_path: Path) -> None:
    token_store = await make_store(tmp_path)
    token_store.may_read.set()
    auth = make_provider(token_store)
    with pytest.raises(SignInRequired):
        await auth.sign_in(REFUSAL)
    assert auth.account_name == "work"


async def test_a_cancelled_sign_out_leaves_the_account_to_be_found_out(tmp_path: Path) -> None:
    token_store = await make_store(tmp_path)
    auth = make_provider(token_store)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(auth.logout)
        await token_store.is_reading.wait()
        tasks.cancel_scope.cancel()
    token_store.may_read.set()
    assert await auth.headers("POST", PEER_URL) == WORK_HEADERS


async def test_a_sign_out_during_the_first_request_is_not_undone(tmp_path: Path) -> None:
    token_store = await make_store(tmp_path)
    auth = make_provider(token_store)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(auth.headers, "POST", PEER_URL)
        tasks.start_soon(auth.logout)
        await token_store.is_reading.wait()
        token_store.may_read.set()
    assert await auth.headers("POST", PEER_URL) == {}
    assert await token_store.load(PEER_URL, "work") is None
