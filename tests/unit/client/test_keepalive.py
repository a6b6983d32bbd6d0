"""Tests for pings in both directions, and for ending a session whose server does not answer pings."""

from typing import Any

import anyio
import pytest

from mcphost.client import handshake_session
from mcphost.client.handshake_session import HandshakeSession
from mcphost.client.session import ServerRequestContext
from mcphost.config.schema import Limits
from mcphost.errors import ConnectionLost
from mcphost.protocol.jsonrpc import ErrorData
from mcphost.protocol.server_requests import ClientResult, ElicitResult, ServerRequest
from mcphost.protocol.tools import CallTool, ListTools
from tests.event_loop import wait_until
from tests.unit.client.fakes import FakeRequestHandler
from tests.unit.client.scripted_http import handshake_server, open_http_session
from tests.unit.client.scripted_server import NO_REPLY, ScriptedServer, connect_to
from tests.unit.transport.raw_http import ReceivedRequest

pytestmark = pytest.mark.anyio
OFTEN = Limits(request_timeout=5, connect_timeout=5, ping_interval=0.05)


def count_pings(peer: ScriptedServer) -> int:
    return peer.methods().count("ping")


@pytest.mark.req("ping.send")
@pytest.mark.parametrize("reply", [{}, ErrorData(-32601, "no ping here")])
async def test_a_silent_server_is_pinged_and_whatever_it_answers_is_a_sign_of_life(reply: Any) -> None:
    peer = ScriptedServer(lambda peer, method, params: reply if method == "ping" else {})
    async with connect_to(peer, limits=OFTEN, era="handshake") as session:
        await peer.wait_until(lambda: count_pings(peer) == 5)
        await session.request(ListTools())
    assert peer.observer.warnings == []


@pytest.mark.req("ping.send")
async def test_an_active_server_and_one_with_pings_disabled_are_not_pinged() -> None:
    for limits in (Limits(ping_interval=0.3), Limits(ping_interval=0)):
        peer = ScriptedServer()
        async with connect_to(peer, limits=limits, era="handshake") as session:
            for _ in range(10):
                await session.request(ListTools())
                await anyio.sleep(0.05)
        assert count_pings(peer) == 0


@pytest.mark.req("ping.timeout")
async def test_three_pings_missed_in_a_row_are_reported_and_end_the_session(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handshake_session, "MIN_PING_TIMEOUT", 0.05)
    peer = ScriptedServer(lambda peer, method, params: NO_REPLY)
    async with connect_to(peer, limits=OFTEN, era="handshake") as session:
        reason = await session.wait_closed()
        assert session.anomaly_counts["pings missed"] == 3
        with pytest.raises(ConnectionLost, match="3 pings in a row"):
            await session.request(ListTools())
    assert "3 pings in a row" in reason.message
    assert [f"{number} of 3" in warning for number, warning in enumerate(peer.observer.warnings, 1)] == [True] * 3


@pytest.mark.req("ping.timeout")
async def test_an_answered_ping_resets_the_count_of_missed_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handshake_session, "MIN_PING_TIMEOUT", 0.2)
    missing = iter([True, True, False, True, True, False] + [False] * 1_000)
    peer = ScriptedServer(lambda peer, method, params: NO_REPLY if next(missing) else {})
    async with connect_to(peer, limits=OFTEN, era="handshake") as session:
        await peer.wait_until(lambda: count_pings(peer) == 8)
        assert session.anomaly_counts["pings missed"] == 4
        await session.request(ListTools())


async def test_a_server_busy_with_a_call_is_not_pinged_and_not_abandoned() -> None:
    """Many servers do one thing at a time, so even a healthy server cannot answer a ping during a long tool call."""

    def script(peer: ScriptedServer, method: str, params: dict[str, Any]) -> Any:
        busy.append(peer.ident)
        return NO_REPLY

    busy: list[Any] = []
    peer = ScriptedServer(script)
    async with connect_to(peer, limits=OFTEN, era="handshake") as session, anyio.create_task_group() as group:
        group.start_soon(session.request, CallTool("slow"))
        await peer.wait_until(lambda: bool(busy))
        await anyio.sleep(0.4)
        peer.say(id=busy[0], result={"content": []})
    assert count_pings(peer) == 0


@pytest.mark.req("ping.timeout")
async def test_a_lost_http_server_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handshake_session, "MAX_MISSED_PINGS", 2)
    monkeypatch.setattr(handshake_session, "MIN_PING_TIMEOUT", 0.2)
    async with open_http_session(handshake_server(lambda item: item.reply(503)), limits=OFTEN) as (session, _):
        with anyio.fail_after(20):
            assert "2 pings in a row" in (await session.wait_closed()).message


async def test_over_http_a_ping_that_finds_the_session_forgotten_opens_the_next_one() -> None:
    left = [404, 404]

    async def call(request: ReceivedRequest) -> object:
        return await request.reply(left.pop()) if left else await request.result({})

    async with open_http_session(handshake_server(call), limits=OFTEN) as (session, server):
        await wait_until(
            lambda: server.calls().count("POST initialize") >= 3 and server.calls().count("POST ping") >= 4
        )
        with anyio.move_on_after(0.1):
            raise AssertionError(await session.wait_closed())


