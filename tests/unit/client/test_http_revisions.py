"""Tests for every revision over HTTP: negotiation, and the rules for requests."""

import json
from typing import Any

import anyio
import pytest

from mcphost.client import negotiation
from mcphost.client.connect import ClientSessionOpener
from mcphost.config.schema import ServerConfig
from mcphost.errors import MalformedMessage, RequestRefused, UnsupportedRevision
from mcphost.protocol.revisions import HANDSHAKE_REVISIONS, Revision
from mcphost.protocol.tools import CallTool
from tests.event_loop import wait_until
from tests.unit.client.fakes import FakeRequestHandler, RecordingObserver
from tests.unit.client.results import single_text
from tests.unit.client.scripted_http import (
    DISCOVERY,
    REVISIONS_WITH_SESSIONS,
    handshake_server,
    open_http_session,
    stateless_server,
    text_answer,
)
from tests.unit.transport.raw_http import ReceivedRequest, serve

pytestmark = pytest.mark.anyio


async def answer_call(request: ReceivedRequest) -> object:
    return await request.result(text_answer())


@pytest.mark.req("life.init.downgrade")
@pytest.mark.req("life.era.http-fallback")
@pytest.mark.req("life.era.cache")
@pytest.mark.req("base.core-support")
@pytest.mark.req("http.accept", "http.post-each", "http.session.echo", "http.version-header.legacy")
@pytest.mark.req("http.get.accept")
@pytest.mark.parametrize("revision", list(Revision))
async def test_each_revision_is_negotiated_over_http_and_followed(revision: Revision) -> None:
    handler = (
        handshake_server(answer_call, revision=revision.value)
        if revision.era == "handshake"
        else stateless_server(answer_call)
    )
    async with open_http_session(handler) as (session, server):
        assert session.facts.revision is revision
        for _ in range(2):
            assert single_text(await session.request(CallTool("x"))) == "ok"
        calls = [
            message
            for message in server.seen
            if message.method == "POST" and message.message.get("method") == "tools/call"
        ]
        posts = server.calls()
    assert posts.count("POST server/discover") == 1  # the era is not negotiated again
    expected = revision.value if revision.has_version_header else None
    assert [call.headers.get("mcp-protocol-version") for call in calls] == [expected] * 2
    assert [call.headers.get("mcp-method") for call in calls] == (
        ["tools/call"] * 2 if revision.era == "stateless" else [None] * 2
    )
    assert posts.count("POST initialize") == (revision.era == "handshake")
    assert {message.path for message in server.seen} == {"/mcp"}
    accepted = {"POST": "application/json, text/event-stream", "GET": "text/event-stream"}
    assert all(
        message.headers["accept"] == accepted[message.method] for message in server.seen if message.method in accepted
    )
    if revision.era == "handshake":
        later = server.seen[2:]  # after the probe and initialize
        assert {item.method for item in later} == {"POST", "GET", "DELETE"}
        assert {item.headers.get("mcp-session-id") for item in later} == {"s-1"}
        assert {item.headers.get("mcp-protocol-version") for item in later} == {expected}


