"""Tests that sign-ins, refreshes and sign-outs of one account at the same time do not undo each other."""

from collections.abc import AsyncGenerator, Awaitable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest

from mcphost.auth.oauth_provider import OAuthProvider
from mcphost.auth.oauth_registry import OAuthRegistry
from mcphost.auth.token_store import TokenStore
from mcphost.config.schema import ServerConfig
from mcphost.errors import SignInRequired
from mcphost.sign_in_types import AuthChallenge
from tests.fakes.memory_backend import MemoryBackend
from tests.unit.auth.oauth_peer import BrowserUser, OAuthPeer, create_oauth, run_peer
from tests.unit.auth.storage import SharedFolderBackend, age_sign_in
from tests.unit.transport.raw_http import ReceivedRequest

pytestmark = pytest.mark.anyio


class GatedPeer(OAuthPeer):
    """A peer that answers pings and token refreshes only when `go` is set.

    `reached` is set when one of them has arrived, and `redeemed` when a code was exchanged for tokens.
    """

    reached: anyio.Event
    go: anyio.Event
    redeemed: anyio.Event

    async def handle(self, request: ReceivedRequest) -> None:
        if b"ping" in request.body or b"grant_type=refresh_token" in request.body:
            self.reached.set()
            await self.go.wait()
        await super().handle(request)
        if b"grant_type=authorization_code" in request.body:
            self.redeemed.set()


@asynccontextmanager
async def run_gated_peer() -> AsyncGenerator[GatedPeer]:
    async with run_peer(kind=GatedPeer) as peer:
        assert isinstance(peer, GatedPeer)
        peer.reached, peer.go, peer.redeemed = anyio.Event(), anyio.Event(), anyio.Event()
        peer.go.set()
        yield peer


def make_store(tmp_path: Path) -> TokenStore:
    return TokenStore(SharedFolderBackend(tmp_path / "secrets"), tmp_path)


async def test_a_login_joins_a_sign_in_that_a_request_started_meanwhile() -> None:
    async with run_gated_peer() as peer:
        user = BrowserUser(visit=False)
        auth = create_oauth(peer, user)
        peer.go, peer.reached = anyio.Event(), anyio.Event()
        results: list[str] = []

        async def login() -> None:
            results.append((await auth.login()).tokens.access)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(login)
            await peer.reached.wait()
            tasks.start_soon(auth.sign_in, AuthChallenge(401, "Bearer", ""))
            await user.asked.wait()
            peer.go.set()
            await anyio.wait_all_tasks_blocked()
            async with httpx.AsyncClient(follow_redirects=True, trust_env=False, verify=False) as browser:
                await browser.get(user.urls[0])
        assert len(user.urls) == 1
        assert results == list(peer.valid)


@pytest.mark.req("auth.signout")
@pytest.mark.parametrize("where", ["here", "accounts", "elsewhere"])
async def test_a_sign_out_during_a_refresh_is_not_undone_by_its_tokens(tmp_path: Path, where: str) -> None:
    token_store = make_store(tmp_path)
    async with run_gated_peer() as peer:
        server = ServerConfig(name="peer", url=f"{peer.url}?key=a")
        peer.resource = {"resource": server.url}
        registry = OAuthRegistry(token_store, BrowserUser())
        other = registry if where == "accounts" else OAuthRegistry(make_store(tmp_path), None)
        auth = registry.get_provider(server, proxy_for=lambda url: "")
        assert auth is not None
        first = await auth.login()
        await age_sign_in(auth, token_store)
        peer.go, peer.reached = anyio.Event(), anyio.Event()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(auth.headers, "POST", server.url)
            await peer.reached.wait()
            if where == "here":
                tasks.start_soon(auth.logout)
            else:
                (account,) = await token_store.accounts()
                tasks.start_soon(other.make_stored_provider(account, None, proxy_for=lambda url: "").logout)
            await anyio.wait_all_tasks_blocked()
            peer.go.set()
        assert await make_store(tmp_path).load(server.url) is None
        assert list(peer.valid) == [first.tokens.access], "the new token was revoked"
        assert list((tmp_path / "secrets").glob("sign-in-tokens-*")) == []


async def test_a_sign_in_during_a_refresh_is_not_replaced_by_its_tokens(tmp_path: Path) -> None:
    token_store = make_store(tmp_path)
    async with run_gated_peer() as peer:
        user = BrowserUser()
        auth = create_oauth(peer, user, token_store)
        await auth.login()
        await age_sign_in(auth, token_store)
        peer.go, peer.reached, peer.redeemed = anyio.Event(), anyio.Event(), anyio.Event()
        later = create_oauth(peer, user, make_store(tmp_path))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(auth.headers, "POST", peer.url)
            await peer.reached.wait()
            tasks.start_soon(later.sign_in, AuthChallenge(403, 'Bearer error="insufficient_scope", scope="more"', ""))
            await peer.redeemed.wait()
            await anyio.wait_all_tasks_blocked()
            peer.go.set()
        stored = await make_store(tmp_path).load(peer.url)
        assert stored is not None
        assert "more" in stored.tokens.scopes


