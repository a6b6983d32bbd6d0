"""Tests for the whole sign-in with a real authorization server, from the 401 to the repeated request."""

import json
import re
import socket
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcphost import redact
from mcphost.auth.discovery import UntrustedMetadata
from mcphost.auth.oauth_http import EndpointUnreachable
from mcphost.auth.registration import RegistrationError
from mcphost.auth.sign_in_context import SignInFailed
from mcphost.auth.token_store import TokenStore
from mcphost.auth.tokens import TokenError
from mcphost.auth.url_policy import UnsafeUrl
from mcphost.errors import SignInRequired, SignInUnchanged
from tests.fakes.memory_backend import MemoryBackend
from tests.unit.auth.oauth_peer import (
    BrowserUser,
    OAuthPeer,
    RefusedRequest,
    create_oauth,
    query,
    run_peer,
    send_request,
    send_with_sign_in,
)

pytestmark = pytest.mark.anyio
HTML = (200, b"<!doctype html><p>hello", "text/html")


@pytest.mark.req(
    "auth.resource.both", "auth.pkce.always", "auth.pkce.s256", "auth.state", "auth.scope.supported-second",
    "auth.callback.loopback", "auth.reg.dcr.should", "auth.reg.dcr.may",
)  # fmt: skip
async def test_a_401_starts_a_sign_in_and_repeats_the_request() -> None:
    user = BrowserUser()
    async with run_peer() as peer:
        assert await send_with_sign_in(create_oauth(peer, user), peer) == 200
    asked, form = peer.asked[0], peer.forms[0]
    assert asked["resource"] == form["resource"] == peer.url
    assert asked["code_challenge_method"] == "S256"
    assert asked["scope"] == "tools:read"
    assert asked["response_type"] == "code"
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/callback/[\w-]{16}", asked["redirect_uri"])
    assert form["redirect_uri"] == asked["redirect_uri"]
    assert asked["redirect_uri"] in peer.clients[asked["client_id"]]["redirect_uris"]
    assert peer.paths().count("/mcp") == 2
    assert "Response received" in user.page


@pytest.mark.req("auth.reg.dcr.application-type", "auth.reg.dcr.grant-types")
async def test_registration_is_for_a_native_app_that_refreshes_tokens() -> None:
    async with run_peer() as peer:
        await send_with_sign_in(create_oauth(peer, BrowserUser()), peer)
    registered = peer.clients["client-0"]
    assert registered["application_type"] == "native"
    assert registered["grant_types"] == ["authorization_code", "refresh_token"]
    assert registered["token_endpoint_auth_method"] == "none"
    assert "client_secret" not in peer.forms[0]


@pytest.mark.req("auth.bearer.not-in-query")
async def test_no_token_is_ever_in_an_address() -> None:
    async with run_peer(lifetime=0) as peer:
        auth = create_oauth(peer, BrowserUser())
        await send_with_sign_in(auth, peer)
        assert await send_request(auth, peer) == 200  # renewed
        tokens = {*peer.valid, *peer.families}
        await auth.logout()
    assert {"authorization_code", "refresh_token", None} == {form.get("grant_type") for form in peer.forms}
    for seen in peer.seen:
        assert not any(token in seen.path for token in tokens)


@pytest.mark.req("auth.prm.well-known-path", "auth.prm.well-known-root")
async def test_without_a_named_url_the_metadata_is_requested_by_path_and_then_at_the_root() -> None:
    async with run_peer(challenge="Bearer") as peer:
        peer.answers["/.well-known/oauth-protected-resource/mcp"] = (404, b"", "")
        root = {"resource": peer.origin, "authorization_servers": [peer.origin]}
        peer.answers["/.well-known/oauth-protected-resource"] = (200, json.dumps(root).encode(), "application/json")
        assert await send_with_sign_in(create_oauth(peer, BrowserUser()), peer) == 200
        places = [path for path in peer.paths() if "protected-resource" in path]
    assert places == ["/.well-known/oauth-protected-resource/mcp", "/.well-known/oauth-protected-resource"]
    assert peer.asked[0]["resource"] == peer.origin, "byte for byte what the metadata says"


