"""Tests for metadata discovery, proof keys, scopes, client authentication and token responses."""

import base64
import json
import re
import time

import pytest

from mcphost import redact
from mcphost.auth.discovery import (
    AuthorizationServerMetadata,
    UntrustedMetadata,
    check_pkce,
    issuer_metadata_urls,
    resource_metadata_urls,
)
from mcphost.auth.interactive_sign_in import AuthorizationAttempt, s256_challenge
from mcphost.auth.oauth_http import EndpointUnreachable, OAuthResponse
from mcphost.auth.registration import OAuthClient, choose_authentication_method, make_metadata_document_client
from mcphost.auth.tokens import (
    TokenError,
    TokenSet,
    authenticate_client,
    merge_scopes,
    parse_token_response,
    select_scopes,
)
from mcphost.errors import SignInRequired


def http_response(status: int, body: bytes) -> OAuthResponse:
    return OAuthResponse("https://as.example/token", status, {"content-type": "application/json"}, body)


@pytest.mark.req("auth.prm.well-known-path", "auth.prm.well-known-root")
def test_resource_metadata_is_requested_under_the_path_and_then_at_the_root() -> None:
    assert resource_metadata_urls("https://mcp.example/public/mcp/") == (
        "https://mcp.example/.well-known/oauth-protected-resource/public/mcp",
        "https://mcp.example/.well-known/oauth-protected-resource",
    )
    assert resource_metadata_urls("https://mcp.example") == (
        "https://mcp.example/.well-known/oauth-protected-resource",
    )


@pytest.mark.req("auth.asm.order-with-path", "auth.asm.order-without-path", "auth.asm.both-mechanisms")
def test_issuer_metadata_is_looked_for_in_order_and_never_at_the_root_of_a_path() -> None:
    assert issuer_metadata_urls("https://as.example/t1") == (
        "https://as.example/.well-known/oauth-authorization-server/t1",
        "https://as.example/.well-known/openid-configuration/t1",
        "https://as.example/t1/.well-known/openid-configuration",
    )
    assert issuer_metadata_urls("https://as.example") == (
        "https://as.example/.well-known/oauth-authorization-server",
        "https://as.example/.well-known/openid-configuration",
    )


@pytest.mark.req("auth.pkce.always", "auth.pkce.s256", "auth.state")
def test_each_attempt_has_its_own_verifier_and_state_which_are_never_shown() -> None:
    attempt, two = AuthorizationAttempt(), AuthorizationAttempt()
    assert {attempt.verifier, attempt.state}.isdisjoint({two.verifier, two.state})
    assert re.fullmatch(r"[A-Za-z0-9._~-]{43,128}", attempt.verifier)
    assert attempt.challenge == s256_challenge(attempt.verifier) != attempt.verifier
    assert redact.redact(f"{attempt.verifier} and {attempt.state}") == "[secret] and [secret]"


def test_the_challenge_is_the_one_of_rfc_7636() -> None:
    assert (
        s256_challenge("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk") == "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"
    )


@pytest.mark.req("auth.pkce.refuse", "auth.pkce.refuse-plain-only", "auth.pkce.not-checked")
def test_a_server_without_s256_is_refused_unless_its_metadata_cannot_tell() -> None:
    for methods in (None, (), ("plain",)):
        with pytest.raises(UntrustedMetadata, match="PKCE"):
            check_pkce(AuthorizationServerMetadata(code_challenge_methods_supported=methods), is_legacy=False)
    check_pkce(AuthorizationServerMetadata(code_challenge_methods_supported=("plain", "S256")), is_legacy=False)
    check_pkce(AuthorizationServerMetadata(), is_legacy=True)
    for methods in ((), ("plain",)):
        with pytest.raises(UntrustedMetadata, match="PKCE"):
            check_pkce(AuthorizationServerMetadata(code_challenge_methods_supported=methods), is_legacy=True)


@pytest.mark.req(
    "auth.scope.challenge-first", "auth.scope.supported-second", "auth.scope.omit", "auth.scope.no-relation",
    "auth.stepup.union",
)  # fmt: skip
def test_scopes_come_from_the_challenge_or_the_resource_and_include_earlier_ones() -> None:
    assert select_scopes("a b", ("c", "d")) == ("a", "b")
    assert select_scopes("", ("c", "d")) == ("c", "d")
    assert select_scopes("", ()) == ()
    assert select_scopes("write", ("decoy",), ("read",)) == ("read", "write")
    assert merge_scopes(("a", "b"), ("b", "c")) == ("a", "b", "c")


@pytest.mark.req("auth.token-endpoint-method")
@pytest.mark.parametrize(
    ("supported", "secret", "text", "method"),
    [
        ((), True, "", "client_secret_basic"),
        ((), False, "", "none"),
        (("client_secret_post",), True, "", "client_secret_post"),
        (("client_secret_post", "client_secret_basic"), True, "client_secret_post", "client_secret_post"),
        (("none",), True, "", "none"),
        (("client_secret_basic",), True, "private_key_jwt", "client_secret_basic"),
        (("client_secret_basic",), False, "client_secret_basic", "none"),
    ],
)
def test_the_client_authentication_is_one_that_both_sides_support(
    supported: tuple[str, ...], secret: bool, text: str, method: str
) -> None:
    document = AuthorizationServerMetadata(token_endpoint_auth_methods_supported=supported)
    assert choose_authentication_method(document, has_secret=secret, registered_method=text) == method