@pytest.mark.req("ping.answer")
async def test_a_ping_is_answered_at_once_while_a_question_is_open() -> None:
    class UndecidedHandler(FakeRequestHandler):
        async def answer(self, request: ServerRequest, context: ServerRequestContext) -> ClientResult:
            await decided.wait()
            return await super().answer(request, context)

    decided = anyio.Event()
    peer = ScriptedServer()
    async with connect_to(peer, UndecidedHandler({"elicitation/create": ElicitResult("decline")}), era="handshake"):
        peer.say(id="q", method="elicitation/create", params={"message": "?", "requestedSchema": {}})
        peer.say(id="p", method="ping")
        await peer.wait_until(lambda: bool(peer.answers()))
        assert peer.answers() == [{"jsonrpc": "2.0", "id": "p", "result": {}}]
        decided.set()
        await peer.wait_until(lambda: len(peer.answers()) == 2)


async def test_a_flood_of_pings_is_answered_as_long_as_the_server_reads() -> None:
    peer = ScriptedServer()
    async with connect_to(peer, era="handshake") as session:
        for burst in range(10):
            for number in range(400):
                peer.say(id=burst * 400 + number, method="ping")
            await peer.wait_until(lambda: len(peer.answers()) == (burst + 1) * 400)  # noqa: B023
        assert session.anomaly_counts == {"pings answered": 4_000}
        await session.request(ListTools())


async def test_a_flood_of_pings_over_http_does_not_become_a_flood_of_connections() -> None:
    answering = most = answered = 0

    async def on_get(request: ReceivedRequest) -> object:
        await request.stream()
        for number in range(200):
            await request.event({"id": f"p{number}", "method": "ping"})
        return await request.wait_closed()

    inner = handshake_server(on_get=on_get)

    async def handler(request: ReceivedRequest) -> object:
        nonlocal answering, most, answered
        if request.method == "POST" and "method" not in request.message:
            answering += 1
            most = max(most, answering)
            await anyio.sleep(0.005)
            answering -= 1
            answered += 1
            await request.reply(202, kind="")
            if answered == 200:
                done.set()
            return None
        return await inner(request)

    done = anyio.Event()
    async with open_http_session(handler):
        with anyio.fail_after(20):
            await done.wait()
    assert most <= 16


async def test_a_server_that_pings_without_end_and_reads_nothing_is_stopped() -> None:
    peer = ScriptedServer()
    async with connect_to(peer, era="handshake") as session:
        peer.pipe.is_full = True
        with anyio.fail_after(20):
            for burst in range(12):
                for number in range(100):
                    peer.say(id=burst * 100 + number, method="ping")
                await anyio.lowlevel.checkpoint()
                await anyio.lowlevel.checkpoint()
            assert "without reading the responses" in (await session.wait_closed()).message


async def test_an_abandoned_session_ends_its_calls_with_its_own_error() -> None:
    def script(peer: ScriptedServer, method: str, params: dict[str, Any]) -> Any:
        if method == "tools/call":
            running.set()
        return NO_REPLY

    running, errors = anyio.Event(), list[str]()
    peer = ScriptedServer(script)
    async with connect_to(peer, limits=Limits(request_timeout=1_000), era="handshake") as session:

        async def call(name: str) -> None:
            with pytest.raises(ConnectionLost) as exc_info:
                await session.request(CallTool(name))
            errors.append(exc_info.value.message)

        with anyio.fail_after(20):
            async with anyio.create_task_group() as calls:
                calls.start_soon(call, "sent")
                await running.wait()
                peer.pipe.is_full = True
                calls.start_soon(call, "not sent yet")
                for burst in range(12):
                    for number in range(100):
                        peer.say(id=burst * 100 + number, method="ping")
                    await anyio.lowlevel.checkpoint()
                    await anyio.lowlevel.checkpoint()
    assert len(errors) == 2
    assert all("without reading the responses" in error for error in errors)


async def test_an_abandoned_http_session_ends_its_calls_with_its_own_error() -> None:
    running, errors = anyio.Event(), list[str]()

    async def busy(request: ReceivedRequest) -> Any:
        running.set()
        await anyio.sleep_forever()

    async with open_http_session(handshake_server(busy)) as (session, _):
        assert isinstance(session, HandshakeSession)

        async def call() -> None:
            with pytest.raises(ConnectionLost) as exc_info:
                await session.request(CallTool("slow"))
            errors.append(exc_info.value.message)

        with anyio.fail_after(20):
            async with anyio.create_task_group() as calls:
                calls.start_soon(call)
                await running.wait()
                session.abort(ConnectionLost("It is of no use.", server="s"))
    assert errors == ["It is of no use."]


async def test_more_than_a_thousand_requests_at_once_are_refused_and_more_than_two_thousand_end_it() -> None:
    peer = ScriptedServer()
    async with connect_to(peer, era="handshake") as session:
        for number in range(2_500):
            peer.say(id=number, method="ping")
        assert "sends too many requests" in (await session.wait_closed()).message
        assert session.anomaly_counts["requests refused in a flood"] == 1_001
