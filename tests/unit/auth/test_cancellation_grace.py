"""Tests for token requests that are cancelled: a late answer is used, and an endpoint that hangs delays nothing."""

import anyio
import anyio.lowlevel
import pytest

from mcphost.auth import cancellation_grace, oauth_http
from mcphost.auth.cancellation_grace import finish_despite_cancellation
from tests.unit.auth.oauth_peer import BrowserUser, OAuthPeer, create_oauth, run_peer
from tests.unit.transport.raw_http import ReceivedRequest

pytestmark = pytest.mark.anyio


async def test_the_answer_to_a_cancelled_request_is_returned_and_the_next_await_is_cancelled() -> None:
    answers: list[str] = []
    with anyio.CancelScope() as scope:

        async def work() -> str:
            scope.cancel()
            await anyio.lowlevel.checkpoint()
            return "tokens"

        answers.append(await finish_despite_cancellation(work))
        await anyio.lowlevel.checkpoint()
        answers.append("went on")
    assert answers == ["tokens"]
    await anyio.lowlevel.checkpoint()


@pytest.mark.parametrize("is_cancelled", [True, False])
async def test_an_error_is_raised_as_it_is(is_cancelled: bool) -> None:
    async def work() -> str:
        if is_cancelled:
            scope.cancel()
        await anyio.lowlevel.checkpoint()
        raise ValueError("no tokens")

    with anyio.CancelScope() as scope:
        with pytest.raises(ValueError, match="no tokens"):
            await finish_despite_cancellation(work)


async def test_a_token_endpoint_that_hangs_does_not_delay_a_cancellation(monkeypatch: pytest.MonkeyPatch) -> None:
    class HangingPeer(OAuthPeer):
        async def token(self, request: ReceivedRequest) -> None:
            scope.cancel()
            await anyio.sleep_forever()

    monkeypatch.setattr(oauth_http, "REQUEST_TIMEOUT", 3600.0)
    monkeypatch.setattr(cancellation_grace, "GRACE_SECONDS", 0.05)
    async with run_peer(kind=HangingPeer) as peer:
        with anyio.fail_after(60), anyio.CancelScope() as scope:
            await create_oauth(peer, BrowserUser()).login()
        assert peer.paths().count("/token") == 1
