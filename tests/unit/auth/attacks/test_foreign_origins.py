"""Tests for servers that try to redirect a request, a code, a token or a secret to another origin."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest

from mcphost.auth.client_grants import ClientGrant
from mcphost.auth.discovery import UntrustedMetadata
from mcphost.auth.oauth_http import OAuthHttpClient
from mcphost.auth.oauth_provider import OAuthProvider
from mcphost.auth.oauth_registry import OAuthRegistry
from mcphost.auth.sign_in_context import SignInTarget
from mcphost.auth.token_store import TokenStore
from mcphost.auth.tokens import TokenError
from mcphost.auth.url_policy import UnsafeUrl, UrlPolicy
from mcphost.client.connect import ClientSessionOpener
from mcphost.config.schema import ServerConfig
from mcphost.errors import McpHostError, ServerError, SignInRequired
from mcphost.protocol.tools import ListTools
from tests.fakes.memory_backend import MemoryBackend
from tests.unit.auth.attacks.forbidden_origin import ForbiddenOrigin, forbidden_origin
from tests.unit.auth.oauth_peer import (
    BrowserUser,
    OAuthPeer,
    ToolsPeer,
    create_oauth,
    query,
    run_peer,
    send_with_sign_in,
)
from tests.unit.client.fakes import FakeRequestHandler, RecordingObserver
from tests.unit.transport.raw_http import ReceivedRequest

pytestmark = pytest.mark.anyio
PRM = "/.well-known/oauth-protected-resource/mcp"
ASM = "/.well-known/oauth-authorization-server"


@contextmanager
def expect_no_connection(where: ForbiddenOrigin) -> Iterator[None]:
    """Check that no connection reaches an origin during the block."""
    yield
    assert where.received_text == ""
    assert where.connections == 0


class RedirectingPeer(OAuthPeer):
    """A peer that redirects requests; `lead` maps each redirected path to a status and a location."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.lead: dict[str, tuple[int, str]] = {}

    async def handle(self, request: ReceivedRequest) -> None:
        path = request.path.partition("?")[0]
        if path in self.lead:
            self.seen.append(request)
            status, location = self.lead[path]
            await request.reply(status, b"", location=location)
        else:
            await super().handle(request)

    def metadata(self) -> dict[str, Any]:
        return super().metadata() | {"device_authorization_endpoint": f"{self.origin}/device"}


@pytest.mark.req("auth.ssrf.https")
async def test_metadata_on_another_origin_named_by_a_challenge_is_not_fetched() -> None:
    async with forbidden_origin() as forbidden, run_peer() as peer:
        with expect_no_connection(forbidden):
            for place in (f"{forbidden.origin}{PRM}", f"{forbidden.origin.replace('http:', 'HTTP:')}{PRM}"):
                peer.challenge = f'Bearer resource_metadata="{place}"'
                user = BrowserUser()
                with pytest.raises(UntrustedMetadata, match="another origin"):
                    await send_with_sign_in(create_oauth(peer, user), peer)
                assert user.urls == []


@pytest.mark.req("auth.ssrf.redirects")
@pytest.mark.parametrize("path", [PRM, ASM])
@pytest.mark.parametrize("status", [301, 302, 307, 308])
async def test_metadata_redirects_to_another_origin_are_not_followed(path: str, status: int) -> None:
    async with forbidden_origin() as forbidden, run_peer(kind=RedirectingPeer) as peer:
        assert isinstance(peer, RedirectingPeer)
        user = BrowserUser()
        with expect_no_connection(forbidden):
            # Nor by a redirect that stays on the origin first.
            peer.lead = {path: (status, "/step"), "/step": (status, f"{forbidden.origin}{path}")}
            with pytest.raises(UnsafeUrl, match="another origin"):
                await send_with_sign_in(create_oauth(peer, user), peer)
        assert user.urls == []


@pytest.mark.req("auth.ssrf.redirects", "auth.refresh.confidential")
@pytest.mark.parametrize("path", ["/register", "/token", "/device"])
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_post_with_a_secret_is_never_redirected(path: str, status: int) -> None:
    async with forbidden_origin() as forbidden, run_peer(kind=RedirectingPeer) as peer:
        assert isinstance(peer, RedirectingPeer)
        peer.lead = {path: (status, f"{forbidden.origin}{path}")}
        with expect_no_connection(forbidden), pytest.raises(SignInRequired):
            await create_oauth(peer, BrowserUser()).login(use_device_code=path == "/device")
        peer.lead = {path: (status, f"{peer.origin}/other")}
        with pytest.raises(SignInRequired):
            await create_oauth(peer, BrowserUser()).login(use_device_code=path == "/device")
        assert "/other" not in peer.paths(), "also not inside the origin"


