"""A started peer of the interop matrix: its configuration, and how it is started again after its process ended."""

import os
import subprocess
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import anyio.to_thread

from mcphost.config.schema import ServerConfig
from mcphost.protocol.revisions import ServerEras
from tests.peers.interop.peers import Cell


class FakeEraStore:
    """An EraStore in memory for one server."""

    def __init__(self) -> None:
        self.known: ServerEras | None = None

    def get(self, server: str, digest: str) -> ServerEras | None:
        return self.known

    def put(self, server: str, digest: str, eras: ServerEras) -> None:
        self.known = eras


class RunningPeer:
    """One peer, reached through `config`; `starts` is a file with a line for each start of its process.

    `start_again` starts a peer that listens on a port again at the same port; it is None on stdio, where the client
    starts the process.
    """

    def __init__(self, cell: Cell, config: ServerConfig, starts: Path) -> None:
        self.cell = cell
        self.config = config
        self.starts = starts
        self.start_again: Callable[[], Awaitable[None]] | None = None


@asynccontextmanager
async def open_peer(cell: Cell) -> AsyncIterator[RunningPeer]:
    """Yield a peer; unless the transport is stdio, its process runs already. Raises PeersMissing."""
    command, demanded = cell.peer.command(cell.transport, cell.delay), cell.peer.demanded or "auto"
    with tempfile.TemporaryDirectory() as folder:
        starts = Path(folder) / "starts"
        environment = {"PEER_STARTS": str(starts)}
        if cell.transport == "stdio":
            arguments = tuple(command[1:])
            config = ServerConfig(name="peer", command=command[0], args=arguments, env=environment, era=demanded)
            yield RunningPeer(cell, config, starts)
            return
        process, port = await anyio.to_thread.run_sync(_start_listening, command, environment, 0)
        path, kind = ("/sse", "sse") if cell.transport == "sse" else ("/mcp", "auto")
        config = ServerConfig(name="peer", url=f"http://127.0.0.1:{port}{path}", transport=kind, era=demanded)
        peer = RunningPeer(cell, config, starts)

        async def start_again() -> None:
            nonlocal process
            await anyio.to_thread.run_sync(process.communicate)
            process, _ = await anyio.to_thread.run_sync(_start_listening, command, environment, port)

        peer.start_again = start_again
        try:
            yield peer
        finally:
            process.kill()
            process.communicate()


def _start_listening(command: list[str], environment: dict[str, str], port: int) -> tuple[subprocess.Popen[str], int]:
    """Start a server process on *port* (0 for any free port); return the process and its port."""
    variables = {**os.environ, "FASTMCP_LOG_LEVEL": "CRITICAL", "PEER_PORT": str(port), **environment}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=variables)
    assert process.stdout is not None
    return process, int(process.stdout.readline())
