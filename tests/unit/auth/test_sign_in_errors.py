"""Tests that the error of a failed sign-in names the fault, its cause and the fix, for every wrong URL."""

from pathlib import Path
from typing import Any

import pytest

from mcphost.auth.oauth_provider import MAX_STEP_UPS
from mcphost.errors import SignInRequired
from mcphost.sign_in_types import AuthChallenge
from tests.unit.auth.oauth_peer import BrowserUser, OAuthPeer, create_oauth, run_peer, send_with_sign_in
from tests.unit.transport.certificates import CertificateAuthority
from tests.unit.transport.raw_http import ReceivedRequest, serve

pytestmark = pytest.mark.anyio
ISSUER = "/.well-known/oauth-authorization-server"
RESOURCE = "/.well-known/oauth-protected-resource/mcp"
PAGE = (200, b"<!doctype html><p>hello", "text/html")
JSON = "application/json"

ADDRESSES = {
    "not https": ("http://as.example/x", "plain http is only used on this machine"),
    "private": ("https://10.1.2.3/x", "which is a private address"),
    "link-local": ("https://169.254.169.254/x", "which is a link-local address"),
    "nat64": ("https://[64:ff9b:1::10.1.2.3]/x", "which is a private address"),
    "unresolvable": ("https://no-such-host.invalid/x", "the host 'no-such-host.invalid' was not found"),
    "fragment": ("https://as.example/x#f", "has a fragment"),
    "user name": ("https://me:hunter2@as.example/x", "hides a user name"),
    "relative": ("/x", "it is relative"),
    "no scheme": ("as.example/x", "it is relative"),
    "port 0": ("https://as.example:0/x", "has port 0"),
    "another scheme": ("javascript:alert(1)", "is not an https address"),
    "a blank": ("https://as.example/a b", "characters that are not allowed in an address"),
    "no host": ("https:///x", "names no host"),
}


async def sign_in_error_text(peer: OAuthPeer) -> str:
    """Return the text of the error that ends a sign-in, and check that no browser was opened and no secret was sent."""
    user = BrowserUser()
    with pytest.raises(SignInRequired) as raised:
        await send_with_sign_in(create_oauth(peer, user), peer)
    assert user.urls == []
    assert peer.forms == []
    error = raised.value
    assert error.hint, f"what to do is not told: {error.message}"
    assert "hunter2" not in str(error)
    return str(error)


@pytest.mark.parametrize("what", ["authorization server", "authorization endpoint", "token endpoint"])
@pytest.mark.parametrize("kind", ADDRESSES)
async def test_a_wrong_address_is_reported_with_its_reason(what: str, kind: str) -> None:
    url, reason = ADDRESSES[kind]
    settings: dict[str, Any] = (
        {"resource": {"authorization_servers": [url]}}
        if what == "authorization server"
        else {"document": {what.replace(" ", "_"): url}}
    )
    async with run_peer(**settings) as peer:
        error_text = await sign_in_error_text(peer)
    assert what in error_text
    assert reason in error_text


REFUSED = "http://127.0.0.1:1"
ANSWERS = {
    "not found": ((404, b"", "text/plain"), "HTTP 404", "HTTP 404"),
    "not allowed": ((401, b"", "text/plain"), "HTTP 401", "HTTP 401"),
    "a page": (PAGE, "HTTP 200 with text/html instead of JSON", "HTTP 200 with text/html instead of JSON"),
    "broken": ((500, b"", "text/plain"), "HTTP 500", "HTTP 500"),
    "a list": ((200, b"[]", JSON), "is not a JSON object", "is not a JSON object"),
    "half": ((200, b'{"issuer": ', JSON), "is not a JSON object", "is not a JSON object"),
    "nothing": ((200, b"", JSON), "is not a JSON object", "is not a JSON object"),
    "empty": ((200, b"{}", JSON), 'no "issuer"', 'no "resource"'),
    "a number": (
        (200, b'{"issuer": 7, "resource": 7}', JSON),
        "Expected `str`, got `int`",
        "Expected `str`, got `int`",
    ),
}