@pytest.mark.req("auth.token-endpoint-method")
def test_a_secret_is_sent_in_one_place_only_and_basic_is_percent_encoded() -> None:
    form: dict[str, str] = {}
    headers = authenticate_client(OAuthClient("i", "a:b", "s %c", "client_secret_basic"), form)
    assert base64.b64decode(headers["authorization"].removeprefix("Basic ")) == b"a%3Ab:s%20%25c"
    assert form == {}
    assert authenticate_client(OAuthClient("i", "a", "secret", "client_secret_post"), form) == {}
    assert form == {"client_id": "a", "client_secret": "secret"}
    form = {}
    assert authenticate_client(OAuthClient("i", "a", "secret", "none"), form) == {}
    assert form == {"client_id": "a"}


@pytest.mark.req("auth.400-other")
def test_a_token_endpoint_error_is_reported_with_its_cleaned_text() -> None:
    body = b'{"error": "invalid_grant", "error_description": "expired \\u001b]0;x\\u0007 \\u202e"}'
    with pytest.raises(TokenError, match="invalid_grant: expired") as exc_info:
        parse_token_response(http_response(400, body), "https://as.example")
    assert exc_info.value.code == "invalid_grant"
    assert "\x1b" not in str(exc_info.value)
    assert "\u202e" not in str(exc_info.value)


def test_a_token_endpoint_that_is_down_is_not_a_refusal() -> None:
    for status in (500, 503, 429):
        with pytest.raises(EndpointUnreachable, match=str(status)):
            parse_token_response(http_response(status, b"<html>"), "https://as.example")


@pytest.mark.req("auth.token.storage")
def test_tokens_are_registered_as_secrets_as_soon_as_they_are_read() -> None:
    tokens = parse_token_response(
        http_response(
            200,
            b'{"access_token":"access-Xq81vLz0Rk","token_type":"bearer","refresh_token":"refresh-8dK2pQ7sV4","expires_in":"60"}',
        ),
        "i",
    )
    assert redact.redact(f"{tokens.access} {tokens.refresh}") == "[secret] [secret]"
    assert tokens.access not in repr(tokens)
    assert tokens.kind == "Bearer"
    assert 50 < tokens.expires - time.time() <= 60


@pytest.mark.parametrize(
    "body",
    [
        b"", b"[]", b"{}", b'{"access_token": 5, "token_type": "Bearer"}',
        b'{"access_token": "", "token_type": "Bearer"}',
        b'{"access_token": "a\\r\\nX: y", "token_type": "Bearer"}', b'{"access_token": "abc"}',
        b'{"access_token": "abc", "token_type": "mac"}', b'{"ACCESS_TOKEN": "abc", "token_type": "Bearer"}',
        b'{"error": "slow_down"}',
    ],
)  # fmt: skip
def test_a_reply_without_a_usable_token_is_a_refusal(body: bytes) -> None:
    with pytest.raises(TokenError):
        parse_token_response(http_response(200, body), "https://as.example")


@pytest.mark.parametrize("refresh", ["a\0b", "a\r\nb", "\x1b[31mred", "caf\u00e9", "\u202e", "a" * 70_000, 5, ["a"]])
def test_a_refresh_token_of_other_than_printable_ascii_is_dropped_and_logged(
    refresh: object, caplog: pytest.LogCaptureFixture
) -> None:
    body = json.dumps({"access_token": "abcdefgh", "token_type": "Bearer", "refresh_token": refresh}).encode()
    assert parse_token_response(http_response(200, body), "https://as.example").refresh == ""
    assert "https://as.example issued a refresh token that cannot be sent" in caplog.text


@pytest.mark.parametrize("refresh", ["a b/c+d=.~", "", None])
def test_a_usable_refresh_token_or_none_is_not_logged(refresh: str | None, caplog: pytest.LogCaptureFixture) -> None:
    body = json.dumps({"access_token": "abcdefgh", "token_type": "Bearer", "refresh_token": refresh}).encode()
    assert parse_token_response(http_response(200, body), "https://as.example").refresh == (refresh or "")
    assert not caplog.text


@pytest.mark.parametrize("lasts", ["-5", "null", "true", '"soon"', "1e300", "[]"])
def test_a_nonsensical_lifetime_is_no_error(lasts: str) -> None:
    body = f'{{"access_token": "abcdefgh", "token_type": "Bearer", "expires_in": {lasts}}}'.encode()
    assert parse_token_response(http_response(200, body), "i").expires <= time.time() + 3601


def test_a_token_expires_slightly_early_and_one_without_expiry_never() -> None:
    now = time.time()
    assert TokenSet("a", expires=now + 29, issued=now - 971).needs_refresh()
    assert not TokenSet("a", expires=now + 40, issued=now - 960).needs_refresh()
    assert not TokenSet("a", expires=now + 1, issued=now - 4).needs_refresh()
    assert TokenSet("a", expires=now - 1, issued=now - 4).has_expired()
    assert not TokenSet("a").needs_refresh()


@pytest.mark.req("auth.reg.cimd.url")
def test_our_metadata_document_is_at_an_https_address_with_a_path() -> None:
    assert (
        make_metadata_document_client("i", "https://mcphost.example/client.json").id
        == "https://mcphost.example/client.json"
    )
    for url in ("https://mcphost.example", "https://mcphost.example/", "http://localhost/client.json"):
        with pytest.raises(SignInRequired):
            make_metadata_document_client("i", url)
