"""Tests that each step of a sign-in, each poll for a token, and the end are reported as progress."""

import io
import re
import sys
from typing import Any

import anyio
import pytest

from mcphost.auth import device_flow
from mcphost.auth.oauth_http import OAuthHttpClient
from mcphost.auth.oauth_provider import OAuthProvider
from mcphost.auth.sign_in_context import SignInFailed, SignInTarget
from mcphost.auth.token_store import TokenStore
from mcphost.auth.url_policy import UrlPolicy
from mcphost.cli.terminal_frontend import SignInProgressPrinter
from mcphost.errors import SignInRequired
from mcphost.sign_in_types import SignInProgress
from tests.fakes.memory_backend import MemoryBackend
from tests.unit.auth.device_server import DeviceCodeServer, DeviceCodeUser
from tests.unit.auth.oauth_peer import BrowserUser, OAuthPeer, run_peer

pytestmark = pytest.mark.anyio


def create_watched_oauth(peer: OAuthPeer, user: Any, progress: list[SignInProgress]) -> OAuthProvider:
    target = SignInTarget(server="peer", url=peer.url, account="work")
    return OAuthProvider(
        target,
        OAuthHttpClient(UrlPolicy(peer.url)),
        TokenStore(MemoryBackend(), None),
        user,
        on_progress=progress.append,
    )


async def test_a_browser_sign_in_reports_its_steps_in_order() -> None:
    progress: list[SignInProgress] = []
    async with run_peer() as peer:
        await create_watched_oauth(peer, BrowserUser(), progress).login()
    assert [now.step for now in progress] == ["resource", "issuer", "client", "person", "code", "done", "over"]
    assert {(now.server, now.account) for now in progress} == {("peer", "work")}
    assert all(now.text for now in progress[:-1])
    assert not progress[-1].text
    assert [now.seconds for now in progress[:5]] == [10, 10, 10, 300, 10]


async def test_each_poll_and_each_slow_down_is_reported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(device_flow, "MIN_INTERVAL", 0.01)
    monkeypatch.setattr(device_flow, "DEFAULT_INTERVAL", 0.05)
    progress: list[SignInProgress] = []
    async with run_peer(kind=DeviceCodeServer) as peer:
        assert isinstance(peer, DeviceCodeServer)
        peer.said, peer.code = ["authorization_pending", "slow_down", "authorization_pending"], {}
        await create_watched_oauth(peer, DeviceCodeUser(), progress).login(use_device_code=True)
    waits = [(now.polls, round(now.interval, 2), now.slowed) for now in progress if now.step == "person"]
    assert waits == [(0, 0.01, False), (1, 0.01, False), (2, 0.06, True), (3, 0.06, True)]
    left = [now.seconds for now in progress if now.step == "person"]
    assert left == sorted(left, reverse=True)
    assert left[0] <= 60
    assert not any("the-device-code" in repr(now) for now in progress)


async def test_failed_and_cancelled_work_is_finished() -> None:
    progress: list[SignInProgress] = []
    async with run_peer() as peer:
        with pytest.raises(SignInRequired):
            await create_watched_oauth(peer, BrowserUser(visit=False, answer=None), progress).login()
        assert progress.pop().step == "over"
        user = BrowserUser(visit=False)
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(create_watched_oauth(peer, user, progress).login)
                await user.asked.wait()
                scope.cancel()
        assert [now.step for now in progress[-2:]] == ["person", "over"]


class RecordingTerminal(io.StringIO):
    """A terminal that records its output."""

    def isatty(self) -> bool:
        return True


def example_progress() -> list[SignInProgress]:
    def wait(**more: Any) -> SignInProgress:
        return SignInProgress(server="s", step="person", text="waiting for you", interval=5, seconds=272, **more)

    return [
        SignInProgress(server="s", step="issuer", text="reading the authorization server's metadata", seconds=10),
        wait(),
        wait(polls=1),
        SignInProgress(
            server="s", step="person", text="waiting for you", interval=10, seconds=262, polls=2, slowed=True
        ),
        SignInProgress(server="s", step="code", text="requesting the token"),
        SignInProgress(server="s", step="over"),
    ]


@pytest.mark.parametrize(
    ("output", "text"),
    [
        (
            RecordingTerminal(),
            "mcphost: Reading the authorization server's metadata…\n"
            "⠋ Asked once, again in 5 s; 4:32 left."
            "⠋ Asked 2 times, again in 10 s (slowed down); 4:22 left.\n"
            "mcphost: Requesting the token…\n",
        ),
        (
            io.StringIO(),
            "mcphost: Reading the authorization server's metadata…\n"
            "mcphost: Asked 2 times, again in 10 s (slowed down); 4:22 left.\n"
            "mcphost: Requesting the token…\n",
        ),
    ],
)
def test_the_command_line_prints_one_line_per_step_and_one_that_is_rewritten(
    monkeypatch: pytest.MonkeyPatch, output: io.StringIO, text: str
) -> None:
    monkeypatch.setattr(sys, "stderr", output)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    steps = SignInProgressPrinter()
    for now in example_progress():
        steps.update(now)
    shown = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]|\r", "", output.getvalue())
    frames = re.sub("[\u2800-\u28ff]", "⠋", shown)  # the spinner turns with time
    assert re.sub(r"(⠋[^⠋\n]*)\1+", r"\1", frames) == text


async def test_a_waiting_sign_in_reports_nothing_but_its_steps() -> None:
    progress: list[SignInProgress] = []
    async with run_peer() as peer:
        auth = create_watched_oauth(peer, None, progress)
        with pytest.raises(SignInFailed):
            await auth.login()
    assert [now.step for now in progress] == ["over"]
