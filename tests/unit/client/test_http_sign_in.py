"""Tests for sessions with servers that require an account: sign-in while connecting, and more scopes during a call."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcphost.auth.oauth_registry import OAuthRegistry, make_client_grant, make_target
from mcphost.auth.token_store import TokenStore
from mcphost.client.account_manager import observed_provider
from mcphost.client.connect import ClientSessionOpener
from mcphost.config.schema import Limits, OAuthConfig, ServerConfig
from mcphost.errors import ConnectionLost, SignInRequired, StartupError
from mcphost.protocol.base import ClientRequest
from mcphost.protocol.resources import ReadResource
from mcphost.protocol.revisions import Revision
from mcphost.protocol.tools import CallTool, ListTools
from mcphost.transport.channel import HttpStatusError
from tests.event_loop import wait_until
from tests.fakes.memory_backend import MemoryBackend
from tests.unit.auth.oauth_peer import BrowserUser, OAuthPeer, ToolsPeer, run_peer
from tests.unit.auth.storage import ReadOnlyBackend
from tests.unit.client.fakes import FakeRequestHandler, RecordingObserver
from tests.unit.transport.raw_http import ReceivedRequest, serve

pytestmark = pytest.mark.anyio


class NotebookServer(OAuthPeer):
    """A server of 2026-07-28 with one private resource, whose content depends on the token."""

    scope_of_cache = "private"

    async def mcp(self, request: ReceivedRequest) -> None:
        token = request.headers.get("authorization", "").removeprefix("Bearer ")
        method = request.message["method"]
        if method == "server/discover":
            info = {"name": "peer", "version": "1"}
            known = {"supportedVersions": ["2026-07-28"], "capabilities": {"resources": {}}, "serverInfo": info}
            await request.result({"resultType": "complete", **known})
        elif token not in self.valid and method == "resources/read" and not self.resource.get("open"):
            await OAuthPeer.mcp(self, request)
        else:
            text = {"uri": "me://notes", "text": f"notes of {token or 'nobody'}"}
            life = {"resultType": "complete", "ttlMs": 600_000, "cacheScope": self.scope_of_cache}
            await request.result({**life, "contents": [text]})


def create_opener(user: Any, **limits: float) -> ClientSessionOpener:
    identities = OAuthRegistry(TokenStore(MemoryBackend(), None), user)
    return ClientSessionOpener(accounts=identities, limits=Limits(**limits))


@pytest.mark.req("auth.stepup.retry-original", "auth.stepup.403", "http.get.accept")
async def test_connecting_signs_in_and_a_call_steps_up_and_is_sent_again() -> None:
    user = BrowserUser()
    async with run_peer(kind=ToolsPeer) as peer:
        server = ServerConfig(name="peer", url=peer.url)
        async with create_opener(user).open(server, FakeRequestHandler(), RecordingObserver()) as session:
            await session.request(ListTools())
            result = await session.request(CallTool("write", {}))
    assert result.content
    assert [question["scope"] for question in peer.asked] == ["tools:read", "tools:read tools:write"]
    after = [seen for seen in peer.seen if seen.path == "/mcp"][2:]
    assert all(seen.headers.get("authorization", "").startswith("Bearer ") for seen in after)
    assert {"GET", "DELETE", "POST"} >= {seen.method for seen in after} >= {"GET", "POST"}


class RevisionServer(OAuthPeer):
    """A server of the revision under test that always requires a token, with HTTP sessions if the revision has them."""

    revision = Revision.V2025_11_25

    async def mcp(self, request: ReceivedRequest) -> None:
        method = request.message.get("method", "") if request.method == "POST" else request.method
        facts = {"capabilities": {"tools": {}}, "serverInfo": {"name": "peer", "version": "1"}}
        done = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
        if request.headers.get("authorization", "").removeprefix("Bearer ") not in self.valid:
            await OAuthPeer.mcp(self, request)
        elif method == "server/discover":
            await request.result({**done, **facts, "supportedVersions": [self.revision.value]})
        elif method == "initialize":
            await request.result({**facts, "protocolVersion": self.revision.value}, mcp_session_id="s-1")
        elif method == "tools/list":
            await request.result({**done, "tools": []})
        elif method == "tools/call":
            await request.result({**done, "content": []})
        else:
            await request.reply(202 if method.startswith("notifications/") else 405, b"")


@pytest.mark.req("auth.401-starts", "auth.bearer.header")
@pytest.mark.parametrize("revision", [item for item in Revision if item > Revision.V2024_11_05])
async def test_a_401_to_any_request_is_signed_in_to_and_every_request_carries_the_token(revision: Revision) -> None:
    user = BrowserUser()
    async with run_peer(kind=RevisionServer) as peer:
        peer.revision = revision
        server = ServerConfig(name="peer", url=peer.url, revision=revision)
        async with create_opener(user).open(server, FakeRequestHandler(), RecordingObserver()) as session:
            for sign_ins, call in enumerate((ListTools(), CallTool("write", {})), 2):
                peer.valid.clear()
                await session.request(call)
                assert len(user.urls) == sign_ins
    refused, *after = [seen for seen in peer.seen if seen.path == "/mcp"]
    assert "authorization" not in refused.headers
    assert [seen.headers.get("authorization", "")[:7] for seen in after] == ["Bearer "] * len(after)
    expected = {"GET", "POST", "DELETE"} if revision.era == "handshake" else {"POST"}
    assert {seen.method for seen in after} == expected


async def test_the_user_may_take_longer_than_the_server() -> None:
    class SlowUser(BrowserUser):
        async def sign_in(self, **asked: Any) -> str | None:
            await anyio.sleep(1)
            return await super().sign_in(**asked)

    async with run_peer(kind=ToolsPeer) as peer:
        peer.free = ("initialize", "notifications/initialized", "server/discover")
        server = ServerConfig(name="peer", url=peer.url, timeout=0.8)
        limits = {"connect_timeout": 0.8, "request_timeout": 0.8, "request_timeout_max": 0.8}
        async with create_opener(SlowUser(), **limits).open(
            server, FakeRequestHandler(), RecordingObserver()
        ) as session:
            await session.request(ListTools())


async def read_notes(session: Any) -> str:
    result = await session.request(ReadResource("me://notes"))
    return str(result.contents[0].text)


@pytest.mark.req("cache.private")
async def test_tokens_of_one_account_are_never_given_to_the_next_one() -> None:
    async with run_peer(kind=NotebookServer) as peer:
        server, opens = ServerConfig(name="peer", url=peer.url), create_opener(BrowserUser())
        async with opens.open(server, FakeRequestHandler(), RecordingObserver()) as session:
            await read_notes(session)
            first = await read_notes(session)
            count = len(peer.seen)
            assert await read_notes(session) == first
            assert len(peer.seen) == count  # stored for the account that asked
            await opens.account_manager.sign_in(server, RecordingObserver())
            second = await read_notes(session)
            assert second != first
            assert second.removeprefix("notes of ") == [*peer.valid][-1]


@pytest.mark.req("cache.private")
async def test_anonymous_results_are_fetched_again_after_a_sign_in() -> None:
    async with run_peer(kind=NotebookServer) as peer:
        peer.resource["open"] = True
        server, opens = ServerConfig(name="peer", url=peer.url), create_opener(BrowserUser())
        async with opens.open(server, FakeRequestHandler(), RecordingObserver()) as session:
            assert await read_notes(session) == "notes of nobody"
            peer.answers["/mcp"] = (401, b"", "application/json")
            await opens.account_manager.sign_in(server, RecordingObserver())
            del peer.answers["/mcp"]
            assert await read_notes(session) == f"notes of {[*peer.valid][-1]}"


@pytest.mark.req("cache.public")
async def test_public_results_stay_cached_across_a_sign_in() -> None:
    async with run_peer(kind=NotebookServer) as peer:
        peer.scope_of_cache = "public"
        server, opens = ServerConfig(name="peer", url=peer.url), create_opener(BrowserUser())
        async with opens.open(server, FakeRequestHandler(), RecordingObserver()) as session:
            first = await read_notes(session)
            await opens.account_manager.sign_in(server, RecordingObserver())
            assert await read_notes(session) == first


class SessionServer(ToolsPeer):
    """A server that starts an HTTP session after the sign-in, and whose token endpoint hangs while `stuck` is set.

    `ended` contains the Authorization header of each request that ends a session.
    """

    ended: tuple[str, ...] = ()
    stuck = False

    async def token(self, request: ReceivedRequest) -> None:
        if not self.stuck:
            return await super().token(request)
        await request.wait_closed()
        return None

    async def mcp(self, request: ReceivedRequest) -> Any:
        if request.method == "DELETE":
            self.ended += (request.headers.get("authorization", ""),)
            return await request.reply(405, b"")
        if request.method == "POST" and request.message["method"] == "initialize" and self.valid:
            info = {"name": "peer", "version": "1"}
            result = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": info}
            return await request.result(result, mcp_session_id="s-1")
        return await super().mcp(request)


async def test_the_end_of_a_session_carries_the_token_and_waits_for_no_renewal() -> None:
    async with run_peer(kind=SessionServer) as peer:
        peer.free, peer.lifetime = ("server/discover",), 0  # expires at once, so that it is refreshed before each use
        with anyio.fail_after(20):
            async with create_opener(BrowserUser()).open(
                ServerConfig(name="peer", url=peer.url), FakeRequestHandler(), RecordingObserver()
            ):
                peer.stuck = True
    (ended,) = peer.ended
    assert ended.removeprefix("Bearer ") in peer.valid


class LateSignInServer(ToolsPeer):
    """A server that accepts a call, closes its event stream early, and requires a sign-in to resume it."""

    taken = 0

    async def mcp(self, request: ReceivedRequest) -> Any:
        if request.method == "GET" and "last-event-id" in request.headers:
            return await request.reply(401, b"", www_authenticate="Bearer")
        if request.method == "POST" and request.message["method"] == "tools/call":
            self.taken += 1
            await request.stream()
            await request.send(b"id: 1\nretry: 1\ndata:\n\n")
            return request.writer.close()
        return await super().mcp(request)


@pytest.mark.req("http.resume.post-streams")
async def test_an_accepted_call_is_not_sent_again_because_its_stream_requires_an_account() -> None:
    user = BrowserUser()
    async with run_peer(kind=LateSignInServer) as peer:
        server = ServerConfig(name="peer", url=peer.url)
        async with create_opener(user).open(server, FakeRequestHandler(), RecordingObserver()) as session:
            with pytest.raises(ConnectionLost, match="closed the stream") as exc_info:
                await session.request(CallTool("pay"))
    assert exc_info.value.may_have_run
    assert peer.taken == 1


@pytest.mark.req("http.403-origin")
@pytest.mark.parametrize(("kind", "call"), [(ToolsPeer, ListTools()), (NotebookServer, ReadResource("me://notes"))])
async def test_a_403_without_a_challenge_is_reported_without_a_sign_in(
    kind: type[OAuthPeer], call: ClientRequest[Any]
) -> None:
    async with run_peer(kind=kind) as peer:
        server = ServerConfig(name="peer", url=peer.url)
        async with create_opener(BrowserUser()).open(server, FakeRequestHandler(), RecordingObserver()) as session:
            await session.request(call)
            count = len(peer.asked)
            session.invalidate()
            peer.answers["/mcp"] = (403, b"Invalid Origin", "text/plain")
            with pytest.raises(HttpStatusError, match=r"HTTP 403 .*Invalid Origin"):
                await session.request(call)
    assert len(peer.asked) == count == 1
    assert all("origin" not in seen.headers for seen in peer.seen)


@pytest.mark.req("auth.optional")
async def test_a_server_that_requires_no_account_sees_no_trace_of_sign_in() -> None:
    user = BrowserUser()
    async with run_peer(kind=ToolsPeer) as peer:
        peer.free = ("initialize", "notifications/initialized", "server/discover", "tools/list", "GET", "DELETE")
        async with create_opener(user).open(
            ServerConfig(name="peer", url=peer.url), FakeRequestHandler(), RecordingObserver()
        ) as session:
            await session.request(ListTools())
    assert set(peer.paths()) == {"/mcp"}
    assert all("authorization" not in seen.headers for seen in peer.seen)
    assert user.urls == []


@pytest.mark.req("auth.custom")
async def test_a_configured_authorization_header_replaces_the_sign_in() -> None:
    user = BrowserUser()
    async with run_peer(kind=ToolsPeer) as peer:
        peer.valid["my-own-token"] = {"tools:read"}
        server = ServerConfig(name="peer", url=peer.url, headers={"Authorization": "Bearer my-own-token"})
        async with create_opener(user).open(server, FakeRequestHandler(), RecordingObserver()) as session:
            await session.request(ListTools())
        peer.valid.clear()
        with pytest.raises(SignInRequired, match="requires a sign-in") as exc_info:
            async with create_opener(user).open(server, FakeRequestHandler(), RecordingObserver()):
                pass
        assert "headers" in exc_info.value.hint
    assert user.urls == []
    assert set(peer.paths()) == {"/mcp"}


@pytest.mark.req("auth.http-only")
def test_a_program_on_this_machine_is_never_signed_in_to() -> None:
    created: list[Callable[..., Any]] = []

    class RecordingRegistry(OAuthRegistry):
        def get_provider(self, *arguments: Any, **more: Any) -> None:
            created.append(self.get_provider)

    registry = RecordingRegistry(TokenStore(MemoryBackend(), None), None)
    assert observed_provider(registry, ServerConfig(name="local", command="true"), RecordingObserver()) is None
    assert created == []


def test_the_grants_of_a_configuration_become_machines() -> None:
    oauth = OAuthConfig(grant="workload", client_id="me", assertion="a.b.c")
    server = ServerConfig(name="peer", url="https://MCP.example/", oauth=oauth)
    grant = make_client_grant(server, make_target(server))
    assert grant is not None
    assert (grant.grant, grant.target.canonical_url) == ("workload", "https://mcp.example")
    assert "a.b.c" not in repr(grant) + repr(oauth)
    user = ServerConfig(name="peer", url="https://mcp.example")
    assert make_client_grant(user, make_target(user)) is None


class SseToolsServer(ToolsPeer):
    """A server of the HTTP+SSE transport whose event stream requires an account."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.streams: list[ReceivedRequest] = []

    async def mcp(self, request: ReceivedRequest) -> None:
        if request.headers.get("authorization", "").removeprefix("Bearer ") not in self.valid:
            await OAuthPeer.mcp(self, request)
        elif request.method == "GET":
            await request.stream()
            await request.send(b"event: endpoint\ndata: /mcp\n\n")
            self.streams.append(request)
            await request.wait_closed()
        else:
            await request.reply(202, b"")
            if "id" in request.message:
                info = {"name": "peer", "version": "1"}
                first = {"protocolVersion": "2024-11-05", "capabilities": {"tools": {}}, "serverInfo": info}
                result = first if request.message["method"] == "initialize" else {"tools": []}
                await self.streams[-1].event({"id": request.message["id"], "result": result})


