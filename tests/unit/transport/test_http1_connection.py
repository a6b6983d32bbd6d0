"""Tests for the HTTP/1.1 client: messages split at any byte, hostile responses, reused connections."""

from collections.abc import Awaitable, Callable
from types import SimpleNamespace

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcphost.auth.www_authenticate import select_challenge
from mcphost.errors import ConnectionLost, MalformedMessage, RequestNotSent
from mcphost.transport import http_pool
from mcphost.transport.http1_connection import HttpConnection
from mcphost.transport.http_pool import HttpConnectionPool
from tests.unit.transport.raw_http import RawServer, ReceivedRequest, serve

pytestmark = pytest.mark.anyio
CHUNKED = (
    b"HTTP/1.1 103 Early Hints\r\nx: y\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nX-A: 1\r\nx-a: 2\r\n\r\n"
    b"5;ext=1\r\nhello\r\n1\r\n \r\nA\r\nworld\r\n123\r\n0\r\nTrailer: x\r\n\r\n"
)
IN_CHUNKS = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
LENGTH = b"HTTP/1.1 200 OK\r\nContent-Length: 16\r\n\r\nhello world\r\n123"


async def feed_connection(*pieces: bytes, end: bool = False) -> tuple[HttpConnection, bytes]:
    connection = HttpConnection()
    connection.send_request(b"")
    for piece in pieces:
        connection.data_received(piece)
    if end:
        connection.connection_lost(None)
    with anyio.fail_after(20):
        await connection.read_head()
        body = b""
        while (chunk := await connection.read_chunk()) is not None:
            body += chunk
    return connection, body


@pytest.mark.parametrize("stream", [CHUNKED, LENGTH])
async def test_an_answer_split_at_every_byte_is_the_same(stream: bytes) -> None:
    whole, body = await feed_connection(stream)
    assert (whole.status, body, whole.is_complete, whole.is_keep_alive) == (200, b"hello world\r\n123", True, True)
    for at in range(len(stream)):
        connection, body = await feed_connection(stream[:at], stream[at:])
        assert (connection.status, body, connection.is_keep_alive) == (200, b"hello world\r\n123", True), at
    connection, body = await feed_connection(*(stream[at : at + 1] for at in range(len(stream))))
    assert (body, connection.is_keep_alive) == (b"hello world\r\n123", True)


async def test_interim_answers_are_read_however_many_come_in_whatever_pieces() -> None:
    stream = b"HTTP/1.1 100 Continue\r\n\r\n" * 500 + LENGTH
    for pieces in (
        (stream,),
        (stream[:7000], stream[7000:]),
        tuple(stream[at : at + 10] for at in range(0, 12_000, 10)),
    ):
        connection, body = await feed_connection(*pieces, stream[sum(map(len, pieces)) :])
        assert (connection.status, body) == (200, b"hello world\r\n123")


async def test_fields_that_repeat_are_joined() -> None:
    connection, _ = await feed_connection(CHUNKED)
    assert connection.headers["x-a"] == "1, 2"


