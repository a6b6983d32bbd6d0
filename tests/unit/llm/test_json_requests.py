"""Tests that hostile responses of model servers are cut off, and that other tasks run while they are read."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import anyio
import anyio.lowlevel
import pytest

from mcphost.llm.json_requests import JsonAnswer, JsonClient

pytestmark = pytest.mark.anyio
CHUNKED_LIST_HEAD = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
END = b"0\r\n\r\n"
SMALL_CHUNKS = b'A\r\n{"a": "bc"\r\n' + (b"100\r\n" + b" " * 256 + b"\r\n") * 2_000 + b"1\r\n}\r\n"


@asynccontextmanager
async def serve_answer(answer: bytes) -> AsyncIterator[str]:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(answer)
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        (b"HTTP/1.1 100 \r\n\r\n" * 1_000 + CHUNKED_LIST_HEAD + b"2\r\n{}\r\n" + END, 0),
        (b"HTTP/1.1 200 OK\r\n" + b"a:\r\n" * 5_000 + b"content-length: 2\r\n\r\n{}", 0),
        (CHUNKED_LIST_HEAD + b"2\r\n{}\r\n" + b"1\r\n \r\n" * 2_000 + END, 200),
        (CHUNKED_LIST_HEAD + b"2\r\n{}\r\n0\r\n" + b"a:\r\n" * 20_000 + b"\r\n", 200),
    ],
    ids=["interim responses", "headers", "chunks", "trailers"],
)
async def test_a_flood_of_small_parts_is_cut_off(answer: bytes, status: int) -> None:
    async with serve_answer(answer) as url, JsonClient(uses_proxies=False, timeout=20) as client:
        assert await client.request("GET", url) == JsonAnswer(status)


async def test_other_tasks_run_while_a_body_of_small_chunks_is_read() -> None:
    turns = 0

    async def count_turns() -> None:
        nonlocal turns
        while True:
            await anyio.lowlevel.checkpoint()
            turns += 1

    async with (
        serve_answer(CHUNKED_LIST_HEAD + SMALL_CHUNKS + END) as url,
        JsonClient(uses_proxies=False, timeout=20) as client,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(count_turns)
        answer = await client.request("GET", url)
        tasks.cancel_scope.cancel()
    assert answer == JsonAnswer(200, {"a": "bc"})
    assert turns > 100