@pytest.mark.req("auth.refresh.confidential")
@pytest.mark.parametrize("path", ["/token", "/revoke"])
async def test_neither_renewal_nor_revocation_is_redirected(path: str) -> None:
    token_store = TokenStore(MemoryBackend(), None)
    async with forbidden_origin() as forbidden, run_peer(kind=RedirectingPeer, lifetime=0) as peer:
        assert isinstance(peer, RedirectingPeer)
        auth = create_oauth(peer, BrowserUser(), token_store)
        await auth.login()
        peer.lead = {path: (307, f"{forbidden.origin}{path}")}
        with expect_no_connection(forbidden):
            if path == "/token":
                await auth.headers("POST", peer.url)
            else:
                _, revoked = await auth.logout()
                assert not revoked


@pytest.mark.req("auth.asm.issuer-check")
async def test_an_authorization_server_that_calls_itself_another_gets_neither_client_nor_code() -> None:
    async with forbidden_origin() as evil, run_peer() as honest, run_peer() as peer:
        peer.resource = {"authorization_servers": [evil.origin]}
        evil.document = honest.metadata() | {"token_endpoint": f"{evil.origin}/token"}
        user = BrowserUser()
        with pytest.raises(UntrustedMetadata, match="calls itself"):
            await send_with_sign_in(create_oauth(peer, user), peer)
        assert user.urls == []
        assert evil.paths() == [ASM]
        assert honest.seen == []


@pytest.mark.req("auth.iss.present", "auth.iss.record")
@pytest.mark.parametrize("announced", [True, False])
async def test_a_mix_up_brings_no_code_to_the_token_endpoint_of_another(announced: bool) -> None:
    """RFC 9700, section 4.4 (mix-up): an attacker's metadata names an honest sign-in page, to steal its code."""
    async with forbidden_origin() as evil, run_peer() as honest, run_peer() as peer:
        peer.resource = {"authorization_servers": [evil.origin]}
        evil.document = {
            "authorization_endpoint": f"{honest.origin}/authorize",
            "authorization_response_iss_parameter_supported": announced,
        }
        honest.redirect = {"iss": honest.origin}
        with pytest.raises(UntrustedMetadata, match="does not come from"):
            await send_with_sign_in(create_oauth(peer, BrowserUser()), peer)
        (code,) = honest.codes
        assert "/token" not in evil.paths()
        assert code not in evil.received_text
        assert honest.codes[code]["state"] not in evil.received_text


async def test_a_code_that_another_server_or_page_brings_is_not_redeemed() -> None:
    """RFC 9700, section 4.5: a page injects a code into the redirect, with no state, a guessed or an earlier one."""
    async with run_peer() as peer:
        states: list[str] = []

        async def inject(url: str) -> None:
            params = query(url)
            states.append(params["state"])
            async with httpx.AsyncClient(trust_env=False, verify=False) as page:
                for state in ("", "guess", *states[:-1]):
                    answer = await page.get(params["redirect_uri"], params={"code": "injected", "state": state})
                    assert answer.status_code == 400

        class AttackedUser(BrowserUser):
            async def sign_in(self, **asked: Any) -> str | None:
                await inject(asked["url"])
                return await super().sign_in(**asked)

        auth = create_oauth(peer, AttackedUser())
        await auth.login()
        await auth.login()
    assert len(states) == 2
    assert not any(form["code"] == "injected" for form in peer.forms)


@pytest.mark.req("auth.token.right-server", "auth.prm.resource-match")
async def test_a_server_that_claims_to_be_another_gets_no_token_of_that() -> None:
    token_store = TokenStore(MemoryBackend(), None)
    async with run_peer() as honest, run_peer() as evil:
        await create_oauth(honest, BrowserUser(), token_store).login()
        evil.resource = {"resource": honest.url, "authorization_servers": [honest.origin]}
        user = BrowserUser()
        with pytest.raises(UntrustedMetadata, match="another resource"):
            await send_with_sign_in(create_oauth(evil, user, token_store), evil)
        assert user.urls == []
        assert not any(token in str([seen.headers for seen in evil.seen]) for token in honest.valid)


@pytest.mark.req("auth.token.right-server", "auth.prm.resource-match")
async def test_a_resource_that_hides_the_name_of_another_server_is_refused() -> None:
    async with run_peer() as evil:
        evil.resource = {"resource": evil.url.replace("://", "://bank.example@")}
        user = BrowserUser()
        with pytest.raises(UnsafeUrl, match="hides a user name"):
            await send_with_sign_in(create_oauth(evil, user), evil)
        assert user.urls == []


