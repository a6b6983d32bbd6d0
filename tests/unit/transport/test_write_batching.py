"""Tests for writing requests: a single one immediately, several in one write, and in order when the pipe is full."""

import os
import re
import select
import signal
import sys
from pathlib import Path

import anyio
import pytest

from mcphost.errors import ConnectionLost
from mcphost.protocol.jsonrpc import JsonRpcRequest, JsonRpcResponse, serialize_message
from mcphost.serialization import Raw
from mcphost.transport.line_reader import LineSplitter
from mcphost.transport.multiplexer import Multiplexer
from mcphost.transport.process import ServerProcess, build_environment
from mcphost.transport.stdio import StdioConnector

pytestmark = pytest.mark.anyio

FORWARD = "import sys; line = sys.stdin.readline(); open(sys.argv[1], 'w').write(line); sys.stdin.read()"
ECHO = "import sys\nprint('ready', flush=True)\nfor line in sys.stdin: print(line.split()[0], len(line), flush=True)"


async def test_a_lone_request_reaches_its_server_before_the_event_loop_turns(tmp_path: Path) -> None:
    path = tmp_path / "line"
    os.mkfifo(path)
    end = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        argv = [sys.executable, "-c", FORWARD, str(path)]
        dialer = StdioConnector("peer", argv, {}, on_stderr=lambda _: None, warn=lambda _: None)
        async with dialer.connect() as channel, channel.exchange(JsonRpcRequest(7, "ping")):
            # From here on nothing runs on the event loop.
            readable, _, _ = select.select([end], [], [], 20)
            assert readable, "the request waits for a turn of the event loop"
            assert b'"id":7' in os.read(end, 1_000)
    finally:
        os.close(end)


class RecordingMultiplexer:
    """A multiplexer that records which messages were written immediately and which were queued."""

    def __init__(self) -> None:
        self.queued: list[bytes] = []
        self.at_once: list[bytes] = []
        self.mux = Multiplexer(self.queued.append, None, lambda _: None, "peer", write_now=self.at_once.append)

    async def request(self, ident: int, *answered: int) -> None:
        """Send the request *ident*, let the server answer the requests *answered*, and wait for the response."""
        async with self.mux.exchange(JsonRpcRequest(ident, "ping")) as messages:
            for item in answered:
                self.mux.receive_line(serialize_message(JsonRpcResponse(item, Raw(b"{}"))))
            async for _ in messages:
                pass


async def test_parallel_waiting_requests_are_written_together() -> None:
    writes = RecordingMultiplexer()
    async with anyio.create_task_group() as tasks:
        for ident in (1, 2):
            tasks.start_soon(writes.request, ident)
        tasks.start_soon(writes.request, 3, 3, 2, 1)
    assert [b'"id":1' in line for line in writes.at_once] == [True]
    assert len(writes.queued) == 2
    # Three answers arrived together, so three requests follow them; the next answer arrives alone.
    await writes.request(4, 4)
    await writes.request(5, 5)
    assert len(writes.queued) == 3
    assert b'"id":4' in writes.queued[-1]
    assert b'"id":5' in writes.at_once[-1]
    writes.mux.connection_lost(ConnectionLost("over"))


async def test_the_last_of_the_requests_that_follow_responses_writes_them_all() -> None:
    writes = RecordingMultiplexer()
    async with anyio.create_task_group() as tasks:
        for ident in (1, 2):
            tasks.start_soon(writes.request, ident)
        tasks.start_soon(writes.request, 3, 3, 2, 1)
    queued, at_once = len(writes.queued), len(writes.at_once)
    async with anyio.create_task_group() as tasks:
        for ident in (4, 5):
            tasks.start_soon(writes.request, ident)
        tasks.start_soon(writes.request, 6, 6, 5, 4)
    assert [re.findall(rb'"id":(\d)', line) for line in writes.queued[queued:]] == [[b"4"], [b"5"]]
    assert [re.findall(rb'"id":(\d)', line) for line in writes.at_once[at_once:]] == [[b"6"]]
    writes.mux.connection_lost(ConnectionLost("over"))


async def test_a_long_request_is_written_before_the_next_one_asks_for_room() -> None:
    writes = RecordingMultiplexer()
    async with writes.mux.exchange(JsonRpcRequest(1, "ping")):
        long = JsonRpcRequest(2, "tools/call", Raw(b'{"text":"%s"}' % (b"x" * 20_000)))
        async with writes.mux.exchange(JsonRpcRequest(3, "ping")), writes.mux.exchange(long):
            assert [b'"id":2' in line for line in writes.at_once] == [False, True]
            writes.mux.connection_lost(ConnectionLost("over"))


async def test_a_request_beside_one_that_stays_open_is_written_immediately() -> None:
    writes = RecordingMultiplexer()
    async with writes.mux.exchange(JsonRpcRequest(1, "subscriptions/listen")):
        await writes.request(2, 2)
        await writes.request(3, 3)
        assert b'"id":3' in writes.at_once[-1]
        writes.mux.connection_lost(ConnectionLost("over"))


async def test_queued_lines_arrive_in_order_without_a_further_write(tmp_path: Path) -> None:
    child, lines, arrived = ServerProcess("peer", lambda _: None, lambda _: None), list[bytes](), anyio.Event()
    reader = LineSplitter()

    def output(data: bytes) -> None:
        lines.extend(reader.feed(data))
        if len(lines) == 6:
            arrived.set()

    child.on_output = output
    await ServerProcess.start([sys.executable, "-c", ECHO], build_environment({}), str(tmp_path), child)
    try:
        child.write(b"1 x")
        child.write_now(b"2 x")  # writes both; the next line waits for a new iteration
        child.write(b"3 x")
        await anyio.lowlevel.checkpoint()
        child.write(b"4 x")
        child.write(b"5 x")
        with anyio.fail_after(30):
            await arrived.wait()
        assert [line.split()[0] for line in lines] == [b"ready", b"1", b"2", b"3", b"4", b"5"]
    finally:
        await child.stop()


async def test_lines_for_a_full_pipe_are_queued_and_arrive_once_and_in_order() -> None:
    reader, lines, changed = LineSplitter(), list[bytes](), anyio.Event()

    def output(data: bytes) -> None:
        nonlocal changed
        lines.extend(reader.feed(data))
        changed.set()
        changed = anyio.Event()

    async def until(count: int) -> None:
        with anyio.fail_after(30):
            while len(lines) < count:
                await changed.wait()

    child = ServerProcess("peer", lambda _: None, lambda _: None)
    child.on_output = output
    await ServerProcess.start([sys.executable, "-c", ECHO], build_environment({}), "", child)
    try:
        await until(1)
        os.kill(child.pid, signal.SIGSTOP)
        sizes = [100_000 + number for number in range(60)]
        for number, size in enumerate(sizes):
            line = b"%d " % number + b"x" * size
            (child.write if number % 3 == 1 else child.write_now)(line)
        assert child.wait_writable() is not None, "the pipe takes no more"
        assert not child.is_drained()
        os.kill(child.pid, signal.SIGCONT)
        await until(1 + len(sizes))
        expected = [b"%d %d" % (number, len(b"%d " % number) + size + 1) for number, size in enumerate(sizes)]
        assert lines[1:] == expected
        with anyio.fail_after(30):
            while (room := child.wait_writable()) is not None:
                await room
        assert child.is_drained()
    finally:
        await child.stop()
    assert len(lines) == 61