@pytest.mark.req("auth.www-authenticate.parse")
async def test_challenges_in_several_lines_are_all_read() -> None:
    lines = b'WWW-Authenticate: Basic realm="a"\r\nwww-authenticate: Bearer scope=x\r\nWWW-Authenticate: Digest\r\n\r\n'
    connection, _ = await feed_connection(b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n" + lines)
    assert select_challenge(connection.headers["www-authenticate"]).get("scope") == "x"


async def test_a_body_without_a_length_ends_with_the_connection() -> None:
    connection, body = await feed_connection(b"HTTP/1.1 200 OK\r\n\r\nabc", b"def", end=True)
    assert (body, connection.is_keep_alive) == (b"abcdef", False)


@pytest.mark.parametrize(
    "answer",
    [
        b"SSH-2.0-OpenSSH\r\n\r\n",
        b"HTTP/2 200\r\n\r\n",
        b"HTTP/1.1 2000 OK\r\n\r\n",
        b"HTTP/1.1 101 X\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n folded: x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: gzip, chunked\r\n\r\n",
        b"x" * 70_000,
        b"HTTP/1.1 103 Hints\r\n\r\n" * 5_000,
        b"HTTP/1.1 099 X\r\n\r\n",
        IN_CHUNKS + b"zz\r\n",
        IN_CHUNKS + b"-1\r\n",
        IN_CHUNKS + b"1\r\nab\r\n",
        IN_CHUNKS + b"1" * 5000,
        IN_CHUNKS + b"0\r\n" + b"a: b\r\n" * 20_000,
    ],
)
async def test_a_message_that_is_no_answer_is_refused(answer: bytes) -> None:
    with pytest.raises(MalformedMessage):
        await feed_connection(answer)


@pytest.mark.parametrize(
    "answer", [b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nabc", b"HTTP/1.1 200", CHUNKED[:-20], b""]
)
async def test_an_answer_that_is_cut_is_lost(answer: bytes) -> None:
    with pytest.raises(ConnectionLost):
        await feed_connection(answer, end=True)


@pytest.mark.parametrize(
    "answer",
    [
        LENGTH + b"HTTP/1.1 200 OK\r\n",
        CHUNKED + b"x",
        b"HTTP/1.0 200 OK\r\ncontent-length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nconnection: Close\r\ncontent-length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
    ],
)
async def test_a_connection_that_cannot_be_trusted_is_not_kept(answer: bytes) -> None:
    connection, _ = await feed_connection(answer)
    assert connection.is_complete
    assert not connection.is_keep_alive


async def test_more_trailer_lines_than_header_lines_are_refused() -> None:
    connection, body = await feed_connection(IN_CHUNKS + b"0\r\n" + b"a:\r\n" * 256 + b"\r\n")
    assert (body, connection.is_complete) == (b"", True)
    with pytest.raises(MalformedMessage, match="over 256 trailer lines"):
        await feed_connection(IN_CHUNKS + b"0\r\n" + b"a:\r\n" * 257 + b"\r\n")


async def test_unexpected_bytes_close_a_kept_connection() -> None:
    connection, _ = await feed_connection(LENGTH)
    connection.data_received(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}")
    assert not connection.is_usable


async def test_the_first_piece_of_an_answer_is_read_without_a_turn_and_the_next_after_one() -> None:
    connection = HttpConnection()
    for _ in range(2):  # the second time on a kept connection, whose last answer was read completely
        connection.send_request(b"")
        connection.data_received(LENGTH[:-3])
        with pytest.raises(StopIteration) as read:
            connection.read_chunk().send(None)
        assert read.value.value == b"hello world\r\n"
        connection.data_received(LENGTH[-3:])
        second = connection.read_chunk()
        assert second.send(None) is None, "whoever sends faster than it is read must not hold up the rest"
        with pytest.raises(StopIteration) as read:
            second.send(None)
        assert (read.value.value, connection.is_complete) == (b"123", True)


@given(st.binary(max_size=200))
def test_no_input_bytes_raise_inside_the_event_loop(data: bytes) -> None:
    for head in (b"", IN_CHUNKS):
        connection = HttpConnection()
        connection.send_request(b"")
        connection.data_received(head + data)
        connection.connection_lost(None)


async def post_body(pool: HttpConnectionPool, url: str, body: bytes = b"{}") -> tuple[int, bytes]:
    connection = await pool.request("POST", url, [("x", "y")], body)
    answer = b""
    while (chunk := await connection.read_chunk()) is not None:
        answer += chunk
    pool.release(connection)
    return connection.status, answer


Handler = Callable[[ReceivedRequest], Awaitable[object]]


async def with_pool(handler: Handler, use: Callable[[HttpConnectionPool, RawServer], Awaitable[None]]) -> RawServer:
    async with serve(handler) as server:
        pool = HttpConnectionPool(server.url)
        try:
            with anyio.fail_after(20):
                await use(pool, server)
        finally:
            await pool.close()
    return server


async def test_connections_are_kept_and_used_again() -> None:
    async def use(pool: HttpConnectionPool, server: RawServer) -> None:
        for _ in range(5):
            assert await post_body(pool, server.url) == (200, b"ok")

    server = await with_pool(lambda item: item.reply(200, b"ok"), use)
    assert len({id(message.writer) for message in server.seen}) == 1
    assert server.seen[0].headers["host"] == f"127.0.0.1:{server.port}"


async def test_a_kept_connection_the_server_closed_is_replaced_without_anyone_noticing() -> None:
    async def handler(request: ReceivedRequest) -> bool:
        await request.reply(200, b"ok")
        return False  # closes without announcing it

    async def use(pool: HttpConnectionPool, server: RawServer) -> None:
        for _ in range(10):
            assert await post_body(pool, server.url) == (200, b"ok")

    server = await with_pool(handler, use)
    assert len(server.seen) == 10


async def test_a_fresh_connection_that_is_closed_without_an_answer_is_not_tried_again() -> None:
    async def handler(request: ReceivedRequest) -> bool:
        return False

    async def use(pool: HttpConnectionPool, server: RawServer) -> None:
        with pytest.raises(ConnectionLost):
            await post_body(pool, server.url)

    assert len((await with_pool(handler, use)).seen) == 1


async def test_a_request_that_waits_on_a_kept_connection_is_not_sent_again_after_the_pool_is_closed() -> None:
    received = anyio.Event()

    async def handler(request: ReceivedRequest) -> bool:
        if request.body != b"slow":
            await request.reply(200, b"ok")
            return True
        received.set()
        await request.wait_closed()
        return False

    async def use(pool: HttpConnectionPool, server: RawServer) -> None:
        await post_body(pool, server.url)

        async def wait() -> None:
            with pytest.raises(ConnectionLost) as exc_info:
                await post_body(pool, server.url, b"slow")
            assert exc_info.value.may_have_run

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait)
            await received.wait()
            await pool.close()
        with pytest.raises(RequestNotSent):
            await post_body(pool, server.url)

    assert [item.body for item in (await with_pool(handler, use)).seen] == [b"{}", b"slow"]


async def test_a_request_that_must_not_run_twice_uses_no_connection_that_was_idle_for_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http_pool, "MAX_IDLE_FOR_CALLS", 0)

    async def use(pool: HttpConnectionPool, server: RawServer) -> None:
        for is_repeatable in (True, False, True):
            connection = await pool.request("POST", server.url, (), b"{}", is_repeatable=is_repeatable)
            assert await connection.read_chunk() == b"ok"
            assert await connection.read_chunk() is None
            pool.release(connection)

    assert (await with_pool(lambda item: item.reply(200, b"ok"), use)).connections == 2


