"""Tests for servers behind a forward proxy, with host names that only the proxy can resolve."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from mcphost import proxies
from mcphost.client.connect import ClientSessionOpener
from mcphost.config.schema import ServerConfig
from mcphost.errors import ConnectionLost, MalformedMessage, ServerError, StartupError
from mcphost.protocol.jsonrpc import JsonRpcRequest, JsonRpcResponse
from mcphost.protocol.revisions import Revision
from mcphost.protocol.tools import CallTool
from mcphost.proxies import proxy_for
from mcphost.serialization import Raw, replace
from mcphost.transport import http_client
from mcphost.transport.streamable_http import HttpConnector
from tests.unit.client.fakes import FakeRequestHandler, RecordingObserver
from tests.unit.client.results import single_text
from tests.unit.client.scripted_http import stateless_server, text_answer
from tests.unit.transport.certificates import CertificateAuthority
from tests.unit.transport.raw_http import serve

pytestmark = pytest.mark.anyio
NAMES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


class ForwardingProxy:
    """A proxy that answers every forwarded request itself, like an MCP server, and records it."""

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
async def proxy() -> AsyncIterator[ForwardingProxy]:
    double = ForwardingProxy()
    server = await asyncio.start_server(double.serve, "127.0.0.1", 0)
    double.port = server.sockets[0].getsockname()[1]
    async with server:
        yield double


async def send_through_proxy(url: str) -> JsonRpcResponse:
    dialer = HttpConnector("remote", url, {}, warn=lambda text: None)
    async with dialer.connect() as channel:
        channel.set_revision(Revision.V2026_07_28)
        async with channel.exchange(JsonRpcRequest(7, "tools/list", Raw(b'{"x":"h\xc3\xa9"}'))) as messages:
            async for message in messages:
                assert isinstance(message, JsonRpcResponse)
                return message
    raise AssertionError("no answer")


async def test_a_server_behind_a_proxy_is_asked_through_it(monkeypatch: pytest.MonkeyPatch) -> None:
    async with proxy() as double:
        monkeypatch.setenv("HTTP_PROXY", f"http://us%20er:pass@127.0.0.1:{double.port}")
        answer = await send_through_proxy("http://mcp.test/mcp")
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
            group.start_soon(send_through_proxy, "http://mcp.test/mcp")
            with anyio.fail_after(20):
                await double.asked.wait()
            assert not double.gone.is_set()
            group.cancel_scope.cancel()
        with anyio.fail_after(20):
            await double.gone.wait()


async def test_an_unreachable_proxy_is_reported_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    with pytest.raises(ConnectionLost, match=r"through the proxy at 127\.0\.0\.1:9"):
        await send_through_proxy("http://mcp.test/mcp")


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
    with pytest.raises(MalformedMessage, match="socks5") as caught:
        proxy_for("https://mcp.test/mcp")
    assert "ALL_PROXY to an http or https proxy, or add mcp.test to NO_PROXY" in caught.value.hint
    with pytest.raises(StartupError, match=r"add mcp\.test to NO_PROXY"):
        http_client.create_client("far", "https://mcp.test/mcp", {}, warn=print)


@pytest.mark.parametrize("proxy", ["http://", "http://host:port", "http://host:0", "http://\x7f", "http://[::1"])
def test_no_request_is_sent_directly_because_its_proxy_is_invalid(monkeypatch: pytest.MonkeyPatch, proxy: str) -> None:
    monkeypatch.setenv("ALL_PROXY", proxy)
    with pytest.raises(MalformedMessage, match=r"The address of the proxy for mcp\.test is not valid"):
        proxy_for("https://mcp.test/mcp")


class Tunnel:
    """A CONNECT proxy that tunnels to the server, or refuses with `status`."""

    def __init__(self, status: bytes = b"200 Connection established") -> None:
        self.status = status
        self.heads: list[str] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.heads.append((await reader.readuntil(b"\r\n\r\n")).decode("latin-1"))
        writer.write(b"HTTP/1.1 %s\r\n\r\n" % self.status)
        if not self.status.startswith(b"200"):
            writer.close()
            return
        host, port = self.heads[-1].split(" ")[1].split(":")
        there_reader, there = await asyncio.open_connection(host, int(port))

        async def copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
            try:
                while data := await source.read(65536):
                    target.write(data)
                    await target.drain()
            except ConnectionError:
                pass
            finally:
                target.close()

        async with anyio.create_task_group() as group:
            group.start_soon(copy, reader, there)
            group.start_soon(copy, there_reader, writer)


@pytest.fixture
async def tunnel(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Tunnel]:
    double = Tunnel()
    server = await asyncio.start_server(double.serve, "127.0.0.1", 0)
    monkeypatch.setenv("HTTPS_PROXY", f"http://me:word@127.0.0.1:{server.sockets[0].getsockname()[1]}")
    # Loopback addresses never go through a proxy; the tests need one that does.
    monkeypatch.setattr(proxies, "is_loopback_host", lambda host: False)
    monkeypatch.setattr(proxies, "proxy_bypass", lambda host: False)
    async with server:
        yield double


async def test_a_server_with_tls_is_reached_through_a_tunnel_and_its_certificate_is_checked(
    tunnel: Tunnel, tmp_path: Path
) -> None:
    authority = CertificateAuthority(tmp_path)
    handler = stateless_server(lambda item: item.result(text_answer("tunnelled")))
    async with serve(handler, authority.context()) as server:
        config = ServerConfig(name="peer", url=server.url, ca_file=authority.file, headers={"X-Key": "secret"})
        async with ClientSessionOpener().open(config, FakeRequestHandler(), RecordingObserver()) as session:
            for _ in range(3):
                assert single_text(await session.request(CallTool("x"))) == "tunnelled"
        with pytest.raises(StartupError, match="certificate cannot be trusted"):
            async with ClientSessionOpener().open(
                replace(config, ca_file=""), FakeRequestHandler(), RecordingObserver()
            ):
                pass
    assert len(tunnel.heads) == 2  # kept, and reused
    credentials = base64.b64encode(b"me:word").decode()
    assert tunnel.heads[0].startswith(f"CONNECT 127.0.0.1:{server.port} HTTP/1.1\r\n")
    assert f"proxy-authorization: Basic {credentials}" in tunnel.heads[0]
    assert "secret" not in tunnel.heads[0]


async def test_a_proxy_that_refuses_the_tunnel_is_reported_with_its_status(tunnel: Tunnel) -> None:
    tunnel.status = b"407 Proxy Authentication Required"
    config = ServerConfig(name="peer", url="https://mcp.test/mcp")
    with pytest.raises(StartupError, match=r"the proxy at 127\.0\.0\.1:\d+ refused with HTTP 407"):
        async with ClientSessionOpener().open(config, FakeRequestHandler(), RecordingObserver()):
            pass


def _fault(kind: str) -> tuple[bytes, str]:
    body = json.dumps({"jsonrpc": "2.0", "id": 7, "result": {}}).encode()
    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"
    return {
        "cut": (head + b"content-length: 100\r\n\r\n{", "broke off"),
        "garbage": (b"\0\0 not HTTP\r\n\r\n", "invalid HTTP response"),
        "nothing": (b"", "closed the connection before it responded"),
        "long header": (head + b"x: " + b"y" * 70_000 + b"\r\n\r\n", "headers over 64 KB"),
        "huge": (head + b"content-length: 99000000\r\n\r\n" + b"x" * 17_000_000, "over 16 MB"),
        "more than the answer": (head + b"content-length: %d\r\n\r\n%sHTTP/1.1 200 OK\r\n" % (len(body), body), ""),
    }[kind]


@pytest.mark.parametrize("kind", ["cut", "garbage", "nothing", "long header", "huge", "more than the answer"])
async def test_faults_behind_a_proxy_are_reported_as_without_one(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    said, told = _fault(kind)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
        await reader.readexactly(int(head.split("content-length: ")[1].split("\r\n")[0]))
        try:
            writer.write(said)
            await writer.drain()
        except ConnectionError:
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        if not told:
            assert bytes((await send_through_proxy("http://mcp.test/mcp")).result) == b"{}"
            return
        with pytest.raises(ServerError, match=told) as exc_info:
            await send_through_proxy("http://mcp.test/mcp")
    assert exc_info.value.may_have_run
