"""Tests for floods of tiny messages: the event loop stays responsive, and nothing is lost."""

import gc
import sys
import time
from asyncio import unix_events
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, nullcontext
from typing import Any

import anyio
import pytest

from mcphost.errors import ConnectionLost, MalformedMessage
from mcphost.protocol.tools import CallTool
from mcphost.transport.line_reader import LineReader
from tests.unit.client.fakes import RecordingObserver
from tests.unit.client.results import single_text
from tests.unit.client.scripted_http import handshake_server, open_http_session, stateless_server
from tests.unit.client.stdio_sessions import faulty_server_config
from tests.unit.client.stdio_sessions import open_stdio_session as spawned
from tests.unit.transport.raw_http import ReceivedRequest

pytestmark = pytest.mark.anyio
LONGEST = 0.1  # seconds of CPU time between two turns of a task that only waits for its next one; load does not count


@pytest.fixture(scope="module", autouse=True)
def _no_collection() -> Iterator[None]:
    """Disable garbage collection during measurements; garbage of earlier tests would take up to 0.1 s of CPU time."""
    gc.disable()
    yield
    gc.enable()


@asynccontextmanager
async def measure_turns() -> AsyncIterator[list[float]]:
    """Measure the CPU time between two turns of one task on the event loop; the list gets a value for each turn."""
    gaps: list[float] = []

    async def watch() -> None:
        before = time.thread_time()
        while True:
            await anyio.lowlevel.checkpoint()
            now = time.thread_time()
            gaps.append(now - before)
            before = now

    async with anyio.create_task_group() as group:
        group.start_soon(watch)
        yield gaps
        group.cancel_scope.cancel()


@pytest.mark.parametrize("line", ["x", "", "{}", "[]", "\\xff"])
async def test_a_flood_of_tiny_lines_on_a_pipe_does_not_block(line: str) -> None:
    observer = RecordingObserver()
    async with spawned(faulty_server_config(era="handshake"), observer) as session, measure_turns() as gaps:
        call = CallTool("flood", {"line": line, "count": 80_000})
        assert single_text(await session.request(call)) == "flooded"
    assert max(gaps) < LONGEST
    assert len(observer.warnings) <= 1


async def test_a_flood_is_throttled_where_pipes_do_not_report_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python 3.11.2, as shipped with Debian 12, has no `is_reading` for pipes."""

    def is_reading(pipe: Any) -> bool:
        assert "asyncio" in sys._getframe(1).f_code.co_filename, "only asyncio itself may ask"
        return not pipe._paused and not pipe._closing

    monkeypatch.setattr(vars(unix_events)["_UnixReadPipeTransport"], "is_reading", is_reading)
    async with spawned(faulty_server_config(era="handshake"), RecordingObserver()) as session:
        assert single_text(await session.request(CallTool("flood", {"line": "x", "count": 80_000}))) == "flooded"


async def test_a_flood_of_tiny_error_lines_does_not_block() -> None:
    observer = RecordingObserver()
    async with spawned(faulty_server_config(era="handshake"), observer) as session, measure_turns() as gaps:
        with pytest.raises(ConnectionLost, match=r"status 8; it last said: x \| x \| the end"):
            await session.request(CallTool("flood errors", {"count": 80_000}))
    assert max(gaps) < LONGEST
    assert observer.lines[-1] == "the end"
    assert 10_000 < len(observer.lines) < 80_000
    assert any("short lines of error output were left out" in line for line in observer.lines)


@pytest.mark.parametrize("event", [b"data:x\n\n", b"\n", b":\n", b"id:1\ndata:\n\n"])
@pytest.mark.parametrize("where", ["answer", "get"])
async def test_a_flood_of_tiny_events_does_not_block(event: bytes, where: str) -> None:
    flood = event * (600_000 // len(event))
    over = anyio.Event()

    async def get(request: ReceivedRequest) -> object:
        if where != "get":
            return await request.reply(405)
        await request.stream()
        await request.send(flood)
        over.set()
        await request.wait_closed()
        return False

    async def call(request: ReceivedRequest) -> object:
        await request.stream()
        if where == "answer":
            await request.send(flood)
        else:
            await over.wait()
        await request.event({"id": request.message["id"], "result": {"content": [{"type": "text", "text": "ok"}]}})
        return False

    # Reading such a stream costs far more than sending it, so it is abandoned, with or without its call.
    answered = nullcontext() if where == "get" else pytest.raises(MalformedMessage, match="almost empty lines")
    async with open_http_session(handshake_server(call, on_get=get)) as (session, _), measure_turns() as gaps:
        with answered:
            assert single_text(await session.request(CallTool("x"), deadline=20)) == "ok"
    assert max(gaps) < LONGEST


async def test_a_flood_of_tiny_chunks_does_not_block() -> None:
    async def call(request: ReceivedRequest) -> object:
        await request.send(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
        body = (
            b'data: {"jsonrpc":"2.0","id":%d,"result":{"resultType":"complete","content":[]}}\n\n'
            % request.message["id"]
        )
        await request.send(b"1\r\n:\r\n" * 100_000 + b"".join(b"1\r\n%c\r\n" % byte for byte in b"\n" + body))
        return False

    async with open_http_session(stateless_server(call)) as (session, _), measure_turns() as gaps:
        with pytest.raises(MalformedMessage, match="server 'peer' is invalid: chunks of almost no bytes"):
            await session.request(CallTool("x"), deadline=20)
    assert max(gaps) < LONGEST


async def test_lines_are_read_in_order_and_later_messages_wait_for_them() -> None:
    taken: list[bytes] = []
    messages: list[str] = []
    reader = LineReader(
        taken.append,
        lambda: messages.append("pause"),
        lambda: messages.append("resume"),
        limit=100,
        filter_lines=list,
        on_malformed=lambda error: messages.append(error.message),
    )
    lines = [b"%d" % number for number in range(200_000)]
    reader.feed(b"0\n1\n2\n")
    assert taken == lines[:3]
    reader.feed(b"\n".join([*lines[3:150_000], b""]))
    reader.feed(b"\n".join(lines[150_000:]))
    reader.finish()
    reader.call_when_empty(lambda: messages.append("end"))
    assert messages == ["pause"]
    with anyio.fail_after(10):
        while "end" not in messages:
            await anyio.lowlevel.checkpoint()
    assert taken == lines
    assert messages == ["pause", "resume", "end"]
    reader.call_when_empty(lambda: messages.append("at once"))
    assert messages[-1] == "at once"