async def test_a_stream_of_2024_11_05_is_signed_in_to_as_well() -> None:
    user = BrowserUser()
    async with run_peer(kind=SseToolsServer) as peer:
        server = ServerConfig(name="peer", url=peer.url, transport="sse")
        async with create_opener(user).open(server, FakeRequestHandler(), RecordingObserver()) as session:
            await session.request(ListTools())
            peer.valid = {}
            await session.request(ListTools())
    assert len(user.urls) == 2


async def test_the_sign_in_to_a_stream_of_2024_11_05_may_take_longer_than_the_time_limit() -> None:
    class SlowUser(BrowserUser):
        async def sign_in(self, **asked: Any) -> str | None:
            end = anyio.current_time() + 0.6
            await wait_until(lambda: anyio.current_time() > end)
            return await super().sign_in(**asked)

    async with run_peer(kind=SseToolsServer) as peer:
        server = ServerConfig(name="peer", url=peer.url, transport="sse")
        opener = create_opener(SlowUser(), connect_timeout=0.5)
        async with opener.open(server, FakeRequestHandler(), RecordingObserver()) as session:
            await session.request(ListTools())


async def test_the_time_limit_for_connecting_applies_to_a_silent_stream_of_2024_11_05() -> None:
    async def answer(request: ReceivedRequest) -> None:
        await request.wait_closed()

    async with serve(answer) as silent:
        server = ServerConfig(name="peer", url=silent.url, transport="sse")
        opener = create_opener(BrowserUser(), connect_timeout=0.2)
        with anyio.fail_after(5), pytest.raises(StartupError, match="'peer' did not answer"):
            async with opener.open(server, FakeRequestHandler(), RecordingObserver()):
                pass


