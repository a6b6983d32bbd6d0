"""Tests for TLS connections to servers on loopback: which certificates are trusted, and how others are reported."""

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from mcphost.auth.oauth_http import EndpointUnreachable, OAuthHttpClient
from mcphost.auth.url_policy import UrlPolicy
from mcphost.client.connect import ClientSessionOpener
from mcphost.client.session import PrepareFn, RequestHandler, Session, SessionObserver, prepare_nothing
from mcphost.config.approval_digest import server_digest, with_file_digests
from mcphost.config.certificate_errors import STANDARD_HINT
from mcphost.config.schema import HostConfig, ServerConfig
from mcphost.errors import ServerError, StartupError
from mcphost.host.bootstrap import build_host
from mcphost.host.questions.questions import TrustOnce
from mcphost.protocol.tools import CallTool
from mcphost.store.database import Database
from mcphost.transport import http_pool
from mcphost.transport.http_client import create_client
from tests.fakes.frontend import ScriptedFrontend
from tests.fakes.model import ScriptedModel
from tests.unit.client.fakes import FakeRequestHandler, RecordingObserver
from tests.unit.client.results import single_text
from tests.unit.client.scripted_http import stateless_server, text_answer
from tests.unit.transport.certificates import CertificateAuthority, require_standard
from tests.unit.transport.raw_http import serve

pytestmark = pytest.mark.anyio
SERVER = stateless_server(lambda item: item.result(text_answer("over TLS")))


@pytest.fixture
def authority(tmp_path: Path) -> CertificateAuthority:
    return CertificateAuthority(tmp_path)


async def connect(url: str, ca_file: str = "") -> str:
    config = ServerConfig(name="peer", url=url, ca_file=ca_file)
    async with ClientSessionOpener().open(config, FakeRequestHandler(), RecordingObserver()) as session:
        return single_text(await session.request(CallTool("x")))


@pytest.mark.req("http.tls")
async def test_a_certificate_of_a_configured_authority_is_believed(authority: CertificateAuthority) -> None:
    async with serve(SERVER, authority.context()) as server:
        assert await connect(server.url, authority.file) == "over TLS"


@pytest.mark.req("http.tls")
@pytest.mark.parametrize(
    ("host", "days", "known", "reason"),
    [
        ("127.0.0.1", 1, False, "unable to get local issuer certificate|self-signed"),
        ("another.example", 1, True, "IP address mismatch"),
        ("127.0.0.1", -1, True, "expired"),
    ],
)
async def test_a_bad_certificate_is_refused_with_the_reason_and_the_way_to_name_an_authority(
    authority: CertificateAuthority, host: str, days: int, known: bool, reason: str
) -> None:
    async with serve(SERVER, authority.context(host, days)) as server:
        with pytest.raises(StartupError, match=f"certificate cannot be trusted .*({reason})") as exc_info:
            await connect(server.url, authority.file if known else "")
        assert server.url in exc_info.value.message
        assert '"caFile"' in exc_info.value.hint
    assert server.seen == []


async def test_a_certificate_without_the_extensions_of_the_standard_is_refused_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    require_standard(monkeypatch)
    authority = CertificateAuthority(tmp_path, follows_standard=False)
    async with serve(SERVER, authority.context()) as server:
        with pytest.raises(StartupError, match=r"certificate cannot be trusted .*(?i:missing)") as exc_info:
            await connect(server.url, authority.file)
        assert exc_info.value.hint == STANDARD_HINT
        with pytest.raises(EndpointUnreachable, match=r"(?i)its certificate is not accepted: missing") as refused:
            await OAuthHttpClient(UrlPolicy(server.url), ca_file=authority.file).get(server.url, "document")
        assert refused.value.hint == STANDARD_HINT
    assert server.seen == []


@pytest.mark.parametrize("content", [None, "this is no certificate"])
async def test_an_invalid_certificate_file_is_named(
    authority: CertificateAuthority, tmp_path: Path, content: str
) -> None:
    file = tmp_path / "mine.pem"
    if content is not None:
        file.write_text(content)
    async with serve(SERVER, authority.context()) as server:
        with pytest.raises(StartupError, match=r"mine\.pem"):
            await connect(server.url, str(file))
    assert server.seen == []


