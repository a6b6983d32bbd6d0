"""Tests for the device flow: mcphost polls for the token at the server's interval and for a limited time."""

from typing import Any

import anyio
import pytest

from mcphost.auth import device_flow
from mcphost.auth.discovery import UntrustedMetadata
from mcphost.auth.oauth_http import EndpointUnreachable
from mcphost.auth.sign_in_context import SignInFailed
from mcphost.auth.tokens import TokenError
from mcphost.auth.url_policy import UnsafeUrl
from mcphost.errors import SignInRequired
from tests.unit.auth.device_server import DeviceCodeServer, DeviceCodeUser
from tests.unit.auth.oauth_peer import create_oauth, run_peer

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("fast_device_polling")]


async def login(messages: list[str], user: DeviceCodeUser, **code: Any) -> DeviceCodeServer:
    async with run_peer(kind=DeviceCodeServer) as peer:
        assert isinstance(peer, DeviceCodeServer)
        peer.said, peer.code = messages, code
        await create_oauth(peer, user).login(use_device_code=True)
        return peer


@pytest.mark.req("auth.as.separate-state")
async def test_a_secret_leaves_by_no_code_for_an_authorization_server_that_only_the_server_names() -> None:
    async with run_peer(kind=DeviceCodeServer) as trap, run_peer() as peer:
        assert isinstance(trap, DeviceCodeServer)
        trap.said, trap.code = [], {}
        peer.resource = {"authorization_servers": [trap.origin]}
        user = DeviceCodeUser()
        with pytest.raises(UntrustedMetadata, match="client secret") as exc_info:
            await create_oauth(peer, user, client_id="me", client_secret="my-secret-9").login(use_device_code=True)
        assert '"issuer"' in exc_info.value.hint
        assert trap.seen == user.shown == []
        known = create_oauth(peer, user, client_id="me", client_secret="my-secret-9", issuer=trap.origin)
        await known.login(use_device_code=True)
        assert [shown["issuer"] for shown in user.shown] == [trap.origin]


async def test_the_token_arrives_when_the_user_is_done() -> None:
    user = DeviceCodeUser()
    one = await login(["authorization_pending", "slow_down", "authorization_pending"], user)
    (shown,) = user.shown
    assert (shown["code"], shown["url"]) == ("ABCD-1234", f"{one.origin}/enter")
    assert "the-device-code" not in str(shown)
    assert one.paths().count("/token") == 4
    assert device_flow.DEVICE_CODE_GRANT_TYPE in one.clients["client-0"]["grant_types"]


@pytest.mark.parametrize("interval", [-5, "soon", None, True, []])
async def test_a_nonsensical_polling_interval_is_replaced_by_the_default(
    interval: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(device_flow, "DEFAULT_INTERVAL", 0.02)
    user = DeviceCodeUser()
    with anyio.fail_after(30):
        await login([], user, interval=interval)
    assert user.shown[0]["terms"].poll_interval == 0.02


async def test_a_code_for_another_address_than_the_issuers_is_shown_with_a_warning() -> None:
    user = DeviceCodeUser()
    await login([], user)
    async with run_peer() as other:
        await login([], user, verification_uri=f"{other.origin}/enter")
    own, foreign = (shown["terms"].warnings for shown in user.shown)
    assert own == ()
    assert "The code may be from someone else's sign-in" in foreign[0]


@pytest.mark.parametrize(
    ("messages", "code", "error", "match"),
    [
        (["access_denied"], {}, TokenError, "access_denied"),
        (["expired_token"], {}, TokenError, "expired_token"),
        (["authorization_pending"] * 99, {"expires_in": 0}, TokenError, "not entered in time"),
        ([], {"verification_uri": "javascript:alert(1)"}, UnsafeUrl, "verification address"),
        ([], {"verification_uri": "http://as.example/enter"}, UnsafeUrl, "verification address"),
        ([], {"verification_uri": "https://169.254.169.254/enter"}, UnsafeUrl, "link-local address"),
        ([], {"verification_uri": "https://10.1.2.3/enter"}, UnsafeUrl, "verification address"),
        ([], {"user_code": 7}, TokenError, "issued no code"),
        ([], {"device_code": ""}, TokenError, "issued no code"),
        ([], {"user_code": ""}, TokenError, "issued no code"),
        ([], {"user_code": " \t"}, TokenError, "issued no code"),
    ],
)
async def test_device_flow_errors_name_their_reason(
    messages: list[str], code: dict[str, Any], error: type[SignInRequired], match: str
) -> None:
    user = DeviceCodeUser()
    with pytest.raises(error, match=match):
        await login(messages, user, **code)
    assert user.shown == [] or not code or "expires_in" in code


async def test_the_user_can_refuse() -> None:
    with pytest.raises(SignInFailed, match="You did not sign in"):
        await login(["authorization_pending"] * 99, DeviceCodeUser(None))


async def test_an_unsupported_device_flow_is_reported() -> None:
    async with run_peer() as peer:
        with pytest.raises(EndpointUnreachable, match="does not offer device codes"):
            await create_oauth(peer, DeviceCodeUser()).login(use_device_code=True)


async def test_a_code_with_hidden_characters_is_shown_with_marks() -> None:
    user = DeviceCodeUser()
    await login([], user, user_code="AB\x1b[2J\u202eCD")
    assert "\x1b" not in user.shown[0]["code"]
    assert "\u202e" not in user.shown[0]["code"]