@pytest.mark.parametrize("kind", ANSWERS)
async def test_unusable_metadata_is_reported_with_the_received_value(kind: str) -> None:
    answer, of_issuer, of_resource = ANSWERS[kind]
    async with run_peer(answers={ISSUER: answer}) as peer:
        error_text = await sign_in_error_text(peer)
        assert peer.origin in error_text
        assert "authorization server" in error_text
        assert of_issuer in error_text
    async with run_peer(answers={RESOURCE: answer}) as peer:
        error_text = await sign_in_error_text(peer)
        assert f"{peer.origin}{RESOURCE}" in error_text
        assert "protected resource metadata" in error_text
        assert of_resource in error_text


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"document": {"issuer": "https://other.example"}}, ["calls itself 'https://other.example'", "match exactly"]),
        ({"resource": {"resource": "https://other.example/mcp"}}, ["another resource", "https://other.example/mcp"]),
        ({"resource": {"authorization_servers": []}}, ["names no authorization server"]),
        ({"resource": {"authorization_servers": [""]}}, ["The authorization server is empty"]),
        ({"document": {"authorization_endpoint": None}}, ["has no authorization endpoint"]),
        ({"document": {"token_endpoint": None}}, ["The token endpoint is empty"]),
        ({"document": {"registration_endpoint": None}}, ["does not register clients automatically", "clientId"]),
        ({"document": {"code_challenge_methods_supported": ["plain"]}}, ["PKCE with S256"]),
        ({"document": {"authorization_endpoint": f"{REFUSED}/a?State=x"}}, ["'State' in its own query", "remove it"]),
        ({"document": {"registration_endpoint": f"{REFUSED}/r"}}, [f"{REFUSED}/r", "Connection refused"]),
        ({"resource": {"authorization_servers": [REFUSED]}}, [REFUSED, "Connection refused", "try again"]),
        ({"challenge": 'Bearer resource_metadata="https://evil.example/x"'}, ["on another origin", "evil.example"]),
        ({"challenge": 'Bearer resource_metadata="/x"'}, ["address of the protected resource metadata", "is relative"]),
    ],
)
async def test_contradictory_metadata_is_reported_with_both_values(settings: dict[str, Any], words: list[str]) -> None:
    async with run_peer(**settings) as peer:
        error_text = await sign_in_error_text(peer)
    assert [word for word in words if word not in error_text] == []


@pytest.mark.parametrize("place", [ISSUER, RESOURCE])
@pytest.mark.parametrize(
    ("target", "reason"),
    [
        ("https://10.0.0.1/x", "redirects to another origin"),
        ("http://127.0.0.1:1/x", "redirects to another origin"),
        ("https://as.example/x", "redirects to another origin"),
        ("https://[", "which is not a valid address"),
        ("//[::1", "which is not a valid address"),
        ("/elsewhere", "HTTP 404"),
    ],
)
async def test_a_metadata_redirect_is_reported_with_its_target(place: str, target: str, reason: str) -> None:
    class RedirectingPeer(OAuthPeer):
        async def handle(self, request: ReceivedRequest) -> None:
            if request.path == place:
                await request.reply(302, b"", location=target)
            else:
                await super().handle(request)

    async with run_peer(RedirectingPeer) as peer:
        error_text = await sign_in_error_text(peer)
    assert reason in error_text
    assert target in error_text or target == "/elsewhere"


@pytest.mark.parametrize(
    ("host", "days", "reason"),
    [
        ("127.0.0.1", 1, "unable to get local issuer certificate|self-signed"),
        ("another.example", 1, "unable to get local issuer certificate|self-signed"),
    ],
)
async def test_a_rejected_certificate_is_reported_with_how_to_configure_an_authority(
    tmp_path: Path, host: str, days: int, reason: str
) -> None:
    async with serve(lambda item: item.reply(404), CertificateAuthority(tmp_path).context(host, days)) as server:
        address = server.url.removesuffix("/mcp")
        async with run_peer(resource={"authorization_servers": [address]}) as peer:
            error_text = await sign_in_error_text(peer)
    assert address in error_text
    assert "its certificate is not accepted" in error_text
    assert any(words in error_text for words in reason.split("|"))
    assert '"caFile"' in error_text


CONTROLS = frozenset("\x1b\x07\n\u202e\x9b")


async def test_the_names_of_issuers_in_an_error_have_no_control_characters() -> None:
    async with run_peer(resource={"authorization_servers": ["https://a\x1b]52;c;aGk=\x07\n\u202e\x9b31m"]}) as peer:
        with pytest.raises(SignInRequired, match="but the server now names") as raised:
            await create_oauth(peer, BrowserUser(), issuer="https://as.example").login()
    assert not CONTROLS & set(str(raised.value))


async def test_the_type_of_a_document_in_an_error_has_no_control_characters() -> None:
    class TypedPeer(OAuthPeer):
        async def handle(self, request: ReceivedRequest) -> None:
            if "oauth-authorization-server" in request.path:
                kind = "text/\u202e\x9bx".encode()
                await request.send(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\ncontent-type: " + kind + b"\r\n\r\n")
            else:
                await super().handle(request)

    async with run_peer(kind=TypedPeer) as peer:
        with pytest.raises(SignInRequired, match="instead of JSON") as raised:
            await create_oauth(peer, BrowserUser()).login()
    assert not CONTROLS & set(str(raised.value))


@pytest.mark.parametrize("has_user", [False, True])
async def test_the_scopes_in_an_error_have_no_control_characters(has_user: bool) -> None:
    challenge = 'Bearer error="insufficient_scope", scope="\x1b[2J\x9b31m\u202e"'
    async with run_peer() as peer:
        auth = create_oauth(peer, BrowserUser() if has_user else None)
        with pytest.raises(SignInRequired) as raised:
            await auth.sign_in(AuthChallenge(403, challenge, ""), MAX_STEP_UPS + 1 if has_user else 1)
    assert "scopes" in str(raised.value)
    assert not CONTROLS & set(str(raised.value))
