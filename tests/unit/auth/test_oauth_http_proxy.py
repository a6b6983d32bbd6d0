"""Tests for sign-in through a real proxy on loopback, which resolves host names and records its requests."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcphost.auth import url_policy
from mcphost.auth.oauth_http import EndpointUnreachable, OAuthHttpClient, OAuthResponse
from mcphost.auth.url_policy import Resolver, UnsafeUrl, UrlPolicy
from tests.unit.transport import raw_http
from tests.unit.transport.certificates import CertificateAuthority
from tests.unit.transport.raw_http import ReceivedRequest

pytestmark = pytest.mark.anyio


class TunnelProxy:
    """A tunneling proxy that connects every name to one local port."""

    def __init__(self, target: int) -> None:
        self._target = target
        self.port = 0
        self.asked: list[str] = []
        self.tunnels: list[asyncio.Task[Any]] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.tunnels.append(task)
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        self.asked.append(head[0])
        inner, outer = await asyncio.open_connection("127.0.0.1", self._target)
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")

        async def copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
            try:
                while data := await source.read(65_536):
                    target.write(data)
                    await target.drain()
            except ConnectionError:
                pass
            finally:
                target.close()
                with suppress(ConnectionError):
                    await target.wait_closed()

        async with anyio.create_task_group() as group:
            group.start_soon(copy, reader, outer)
            group.start_soon(copy, inner, writer)


@asynccontextmanager
async def serve_behind_proxy(
    folder: Path, name: str = "as.example"
) -> AsyncIterator[tuple[TunnelProxy, list[ReceivedRequest], CertificateAuthority]]:
    async def hello(request: ReceivedRequest) -> None:
        await request.reply(200, b'{"hello": 1}')

    authority = CertificateAuthority(folder)
    async with raw_http.serve(hello, authority.context(name)) as server:
        proxy = TunnelProxy(server.port)
        listener = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
        proxy.port = listener.sockets[0].getsockname()[1]
        async with listener:
            yield proxy, server.seen, authority
            with anyio.fail_after(20):
                for tunnel in proxy.tunnels:
                    await tunnel


def fake_resolver(**addresses: Sequence[str]) -> Resolver:
    """Return a resolver for the given host names only; an underscore in a keyword stands for a dot."""
    table = {name.replace("_", "."): value for name, value in addresses.items()}

    async def resolve(host: str, port: int) -> Sequence[str]:
        if host not in table:
            raise OSError("no such name")
        return table[host]

    return resolve


async def get_through_proxy(
    proxy: TunnelProxy, authority: CertificateAuthority, url: str, resolve: Resolver, *, private: bool = False
) -> OAuthResponse:
    guard = UrlPolicy("https://mcp.example/mcp", resolver=resolve, allow_private=private)
    requests = OAuthHttpClient(guard, proxy_for=lambda url: f"http://127.0.0.1:{proxy.port}", ca_file=authority.file)
    return await requests.get(url, "document")


@pytest.mark.req("auth.ssrf.private")
@pytest.mark.parametrize("names", [{}, {"as_example": ["203.0.114.7"]}], ids=["only there", "also here"])
async def test_a_name_that_a_proxy_knows_is_reached_by_name_in_a_tunnel(
    names: dict[str, list[str]], tmp_path: Path
) -> None:
    async with serve_behind_proxy(tmp_path) as (proxy, requests, authority):
        reply = await get_through_proxy(proxy, authority, "https://as.example/x", fake_resolver(**names))
    assert reply.json_members() == {"hello": 1}
    assert proxy.asked == ["CONNECT as.example:443 HTTP/1.1"]
    assert requests[0].headers["host"] == "as.example"


@pytest.mark.req("auth.ssrf.private")
@pytest.mark.parametrize(
    ("url", "names"),
    [
        ("https://as.example/x", {"as_example": ["127.0.0.1"]}),
        ("https://as.example/x", {"as_example": ["203.0.114.7", "10.0.0.7"]}),
        ("https://as.example/x", {"as_example": ["10.0.0.7"], "mcp_example": ["203.0.114.7"]}),
        ("https://169.254.169.254/latest", {}),
        ("https://10.0.0.7/x", {}),
        ("https://[::ffff:127.0.0.1]/x", {}),
    ],
)
async def test_a_proxy_is_not_asked_for_private_addresses(
    url: str, names: dict[str, list[str]], tmp_path: Path
) -> None:
    async with serve_behind_proxy(tmp_path) as (proxy, requests, authority):
        with pytest.raises(UnsafeUrl, match="leads to"):
            await get_through_proxy(proxy, authority, url, fake_resolver(**names))
    assert proxy.asked == requests == []


@pytest.mark.req("auth.ssrf.private")
@pytest.mark.parametrize(
    ("names", "private"),
    [({"as_example": ["10.0.0.7"], "mcp_example": ["10.0.0.8"]}, False), ({"as_example": ["10.0.0.7"]}, True)],
)
async def test_behind_a_proxy_a_private_server_and_the_users_word_count_too(
    names: dict[str, list[str]], private: bool, tmp_path: Path
) -> None:
    async with serve_behind_proxy(tmp_path) as (proxy, _, authority):
        reply = await get_through_proxy(
            proxy, authority, "https://as.example/x", fake_resolver(**names), private=private
        )
    assert reply.is_success


async def test_names_that_do_not_resolve_here_do_not_delay_those_the_proxy_can_reach(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def silent(host: str, port: int) -> Sequence[str]:
        await anyio.sleep_forever()
        return []

    monkeypatch.setattr(url_policy, "PROXIED_LOOKUP_TIMEOUT", 0.05)
    async with serve_behind_proxy(tmp_path) as (proxy, _, authority):
        assert (await get_through_proxy(proxy, authority, "https://as.example/x", silent)).is_success


async def test_a_misdirecting_proxy_is_detected_by_the_certificate(tmp_path: Path) -> None:
    async with serve_behind_proxy(tmp_path, "evil.example") as (proxy, requests, authority):
        with pytest.raises(EndpointUnreachable, match="certificate"):
            await get_through_proxy(proxy, authority, "https://as.example/x", fake_resolver())
    assert requests == []
    assert len(proxy.asked) == 1


@pytest.mark.req("auth.ssrf.private", "auth.https-endpoints")
async def test_plain_http_is_never_sent_to_a_proxy(tmp_path: Path) -> None:
    async with serve_behind_proxy(tmp_path) as (proxy, requests, authority):
        with pytest.raises(UnsafeUrl, match="was not found"):
            await get_through_proxy(proxy, authority, "http://localhost.:8080/token", fake_resolver())
    assert proxy.asked == requests == []


@pytest.mark.req("auth.ssrf.private")
@pytest.mark.parametrize("host", ["localhost.", "localhost", "app.localhost", "app.localhost."])
async def test_a_proxy_is_not_asked_for_its_own_machine(host: str, tmp_path: Path) -> None:
    async with serve_behind_proxy(tmp_path) as (proxy, requests, authority):
        with pytest.raises(UnsafeUrl, match="leads to"):
            await get_through_proxy(proxy, authority, f"https://{host}/x", fake_resolver())
    assert proxy.asked == requests == []