@pytest.mark.req("auth.token.right-server", "auth.resource.both")
async def test_two_servers_of_one_authorization_server_each_see_only_their_own_token() -> None:
    token_store = TokenStore(MemoryBackend(), None)
    async with run_peer() as honest, run_peer() as evil:
        evil.resource, evil.valid = {"authorization_servers": [honest.origin]}, honest.valid
        mine = (await create_oauth(honest, BrowserUser(), token_store).login()).tokens
        await send_with_sign_in(create_oauth(evil, BrowserUser(), token_store), evil)
        theirs = {seen.headers.get("authorization", "") for seen in evil.seen}
    assert f"Bearer {mine.access}" not in theirs
    assert [form["resource"] for form in honest.forms] == [honest.url, evil.url]


@pytest.mark.req("auth.token.right-server", "auth.as.separate-state")
async def test_a_url_chosen_by_a_project_gets_no_token_of_another_server(tmp_path: Path) -> None:
    """CVE-2026-21852: a project's server that has the name of the user's server but another URL is another server."""
    backend = MemoryBackend()
    async with run_peer(kind=ToolsPeer) as honest, run_peer(kind=ToolsPeer) as evil:
        at_home = OAuthRegistry(TokenStore(backend, tmp_path), BrowserUser())
        config = ServerConfig(name="tracker", url=honest.url)
        opener = ClientSessionOpener(accounts=at_home)
        async with opener.open(config, FakeRequestHandler(), RecordingObserver()) as session:
            await session.request(ListTools())
        in_project = ClientSessionOpener(accounts=OAuthRegistry(TokenStore(backend, tmp_path), None))
        for url in (evil.url, evil.url.replace("/mcp", "/mcp/"), honest.url.replace("127.0.0.1", "localhost")):
            with pytest.raises((SignInRequired, ServerError)):
                async with in_project.open(
                    ServerConfig(name="tracker", url=url), FakeRequestHandler(), RecordingObserver()
                ):
                    pass
        tokens = [*honest.valid, *honest.families]
        sent = [str(seen.headers) for seen in evil.seen]
        at_localhost = [str(seen.headers) for seen in honest.seen if "localhost" in seen.headers["host"]]
    assert sent
    assert at_localhost
    assert not any(token in text for token in tokens for text in sent + at_localhost)


@pytest.mark.req("http.redirects", "auth.token.right-server")
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_server_that_redirects_its_requests_gets_no_token_there(status: int) -> None:
    async with forbidden_origin() as forbidden, run_peer(kind=ToolsPeer) as peer:
        opener = ClientSessionOpener(accounts=OAuthRegistry(TokenStore(MemoryBackend(), None), BrowserUser()))
        async with opener.open(
            ServerConfig(name="peer", url=peer.url), FakeRequestHandler(), RecordingObserver()
        ) as session:
            await session.request(ListTools())

            async def away(seen: ReceivedRequest) -> None:
                await seen.reply(status, b"", location=forbidden.url)

            peer.mcp = away  # type: ignore[method-assign]
            with expect_no_connection(forbidden), pytest.raises(ServerError):
                await session.request(ListTools())


@pytest.mark.req("auth.as.separate-state", "auth.ext.client-credentials")
async def test_a_client_key_signs_only_for_the_configured_issuer() -> None:
    """An assertion made for one authorization server is not valid at another (RFC 7523, section 3: audience)."""
    from tests.unit.auth.grant_servers import MachineTokenServer, create_private_key_pem, decode_jwt

    async with forbidden_origin() as evil, run_peer(kind=MachineTokenServer) as bank, run_peer() as peer:
        peer.resource = {"authorization_servers": [evil.origin, bank.origin]}
        target = SignInTarget(server="peer", url=peer.url, client_id="me", issuer=bank.origin)
        grant = ClientGrant(grant="client_credentials", target=target, key=create_private_key_pem())
        auth = OAuthProvider(
            target, OAuthHttpClient(UrlPolicy(peer.url)), TokenStore(MemoryBackend(), None), None, grant
        )
        with expect_no_connection(evil):
            await auth.login()
        assert decode_jwt(bank.forms[0]["client_assertion"])[1]["aud"] == bank.origin


@pytest.mark.parametrize(
    "junk", ["http://169.254.169.254/latest/meta-data", "gopher://127.0.0.1:1/", "//evil.example/x"]
)
async def test_a_challenge_cannot_redirect_discovery_beyond_this_servers_metadata(junk: str) -> None:
    async with run_peer(challenge=f'Bearer resource_metadata="{junk}"') as peer:
        with pytest.raises(SignInRequired):
            await send_with_sign_in(create_oauth(peer, BrowserUser()), peer)
        assert set(peer.paths()) == {"/mcp"}


