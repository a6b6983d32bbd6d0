"""Tests that a server cannot have the user asked again and again after a declined sign-in."""

from pathlib import Path

import anyio
import pytest

from mcphost.auth import sign_in_pause
from mcphost.auth.sign_in_context import SignInFailed
from mcphost.errors import SignInUnchanged
from mcphost.sign_in_types import AuthChallenge
from tests.unit.auth.oauth_peer import BrowserUser, create_oauth, run_peer
from tests.unit.host.test_resend import ChangingToolServer, open_resend_host
from tests.unit.transport.raw_http import ReceivedRequest

pytestmark = pytest.mark.anyio
REFUSAL = AuthChallenge(401, "Bearer", "")


class AnnouncingServer(ChangingToolServer):
    """A server that announces a changed tool list forever, and refuses to list the tools once `status` is set."""

    status = 0
    refused = 0
    enough: anyio.Event

    async def mcp(self, request: ReceivedRequest) -> None:
        method = request.message.get("method", "") if request.method == "POST" else request.method
        if method == "initialize":
            capabilities = {"tools": {"listChanged": True}}
            info = {"name": "peer", "version": "1"}
            await request.result({"protocolVersion": "2025-11-25", "capabilities": capabilities, "serverInfo": info})
        elif method == "GET":
            await request.send(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n")
            while True:
                await request.send(b'data: {"jsonrpc":"2.0","method":"notifications/tools/list_changed"}\n\n')
                await anyio.sleep(0.05)
        elif method == "tools/list" and self.status:
            self.refused += 1
            if self.refused == 4:
                self.enough.set()
            error = (
                'error="invalid_token"' if self.status == 401 else f'error="insufficient_scope", scope="{self.refused}"'
            )
            await request.reply(self.status, b"", www_authenticate=f"Bearer {error}")
        else:
            await super().mcp(request)


@pytest.mark.req("auth.stepup.retry-limit")
@pytest.mark.parametrize("status", [401, 403])
async def test_a_server_that_announces_changes_asks_no_second_time_after_the_user_declined(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    monkeypatch.setattr(sign_in_pause, "FIRST_PAUSE", 1_000.0)
    async with run_peer(kind=AnnouncingServer) as peer:
        assert isinstance(peer, AnnouncingServer)
        user = BrowserUser()
        async with open_resend_host(tmp_path, peer, user=user):
            assert len(user.urls) == 1
            registrations = peer.paths().count("/register")
            user.visit, user.answer = False, None
            peer.enough, peer.status = anyio.Event(), status
            await peer.enough.wait()
    assert len(user.urls) == 2
    assert peer.paths().count("/register") <= registrations + 1, "nor is an authorization server asked"


async def test_the_user_can_sign_in_at_any_time_which_ends_the_pause() -> None:
    async with run_peer() as peer:
        user = BrowserUser(visit=False, answer=None)
        auth = create_oauth(peer, user)
        for _ in range(3):
            with pytest.raises(SignInFailed, match="You did not sign in"):
                await auth.sign_in_for_session(REFUSAL)
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
        with pytest.raises(SignInFailed, match="No"):
            pause.check()
        now += 1
        pause.check()
    for _ in range(2_000):
        pause.begin(SignInFailed("No."))
    now += sign_in_pause.MAX_PAUSE
    pause.check()
