"""Tests that the example in the transport documentation works: a transport for Unix sockets."""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcphost.client.connect import ClientSessionOpener
from mcphost.client.session import Session, SessionObserver
from mcphost.config.schema import ServerConfig
from mcphost.errors import ConnectionLost, RequestTimeout, StartupError
from mcphost.protocol.revisions import Era, Revision
from mcphost.protocol.tools import CallTool
from mcphost.transport.channel import Connector
from tests.unit.client.fakes import FakeRequestHandler, RecordingObserver
from tests.unit.client.results import single_text
from tests.unit.client.scripted_http import DISCOVERY

pytestmark = pytest.mark.anyio
PAGE = Path(__file__).parents[3] / "mcphost" / "transport" / "README.md"


def documented_connector() -> Any:
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    names: dict[str, Any] = {}
    exec(compile(code, str(PAGE), "exec"), names)
    return names["UnixConnector"]


class UnixSocketOpener(ClientSessionOpener):
    """An opener for servers whose address is the path of a Unix socket, using the documented transport."""

    def _create_connector(self, server: ServerConfig, observer: SessionObserver, oauth: Any) -> Connector:
        return documented_connector()(server.name, server.url, observer.warn)


class UnixSocketServer:
    """A server on a Unix socket with configurable faults."""

    def __init__(self) -> None:
        self.seen: list[dict[str, Any]] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while line := await reader.readline():
                message = json.loads(line)
                self.seen.append(message)
                method, ident = message.get("method"), message.get("id")
                result: Any = {"resultType": "complete", "content": [{"type": "text", "text": "over a socket"}]}
                if method == "server/discover":
                    result = DISCOVERY
                elif method == "initialize":
                    result = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {}}
                elif method == "tools/call" and message["params"]["name"] == "leave":
                    return
                elif method == "tools/call" and message["params"]["name"] == "endless":
                    writer.write(b"x" * 17_000_000)
                    await writer.drain()
                    return
                if ident is None or (method == "tools/call" and message["params"]["name"] == "silent"):
                    continue
                writer.write(
                    b"noise\n" + json.dumps({"jsonrpc": "2.0", "id": ident, "result": result}).encode() + b"\n"
                )
        except ConnectionError:
            pass
        finally:
            writer.close()


@asynccontextmanager
async def open_unix_session(
    peer: UnixSocketServer, folder: Path, era: Era = "stateless"
) -> AsyncIterator[tuple[Session, RecordingObserver]]:
    observer = RecordingObserver()
    path = str(folder / "socket")
    async with await asyncio.start_unix_server(peer.serve, path):
        config = ServerConfig(name="peer", url=path, era=era)
        async with UnixSocketOpener().open(config, FakeRequestHandler(), observer) as session:
            yield session, observer


@pytest.mark.parametrize("era", ["stateless", "handshake"])
async def test_the_transport_of_the_page_carries_both_eras(era: Era, tmp_path: Path) -> None:
    peer = UnixSocketServer()
    async with open_unix_session(peer, tmp_path, era) as (session, notes):
        assert session.facts.revision in (Revision.V2026_07_28, Revision.V2025_11_25)
        results = []
        async with anyio.create_task_group() as group:

            async def call() -> None:
                results.append(single_text(await session.request(CallTool("x"))))

            for _ in range(20):
                group.start_soon(call)
        assert results == ["over a socket"] * 20
        with pytest.raises(RequestTimeout):
            await session.request(CallTool("silent"), deadline=0.1)
        await session.request(CallTool("x"))
    assert [message for message in peer.seen if message["method"] == "notifications/cancelled"]
    assert len(notes.warnings) == 1  # of the broken lines


@pytest.mark.parametrize(("tool", "how"), [("leave", "closed the connection"), ("endless", "message over 16 MB")])
async def test_its_end_ends_every_call_with_the_reason(tool: str, how: str, tmp_path: Path) -> None:
    async with open_unix_session(UnixSocketServer(), tmp_path) as (session, _):
        with anyio.fail_after(20), pytest.raises(ConnectionLost, match=how):
            await session.request(CallTool(tool))
        with anyio.fail_after(20):
            await session.wait_closed()


async def test_an_unreachable_server_is_reported_in_a_sentence(tmp_path: Path) -> None:
    config = ServerConfig(name="peer", url=str(tmp_path / "nobody"))
    with pytest.raises(StartupError, match="cannot be reached"):
        async with UnixSocketOpener().open(config, FakeRequestHandler(), RecordingObserver()):
            pass
