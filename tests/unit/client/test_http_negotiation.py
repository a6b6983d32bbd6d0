"""Tests for HTTP servers that accept neither era at first: a sign-in is tried, then the older HTTP+SSE transport."""

import asyncio
import json
from collections.abc import Mapping

import anyio
import pytest

from mcphost.client import negotiation as negotiate
from mcphost.client.connect import ClientSessionOpener
from mcphost.client.negotiation import Negotiation
from mcphost.client.requests import RequestSender
from mcphost.client.timeouts import Timeouts
from mcphost.config.schema import Limits, ServerConfig
from mcphost.errors import SignInRequired, StartupError
from mcphost.protocol.revisions import Revision, ServerEras
from mcphost.protocol.tools import CallTool
from mcphost.sign_in_types import AuthChallenge
from mcphost.transport.streamable_http import HttpConnector
from tests.unit.client.fakes import FakeRequestHandler, RecordingObserver
from tests.unit.client.results import single_text
from tests.unit.client.scripted_http import (
    RequestHandler,
    handshake_server,
    open_http_session,
    stateless_server,
    text_answer,
)
from tests.unit.transport.raw_http import ReceivedRequest, serve

pytestmark = pytest.mark.anyio


class TokenAuthorizer:
    """An authorizer that has a token after a sign-in."""

    def __init__(self) -> None:
        self.token = ""
        self.refusals: list[int] = []

    async def headers(self, verb: str, url: str) -> Mapping[str, str]:
        return self.current_headers(verb, url)

    def current_headers(self, verb: str, url: str) -> Mapping[str, str]:
        return {"authorization": f"Bearer {self.token}"} if self.token else {}

    async def recover(self, refusal: AuthChallenge) -> bool:
        self.refusals.append(refusal.status)
        self.token = "t-1"
        return True


def require_token(inner: RequestHandler) -> RequestHandler:
    async def handler(request: ReceivedRequest) -> object:
        if request.headers.get("authorization") != "Bearer t-1":
            return await request.reply(401, b"who are you?", "text/plain", www_authenticate="Bearer")
        return await inner(request)

    return handler


@pytest.mark.req("life.era.http-401-first")
@pytest.mark.parametrize("era", ["stateless", "handshake"])
async def test_401_for_the_probe_implies_no_era_and_the_probe_is_repeated(era: str) -> None:
    async def call(request: ReceivedRequest) -> object:
        return await request.result(text_answer())

    token, observer = TokenAuthorizer(), RecordingObserver()
    async with serve(require_token(stateless_server(call) if era == "stateless" else handshake_server(call))) as server:
        dialer = HttpConnector("peer", server.url, {}, warn=observer.warn, authorizer=token)
        async with dialer.connect() as channel:
            negotiation = Negotiation(channel, RequestSender(channel, "peer", Timeouts()), FakeRequestHandler())
            facts = await negotiation.run("in turn", is_era_fixed=False)
    assert facts.era == era
    assert token.refusals == [401]
    assert server.calls()[:2] == ["POST server/discover"] * 2


@pytest.mark.req("life.era.http-401-first")
async def test_an_unanswerable_401_does_not_fall_back_to_the_handshake() -> None:
    async with serve(require_token(handshake_server())) as server:
        dialer = HttpConnector("peer", server.url, {}, warn=RecordingObserver().warn)
        async with dialer.connect() as channel:
            negotiation = Negotiation(channel, RequestSender(channel, "peer", Timeouts()), FakeRequestHandler())
            with pytest.raises(SignInRequired):
                await negotiation.run("in turn", is_era_fixed=False)
    assert "POST initialize" not in server.calls()


@pytest.mark.req("life.era.http-sse-last")
@pytest.mark.req("sse.detect")
@pytest.mark.parametrize("status", [400, 404, 405])
async def test_an_address_that_refuses_every_post_is_asked_for_an_endpoint_event(status: int) -> None:
    streams: list[ReceivedRequest] = []

    async def handler(request: ReceivedRequest) -> object:
        if request.method == "GET":
            streams.append(request)
            await request.stream()
            await request.send(b"event: endpoint\ndata: /messages?s=1\n\n")
            return await request.wait_closed()
        if request.path == "/mcp":
            return await request.reply(status, b"no", "text/plain")
        await request.reply(202, kind="")
        if request.message.get("method") == "initialize":
            result = {"protocolVersion": "2024-11-05", "capabilities": {"tools": {}}, "serverInfo": {"name": "old"}}
        elif request.message.get("method") == "tools/call":
            result = {"content": [{"type": "text", "text": "by event"}]}
        else:
            return None
        body = json.dumps({"jsonrpc": "2.0", "id": request.message["id"], "result": result}).encode()
        return await streams[0].send(b"event: message\ndata: " + body + b"\n\n")

    with anyio.fail_after(20):
        async with open_http_session(handler) as (session, server):
            assert session.facts.revision is Revision.V2024_11_05
            assert single_text(await session.request(CallTool("x"))) == "by event"
    before = [f"{message.method} {message.path}" for message in server.seen][:4]
    assert before == ["POST /mcp", "POST /mcp", "GET /mcp", "POST /messages?s=1"]


