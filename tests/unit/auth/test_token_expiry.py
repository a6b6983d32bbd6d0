"""Tests for clock changes, suspends and short-lived tokens: accounts stay signed in, and no expired token is sent."""

import time
from pathlib import Path

import pytest

from mcphost.auth import accounts
from mcphost.auth import tokens as tokens_of
from mcphost.auth.accounts import TokenAges, suspend_aware_time
from mcphost.auth.token_store import TokenStore
from mcphost.host.servers.accounts import describe_validity, validity
from tests.fakes.memory_backend import MemoryBackend
from tests.unit.auth.oauth_peer import BrowserUser, OAuthPeer, create_oauth, run_peer, send_request, send_with_sign_in
from tests.unit.transport.raw_http import ReceivedRequest

pytestmark = pytest.mark.anyio


class Clocks:
    """A wall clock that can be set, and a monotonic clock."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.wall, self.ran = 1_800_000_000.0, 50.0
        self._monkeypatch = monkeypatch
        self.forget()
        monkeypatch.setattr(tokens_of.time, "time", lambda: self.wall)

    def pass_(self, seconds: float) -> None:
        self.wall += seconds
        self.ran += seconds

    def forget(self) -> None:
        """Forget all tokens seen so far, as a new process would."""
        self._monkeypatch.setattr(tokens_of, "token_ages", TokenAges(lambda: self.ran, lambda: self.wall))


@pytest.fixture
def clocks(monkeypatch: pytest.MonkeyPatch) -> Clocks:
    return Clocks(monkeypatch)


def test_the_monotonic_clock_only_moves_forward() -> None:
    before = suspend_aware_time()
    assert 0 <= suspend_aware_time() - before < 60


@pytest.mark.parametrize("back", [10.0, 86_400.0])
async def test_a_clock_that_is_set_back_does_not_keep_a_token_beyond_its_end(clocks: Clocks, back: float) -> None:
    async with run_peer() as peer:
        auth = create_oauth(peer, BrowserUser())
        await send_with_sign_in(auth, peer)
        clocks.wall -= back
        clocks.pass_(1000)
        assert await send_request(auth, peer) == 200
        assert peer.paths().count("/token") == 1, "it still serves"
        clocks.pass_(2600)
        assert await send_request(auth, peer) == 200
        assert peer.paths().count("/token") == 2, "renewed when it was over"


async def test_the_displayed_expiry_is_the_one_that_applies_with_any_clock(
    clocks: Clocks, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(accounts, "suspend_aware_time", lambda: clocks.ran)
    token_store = TokenStore(MemoryBackend(), tmp_path)
    async with run_peer(refresh=False) as peer:
        auth = create_oauth(peer, BrowserUser(), token_store)
        await send_with_sign_in(auth, peer)
        clocks.pass_(1200)
        for wall in (86_400.0, -2 * 86_400.0):
            clocks.wall += wall
            (listed,) = await token_store.accounts()
            assert auth.account is not None
            for shown in (listed, auth.account):
                assert shown.seconds_left() == 2400
                assert (validity(shown), describe_validity(shown)) == ("good", "for 40 more minutes")
        clocks.pass_(2400)
        (listed,) = await token_store.accounts()
        assert validity(listed) == "ended"
    # Another process never used it: only the wall clock is known, and no time of another clock is stored.
    (stored,) = await TokenStore(MemoryBackend(), tmp_path).accounts()
    assert stored.monotonic_expiry == 0
    assert stored.seconds_left(stored.expires - 60) == 60


async def test_moving_the_clock_forward_signs_no_account_out(clocks: Clocks) -> None:
    async with run_peer(refresh=False) as peer:
        user = BrowserUser()
        auth = create_oauth(peer, user)
        await send_with_sign_in(auth, peer)
        clocks.wall += 86_400 * 365
        assert await send_request(auth, peer) == 200
        assert len(user.urls) == 1


async def test_after_a_night_of_sleep_the_token_is_renewed_before_it_is_sent(clocks: Clocks) -> None:
    async with run_peer() as peer:
        auth = create_oauth(peer, BrowserUser())
        await send_with_sign_in(auth, peer)
        clocks.pass_(8 * 3600)
        requests = peer.paths().count("/mcp")
        assert await send_request(auth, peer) == 200
        assert (peer.paths().count("/mcp"), peer.paths().count("/token")) == (requests + 1, 2)


@pytest.mark.parametrize(("refresh", "renewed"), [(True, 1), (False, 0)])
async def test_a_run_with_a_clock_before_the_sign_in_renews_it_or_tries_it(
    clocks: Clocks, tmp_path: Path, refresh: bool, renewed: int
) -> None:
    token_store, user = TokenStore(MemoryBackend(), tmp_path), BrowserUser()
    async with run_peer(refresh=refresh) as peer:
        await send_with_sign_in(create_oauth(peer, user, token_store), peer)
        clocks.wall -= 86_400
        clocks.forget()
        assert await send_request(create_oauth(peer, None, token_store), peer) == 200
        assert peer.paths().count("/token") == 1 + renewed


async def test_a_refusal_of_an_old_token_is_about_its_age_also_when_the_clock_was_set_back(clocks: Clocks) -> None:
    async with run_peer(lifetime=None) as peer:
        auth, user = create_oauth(peer, BrowserUser()), BrowserUser()
        await send_with_sign_in(auth, peer)
        clocks.wall -= 86_400
        clocks.ran += 600
        peer.valid.clear()
        assert await send_request(auth, peer) == 200, "renewed, nobody was asked"
        assert not user.urls


class WholeSecondsPeer(OAuthPeer):
    """A peer that rounds expiry times down to seconds: a token issued at 0.9 s for one second expires at 1.0 s."""

    ends: dict[str, int]

    async def grant(self, request: ReceivedRequest, family: str, scope: str) -> None:
        before = set(self.valid)
        await super().grant(request, family, scope)
        (fresh,) = set(self.valid) - before
        self.ends = {**getattr(self, "ends", {}), fresh: int(time.time()) + (self.lifetime or 0)}

    async def mcp(self, request: ReceivedRequest) -> None:
        token = request.headers.get("authorization", "").removeprefix("Bearer ")
        if self.ends.get(token, 0) <= time.time() if token else False:
            self.valid.pop(token, None)
        await super().mcp(request)


@pytest.mark.parametrize("lifetime", [1, 2])
async def test_a_token_that_lives_for_a_second_works_renewed_each_time(
    monkeypatch: pytest.MonkeyPatch, lifetime: int
) -> None:
    wall = [1_800_000_000.9]  # always at the end of a second: a token of one second ends a tenth of a second later
    monkeypatch.setattr(time, "time", lambda: wall[0])
    ran = [50.0]
    monkeypatch.setattr(tokens_of, "token_ages", TokenAges(lambda: ran[0], lambda: wall[0]))

    def pass_(seconds: float) -> None:
        wall[0] += seconds
        ran[0] += seconds

    user = BrowserUser()
    async with run_peer(kind=WholeSecondsPeer, lifetime=lifetime) as peer:
        auth = create_oauth(peer, user)
        await auth.login()
        for _ in range(5):
            pass_(0.2)
            assert await send_with_sign_in(auth, peer) == 200
            pass_(lifetime * 5 + 0.8)
        assert len(user.urls) == 1
        pass_(lifetime * 5)
        assert auth.current_sign_in is not None
        assert auth.current_sign_in.tokens.has_expired()
