"""Tests for era negotiation with processes that start late, support one or both protocol eras, or do not answer."""

import sys
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from mcphost.client import negotiation
from mcphost.client.connect import ClientSessionOpener, NullEraStore
from mcphost.config.schema import ServerConfig
from mcphost.errors import StartupError, StoreError
from mcphost.protocol.content import TextContent
from mcphost.protocol.revisions import Era, ServerEras
from mcphost.protocol.tools import CallTool
from tests.unit.client.fakes import FakeRequestHandler, RecordingObserver

pytestmark = pytest.mark.anyio
PROGRAM = str(Path(__file__).with_name("era_server.py"))
KINDS: list[tuple[str, Era]] = [
    ("legacy, ignores", "handshake"),
    ("legacy, refuses", "handshake"),
    ("legacy, dies", "handshake"),
    ("dual", "stateless"),
    ("dual, talks first", "stateless"),
    ("modern", "stateless"),
]


class NegotiationServer:
    """A scripted server with its notes file; the object is also the era store of all connections to the server."""

    def __init__(self, folder: Path, kind: str, delay: float = 0, known: ServerEras | None = None) -> None:
        self.known = known
        self.notes = folder / "notes"
        self.config = ServerConfig(
            name="peer", command=sys.executable, args=("-S", "-E", PROGRAM, kind, str(delay), str(self.notes))
        )

    def get(self, server: str, digest: str) -> ServerEras | None:
        return self.known

    def put(self, server: str, digest: str, eras: ServerEras) -> None:
        self.known = eras

    async def use(self) -> Era:
        """Connect, call the tool `era`, check that it names the negotiated era, and return that era."""
        with anyio.fail_after(60):
            opener = ClientSessionOpener(eras=self)
            async with opener.open(self.config, FakeRequestHandler(), RecordingObserver()) as session:
                (block,) = (await session.request(CallTool("era"), deadline=10)).parse_blocks()
                assert isinstance(block, TextContent)
                assert block.text == session.facts.era
                return session.facts.era

    def starts(self) -> list[list[str]]:
        """Return, for each process started so far, the methods that it received."""
        return [part.split() for part in self.notes.read_text().split("started")[1:]]


async def test_the_first_request_is_prepared_while_the_server_starts(tmp_path: Path) -> None:
    server = NegotiationServer(tmp_path, "modern")
    steps: list[str] = []

    class EraMemory(NullEraStore):
        def get(self, server: str, digest: str) -> ServerEras | None:
            steps.append("era")
            return None

    async def prepare() -> None:
        notes = anyio.Path(server.notes)
        while not (await notes.exists() and await notes.read_text()):
            await anyio.lowlevel.checkpoint()
        steps.append(await notes.read_text())

    with anyio.fail_after(60):
        opener = ClientSessionOpener(eras=EraMemory())
        async with opener.open(server.config, FakeRequestHandler(), RecordingObserver(), prepare) as session:
            assert session.facts.era == "stateless"
    assert steps == ["started\n", "era"]
    assert server.starts() == [["server/discover"]]


async def test_each_process_is_prepared_for(tmp_path: Path) -> None:
    server, prepared = NegotiationServer(tmp_path, "legacy, dies"), 0

    async def prepare() -> None:
        nonlocal prepared
        prepared += 1

    with anyio.fail_after(60):
        async with ClientSessionOpener().open(server.config, FakeRequestHandler(), RecordingObserver(), prepare):
            pass
    assert prepared == len(server.starts()) == 2


@pytest.mark.parametrize("known", [None, "handshake", "stateless"])
async def test_a_server_that_exits_before_it_reads_anything_is_started_once(
    tmp_path: Path, known: ServerEras | None
) -> None:
    python = NegotiationServer(tmp_path, "exits at once", 0.3, known)
    shell = NegotiationServer(tmp_path, "", 0, known)  # ends before anything can be written to it
    code = f"echo started >> '{shell.notes}'; echo no license >&2; exit 3"
    shell.config = ServerConfig(name="peer", command="sh", args=("-c", code))
    for server in (python, shell):
        observer = RecordingObserver()
        with anyio.fail_after(60), pytest.raises(StartupError, match="exited with status 3; it last said: no license"):
            async with ClientSessionOpener(eras=server).open(server.config, FakeRequestHandler(), observer):
                pass
        assert observer.lines == ["no license"]
        assert observer.warnings == []
    assert python.starts() == [[], []]