async def test_connections_that_were_idle_too_long_for_calls_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_pool, "MAX_IDLE_FOR_CALLS", 0)
    left: list[int] = []

    async def handler(request: ReceivedRequest) -> None:
        await request.reply(200, b"ok")
        await request.wait_closed()
        left.append(len(left))

    async def use(pool: HttpConnectionPool, server: RawServer) -> None:
        for _ in range(3):
            connection = await pool.request("POST", server.url, (), b"{}", is_repeatable=False)
            assert await connection.read_chunk() == b"ok"
            assert await connection.read_chunk() is None
            pool.release(connection)
        while len(left) < 2:
            await anyio.lowlevel.checkpoint()

    await with_pool(handler, use)


async def test_a_call_uses_no_connection_that_was_idle_for_long_although_a_later_one_was_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = [1_000.0]
    monkeypatch.setattr(http_pool, "time", SimpleNamespace(monotonic=lambda: clock[0]))

    async def use(pool: HttpConnectionPool, server: RawServer) -> None:
        old, new = [await pool.request("POST", server.url, (), b"{}") for _ in range(2)]
        for connection in (old, new):
            while await connection.read_chunk() is not None:
                pass
            pool.release(connection)
            clock[0] += 3
        server.seen[1].writer.close()
        while new.is_usable:
            await anyio.lowlevel.checkpoint()
        assert await pool.request("POST", server.url, (), b"{}", is_repeatable=False) is not old

    await with_pool(lambda item: item.reply(200, b"ok"), use)


async def test_a_request_sent_on_a_kept_connection_may_have_run_even_if_no_new_one_can_be_opened() -> None:
    servers: list[RawServer] = []

    async def handler(request: ReceivedRequest) -> bool:
        if request.body != b"crash":
            await request.reply(200, b"ok")
            return True
        servers[0].listener.close()
        return False

    async def use(pool: HttpConnectionPool, server: RawServer) -> None:
        servers.append(server)
        await post_body(pool, server.url)
        with pytest.raises(ConnectionLost) as exc_info:
            await post_body(pool, server.url, b"crash")
        assert exc_info.value.may_have_run
        with pytest.raises(RequestNotSent):
            await post_body(pool, server.url)

    assert [item.body for item in (await with_pool(handler, use)).seen] == [b"{}", b"crash"]


async def test_a_reader_that_stops_reading_stops_the_sender() -> None:
    sent = 0

    async def handler(request: ReceivedRequest) -> bool:
        nonlocal sent
        await request.send(b"HTTP/1.1 200 OK\r\n\r\n")
        while True:
            await request.send(b"x" * 1_000_000)
            sent += 1

    async def use(pool: HttpConnectionPool, server: RawServer) -> None:
        connection = await pool.request("POST", server.url, [], b"")
        with anyio.move_on_after(0.5):
            await anyio.sleep_forever()
        assert sent < 20
        result = 0
        while result < 30_000_000:
            result += len(await connection.read_chunk() or b"")
        pool.release(connection)
        assert not connection.is_keep_alive

    await with_pool(handler, use)


async def test_a_header_cannot_bring_another_header_along() -> None:
    async def use(pool: HttpConnectionPool, server: RawServer) -> None:
        with pytest.raises(MalformedMessage, match="line break"):
            await pool.request("POST", server.url, [("x", "a\r\ny: b")], b"")

    assert (await with_pool(lambda item: item.reply(), use)).seen == []


async def test_paths_are_sent_escaped() -> None:
    async def use(pool: HttpConnectionPool, server: RawServer) -> None:
        await post_body(pool, f"http://127.0.0.1:{server.port}/a b/ü?q=x y%20&z=1")

    server = await with_pool(lambda item: item.reply(), use)
    assert server.seen[0].path == "/a%20b/%C3%BC?q=x%20y%20&z=1"
