"""A server that is only reachable through a proxy: a real forward proxy on loopback, a name nobody else resolves."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import pytest

from mcphost.data import Raw
from mcphost.errors import ConnectionLost, MalformedMessage
from mcphost.protocol.jsonrpc import Request, Response
from mcphost.protocol.revisions import Revision
from mcphost.transport.http import HttpDialer
from mcphost.transport.proxies import proxy_for

pytestmark = pytest.mark.anyio
NAMES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


class Proxy:
    """Answers every forwarded request as an MCP server would, and remembers what it was asked."""

    def __init__(self) -> None:
        self.heads: list[str] = []
        self.port = 0
        self.hangs = False
        self.asked = asyncio.Event()
        self.gone = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                self.heads.append(head)
                lines = head.lower().split("\r\n")
                lengths = [line.split(":")[1] for line in lines if line.startswith("content-length")]
                body = json.loads(await reader.readexactly(int(lengths[0])))
                self.asked.set()
                if self.hangs:
                    await reader.read()
                    self.gone.set()
                    return
                answer = json.dumps({"jsonrpc": "2.0", "id": body["id"], "result": {"echo": body["params"]}}).encode()
                writer.write(
                    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s"
                    % (len(answer), answer)
                )
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def proxy() -> AsyncIterator[Proxy]:
    double = Proxy()
    server = await asyncio.start_server(double.serve, "127.0.0.1", 0)
    double.port = server.sockets[0].getsockname()[1]
    async with server:
        yield double


async def ask(url: str) -> Response:
    dialer = HttpDialer("remote", url, {}, warn=lambda text: None)
    async with dialer.dial() as channel:
        channel.speak(Revision.V2026_07_28)
        async with channel.exchange(Request(7, "tools/list", Raw(b'{"x":"h\xc3\xa9"}'))) as messages:
            async for message in messages:
                assert isinstance(message, Response)
                return message
    raise AssertionError("no answer")


async def test_a_server_behind_a_proxy_is_asked_through_it(monkeypatch: pytest.MonkeyPatch) -> None:
    async with proxy() as double:
        monkeypatch.setenv("HTTP_PROXY", f"http://us%20er:pass@127.0.0.1:{double.port}")
        answer = await ask("http://mcp.test/mcp")
    assert json.loads(bytes(answer.result)) == {"echo": {"x": "hé"}}
    head = double.heads[0]
    assert head.startswith("POST http://mcp.test/mcp HTTP/1.1\r\n")
    assert "mcp-method: tools/list" in head.lower()
    credentials = base64.b64encode(b"us er:pass").decode()
    assert f"proxy-authorization: basic {credentials.lower()}" in head.lower()


async def test_leaving_an_exchange_drops_the_connection_through_the_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    async with proxy() as double:
        double.hangs = True
        monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{double.port}")
        async with anyio.create_task_group() as group:
            group.start_soon(ask, "http://mcp.test/mcp")
            with anyio.fail_after(20):  # httpx is imported by the first request
                await double.asked.wait()
            assert not double.gone.is_set()
            group.cancel_scope.cancel()
        with anyio.fail_after(5):
            await double.gone.wait()


async def test_a_proxy_that_is_not_there_is_told_as_that(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    with pytest.raises(ConnectionLost, match="through the proxy"):
        await ask("http://mcp.test/mcp")


def test_which_addresses_are_proxied(monkeypatch: pytest.MonkeyPatch) -> None:
    assert proxy_for("https://mcp.test/mcp") == ""
    monkeypatch.setenv("HTTPS_PROXY", "proxy.test:3128")
    monkeypatch.setenv("NO_PROXY", "inside.test")
    assert proxy_for("https://mcp.test/mcp") == "http://proxy.test:3128"
    assert proxy_for("http://mcp.test/mcp") == ""
    assert proxy_for("https://inside.test/mcp") == ""
    monkeypatch.setenv("ALL_PROXY", "http://all.test:1")
    assert proxy_for("http://mcp.test/mcp") == "http://all.test:1"
    assert proxy_for("http://127.0.0.1:8080/mcp") == ""
    assert proxy_for("http://localhost/mcp") == ""


def test_a_proxy_of_another_kind_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "socks5://127.0.0.1:1")
    with pytest.raises(MalformedMessage, match="socks5"):
        proxy_for("https://mcp.test/mcp")