async def test_the_log_says_why_a_server_that_died_of_the_first_request_is_started_again(tmp_path: Path) -> None:
    server, observer = NegotiationServer(tmp_path, "legacy, dies"), RecordingObserver()
    with anyio.fail_after(60):
        async with ClientSessionOpener().open(server.config, FakeRequestHandler(), observer):
            pass
    assert observer.warnings == [
        "The server 'peer' ended during its first request. It is started again, for the handshake of older revisions."
    ]


async def test_a_preparation_that_fails_ends_the_opening_before_anything_is_asked(tmp_path: Path) -> None:
    server = NegotiationServer(tmp_path, "modern")

    async def prepare() -> None:
        raise StoreError("The store is gone.")

    with anyio.fail_after(60), pytest.raises(StoreError, match="is gone"):
        async with ClientSessionOpener().open(server.config, FakeRequestHandler(), RecordingObserver(), prepare):
            pass
    assert not server.notes.exists() or server.starts() == [[]]


@pytest.mark.req("life.era.stdio-probe", "life.era.stdio-modern", "life.era.stdio-fallback-timeout")
@pytest.mark.req("life.era.dual-server")
@pytest.mark.parametrize("delay", [0, 1, 3])
async def test_a_server_is_connected_in_its_newest_era_however_late_it_starts(tmp_path: Path, delay: float) -> None:
    """The servers of all kinds run at the same time, because the test mostly waits for them to start."""

    async def meet(kind: str, era: Era) -> None:
        folder = tmp_path / kind
        folder.mkdir()
        server = NegotiationServer(folder, kind, delay)
        assert await server.use() == era, kind
        assert server.known == era, kind
        opening = {"stateless": ["server/discover"], "handshake": ["server/discover", "initialize"]}[era]
        first = server.starts()[0]
        assert first[: len(opening)] == (opening[:1] if kind == "legacy, dies" else opening), kind
        if era == "stateless":
            assert "initialize" not in first, f"it would pin a server of both eras to the handshake: {kind}"
        assert len(server.starts()) == (2 if kind == "legacy, dies" else 1), kind

    async with anyio.create_task_group() as group:
        for kind, era in KINDS:
            group.start_soon(meet, kind, era)


@pytest.mark.req("life.era.dual-server", "life.era.persist")
async def test_the_answer_to_initialize_decides_and_a_server_of_both_eras_gets_the_probe_alone_next_time(
    tmp_path: Path,
) -> None:
    server = NegotiationServer(tmp_path, "dual, waits for both")
    assert await server.use() == "handshake"
    assert server.known == "dual"
    assert await server.use() == "stateless"
    assert server.known == "dual"
    first, second = server.starts()
    assert first[:3] == ["server/discover", "initialize", "notifications/initialized"]
    assert second == ["server/discover", "tools/call"]


@pytest.mark.req("life.era.stdio-modern")
async def test_a_refused_initialize_keeps_the_result_of_the_probe(tmp_path: Path) -> None:
    server = NegotiationServer(tmp_path, "modern, waits for both")
    assert await server.use() == "stateless"
    assert server.known == "stateless"
    assert server.starts() == [["server/discover", "initialize", "tools/call"]]


@pytest.mark.req("life.era.persist")
@pytest.mark.parametrize("known", [None, "handshake"])
async def test_a_server_that_answers_the_probe_and_ignores_initialize_is_restarted_with_the_probe_alone(
    tmp_path: Path, known: ServerEras | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(negotiation, "LATE_RESPONSE_TIMEOUT", 0.1)
    monkeypatch.setitem(negotiation.SECOND_OPENING_DELAYS, "handshake first", 0.05)
    server = NegotiationServer(tmp_path, "modern, ignores initialize, waits for both", known=known)
    assert await server.use() == "stateless"
    assert sorted(server.starts()[0]) == ["initialize", "server/discover"]
    assert server.starts()[1] == ["server/discover", "tools/call"]


@pytest.mark.req("life.era.persist")
@pytest.mark.parametrize("known", ["dual", "stateless"])
@pytest.mark.parametrize("kind", ["legacy, refuses", "legacy, dies"])
async def test_a_server_that_lost_the_stateless_era_is_connected_by_the_handshake(
    tmp_path: Path, kind: str, known: ServerEras
) -> None:
    server = NegotiationServer(tmp_path, kind, known=known)
    assert await server.use() == "handshake"
    assert server.known == "handshake"


@pytest.mark.req("life.era.persist")
async def test_a_remembered_server_of_the_stateless_era_that_ignores_the_probe_gets_the_handshake_late(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(negotiation.SECOND_OPENING_DELAYS, "stateless first", 0.1)
    server = NegotiationServer(tmp_path, "legacy, ignores", known="dual")
    assert await server.use() == "handshake"
    assert server.known == "handshake"