async def test_a_warning_about_the_storage_of_secrets_is_no_warning_about_the_server_that_connected_last(
    tmp_path: Path,
) -> None:
    messages: list[str] = []
    registry = OAuthRegistry(TokenStore(ReadOnlyBackend(), tmp_path, messages.append), BrowserUser())
    opener, observer = ClientSessionOpener(accounts=registry), RecordingObserver()
    async with run_peer(kind=ToolsPeer) as peer:
        server = ServerConfig(name="peer", url=peer.url)
        async with opener.open(server, FakeRequestHandler(), observer) as session:
            await session.request(ListTools())
    assert messages == ["This sign-in is kept only until mcphost quits. The keyring is locked. Unlock it."]
    assert observer.warnings == []


async def test_a_connection_is_told_its_account_once() -> None:
    opener = create_opener(BrowserUser())
    async with run_peer(kind=ToolsPeer) as peer:
        server = ServerConfig(name="peer", url=peer.url)
        async with opener.open(server, FakeRequestHandler(), RecordingObserver()) as session:
            await session.request(ListTools())
        observer = RecordingObserver()
        async with opener.open(server, FakeRequestHandler(), observer) as session:
            await session.request(ListTools())
    assert [account.server for account in observer.accounts] == ["peer"]


async def test_a_request_that_was_refused_with_a_401_is_not_cancelled_on_the_server() -> None:
    async with run_peer(kind=RevisionServer) as peer:
        server = ServerConfig(name="peer", url=peer.url, revision=Revision.V2025_11_25)
        async with create_opener(BrowserUser()).open(server, FakeRequestHandler(), RecordingObserver()) as session:
            peer.valid.clear()
            await session.request(CallTool("write", {}))
    methods = [seen.message.get("method") for seen in peer.seen if seen.path == "/mcp" and seen.method == "POST"]
    assert "notifications/cancelled" not in methods
