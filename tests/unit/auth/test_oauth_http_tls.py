"""Tests for sign-in over TLS: the checked address is used, and the certificate must match the name."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from mcphost.auth.discovery import UntrustedMetadata
from mcphost.auth.oauth_http import EndpointUnreachable, OAuthHttpClient
from mcphost.auth.oauth_registry import OAuthRegistry
from mcphost.auth.token_store import TokenStore
from mcphost.auth.url_policy import UrlPolicy
from mcphost.config.schema import ServerConfig
from tests.fakes.memory_backend import MemoryBackend
from tests.unit.transport import raw_http
from tests.unit.transport.certificates import CertificateAuthority
from tests.unit.transport.raw_http import ReceivedRequest

pytestmark = pytest.mark.anyio


async def answer_hello(request: ReceivedRequest) -> None:
    await request.reply(200, b'{"hello": 1}')


def create_tls_requests(port: int, ca_file: Path | str, asked: list[str]) -> OAuthHttpClient:
    """Return a client for https://mcp.example, which resolves to loopback; looked-up names are appended to *asked*."""

    async def resolve(host: str, port: int) -> Sequence[str]:
        asked.append(host)
        return ["127.0.0.1"]

    return OAuthHttpClient(
        UrlPolicy(f"https://mcp.example:{port}/mcp", resolver=resolve, allow_private=True), ca_file=str(ca_file)
    )


@pytest.mark.req("auth.ssrf.private")
async def test_the_certificate_is_checked_for_the_name_while_the_judged_address_is_used(tmp_path: Path) -> None:
    authority, asked = CertificateAuthority(tmp_path), list[str]()
    async with raw_http.serve(answer_hello, authority.context("as.example")) as server:
        reply = await create_tls_requests(server.port, authority.file, asked).get(
            f"https://as.example:{server.port}/x", "document"
        )
    assert reply.json_members() == {"hello": 1}
    assert server.seen[0].headers["host"] == f"as.example:{server.port}"
    assert asked.count("as.example") == 1, "a second answer of the resolver would not be judged"


async def test_a_certificate_for_another_name_is_refused(tmp_path: Path) -> None:
    authority = CertificateAuthority(tmp_path)
    async with raw_http.serve(answer_hello, authority.context("other.example")) as server:
        with pytest.raises(EndpointUnreachable, match="certificate"):
            await create_tls_requests(server.port, authority.file, []).get(
                f"https://as.example:{server.port}/x", "document"
            )
    assert server.seen == []


async def test_a_changed_authority_file_is_used_without_a_restart(tmp_path: Path) -> None:
    authority = CertificateAuthority(tmp_path)
    registry = OAuthRegistry(TokenStore(MemoryBackend(), None), None)
    async with raw_http.serve(answer_hello, authority.context("127.0.0.1")) as server:
        for ca_file, error in ((authority.file, UntrustedMetadata), ("", EndpointUnreachable)):
            provider = registry.get_provider(
                ServerConfig(name="x", url=server.url, ca_file=ca_file), proxy_for=lambda url: ""
            )
            assert provider is not None
            with pytest.raises(error):
                await provider.forget_client()


async def test_a_certificate_of_an_unknown_authority_is_refused(tmp_path: Path) -> None:
    authority = CertificateAuthority(tmp_path)
    async with raw_http.serve(answer_hello, authority.context("as.example")) as server:
        with pytest.raises(EndpointUnreachable, match="certificate"):
            await create_tls_requests(server.port, "", []).get(f"https://as.example:{server.port}/x", "document")
    assert server.seen == []


async def test_a_missing_file_of_certificates_is_named(tmp_path: Path) -> None:
    with pytest.raises(EndpointUnreachable, match=r"none\.pem"):
        await create_tls_requests(1, tmp_path / "none.pem", []).get("https://as.example:1/x", "document")
