"""Tests that endless interim responses, headers and chunks from a sign-in server are cut off, also in tunnels."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from mcphost.auth.oauth_http import EndpointUnreachable, OAuthHttpClient
from mcphost.auth.url_policy import UrlPolicy
from mcphost.http_limits import MAX_FRAMING_BYTES, MAX_HEAD_BYTES, MAX_HEAD_LINES, MAX_INTERIM_RESPONSES
from tests.unit.transport.certificates import CertificateAuthority

pytestmark = pytest.mark.anyio
EARLY = b"HTTP/1.1 103 x\r\n\r\n"
FINE = b'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 12\r\n\r\n{"hello": 1}'
CHUNKED_HEAD = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"


class HeadFloodServer:
    """A server that sends the bytes `before` forever, or `count` times followed by `answer`."""

    def __init__(self, before: bytes, count: int | None = None, *, answer: bytes = FINE) -> None:
        self.before = before
        self.answer = answer
        self.count = count
        self.port = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, ssl.SSLError):
            await reader.readuntil(b"\r\n\r\n")
            if self.count is not None:
                writer.write(self.before * self.count + self.answer)
            while self.count is None:
                writer.write(self.before * 1_000)
                await writer.drain()
        writer.close()


@asynccontextmanager
async def serve_flood(flood: HeadFloodServer, tls: ssl.SSLContext | None = None) -> AsyncIterator[HeadFloodServer]:
    server = await asyncio.start_server(flood.serve, "127.0.0.1", 0, ssl=tls)
    flood.port = server.sockets[0].getsockname()[1]
    async with server:
        yield flood


def create_requests(flood: HeadFloodServer, *, ca_file: str = "", proxy: str = "") -> OAuthHttpClient:
    async def resolve(host: str, port: int) -> Sequence[str]:
        return ["127.0.0.1"]

    guard = UrlPolicy(f"https://mcp.example:{flood.port}/mcp", resolver=resolve, allow_private=True)
    return OAuthHttpClient(guard, ca_file=ca_file, proxy_for=lambda url: proxy)


@pytest.mark.parametrize(
    ("before", "reason"),
    [
        (EARLY, f"over {MAX_INTERIM_RESPONSES} interim responses"),
        (
            b"HTTP/1.1 103 x\r\n" + (b"a: " + b"b" * 300 + b"\r\n") * 300 + b"\r\n",
            f"headers over {MAX_HEAD_BYTES // 1024} KB",
        ),
        (b"HTTP/1.1 200 x\r\n" + b"a:\r\n" * 5_000, f"over {MAX_HEAD_LINES} header lines"),
        (CHUNKED_HEAD + b"0\r\n" + b"a:\r\n" * 20_000, f"trailers over {MAX_FRAMING_BYTES // 1024} KB"),
    ],
)
async def test_interim_answers_without_end_end_the_sign_in_early(before: bytes, reason: str) -> None:
    async with serve_flood(HeadFloodServer(before)) as flood:
        with pytest.raises(EndpointUnreachable, match=reason):
            await create_requests(flood).get(f"http://127.0.0.1:{flood.port}/x", "document")


async def test_interim_answers_without_end_are_stopped_in_tls_as_well(tmp_path: Path) -> None:
    authority = CertificateAuthority(tmp_path)
    async with serve_flood(HeadFloodServer(EARLY), authority.context("as.example")) as flood:
        url, asking = f"https://as.example:{flood.port}/x", create_requests(flood, ca_file=str(authority.file))
        with pytest.raises(EndpointUnreachable, match="interim responses"):
            await asking.get(url, "document")


async def test_interim_answers_of_a_proxy_without_end_are_stopped() -> None:
    async with serve_flood(HeadFloodServer(EARLY)) as flood:
        asking = create_requests(flood, proxy=f"http://127.0.0.1:{flood.port}")
        with pytest.raises(EndpointUnreachable, match="interim responses"):
            await asking.get("https://as.example/x", "document")


async def test_some_interim_answers_come_before_a_good_one() -> None:
    async with serve_flood(HeadFloodServer(EARLY, MAX_INTERIM_RESPONSES)) as flood:
        reply = await create_requests(flood).get(f"http://127.0.0.1:{flood.port}/x", "document")
    assert reply.json_members() == {"hello": 1}


async def test_other_tasks_run_while_a_body_of_small_chunks_is_read() -> None:
    turns = 0

    async def count_turns() -> None:
        nonlocal turns
        while True:
            await anyio.lowlevel.checkpoint()
            turns += 1

    small_chunks = b"100\r\n" + b" " * 256 + b"\r\n"
    flood = HeadFloodServer(b"", 0, answer=CHUNKED_HEAD + small_chunks * 2_000 + b"0\r\n\r\n")
    async with serve_flood(flood), anyio.create_task_group() as tasks:
        tasks.start_soon(count_turns)
        reply = await create_requests(flood).get(f"http://127.0.0.1:{flood.port}/x", "document")
        tasks.cancel_scope.cancel()
    assert len(reply.body) == 512_000
    assert turns > 100


async def test_a_body_of_many_chunks_of_16_bytes_is_refused() -> None:
    tiny_chunks = b"10\r\n" + b" " * 16 + b"\r\n"
    flood = HeadFloodServer(b"", 0, answer=CHUNKED_HEAD + tiny_chunks * 2_000 + b"0\r\n\r\n")
    async with serve_flood(flood):
        with pytest.raises(EndpointUnreachable, match="too many small chunks"):
            await create_requests(flood).get(f"http://127.0.0.1:{flood.port}/x", "document")