@pytest.mark.req("http.response.both-types")
@pytest.mark.parametrize("is_stream", [True, False], ids=["stream", "object"])
@pytest.mark.parametrize("revision", list(Revision))
async def test_every_request_may_be_answered_by_one_object_or_an_event_stream(
    revision: Revision, is_stream: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def result(request: ReceivedRequest, result: Any, **headers: str) -> None:
        body = json.dumps({"jsonrpc": "2.0", "id": request.message["id"], "result": result}).encode()
        kind = "Text/Event-Stream;charset=utf-8" if is_stream else "Application/JSON; charset=utf-8"
        await request.reply(200, b"data: " + body + b"\n\n" if is_stream else body, kind, **headers)

    monkeypatch.setattr(ReceivedRequest, "result", result)
    handler = (
        handshake_server(answer_call, revision=revision.value)
        if revision.era == "handshake"
        else stateless_server(answer_call)
    )
    async with open_http_session(handler) as (session, server):
        assert single_text(await session.request(CallTool("x"))) == "ok"
    if revision.era == "handshake":
        assert server.seen[-1].headers["mcp-session-id"] == "s-1"


@pytest.mark.req("life.era.user-override")
@pytest.mark.parametrize("revision", HANDSHAKE_REVISIONS)
async def test_a_required_revision_is_offered_first_over_http_too(revision: Revision) -> None:
    async with open_http_session(handshake_server(answer_call, revision=revision.value), revision=revision) as (
        session,
        server,
    ):
        assert session.facts.revision is revision
    assert server.seen[0].message["method"] == "initialize"
    assert server.seen[0].message["params"]["protocolVersion"] == revision.value


@pytest.mark.req("life.init.not-cancellable")
@pytest.mark.parametrize("revision", REVISIONS_WITH_SESSIONS)
async def test_an_unanswered_handshake_is_not_cancelled_by_a_notification(revision: Revision) -> None:
    asked = anyio.Event()

    async def silent(request: ReceivedRequest) -> object:
        asked.set()
        await request.stream()
        await request.wait_closed()
        return False

    async with serve(silent) as server, anyio.create_task_group() as group:
        config = ServerConfig(name="peer", url=server.url, revision=revision)

        async def connect() -> None:
            async with ClientSessionOpener().open(config, FakeRequestHandler(), RecordingObserver()):
                pass

        group.start_soon(connect)
        with anyio.fail_after(20):
            await asked.wait()
        group.cancel_scope.cancel()
    assert server.calls() == ["POST initialize"]


@pytest.mark.req("life.shutdown.http")
@pytest.mark.parametrize("revision", REVISIONS_WITH_SESSIONS)
async def test_leaving_closes_every_connection_and_sends_nothing_but_a_delete(revision: Revision) -> None:
    streaming = anyio.Event()

    async def get(request: ReceivedRequest) -> object:
        await request.stream()
        streaming.set()
        await request.wait_closed()
        return False

    async with serve(handshake_server(answer_call, revision=revision.value, on_get=get)) as server:
        config = ServerConfig(name="peer", url=server.url)
        async with ClientSessionOpener().open(config, FakeRequestHandler(), RecordingObserver()) as session:
            await session.request(CallTool("x"))
            await streaming.wait()
            before = len(server.seen)
        await wait_until(lambda: all(message.has_ended for message in server.seen), 10)
    assert [message.method for message in server.seen[before:]] == ["DELETE"]


@pytest.mark.req("life.era.http-discover-32601")
@pytest.mark.req("base.error.draft-codes")
@pytest.mark.parametrize(
    ("status", "code"), [(200, -32601), (404, -32601), (400, -32001), (404, -32003), (400, -32004)]
)
async def test_no_other_error_to_the_probe_makes_a_server_modern(status: int, code: int) -> None:
    """-32001, -32003 and -32004 were error codes in drafts, and older servers use them for other errors."""
    inner = handshake_server(answer_call)

    async def handler(request: ReceivedRequest) -> object:
        if request.method == "POST" and request.message.get("method") == "server/discover":
            return await request.error(status, code)
        return await inner(request)

    async with open_http_session(handler) as (session, _):
        assert session.facts.era == "handshake"


@pytest.mark.req("life.era.http-lenient-legacy")
async def test_a_server_that_answers_every_request_is_not_mistaken_for_a_stateless_one() -> None:
    inner = handshake_server(answer_call)

    async def handler(request: ReceivedRequest) -> object:
        if request.method == "POST" and request.message.get("method") == "server/discover":
            return await request.result({"tools": []})
        return await inner(request)

    async with open_http_session(handler) as (session, server):
        assert session.facts.era == "handshake"
    assert "POST tools/list" not in server.calls()


@pytest.mark.req("life.era.http-inspect-400")
async def test_a_stateless_server_that_starts_slowly_stays_stateless(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(negotiation, "PROBE_TIMEOUT", 0.05)
    probes = 0

    async def handler(request: ReceivedRequest) -> object:
        nonlocal probes
        method = request.message["method"]
        if method == "initialize":
            return await request.error(400, -32022, {"supported": ["2026-07-28"], "requested": "2025-11-25"})
        if method == "server/discover":
            probes += 1
            if probes == 1:
                await anyio.sleep(0.2)
            return await request.result(DISCOVERY)
        return await answer_call(request)

    async with open_http_session(handler) as (session, _):
        assert session.facts.revision is Revision.V2026_07_28
        assert single_text(await session.request(CallTool("x"))) == "ok"


@pytest.mark.req("life.mod.version-retry")
@pytest.mark.req("base.error.mcp-codes")
async def test_versions_without_overlap_are_shown_from_both_sides() -> None:
    async def handler(request: ReceivedRequest) -> object:
        return await request.error(400, -32022, {"supported": ["2031-01-01"], "requested": "2026-07-28"})

    with pytest.raises(UnsupportedRevision, match=r"speaks 2031-01-01; mcphost speaks .*2026-07-28"):
        async with open_http_session(handler):
            pass


@pytest.mark.req("base.error.missing-capability")
@pytest.mark.req("base.error.mcp-codes")
@pytest.mark.parametrize(
    ("data", "named"),
    [
        ({"requiredCapabilities": {"elicitation": {"url": {}}, "sampling": {}}}, "elicitation.url, sampling"),
        ({"requiredCapabilities": ["roots"]}, "capability roots"),
        ({"requiredCapabilities": 5}, "that it names"),
        (None, "that it names"),
    ],
)
async def test_a_missing_capability_is_named(data: Any, named: str) -> None:
    async def refuse(request: ReceivedRequest) -> object:
        return await request.error(400, -32021, data)

    async with open_http_session(stateless_server(refuse)) as (session, server):
        with pytest.raises(RequestRefused) as exc_info:
            await session.request(CallTool("x"))
    assert exc_info.value.code == -32021
    assert named in exc_info.value.hint
    assert server.calls().count("POST tools/call") == 1  # an unsupported one is not tried again


@pytest.mark.req("base.response.error-without-id")
async def test_an_error_without_an_id_is_the_answer_to_the_post_that_brought_it() -> None:
    async def refuse(request: ReceivedRequest) -> object:
        body = b'{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"unreadable"}}'
        if request.message["params"].get("name") == "stream":
            await request.stream()
            return await request.send(b"data: " + body + b"\n\n")
        return await request.reply(200, body)

    async with open_http_session(stateless_server(refuse)) as (session, _):
        for name in ("body", "stream"):
            with anyio.fail_after(20), pytest.raises(RequestRefused, match="unreadable"):
                await session.request(CallTool(name))


async def test_an_answer_with_an_id_of_another_type_fails_its_post_with_the_reason() -> None:
    async def other(request: ReceivedRequest) -> object:
        body = b'{"jsonrpc":"2.0","id":"%d","result":{}}' % request.message["id"]
        if request.message["params"].get("name") == "stream":
            await request.stream()
            await request.send(b"data: " + body + b"\n\n")
            return False
        return await request.reply(200, body)

    async with open_http_session(stateless_server(other)) as (session, _):
        for name in ("body", "stream"):
            with (
                anyio.fail_after(20),
                pytest.raises(
                    MalformedMessage, match="with an id that is a string, but the id of the request is a number"
                ),
            ):
                await session.request(CallTool(name))
        assert session.anomaly_counts["answers nobody waits for"] == 2
