"""Clocks that are set, machines that slept, tokens of a second: nobody is signed out, nothing old is sent."""

import time
from pathlib import Path

import pytest

from mcphost.auth import account
from mcphost.auth import tokens as tokens_of
from mcphost.auth.keyring_backend import MemoryVault
from mcphost.auth.token_expiry import Ages, running
from mcphost.auth.token_store import Keep
from mcphost.host.servers.accounts import describe_validity, validity
from tests.unit.auth.peer import Browser, Peer, ask, oauth, peer, used
from tests.unit.transport.raw_http import Seen

pytestmark = pytest.mark.anyio


class Clocks:
    """One on the wall that can be set, and one that only runs."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.wall, self.ran = 1_800_000_000.0, 50.0
        self.ages = Ages(lambda: self.ran, lambda: self.wall)
        monkeypatch.setattr(tokens_of, "ages", self.ages)
        monkeypatch.setattr(tokens_of.time, "time", lambda: self.wall)

    def pass_(self, seconds: float) -> None:
        self.wall += seconds
        self.ran += seconds

    def forget(self) -> None:
        """Another process: it has seen nothing yet."""
        self.ages._seen.clear()


@pytest.fixture
def clocks(monkeypatch: pytest.MonkeyPatch) -> Clocks:
    return Clocks(monkeypatch)


def test_the_clock_that_runs_only_goes_on() -> None:
    before = running()
    assert 0 <= running() - before < 60


@pytest.mark.parametrize("back", [10.0, 86_400.0])
async def test_a_clock_that_is_set_back_does_not_keep_a_token_beyond_its_end(clocks: Clocks, back: float) -> None:
    async with peer() as one:
        auth = oauth(one, Browser())
        await used(auth, one)
        clocks.wall -= back
        clocks.pass_(1000)
        assert await ask(auth, one) == 200
        assert one.paths().count("/token") == 1, "it still serves"
        clocks.pass_(2600)
        assert await ask(auth, one) == 200
        assert one.paths().count("/token") == 2, "renewed when it was over"


async def test_what_is_shown_of_the_end_is_what_is_judged_whatever_clock_is_set(
    clocks: Clocks, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(account, "running", lambda: clocks.ran)
    keep = Keep(MemoryVault(), tmp_path)
    async with peer(refresh=False) as one:
        auth = oauth(one, Browser(), keep)
        await used(auth, one)
        clocks.pass_(1200)
        for wall in (86_400.0, -2 * 86_400.0):
            clocks.wall += wall
            (listed,) = await keep.accounts()
            assert auth.account is not None
            for shown in (listed, auth.account):
                assert shown.left() == 2400
                assert (validity(shown), describe_validity(shown)) == ("good", "for 40 more minutes")
        clocks.pass_(2400)
        (listed,) = await keep.accounts()
        assert validity(listed) == "ended"
    # Another process never used it: the clock on the wall is all there is, and no moment of another clock is written.
    (stored,) = await Keep(MemoryVault(), tmp_path).accounts()
    assert stored.ends == 0
    assert stored.left(stored.expires - 60) == 60


async def test_a_clock_that_is_set_forth_signs_nobody_out(clocks: Clocks) -> None:
    async with peer(refresh=False) as one:
        person = Browser()
        auth = oauth(one, person)
        await used(auth, one)
        clocks.wall += 86_400 * 365
        assert await ask(auth, one) == 200
        assert len(person.urls) == 1


async def test_after_a_night_of_sleep_the_token_is_renewed_before_it_is_sent(clocks: Clocks) -> None:
    async with peer() as one:
        auth = oauth(one, Browser())
        await used(auth, one)
        clocks.pass_(8 * 3600)
        requests = one.paths().count("/mcp")
        assert await ask(auth, one) == 200
        assert (one.paths().count("/mcp"), one.paths().count("/token")) == (requests + 1, 2)


@pytest.mark.parametrize(("refresh", "renewed"), [(True, 1), (False, 0)])
async def test_a_run_with_a_clock_before_the_sign_in_renews_it_or_tries_it(
    clocks: Clocks, tmp_path: Path, refresh: bool, renewed: int
) -> None:
    keep, person = Keep(MemoryVault(), tmp_path), Browser()
    async with peer(refresh=refresh) as one:
        await used(oauth(one, person, keep), one)
        clocks.wall -= 86_400
        clocks.forget()
        assert await ask(oauth(one, None, keep), one) == 200
        assert one.paths().count("/token") == 1 + renewed


async def test_a_refusal_of_an_old_token_is_about_its_age_also_when_the_clock_was_set_back(clocks: Clocks) -> None:
    async with peer(lifetime=None) as one:
        auth, person = oauth(one, Browser()), Browser()
        await used(auth, one)
        clocks.wall -= 86_400
        clocks.ran += 600
        one.valid.clear()
        assert await ask(auth, one) == 200, "renewed, nobody was asked"
        assert not person.urls


class Seconds(Peer):
    """Counts whole seconds, as many servers do: what was issued at 0.9 for one second is over at 1.0."""

    ends: dict[str, int]

    async def grant(self, one: Seen, family: str, scope: str) -> None:
        before = set(self.valid)
        await super().grant(one, family, scope)
        (fresh,) = set(self.valid) - before
        self.ends = {**getattr(self, "ends", {}), fresh: int(time.time()) + (self.lifetime or 0)}

    async def mcp(self, one: Seen) -> None:
        token = one.headers.get("authorization", "").removeprefix("Bearer ")
        if self.ends.get(token, 0) <= time.time() if token else False:
            self.valid.pop(token, None)
        await super().mcp(one)


@pytest.mark.parametrize("lifetime", [1, 2])
async def test_a_token_that_lives_for_a_second_works_renewed_each_time(
    monkeypatch: pytest.MonkeyPatch, lifetime: int
) -> None:
    wall = [1_800_000_000.9]  # each time at the end of a second, so that a token of one second is over in a tenth of it
    monkeypatch.setattr(time, "time", lambda: wall[0])
    ran = [50.0]
    monkeypatch.setattr(tokens_of, "ages", Ages(lambda: ran[0], lambda: wall[0]))

    def pass_(seconds: float) -> None:
        wall[0] += seconds
        ran[0] += seconds

    person = Browser()
    async with peer(kind=Seconds, lifetime=lifetime) as one:
        auth = oauth(one, person)
        await auth.login()
        for _ in range(5):
            pass_(0.2)
            assert await used(auth, one) == 200
            pass_(lifetime * 5 + 0.8)
        assert len(person.urls) == 1
        pass_(lifetime * 5)
        assert auth._signed is not None
        assert auth._signed.tokens.ended()