class OneDialogUser(BrowserUser):
    """A user who records how many sign-ins are shown at once."""

    shown: int = 0
    most_shown: int = 0

    async def sign_in(self, **asked: Any) -> str | None:
        self.shown += 1
        self.most_shown = max(self.most_shown, self.shown)
        try:
            await anyio.wait_all_tasks_blocked()
            return await super().sign_in(**asked)
        finally:
            self.shown -= 1


@pytest.mark.parametrize(("is_declined", "questions"), [(False, 1), (True, 2)])
async def test_two_servers_with_the_same_url_ask_in_one_dialog_at_a_time(is_declined: bool, questions: int) -> None:
    token_store, user = TokenStore(MemoryBackend(), None), OneDialogUser()
    if is_declined:
        user.visit, user.answer = False, None
    outcomes: list[bool] = []

    async def sign_in(auth: OAuthProvider, refusal: AuthChallenge) -> None:
        with suppress(SignInRequired):
            await auth.sign_in(refusal)
        outcomes.append(auth.current_sign_in is not None)

    async with run_peer() as peer:
        refusal = AuthChallenge(401, "Bearer", "")
        async with anyio.create_task_group() as tasks:
            for _ in range(2):
                tasks.start_soon(sign_in, create_oauth(peer, user, token_store), refusal)
    assert outcomes == [not is_declined] * 2
    assert len(user.urls) == questions
    assert user.most_shown == 1


@pytest.mark.parametrize("is_same_entry", [True, False])
async def test_a_login_that_waits_for_another_sign_in_asks_for_the_scopes_that_one_lacks(is_same_entry: bool) -> None:
    token_store, user = TokenStore(MemoryBackend(), None), BrowserUser(visit=False)
    async with run_peer() as peer:
        first = create_oauth(peer, user, token_store)
        second = first if is_same_entry else create_oauth(peer, user, token_store)
        results: dict[str, tuple[str, ...]] = {}

        async def login(auth: OAuthProvider, scope: str) -> None:
            results[scope] = (await auth.login(scopes=(scope,))).tokens.scopes

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(login, first, "read")
            await user.asked.wait()
            tasks.start_soon(login, second, "write")
            await anyio.wait_all_tasks_blocked()
            user.visit = True
            async with httpx.AsyncClient(follow_redirects=True, trust_env=False, verify=False) as browser:
                await browser.get(user.urls[0])
    assert "write" not in results["read"]
    assert {"read", "write"} <= set(results["write"])
    assert len(user.urls) == 2


class ThirdQuestionLater(BrowserUser):
    """A user who leaves the third question open until `go` is set, and then declines it."""

    asked_third: anyio.Event
    go: anyio.Event

    async def sign_in(self, **asked: Any) -> str | None:
        if len(self.urls) < 2:
            return await super().sign_in(**asked)
        self.asked_third.set()
        await self.go.wait()
        self.visit = False
        await super().sign_in(**asked)
        return None


async def test_a_request_that_waits_for_a_sign_in_is_told_how_that_one_ended_and_not_a_later_one() -> None:
    """Two logins that both waited for a sign-in without their scopes start their own one after the other."""
    user = ThirdQuestionLater(visit=False)
    user.asked_third, user.go = anyio.Event(), anyio.Event()
    outcomes: dict[str, str] = {}
    async with run_gated_peer() as peer:
        auth = create_oauth(peer, user)
        peer.go, peer.reached = anyio.Event(), anyio.Event()

        async def record(name: str, work: Awaitable[object]) -> None:
            try:
                await work
                outcomes[name] = "signed in"
            except SignInRequired as error:
                outcomes[name] = error.message

        async def visit(url: str) -> None:
            async with httpx.AsyncClient(follow_redirects=True, trust_env=False, verify=False) as browser:
                await browser.get(url)

        async with anyio.create_task_group() as tasks:
            for scope in ("write", "admin"):
                tasks.start_soon(record, scope, auth.login(scopes=(scope,)))
            await anyio.wait_all_tasks_blocked()
            tasks.start_soon(auth.sign_in, AuthChallenge(401, "Bearer", ""))
            await user.asked.wait()
            peer.go.set()
            await anyio.wait_all_tasks_blocked()
            user.asked = anyio.Event()
            await visit(user.urls[0])
            await user.asked.wait()
            assert auth.current_sign_in is not None
            refusal = AuthChallenge(401, "Bearer", auth.current_sign_in.tokens.authorization)
            tasks.start_soon(record, "request", auth.sign_in(refusal))
            await anyio.wait_all_tasks_blocked()
            await visit(user.urls[1])
            await user.asked_third.wait()
            assert outcomes.pop("request", "still waits for a sign-in that is not its own") == "signed in"
            user.go.set()
    assert sorted(outcomes) == ["admin", "write"]
    assert list(outcomes.values()) == ["signed in", "You declined to give mcphost more rights on 'peer'."]
