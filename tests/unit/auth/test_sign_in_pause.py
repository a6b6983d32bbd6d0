"""Tests that a server cannot have the user asked again and again after a declined sign-in."""

import pytest

from mcphost.auth import sign_in_pause
from mcphost.auth.oauth_http import EndpointUnreachable
from mcphost.auth.oauth_registry import OAuthRegistry
from mcphost.auth.sign_in_context import SignInFailed
from mcphost.auth.token_store import TokenStore
from mcphost.client.connect import ClientSessionOpener
from mcphost.config.schema import ServerConfig
from mcphost.errors import SignInRequired, SignInUnchanged
from mcphost.protocol.tools import ListTools
from mcphost.sign_in_types import AuthChallenge
from tests.fakes.memory_backend import MemoryBackend
from tests.unit.auth.oauth_peer import BrowserUser, ToolsPeer, create_oauth, run_peer
from tests.unit.client.fakes import FakeRequestHandler, RecordingObserver
from tests.unit.transport.raw_http import ReceivedRequest

pytestmark = pytest.mark.anyio
REFUSAL = AuthChallenge(401, "Bearer", "")


class RefusingServer(ToolsPeer):
    """A server that refuses to list its tools once `status` is set, each time for another reason."""

    status = 0
    refused = 0

    async def mcp(self, request: ReceivedRequest) -> None:
        if self.status and request.method == "POST" and request.message.get("method") == "tools/list":
            self.refused += 1
            scope = f'error="insufficient_scope", scope="s{self.refused}"'
            error = 'error="invalid_token"' if self.status == 401 else scope
            await request.reply(self.status, b"", www_authenticate=f"Bearer {error}")
        else:
            await super().mcp(request)


@pytest.mark.req("auth.stepup.retry-limit")
@pytest.mark.parametrize("status", [401, 403])
async def test_a_server_that_announces_changes_asks_no_second_time_after_the_user_declined(
    monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    """Each change that a server announces makes mcphost list its tools again."""
    monkeypatch.setattr(sign_in_pause, "FIRST_PAUSE", 1_000.0)
    user = BrowserUser()
    async with run_peer(kind=RefusingServer) as peer:
        assert isinstance(peer, RefusingServer)
        opener = ClientSessionOpener(accounts=OAuthRegistry(TokenStore(MemoryBackend(), None), user))
        server = ServerConfig(name="peer", url=peer.url)
        async with opener.open(server, FakeRequestHandler(), RecordingObserver()) as session:
            registrations = peer.paths().count("/register")
            user.visit, user.answer, peer.status = False, None, status
            for _ in range(5):
                with pytest.raises(SignInRequired):
                    await session.request(ListTools())
    assert peer.refused >= 5
    assert len(user.urls) == 2
    assert peer.paths().count("/register") <= registrations + 1, "nor is an authorization server asked"


async def test_the_user_can_sign_in_at_any_time_which_ends_the_pause() -> None:
    async with run_peer() as peer:
        user = BrowserUser(visit=False, answer=None)
        auth = create_oauth(peer, user)
        for _ in range(3):
            with pytest.raises(SignInFailed, match="You did not sign in") as failure:
                await auth.sign_in_for_session(REFUSAL)
            assert failure.value.server == "peer"
        assert len(user.urls) == 1
        with pytest.raises(SignInFailed, match="You did not sign in"):
            await auth.sign_in(REFUSAL)  # to connect, because the user restarted the server
        user.visit, user.answer = True, ""
        signed = await auth.login()
        assert len(user.urls) == 3
        user.visit, user.answer = False, None
        with pytest.raises(SignInUnchanged):
            await auth.sign_in_for_session(
                AuthChallenge(403, 'Bearer error="insufficient_scope", scope="more"', signed.tokens.authorization)
            )
        assert len(user.urls) == 4


async def test_the_pause_ends_and_becomes_longer_with_each_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 50.0
    monkeypatch.setattr(sign_in_pause.anyio, "current_time", lambda: now)
    pause = sign_in_pause.SignInPause()
    for seconds in (10.0, 20.0, 40.0):
        pause.begin(SignInFailed("No.", "Why?"))
        now += seconds - 1
        with pytest.raises(SignInFailed, match=r"No\. Why\?$"):
            pause.check()
        now += 1
        pause.check()
    for _ in range(2_000):
        pause.begin(SignInFailed("No."))
    now += sign_in_pause.MAX_PAUSE
    pause.check()


async def test_the_error_during_the_pause_says_how_to_end_it() -> None:
    pause = sign_in_pause.SignInPause()
    pause.begin(EndpointUnreachable("The authorization server cannot be reached."))
    with pytest.raises(SignInFailed, match=r"reached\. Sign in again or restart the server"):
        pause.check()