async def test_a_server_that_never_ends_its_handshake_is_abandoned(
    authority: CertificateAuthority, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert http_pool.CONNECT_TIMEOUT == 10
    monkeypatch.setattr(http_pool, "CONNECT_TIMEOUT", 0.3)

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    async with await asyncio.start_server(silent, "127.0.0.1", 0) as server:
        started_at = time.monotonic()
        with pytest.raises(StartupError, match=r"no connection within 0 s"):
            await connect(f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp")
        assert time.monotonic() - started_at < 9  # the limit is 10 s otherwise


@pytest.mark.req("http.tls")
@pytest.mark.parametrize(("host", "warned"), [("127.0.0.1", False), ("localhost", False), ("mcp.test", True)])
async def test_an_unencrypted_address_is_reported_unless_it_is_loopback(host: str, warned: bool) -> None:
    observer = RecordingObserver()
    client = create_client("peer", f"http://{host}:1/mcp", {}, warn=observer.warn)
    await client.close()
    assert bool([text for text in observer.warnings if "without encryption" in text]) == warned


async def test_plain_http_at_an_address_of_https_is_reported() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(10)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        with pytest.raises(StartupError, match="TLS handshake failed"):
            await connect(f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp")


def test_the_trusted_certificates_are_part_of_the_approval() -> None:
    plain = ServerConfig(name="peer", url="https://a.example/mcp")
    assert server_digest(plain) != server_digest(ServerConfig(name="peer", url=plain.url, ca_file="/tmp/ca.pem"))


@pytest.mark.req("http.tls")
@pytest.mark.parametrize("scheme", ["https", "HTTPS", "hTTps"])
async def test_sign_in_checks_certificates_however_the_scheme_is_written(
    authority: CertificateAuthority, scheme: str
) -> None:
    async with serve(SERVER, authority.context()) as server:
        requests = OAuthHttpClient(UrlPolicy(server.url))
        with pytest.raises(EndpointUnreachable, match=r"certificate|CERTIFICATE"):
            await requests.get(server.url.replace("https", scheme), "authorization server metadata")
    assert server.seen == []


async def test_only_the_certificates_that_were_approved_are_believed(authority: CertificateAuthority) -> None:
    file = anyio.Path(authority.file)
    right = await file.read_bytes()
    await file.write_bytes("# Főtanúsítvány\n".encode() + right + b"# " + b"x" * 300_000)
    async with serve(SERVER, authority.context()) as server:
        config = with_file_digests(ServerConfig(name="peer", url=server.url, ca_file=authority.file, source="project"))
        async with ClientSessionOpener().open(config, FakeRequestHandler(), RecordingObserver()) as session:
            assert single_text(await session.request(CallTool("x"))) == "over TLS"
        requests = OAuthHttpClient(UrlPolicy(server.url), ca_file=authority.file)
        requests.pin_ca_digest(config.ca_digest)
        await file.write_bytes(right)
        before = len(server.seen)
        with pytest.raises(StartupError, match="changed since it was approved"):
            async with ClientSessionOpener().open(config, FakeRequestHandler(), RecordingObserver()):
                pass
        with pytest.raises(EndpointUnreachable, match="changed since it was approved"):
            await requests.get(server.url, "authorization server metadata")
        assert len(server.seen) == before


class FileSwappingOpener(ClientSessionOpener):
    """An opener that replaces a file just before it connects to the server."""

    def __init__(self, file: anyio.Path, content: bytes) -> None:
        super().__init__()
        self.file, self.content = file, content

    @asynccontextmanager
    async def open(
        self,
        server: ServerConfig,
        responder: RequestHandler,
        observer: SessionObserver,
        prepare: PrepareFn = prepare_nothing,
    ) -> AsyncGenerator[Session]:
        await self.file.write_bytes(self.content)
        async with super().open(server, responder, observer, prepare) as session:
            yield session


@pytest.mark.parametrize("is_swapped", [False, True])
async def test_certificates_added_after_approval_are_not_used(
    authority: CertificateAuthority, tmp_path: Path, is_swapped: bool
) -> None:
    file = anyio.Path(authority.file)
    right = await file.read_bytes()
    opener = FileSwappingOpener(file, right)
    if is_swapped:
        await file.write_bytes(b"# what was approved\n" + right)
    database, frontend = Database(tmp_path / "s.db"), ScriptedFrontend(TrustOnce())
    async with serve(SERVER, authority.context()) as server:
        config = ServerConfig(name="peer", url=server.url, ca_file=authority.file, source="project")
        host = build_host(
            HostConfig(servers=(config,)),
            store=database,
            opener=opener,
            model_factory=lambda _: ScriptedModel(),
            frontend=frontend,
        )
        async with host:
            if is_swapped:
                with pytest.raises(ServerError, match="changed since it was approved"):
                    await host.servers.ensure_ready("peer")
            else:
                await host.servers.ensure_ready("peer")
        assert bool(server.seen) is not is_swapped
    await database.close()
