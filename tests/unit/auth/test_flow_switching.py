"""Tests for switching between the browser and device code flows during a sign-in."""

from collections.abc import Callable
from typing import Any

import pytest

from mcphost.auth.sign_in_context import DEFAULT_TIMEOUT, SignInFailed
from mcphost.auth.tokens import TokenError
from mcphost.errors import SignInRequired
from tests.unit.auth.device_server import DeviceCodeServer
from tests.unit.auth.oauth_peer import BrowserUser, OAuthPeer, create_oauth, run_peer

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("fast_device_polling")]


class SwitchingUser(BrowserUser):
    """A user who switches between the flows `times` times and then completes the current one."""

    def __init__(self, times: int) -> None:
        super().__init__(visit=False)
        self.times = times
        self.shown: list[dict[str, Any]] = []

    async def sign_in(self, **shown: Any) -> str | None:
        self.shown.append(shown)
        self.visit = False
        if self.times:
            self.times -= 1
            assert shown["terms"].switch_method is not None
            shown["terms"].switch_method()
        else:
            self.visit = not shown["code"]
        return await super().sign_in(**shown)


async def sign_in_with(user: BrowserUser, *, by_code: bool = False, **settings: Any) -> DeviceCodeServer:
    async with run_peer(kind=DeviceCodeServer, **settings) as peer:
        assert isinstance(peer, DeviceCodeServer)
        peer.said, peer.code = [], {}
        auth = create_oauth(peer, user)
        await auth.login(use_device_code=by_code)
        assert auth.account is not None
        return peer


@pytest.mark.parametrize(
    ("times", "begins_by_code", "codes"),
    [(1, False, ["", "ABCD-1234"]), (2, False, ["", "ABCD-1234", ""]), (1, True, ["ABCD-1234", ""])],
)
async def test_the_user_switches_between_browser_and_code(times: int, begins_by_code: bool, codes: list[str]) -> None:
    class SingleFlowPeer(DeviceCodeServer):
        async def token(self, request: Any) -> None:
            self.said = []
            await (DeviceCodeServer.token if b"device_code" in request.body else OAuthPeer.token)(self, request)

    user = SwitchingUser(times)
    async with run_peer(kind=SingleFlowPeer) as peer:
        peer.said, peer.code = [], {"interval": 0}
        await create_oauth(peer, user).login(use_device_code=begins_by_code)
    assert [shown["code"] for shown in user.shown] == codes
    assert len(peer.clients) == 1, "the registration serves both ways"


async def test_the_time_left_to_wait_is_shown() -> None:
    user = SwitchingUser(1)
    await sign_in_with(user)
    in_browser, by_code = (shown["terms"] for shown in user.shown)
    assert DEFAULT_TIMEOUT - 5 < in_browser.timeout <= DEFAULT_TIMEOUT
    assert by_code.timeout == 60, "as long as the code lasts"
    assert by_code.poll_interval == 0.01


async def test_a_server_without_codes_offers_no_other_way() -> None:
    user = BrowserUser()
    async with run_peer() as peer:
        await create_oauth(peer, user).login()
    assert [terms.switch_method for terms in user.terms] == [None]


async def test_a_flow_that_cannot_start_returns_to_the_previous_one_with_a_reason() -> None:
    class ReluctantPeer(DeviceCodeServer):
        async def handle(self, request: Any) -> None:
            if request.path == "/device":
                await self.json(request, {"error": "unauthorized_client"}, 400)
            else:
                await super().handle(request)

        token = OAuthPeer.token

    user = SwitchingUser(1)
    async with run_peer(kind=ReluctantPeer) as peer:
        await create_oauth(peer, user).login()
    assert len(user.shown) == 2
    assert user.notes[0] == ""
    assert "issued no code: unauthorized_client" in user.notes[1]


async def sign_in_error(answer: Callable[..., Any]) -> SignInRequired:
    class RefusingUser(SwitchingUser):
        async def sign_in(self, **shown: Any) -> str | None:
            await super().sign_in(**shown)
            return None if shown["code"] else ""

    with pytest.raises(SignInRequired) as exc_info:
        await answer(RefusingUser(1))
    return exc_info.value


async def test_who_cancels_after_changing_is_not_led_back() -> None:
    class SlowPollPeer(DeviceCodeServer):
        async def token(self, request: Any) -> None:
            await self.json(request, {"error": "authorization_pending"}, 400)

    async def run(user: BrowserUser) -> None:
        async with run_peer(kind=SlowPollPeer) as peer:
            peer.code = {}
            await create_oauth(peer, user).login()

    assert isinstance(await sign_in_error(run), SignInFailed)


async def test_an_error_for_a_shown_code_ends_the_sign_in() -> None:
    class DenyingPeer(DeviceCodeServer):
        async def token(self, request: Any) -> None:
            await self.json(request, {"error": "access_denied"}, 400)

    async with run_peer(kind=DenyingPeer) as peer:
        peer.code = {}
        with pytest.raises(TokenError, match="access_denied"):
            await create_oauth(peer, SwitchingUser(1)).login()


@pytest.mark.parametrize(
    ("complete", "kept"),
    [
        ("{origin}/enter?user_code=ABCD-1234", True),
        ("{origin}/enter?user_code=ZZZZ-9999", False),
        ("https://elsewhere.example/enter?user_code=ABCD-1234", False),
        ("javascript:alert('ABCD-1234')", False),
        ("{origin}/enter?user_code=ABCD-1234&x=" + "y" * 2000, False),
        (7, False),
    ],
)
async def test_the_complete_verification_uri_is_shown_only_on_the_plain_ones_origin(complete: Any, kept: bool) -> None:
    user = SwitchingUser(0)
    async with run_peer(kind=DeviceCodeServer) as peer:
        assert isinstance(peer, DeviceCodeServer)
        given = complete.format(origin=peer.origin) if isinstance(complete, str) else complete
        peer.said, peer.code = [], {"verification_uri_complete": given}
        await create_oauth(peer, user).login(use_device_code=True)
    assert user.shown[0]["terms"].verification_uri_complete == (given if kept else "")