@pytest.mark.req(
    "auth.legacy03.base-url", "auth.legacy03.metadata-first", "auth.legacy03.version-header", "auth.legacy03.when",
    "auth.prm.none", "auth.discovery-decides",
)  # fmt: skip
async def test_a_server_without_resource_metadata_follows_the_rules_of_2025_03_26() -> None:
    async with run_peer(challenge="Bearer") as peer:
        peer.answers["/.well-known/oauth-protected-resource/mcp"] = HTML  # a site that answers everything with a page
        peer.document = {"code_challenge_methods_supported": None}
        assert await send_with_sign_in(create_oauth(peer, BrowserUser()), peer) == 200
        asked = next(seen for seen in peer.seen if seen.path.endswith("authorization-server"))
    assert asked.headers["mcp-protocol-version"] == "2025-03-26"
    assert [path for path in peer.paths() if "well-known" in path] == [
        "/.well-known/oauth-protected-resource/mcp",
        "/.well-known/oauth-protected-resource",
        "/.well-known/oauth-authorization-server",
    ]


@pytest.mark.req("auth.prm.none")
async def test_the_configured_issuer_is_used_where_a_server_names_none() -> None:
    async with run_peer(challenge="Bearer") as peer, run_peer() as two:
        peer.answers["/.well-known/oauth-protected-resource/mcp"] = (404, b"", "")
        peer.valid = two.valid
        assert await send_with_sign_in(create_oauth(peer, BrowserUser(), issuer=two.origin), peer) == 200
        assert set(peer.paths()) == {"/mcp", *(f"/.well-known/oauth-protected-resource{path}" for path in ("/mcp", ""))}
        assert two.asked[0]["resource"] == peer.url
        two.document = {"code_challenge_methods_supported": None}
        with pytest.raises(UntrustedMetadata, match="PKCE"):  # it has metadata, so they must be valid
            await create_oauth(peer, BrowserUser(), issuer=two.origin).login()
        two.answers["/.well-known/oauth-authorization-server"] = (404, b"", "")
        with pytest.raises(EndpointUnreachable, match="no metadata"):
            await create_oauth(peer, BrowserUser(), issuer=two.origin).login()
    assert "/register" not in peer.paths()


@pytest.mark.req("auth.legacy03.default-paths", "auth.pkce.not-checked")
async def test_without_any_metadata_the_default_paths_of_2025_03_26_are_used_with_pkce() -> None:
    async with run_peer(challenge="Bearer") as peer:
        for path in ("oauth-protected-resource/mcp", "oauth-authorization-server"):
            peer.answers[f"/.well-known/{path}"] = (404, b"", "")
        assert await send_with_sign_in(create_oauth(peer, BrowserUser()), peer) == 200
    assert {"/register", "/authorize", "/token"} <= set(peer.paths())
    assert peer.asked[0]["code_challenge_method"] == "S256"


async def refused_before_the_browser(peer: OAuthPeer, error: type[SignInRequired], match: str) -> None:
    user = BrowserUser()
    with pytest.raises(error, match=match):
        await send_with_sign_in(create_oauth(peer, user), peer)
    assert user.urls == []
    assert peer.forms == []


@pytest.mark.req("auth.prm.resource-match", "auth.prm.authorization-servers", "auth.token.right-server")
@pytest.mark.parametrize(
    ("resource", "match"),
    [
        ({"resource": "https://other.example/mcp"}, "another resource"),
        ({"resource": None}, 'no "resource"'),
        ({"authorization_servers": []}, "no authorization server"),
        ({"authorization_servers": None}, "no authorization server"),
        ({"authorization_servers": "https://as.example"}, "cannot be read"),
    ],
)
async def test_metadata_that_is_not_about_this_server_stops_the_sign_in(resource: dict[str, Any], match: str) -> None:
    async with run_peer(resource=resource) as peer:
        await refused_before_the_browser(peer, UntrustedMetadata, match)


