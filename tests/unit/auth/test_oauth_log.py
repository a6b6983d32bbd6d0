"""Tests that OAuth requests are in the log of the server's HTTP exchanges, with names instead of values."""

import json
import secrets
from pathlib import Path

import pytest

from mcphost.auth.oauth_http import EndpointUnreachable, OAuthHttpClient
from mcphost.auth.oauth_registry import OAuthRegistry
from mcphost.auth.token_store import TokenStore
from mcphost.auth.url_policy import UnsafeUrl, UrlPolicy
from mcphost.client.account_manager import observed_provider
from mcphost.client.connect import ClientSessionOpener
from mcphost.config.schema import ServerConfig
from mcphost.host.message_log_export import export_json_lines, make_curl_command
from mcphost.http_log import LoggedOAuthRequest
from mcphost.message_log import MAX_EXCHANGE_BYTES, MAX_EXCHANGES, MessageLog
from mcphost.protocol.tools import ListTools
from mcphost.redact import register_server_secret
from tests.fakes.memory_backend import MemoryBackend
from tests.unit.auth.oauth_peer import BrowserUser, OAuthPeer, ToolsPeer, run_peer
from tests.unit.client.fakes import FakeRequestHandler, RecordingObserver

pytestmark = pytest.mark.anyio


def oauth_requests(log: MessageLog) -> list[LoggedOAuthRequest]:
    return [one for one in log.exchanges() if isinstance(one, LoggedOAuthRequest)]


def logged_client(peer: OAuthPeer) -> tuple[OAuthHttpClient, MessageLog]:
    log = MessageLog()
    return OAuthHttpClient(UrlPolicy(peer.url), find_log=lambda: log), log


async def test_a_sign_in_a_refresh_and_a_revocation_are_logged_without_any_value(tmp_path: Path) -> None:
    observer = RecordingObserver()
    log = observer.message_log = MessageLog()
    # Short values are not recognized as secrets by themselves.
    registration = {"client_secret": "s3cr3t", "token_endpoint_auth_method": "client_secret_post"}
    methods = {"token_endpoint_auth_methods_supported": ["client_secret_post"]}
    async with run_peer(kind=ToolsPeer, registration=registration, document=methods, lifetime=1) as peer:
        server = ServerConfig(name="peer", url=peer.url)
        registry = OAuthRegistry(TokenStore(MemoryBackend(), tmp_path), BrowserUser())
        async with ClientSessionOpener(accounts=registry).open(server, FakeRequestHandler(), observer) as session:
            await session.request(ListTools())
            peer.valid.clear()  # a token that lives for a second is refreshed, however new it is
            await session.request(ListTools())
        oauth = observed_provider(registry, server, observer)
        assert oauth is not None
        assert await registry.sign_out(server, oauth)
    purposes = [(one.verb, one.target.partition("/")[2].partition("?")[0], one.sign_in) for one in oauth_requests(log)]
    assert list(dict.fromkeys(purposes)) == [
        ("GET", ".well-known/oauth-protected-resource/mcp", "protected resource metadata"),
        ("GET", ".well-known/oauth-authorization-server", "authorization server metadata"),
        ("POST", "register", "registration endpoint"),
        ("POST", "token", "token endpoint"),
        ("POST", "revoke", "revocation endpoint"),
    ]
    tokens = [one for one in oauth_requests(log) if one.sign_in == "token endpoint"]
    assert {"grant_type", "code", "code_verifier", "client_secret"} < set(tokens[0].parameters)
    assert {"grant_type", "refresh_token", "client_secret"} < set(tokens[1].parameters)
    assert tokens[0].response_parameters[:2] == ("access_token", "token_type")
    assert [(one.status, one.outcome) for one in tokens] == [(200, "complete")] * len(tokens)
    text = export_json_lines([*log.exchanges(), *log.messages()]) + repr([one.body for one in oauth_requests(log)])
    text += "".join(make_curl_command(one)[0] for one in oauth_requests(log))
    values = {value for form in peer.forms for value in form.values()}
    values -= {"authorization_code", "refresh_token", "access_token", peer.url}  # public words of the protocol
    values = {value for value in values if not value.startswith("http")} | set(peer.families)
    assert len(values) >= 6
    assert [value for value in values if value in text] == []
    assert "s3cr3t" not in text
    assert '"sign_in":"token endpoint"' in text


async def test_the_error_code_of_a_refused_request_is_named_only_if_it_is_a_registered_one() -> None:
    async with run_peer() as peer:
        http, log = logged_client(peer)
        for code in ("invalid_grant", "the \x1b[31mtoken is hunter2"):
            peer.answers["/token"] = (400, json.dumps({"error": code}).encode(), "application/json")
            await http.post_form(f"{peer.origin}/token", {"code": "hunter2"}, "token endpoint")
        first, second = oauth_requests(log)
        assert (first.oauth_error, second.oauth_error) == ("invalid_grant", "")
        assert (first.is_problem, first.response_parameters) == (True, ("error",))
        assert "hunter2" not in export_json_lines(log.exchanges())


async def test_a_refused_address_and_an_unreachable_one_are_logged_with_the_reason() -> None:
    async with run_peer() as peer:
        http, log = logged_client(peer)
        with pytest.raises(UnsafeUrl):
            await http.get("http://as.example/.well-known/x", "authorization server metadata")
        with pytest.raises(EndpointUnreachable):
            await http.get("http://127.0.0.1:1/x", "authorization server metadata")
        refused, unreachable = oauth_requests(log)
        assert (refused.outcome, refused.status) == ("failed", 0)
        assert refused.error
        assert "refused" in unreachable.error


async def test_a_hostile_authorization_server_cannot_show_a_token_or_fill_the_log() -> None:
    token = f"0{secrets.token_urlsafe(24)}"
    async with run_peer() as peer:
        echo = {
            token: 1,
            "access_token": token,
            "\x1b]0;x\x07": 2,
            "n" * 500: 3,
            **{f"p{n}": 0 for n in range(900)},
        }
        peer.answers["/token"] = (200, json.dumps(echo).encode(), "application/json")
        http, log = logged_client(peer)
        await http.post_form(f"{peer.origin}/token", {"grant_type": "refresh_token"}, "token endpoint")
        register_server_secret(token)  # known only after the response was logged
        (one,) = oauth_requests(log)
        assert len(one.response_parameters) == 50
        exported = export_json_lines([one])
        assert token not in exported
        assert "\x1b" not in exported
        assert "n" * 100 not in exported
    for number in range(MAX_EXCHANGES + 100):
        log.add_oauth_request("POST", f"https://as.example/{number}", (("x", "v" * 2_000),) * 5)
    assert len(log.exchanges()) <= MAX_EXCHANGES
    assert sum(one.logged_bytes for one in log.exchanges()) <= MAX_EXCHANGE_BYTES


async def test_a_body_that_is_no_small_json_object_has_no_named_parameters() -> None:
    async with run_peer() as peer:
        http, log = logged_client(peer)
        for body in (b"[1]", b"<html>", b'{"a":"' + b"x" * 100_000 + b'"}', b""):
            peer.answers["/x"] = (200, body, "application/json")
            await http.get(f"{peer.origin}/x", "authorization server metadata")
        assert [one.response_parameters for one in oauth_requests(log)] == [()] * 4
        assert [one.response_size for one in oauth_requests(log)] == [3, 6, 100_008, 0]