@pytest.mark.parametrize("is_stream_open", [False, True])
async def test_both_transports_share_the_time_limit_for_connecting(
    is_stream_open: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = asyncio.get_running_loop()
    read_clock, skipped = loop.time, [0.0]
    monkeypatch.setattr(loop, "time", lambda: read_clock() + skipped[0])

    async def handler(request: ReceivedRequest) -> object:
        if request.method == "POST":
            skipped[0] += 12.0
            return await request.reply(404)
        if is_stream_open:
            await request.stream()
        skipped[0] += 5.5
        return await request.wait_closed()

    started = loop.time()
    with pytest.raises(StartupError, match=r"HTTP\+SSE: .* (did not answer|no endpoint address) within"):
        async with open_http_session(handler, limits=Limits(connect_timeout=30.0)):
            pass
    assert loop.time() - started < 32.0


@pytest.mark.req("life.era.http-sse-last")
async def test_a_modern_error_to_the_handshake_never_falls_back_to_http_sse() -> None:
    async def handler(request: ReceivedRequest) -> object:
        if request.method == "POST" and request.message["method"] == "initialize":
            return await request.error(400, -32022, {"supported": ["2031-01-01"]})
        return await request.reply(404)

    async with serve(handler) as server:
        with pytest.raises(Exception, match="2031-01-01"):
            async with open_http_session(handler):
                pass
    assert all(message.method == "POST" for message in server.seen)


@pytest.mark.req("ping.answer")
@pytest.mark.req("life.init.early-server-traffic")
async def test_a_ping_on_the_stream_of_the_handshake_is_answered_before_the_handshake_is() -> None:
    ponged = anyio.Event()
    inner = handshake_server()

    async def handler(request: ReceivedRequest) -> object:
        if request.method == "POST" and request.message.get("id") == "early" and "method" not in request.message:
            ponged.set()
            return await request.reply(202, kind="")
        if request.method == "POST" and request.message.get("method") == "initialize":
            await request.stream()
            await request.event({"id": "early", "method": "ping"})
            with anyio.fail_after(20):
                await ponged.wait()
            result = {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {"name": "s", "version": "1"}}
            await request.event({"id": request.message["id"], "result": result})
            return False
        return await inner(request)

    async with open_http_session(handler) as (session, server):
        assert session.facts.revision is Revision.V2025_11_25
    calls = server.calls()
    assert calls.index("POST initialize") < calls.index("POST answer") < calls.index("POST notifications/initialized")


class RememberedEras:
    """An EraStore that remembers the protocol era (handshake or stateless) of one server."""

    def __init__(self, eras: ServerEras | None = None) -> None:
        self.eras = eras

    def get(self, server: str, digest: str) -> ServerEras | None:
        return self.eras

    def put(self, server: str, digest: str, eras: ServerEras) -> None:
        self.eras = eras


@pytest.mark.parametrize(
    ("trouble", "known", "remembered"),
    [
        ("silent", None, None), ("silent", "dual", "dual"), ("silent", "stateless", "stateless"),
        (503, None, None), (429, None, None), (404, None, "handshake"), (400, None, "handshake"),
    ],
)  # fmt: skip
async def test_only_an_answer_to_the_probe_implies_the_handshake_era(
    monkeypatch: pytest.MonkeyPatch, trouble: str | int, known: ServerEras | None, remembered: ServerEras | None
) -> None:
    monkeypatch.setattr(negotiate, "PROBE_TIMEOUT", 0.2)
    awake = False

    async def handler(request: ReceivedRequest) -> object:
        if awake:
            return await stateless_server(lambda inner: inner.result(text_answer()))(request)
        if request.body and request.message.get("method") == "server/discover":
            if trouble == "silent":
                await request.wait_closed()
                return False
            return await request.reply(int(trouble), b"not now", "text/plain")
        return await handshake_server()(request)

    memory = RememberedEras(known)
    async with serve(handler) as server:
        config, opener = ServerConfig(name="peer", url=server.url), ClientSessionOpener(eras=memory)
        async with opener.open(config, FakeRequestHandler(), RecordingObserver()) as session:
            assert session.facts.era == "handshake"
        assert memory.eras == remembered
        awake = remembered != "handshake"
        async with opener.open(config, FakeRequestHandler(), RecordingObserver()) as session:
            assert session.facts.era == ("stateless" if awake else "handshake")