@pytest.mark.req(
    "auth.asm.issuer-check", "auth.asm.issuer-check-early", "auth.pkce.refuse", "auth.pkce.refuse-plain-only"
)
@pytest.mark.parametrize(
    ("document", "match"),
    [
        ({"issuer": "https://as.example"}, "calls itself"),
        ({"issuer": None}, 'no "issuer"'),
        ({"code_challenge_methods_supported": None}, "PKCE"),
        ({"code_challenge_methods_supported": ["plain"]}, "PKCE"),
    ],
)
async def test_metadata_of_an_issuer_that_is_another_or_too_weak_is_not_used(
    document: dict[str, Any], match: str
) -> None:
    async with run_peer(document=document) as peer:
        await refused_before_the_browser(peer, UntrustedMetadata, match)


@pytest.mark.req("auth.asm.issuer-check")
async def test_an_issuer_with_an_extra_slash_is_another_issuer() -> None:
    async with run_peer() as peer:
        peer.document = {"issuer": f"{peer.origin}/"}
        await refused_before_the_browser(peer, UntrustedMetadata, "calls itself")


@pytest.mark.req("sec.url-sanitise")
@pytest.mark.parametrize(
    "query",
    ["redirect_uri=https://evil.example/", "a=b&state=1", "code_challenge=x", "client_id=other", "scope=admin",
     "State=", "resource=https://evil.example", "redirect%5Furi=x", "a=b;response_type=token", "request_uri=urn:x",
     "prompt=none", "redirect_uri%00=x", "redirect.uri=x", "redirect+uri=x", "redirect_uri[]=x", "redirect%5Buri=x",
     "redirect_uri[a][b]=x", "%20redirect_uri=x", ".state=x", "redirect-uri=x", "%C5%BFtate=x", "redirect_uri%FF=x"],
)  # fmt: skip
async def test_an_authorization_endpoint_with_a_reserved_parameter_is_refused_and_logged(
    query: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with run_peer() as peer:
        peer.document = {"authorization_endpoint": f"{peer.origin}/authorize?{query}"}
        user = BrowserUser()
        with pytest.raises(SignInRequired, match="in its own query"):
            await create_oauth(peer, user).login()
    assert "in its own query" in caplog.text
    assert user.urls == []
    assert peer.clients == {}


@pytest.mark.parametrize("name", ["a%00b", "a%0Ab", "a[]", "a%5Bb%5D", "a%E2%80%8Bb", "redirect%255Furi"])
async def test_an_authorization_endpoint_with_a_parameter_that_servers_read_differently_is_refused(name: str) -> None:
    async with run_peer() as peer:
        peer.document = {"authorization_endpoint": f"{peer.origin}/authorize?{name}=x"}
        user = BrowserUser()
        with pytest.raises(SignInRequired, match="which servers read in different ways"):
            await create_oauth(peer, user).login()
    assert user.urls == []


@pytest.mark.parametrize(
    "query", ["?", "?p=B2C_1_sign.in", "?states=a&my.scope=b", "?tenant=a", "?tenant=a&", "?tenant=a&tenant=b"]
)
async def test_an_authorization_endpoint_keeps_its_own_query(query: str) -> None:
    async with run_peer() as peer:
        peer.document = {"authorization_endpoint": f"{peer.origin}/authorize{query}"}
        user = BrowserUser()
        assert (await create_oauth(peer, user).login()).tokens.access
    assert user.urls[0].startswith(f"{peer.origin}/authorize{query.rstrip('&')}")
    assert "?response_type" not in user.urls[0].partition("?")[2]


async def test_an_address_of_a_sign_in_that_is_too_long_is_reported_as_such() -> None:
    async with run_peer() as peer:
        peer.resource = {"scopes_supported": [f"scope-{number:04}-{'x' * 40}" for number in range(100)]}
        with pytest.raises(SignInRequired, match=r"is too long: [5-9],[0-9]{3} characters, of at most 4,096"):
            await create_oauth(peer, BrowserUser()).login()


@pytest.mark.parametrize("endpoint", ["authorization_endpoint", "token_endpoint", "registration_endpoint"])
@pytest.mark.parametrize(
    "url",
    [
        "javascript:alert(1)",
        "http://as.example/x",
        "file:///bin/sh",
        "https://u:p@as.example/",
        "https://as.example/#f",
    ],
)
async def test_an_endpoint_that_is_no_safe_address_stops_the_sign_in(
    endpoint: str, url: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with run_peer(document={endpoint: url}) as peer:
        await refused_before_the_browser(peer, UnsafeUrl, endpoint.replace("_", " "))
    assert endpoint.replace("_", " ") in caplog.text, "and the log has it"


@pytest.mark.req("auth.ssrf.private", "auth.ssrf.https")
@pytest.mark.parametrize(
    "issuer", ["https://169.254.169.254", "https://10.0.0.1/x", "http://as.example", "ftp://as.example"]
)
async def test_an_issuer_where_the_server_does_not_live_is_not_asked(issuer: str) -> None:
    async with run_peer(resource={"authorization_servers": [issuer]}) as peer:
        await refused_before_the_browser(peer, UnsafeUrl, "authorization server")


@pytest.mark.req("auth.ssrf.https")
async def test_a_challenge_cannot_name_metadata_on_another_origin() -> None:
    async with run_peer() as trap, run_peer() as peer:
        peer.challenge = f'Bearer resource_metadata="{trap.origin}/.well-known/oauth-protected-resource/mcp"'
        await refused_before_the_browser(peer, UntrustedMetadata, "another origin")
    assert trap.seen == [], "nothing reached it"


@pytest.mark.req("auth.prm.from-header")
async def test_only_the_metadata_url_of_the_challenge_is_requested() -> None:
    async with run_peer() as peer:
        peer.challenge = f'Bearer resource_metadata="{peer.origin}/about/me"'
        document = {"resource": peer.url, "authorization_servers": [peer.origin]}
        peer.answers["/about/me"] = (200, json.dumps(document).encode(), "application/json")
        assert await send_with_sign_in(create_oauth(peer, BrowserUser()), peer) == 200
        peer.answers["/about/me"] = (404, b"", "")
        with pytest.raises(EndpointUnreachable, match="about/me"):
            await create_oauth(peer, BrowserUser()).login()
    assert not [path for path in peer.paths() if "oauth-protected-resource" in path]


@pytest.mark.req("auth.ssrf.redirects")
async def test_a_redirect_of_metadata_to_another_origin_is_not_followed() -> None:
    async with run_peer() as trap, run_peer() as peer:

        async def handle(seen: Any) -> None:
            if "protected-resource" in seen.path:
                await seen.reply(302, b"", location=f"{trap.origin}/latest/meta-data")
            else:
                await OAuthPeer.handle(peer, seen)

        peer.handle = handle  # type: ignore[method-assign]
        from tests.unit.transport import raw_http

        async with raw_http.serve(handle) as server:
            peer.origin = f"http://127.0.0.1:{server.port}"
            await refused_before_the_browser(peer, UnsafeUrl, "another origin")
    assert trap.seen == []


@pytest.mark.req("auth.iss.present", "auth.iss.no-normalise", "auth.iss.record")
@pytest.mark.parametrize("change", ["https://evil.example", "{}/", "", "HTTP{rest}"])
async def test_an_answer_of_another_issuer_is_never_redeemed(change: str) -> None:
    async with run_peer() as peer:
        peer.redirect = {"iss": change.format(peer.origin, rest=peer.origin[4:])}
        with pytest.raises(UntrustedMetadata, match="does not come from"):
            await send_with_sign_in(create_oauth(peer, BrowserUser()), peer)
    assert peer.forms == [], "no code went to any token endpoint"


@pytest.mark.req("auth.iss.required")
async def test_an_issuer_that_promises_its_name_must_give_it() -> None:
    async with run_peer(document={"authorization_response_iss_parameter_supported": True}) as peer:
        with pytest.raises(UntrustedMetadata, match="does not say"):
            await send_with_sign_in(create_oauth(peer, BrowserUser()), peer)
        assert peer.forms == []
        peer.redirect = {"iss": peer.origin}
        assert await send_with_sign_in(create_oauth(peer, BrowserUser()), peer) == 200


@pytest.mark.req("auth.iss.error-response")
async def test_the_error_of_another_issuer_is_not_shown() -> None:
    async with run_peer(
        redirect={"code": None, "error": "x", "error_description": "call ABC-9", "iss": "https://evil.example"}
    ) as peer:
        with pytest.raises(UntrustedMetadata) as exc_info:
            await send_with_sign_in(create_oauth(peer, BrowserUser()), peer)
    assert "ABC-9" not in str(exc_info.value)
    assert "evil" not in str(exc_info.value)


@pytest.mark.req("auth.callback.denied", "auth.iss.absent-ok", "auth.400-other")
async def test_a_denial_shows_the_servers_text_and_can_be_retried() -> None:
    async with run_peer(
        redirect={"code": None, "error": "access_denied", "error_description": "not \x1b[31mtoday"}
    ) as peer:
        auth, user = create_oauth(peer, BrowserUser()), BrowserUser()
        with pytest.raises(SignInFailed, match="access_denied: not") as exc_info:
            await send_with_sign_in(auth, peer)
        assert "\x1b" not in str(exc_info.value)
        assert peer.forms == []
        peer.redirect = {}
        assert await send_with_sign_in(auth, peer) == 200
        assert user.urls == []


@pytest.mark.req("auth.reg.dcr.refused")
async def test_a_refused_registration_is_reported_with_a_fix() -> None:
    async with run_peer() as peer:
        body = b'{"error": "invalid_redirect_uri", "error_description": "no loopback here"}'
        peer.answers["/register"] = (400, body, "application/json")
        with pytest.raises(RegistrationError, match="invalid_redirect_uri: no loopback here") as exc_info:
            await send_with_sign_in(create_oauth(peer, BrowserUser()), peer)
        assert "clientId" in exc_info.value.hint


@pytest.mark.req("auth.reg.preregistered", "auth.reg.preregistered-old", "auth.reg.priority")
async def test_a_client_id_of_the_user_is_used_without_registering() -> None:
    async with run_peer(document={"token_endpoint_auth_methods_supported": ["client_secret_post"]}) as peer:
        auth = create_oauth(peer, BrowserUser(), client_id="mine", client_secret="my-secret-1", issuer=peer.origin)
        assert await send_with_sign_in(auth, peer) == 200
    assert "/register" not in peer.paths()
    assert peer.asked[0]["client_id"] == "mine"
    assert peer.asked[0]["redirect_uri"].endswith("/callback")
    assert peer.forms[0]["client_secret"] == "my-secret-1"
    assert "client_secret" not in peer.asked[0]


@pytest.mark.req("auth.reg.preregistered-mismatch", "auth.as.separate-state")
async def test_a_client_of_another_issuer_is_reported_and_not_used() -> None:
    async with run_peer() as peer:
        user = BrowserUser()
        auth = create_oauth(peer, user, client_id="mine", client_secret="my-secret-1", issuer="https://as.example")
        with pytest.raises(UntrustedMetadata, match="belongs to the authorization server"):
            await send_with_sign_in(auth, peer)
    assert user.urls == peer.forms == []


@pytest.mark.req("auth.reg.preregistered-old")
async def test_without_registration_the_user_is_asked_for_a_client_id() -> None:
    async with run_peer(document={"registration_endpoint": None}) as peer:
        await refused_before_the_browser(peer, RegistrationError, "does not register clients")


@pytest.mark.req(
    "auth.reg.cimd.support",
    "auth.reg.cimd.check",
    "auth.reg.priority",
    "auth.reg.dcr.deprecated",
    "auth.reg.cimd.portable",
)
async def test_our_metadata_document_is_the_client_id_where_that_is_understood_and_only_there() -> None:
    document = "https://mcphost.example/client.json"
    async with run_peer(document={"client_id_metadata_document_supported": True}) as peer:
        assert await send_with_sign_in(create_oauth(peer, BrowserUser(), client_metadata_url=document), peer) == 200
        assert peer.asked[0]["client_id"] == document
        assert peer.asked[0]["redirect_uri"].endswith("/callback")
        assert peer.clients == {}
        peer.document = {}
        assert await send_with_sign_in(create_oauth(peer, BrowserUser(), client_metadata_url=document), peer) == 200
        assert peer.asked[1]["client_id"] == "client-0"


async def test_the_redirect_of_a_metadata_document_has_the_configured_port() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    document = "https://mcphost.example/client.json"
    async with run_peer(document={"client_id_metadata_document_supported": True}) as peer:
        oauth = create_oauth(peer, BrowserUser(), client_metadata_url=document, port=port)
        assert await send_with_sign_in(oauth, peer) == 200
        assert peer.asked[0]["redirect_uri"] == f"http://127.0.0.1:{port}/callback"


async def test_a_server_that_only_takes_metadata_documents_is_told_to_the_user() -> None:
    known = {"registration_endpoint": None, "client_id_metadata_document_supported": True}
    async with run_peer(document=known) as peer:
        with pytest.raises(RegistrationError) as raised:
            await send_with_sign_in(create_oauth(peer, BrowserUser()), peer)
        assert "clientMetadataUrl" in raised.value.hint


@pytest.mark.req("auth.reg.priority")
async def test_a_registration_is_made_once_and_its_redirect_uri_is_used_again() -> None:
    token_store = TokenStore(MemoryBackend(), None)
    async with run_peer(lifetime=None, refresh=False) as peer:
        auth = create_oauth(peer, BrowserUser(), token_store)
        await send_with_sign_in(auth, peer)
        peer.valid.clear()
        later = create_oauth(peer, BrowserUser(), token_store)
        with anyio.fail_after(10):
            await later.login()
    assert len(peer.clients) == 1
    assert peer.asked[0]["redirect_uri"] == peer.asked[1]["redirect_uri"]
    assert peer.asked[0]["state"] != peer.asked[1]["state"]


@pytest.mark.req("auth.reg.issuer-keyed", "auth.as.separate-state")
async def test_registrations_at_several_authorization_servers_are_kept_side_by_side() -> None:
    token_store = TokenStore(MemoryBackend(), None)
    async with run_peer() as peer, run_peer() as two:
        for at in (peer, two, peer, two):
            await create_oauth(at, BrowserUser(), token_store).login()
        for at in (peer, two):
            assert len(at.clients) == 1
            assert {question["redirect_uri"] for question in at.asked} == {*at.clients["client-0"]["redirect_uris"]}


@pytest.mark.req("auth.reg.secret-expiry")
async def test_a_registration_that_the_server_forgot_is_repeated_once() -> None:
    token_store = TokenStore(MemoryBackend(), None)
    async with run_peer() as peer:
        await send_with_sign_in(create_oauth(peer, BrowserUser(), token_store), peer)
        peer.answers["/token"] = (401, b'{"error": "invalid_client"}', "application/json")
        with pytest.raises(TokenError, match="invalid_client"):
            await create_oauth(peer, BrowserUser(), token_store).login()
    assert len(peer.clients) == 2, "not again and again"


@pytest.mark.req("auth.reg.secret-expiry")
async def test_a_registration_whose_secret_ran_out_is_not_used() -> None:
    token_store = TokenStore(MemoryBackend(), None)
    async with run_peer(registration={"client_secret": "a-secret-x", "client_secret_expires_at": 1000}) as peer:
        await send_with_sign_in(create_oauth(peer, BrowserUser(), token_store), peer)
        await create_oauth(peer, BrowserUser(), token_store).login()
    assert len(peer.clients) == 2


@pytest.mark.req("auth.callback.manual")
async def test_on_a_machine_without_a_browser_the_address_is_pasted() -> None:
    async with run_peer() as peer:

        def elsewhere(url: str) -> str:
            params = query(url)
            peer.codes["typed-code"] = params
            if len(user.urls) == 1:
                return "http://127.0.0.1:1/callback?code=stolen&state=wrong"
            return f"{params['redirect_uri']}?code=typed-code&state={params['state']}"

        user = BrowserUser(visit=False, answer=elsewhere)
        assert await send_with_sign_in(create_oauth(peer, user), peer) == 200
    assert user.notes == ["", "That is not the redirect URL of this sign-in."]
    assert peer.forms[0]["code"] == "typed-code"


@pytest.mark.req("auth.callback.denied")
async def test_a_user_who_refuses_is_not_asked_again_for_the_same_request() -> None:
    user = BrowserUser(visit=False, answer=None)
    async with run_peer() as peer:
        with pytest.raises(SignInFailed, match="You did not sign in"):
            await send_with_sign_in(create_oauth(peer, user), peer)
    assert len(user.urls) == 1
    assert peer.forms == []


async def test_a_user_who_declines_more_rights_reads_that_the_sign_in_stays() -> None:
    user = BrowserUser()
    async with run_peer() as peer:
        auth = create_oauth(peer, user)
        await send_with_sign_in(auth, peer)
        assert auth.current_sign_in is not None
        sent = auth.current_sign_in.tokens.authorization
        user.visit, user.answer = False, None
        refused = RefusedRequest(403, 'Bearer error="insufficient_scope", scope="tools:write"', sent)
        with pytest.raises(SignInUnchanged, match="You declined to give mcphost more rights on 'peer'") as caught:
            await auth.sign_in(refused, 1)
        assert auth.current_sign_in.tokens.authorization == sent
    assert caught.value.hint == "The existing sign-in stays as it was."


async def test_a_user_who_declines_another_account_reads_that_the_sign_in_stays(tmp_path: Path) -> None:
    token_store = TokenStore(MemoryBackend(), tmp_path)
    async with run_peer() as peer:
        home = create_oauth(peer, BrowserUser(), token_store, account="home")
        await send_with_sign_in(home, peer)
        await home.select_account()
        other = create_oauth(peer, BrowserUser(visit=False, answer=None), token_store, account="work")
        with pytest.raises(SignInUnchanged, match="You did not sign in to 'peer' with another account") as caught:
            await other.login()
    assert caught.value.hint == "The existing sign-in stays: home."


async def test_a_declined_sign_in_names_no_account_that_is_not_in_use(tmp_path: Path) -> None:
    token_store = TokenStore(MemoryBackend(), tmp_path)
    async with run_peer() as peer:
        await send_with_sign_in(create_oauth(peer, BrowserUser(), token_store, account="work"), peer)
        unnamed = create_oauth(peer, BrowserUser(visit=False, answer=None), token_store)
        with pytest.raises(SignInFailed) as caught:
            await send_with_sign_in(unnamed, peer)
    assert caught.value.message == "You did not sign in to 'peer'."
    assert caught.value.hint == "Sign in: mcphost login peer"


async def test_an_idle_user_is_waited_for_a_limited_time() -> None:
    async with run_peer() as peer:
        with pytest.raises(SignInFailed, match="Nobody signed in"):
            await send_with_sign_in(create_oauth(peer, BrowserUser(visit=False), timeout=0.2), peer)


async def test_a_cancelled_sign_in_leaves_no_listener_behind() -> None:
    user = BrowserUser(visit=False)
    async with run_peer() as peer:
        with anyio.move_on_after(5) as scope:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(send_with_sign_in, create_oauth(peer, user), peer)
                await user.asked.wait()
                tasks.cancel_scope.cancel()
        assert not scope.cancelled_caught
        port = int(query(user.urls[0])["redirect_uri"].rpartition(":")[2].partition("/")[0])
        with pytest.raises(OSError, match="connection"):
            await anyio.connect_tcp("127.0.0.1", port)


@pytest.mark.req("auth.scope.challenge-first", "auth.scope.no-relation")
async def test_the_scopes_of_the_challenge_win() -> None:
    async with run_peer() as peer:
        place = f"{peer.origin}/.well-known/oauth-protected-resource/mcp"
        peer.challenge = f'Bearer scope="files:write mail", resource_metadata="{place}"'
        await send_with_sign_in(create_oauth(peer, BrowserUser()), peer)
    assert peer.asked[0]["scope"] == "files:write mail"


@pytest.mark.req("auth.scope.omit", "auth.scope.offline-access")
async def test_without_any_scopes_none_are_asked_for() -> None:
    async with run_peer(resource={"scopes_supported": None}, document={"scopes_supported": ["offline_access"]}) as peer:
        await send_with_sign_in(create_oauth(peer, BrowserUser()), peer)
    assert "scope" not in peer.asked[0]


@pytest.mark.req("auth.scope.offline-access", "auth.refresh.not-assumed")
async def test_offline_access_is_asked_for_where_the_authorization_server_knows_it() -> None:
    async with run_peer(document={"scopes_supported": ["tools:read", "offline_access"]}) as peer:
        await send_with_sign_in(create_oauth(peer, BrowserUser()), peer)
    assert peer.asked[0]["scope"] == "tools:read offline_access"


@pytest.mark.req("auth.scope.offline-access")
@pytest.mark.parametrize("known", [["tools:read"], []], ids=["others", "none"])
async def test_offline_access_is_not_asked_for_where_the_authorization_server_does_not_know_it(
    known: list[str],
) -> None:
    async with run_peer(document={"scopes_supported": known or None}) as peer:
        await send_with_sign_in(create_oauth(peer, BrowserUser()), peer)
    assert peer.asked[0]["scope"] == "tools:read"


@pytest.mark.req("auth.403-other")
async def test_a_403_without_insufficient_scope_is_missing_permission() -> None:
    user = BrowserUser()
    async with run_peer() as peer:
        auth = create_oauth(peer, user)
        refused = RefusedRequest(403, 'Bearer error="invalid_token"')
        assert not await auth.recover(refused)
        with pytest.raises(SignInFailed, match="does not allow this"):
            await auth.sign_in(refused, 1)
    assert user.urls == []


@pytest.mark.req("auth.400-other")
async def test_errors_of_the_token_endpoint_reach_the_user() -> None:
    async with run_peer() as peer:
        peer.answers["/token"] = (
            400,
            b'{"error": "invalid_request", "error_description": "bad day"}',
            "application/json",
        )
        with pytest.raises(TokenError, match="invalid_request: bad day"):
            await send_with_sign_in(create_oauth(peer, BrowserUser()), peer)


async def test_metadata_over_a_megabyte_is_not_read() -> None:
    async with run_peer() as peer:
        huge = b'{"resource": "' + b"a" * 1_100_000 + b'"}'
        peer.answers["/.well-known/oauth-protected-resource/mcp"] = (200, huge, "application/json")
        await refused_before_the_browser(peer, EndpointUnreachable, "more than 1 MB")


async def test_a_server_that_does_not_answer_is_abandoned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcphost.auth.oauth_http.REQUEST_TIMEOUT", 0.2)
    async with run_peer() as peer:

        async def silent(seen: Any) -> None:
            await anyio.sleep_forever()

        from tests.unit.transport import raw_http

        async with raw_http.serve(silent) as server:
            peer.origin = f"http://127.0.0.1:{server.port}"
            with pytest.raises(EndpointUnreachable, match="did not answer within"):
                await create_oauth(peer, BrowserUser()).login()


@pytest.mark.req("auth.token.storage", "sec.logs-redact")
async def test_logs_and_displays_contain_no_secrets(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG", "mcphost")
    user = BrowserUser()
    async with run_peer() as peer:
        auth = create_oauth(peer, user)
        signed = await auth.login()
    secret = [
        *peer.valid,
        *peer.families,
        peer.forms[0]["code"],
        peer.forms[0]["code_verifier"],
        peer.asked[0]["state"],
    ]
    shown = f"{caplog.text} {signed!r} {signed.tokens!r} {signed.client!r} {auth!r} {user.page}"
    for value in secret:
        assert value not in shown
        assert redact.redact(f"x {value} y") == "x [secret] y"


@pytest.mark.req("auth.prm.required", "auth.prm.several-as", "auth.asm.rfc8414-only")
async def test_of_several_authorization_servers_the_one_with_our_sign_in_is_chosen_or_else_the_first() -> None:
    token_store = TokenStore(MemoryBackend(), None)
    async with run_peer() as first, run_peer() as second, run_peer() as peer:
        peer.resource = {"authorization_servers": [first.origin, second.origin]}
        await create_oauth(second, BrowserUser(), token_store).login()
        await create_oauth(peer, BrowserUser(), token_store).login()
        assert first.clients == {}
        assert len(second.clients) == 1
        await create_oauth(peer, BrowserUser()).login()
        assert len(first.clients) == 1
        assert "/.well-known/oauth-authorization-server" in first.paths()


@pytest.mark.parametrize(
    ("account", "offered", "asked"),
    [
        ("work", ["login", "select_account"], "select_account"),
        ("", ["select_account"], None),
        ("work", ["login"], None),
    ],
)
async def test_a_browser_is_to_ask_whose_account_it_is_where_several_have_names_and_that_is_offered(
    account: str, offered: list[str], asked: str | None
) -> None:
    user = BrowserUser()
    async with run_peer(document={"prompt_values_supported": offered}) as peer:
        await create_oauth(peer, user, account=account).login()
    assert query(user.urls[0]).get("prompt") == asked