async def test_a_slow_document_ends_at_the_timeout_and_an_inflating_one_at_a_megabyte(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import zlib

    monkeypatch.setattr("mcphost.auth.oauth_http.REQUEST_TIMEOUT", 2)
    async with run_peer() as peer:

        async def drip(seen: ReceivedRequest) -> None:
            await seen.send(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 100000\r\n\r\n")
            while True:
                await seen.send(b" ")
                await anyio.sleep(0.05)

        peer.handle = drip  # type: ignore[method-assign]
        from tests.unit.transport import raw_http

        async with raw_http.serve(drip) as server:
            peer.origin = f"http://127.0.0.1:{server.port}"
            with anyio.fail_after(10), pytest.raises(McpHostError, match="did not answer within"):
                await create_oauth(peer, BrowserUser()).login()

        async def bomb(seen: ReceivedRequest) -> None:
            body = zlib.compress(b'{"resource": "' + b"a" * 50_000_000)
            if "well-known" in seen.path:
                await seen.reply(200, body, content_encoding="deflate")
            else:
                await seen.reply(401, b"", www_authenticate="Bearer")

        monkeypatch.setattr("mcphost.auth.oauth_http.REQUEST_TIMEOUT", 10)
        async with raw_http.serve(bomb) as server:
            peer.origin = f"http://127.0.0.1:{server.port}"
            with pytest.raises(McpHostError, match="more than 1 MB"):
                await create_oauth(peer, BrowserUser()).login()


@pytest.mark.req("auth.401-after-token")
async def test_a_server_that_always_needs_more_input_is_answered_a_few_times_and_not_forever() -> None:
    """A server that rejects every token, for calls or event streams, must not cause endless sign-ins or reconnects."""

    class UnreachedPeer(ToolsPeer):
        async def mcp(self, request: ReceivedRequest) -> None:
            if request.method == "GET":
                await request.reply(401, b"", www_authenticate='Bearer error="invalid_token"')
            else:
                await super().mcp(request)

    user = BrowserUser()
    async with run_peer(kind=UnreachedPeer) as peer:
        opener = ClientSessionOpener(accounts=OAuthRegistry(TokenStore(MemoryBackend(), None), user))
        async with opener.open(
            ServerConfig(name="peer", url=peer.url), FakeRequestHandler(), RecordingObserver()
        ) as session:
            for _ in range(5):
                await session.request(ListTools())
            await anyio.sleep(1)
            streams = [seen for seen in peer.seen if seen.method == "GET" and seen.path == "/mcp"]
            assert len(streams) <= 7, "one for each call that was let in, at most"
        peer.answers["/mcp"] = (401, b"", "")
        with pytest.raises((SignInRequired, ServerError)):
            async with opener.open(ServerConfig(name="peer", url=peer.url), FakeRequestHandler(), RecordingObserver()):
                pass
    assert len(user.urls) <= 3
    assert len(peer.seen) < 60


@pytest.mark.req("auth.400-other")
async def test_text_of_a_hostile_authorization_server_is_bounded_and_cleaned_everywhere() -> None:
    words = "\x1b]52;c;aGVsbG8=\x07\u202e[red]" + "long " * 50_000
    body = json.dumps({"error": words, "error_description": words}).encode()
    async with run_peer() as peer:
        for path in ("/register", "/token"):
            peer.answers = {path: (400, body, "application/json")}
            with pytest.raises(SignInRequired) as exc_info:
                await create_oauth(peer, BrowserUser()).login()
            told = str(exc_info.value)
            assert len(told) < 2_000
            assert not {"\x1b", "\x07", "\u202e"} & set(told)
        peer.answers = {}
        peer.redirect = {"code": None, "error": words[:4_000], "error_description": words[:4_000]}
        with pytest.raises(SignInRequired) as exc_info:
            await create_oauth(peer, BrowserUser()).login()
        assert not {"\x1b", "\x07", "\u202e"} & set(str(exc_info.value))


async def test_only_asking_again_can_follow_from_a_token_that_is_no_token() -> None:
    async with run_peer() as peer:
        peer.answers["/token"] = (
            200,
            b'{"access_token": "a\\r\\nX-Evil: 1", "token_type": "Bearer"}',
            "application/json",
        )
        with pytest.raises(TokenError, match="does not fit into a header"):
            await create_oauth(peer, BrowserUser()).login()
