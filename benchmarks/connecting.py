"""Measure the time until ten stdio servers are ready, relative to starting ten processes and reading a line from each.

uv run python -m benchmarks.connecting [--rounds N] [--servers N]

A server is ready when the Host has received its list of tools. A server that never answers `server/discover` is
measured as well, because probing for the stateless protocol must not wait for a timeout.
"""

# pyright: basic

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio

from benchmarks import bounds

HERE = Path(__file__).resolve().parent
SERVER = [sys.executable, "-S", "-E", str(HERE / "echo_server.py"), "stdio", "50"]
HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "floor", "version": "1"}}


def floor(count: int) -> float:
    """Return the seconds from starting *count* server processes until each has printed its first line."""
    asked = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HELLO}).encode() + b"\n"
    begun = time.perf_counter()
    started = [subprocess.Popen(SERVER, stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in range(count)]
    try:
        for process in started:
            assert process.stdin
            process.stdin.write(asked)
            process.stdin.flush()
        for process in started:
            assert process.stdout
            assert process.stdout.readline()
        return time.perf_counter() - begun
    finally:
        for process in started:
            process.kill()
            process.communicate()


@asynccontextmanager
async def hosting(servers: int, more: list[str]) -> AsyncIterator[Any]:
    """Yield a Host with this many servers, whose context is not entered yet, and the names of the servers."""
    from mcphost.cli.server_session_opener import LazySessionOpener
    from mcphost.config.schema import HostConfig, ServerConfig
    from mcphost.host.bootstrap import build_host
    from mcphost.host.questions.frontend import RefusingFrontend
    from mcphost.store.database import Database
    from mcphost.store.grants import GrantStore

    entries = tuple(
        ServerConfig(name=f"s{number}", command=SERVER[0], args=(*SERVER[1:], *more), source="flag")
        for number in range(servers)
    )
    with tempfile.TemporaryDirectory() as folder:
        database = Database(Path(folder, "store.db"))
        opener = LazySessionOpener(HostConfig().limits, GrantStore(database))
        config = HostConfig(servers=entries)
        host = build_host(
            config,
            store=database,
            opener=opener,
            model_factory=lambda _: None,  # type: ignore[arg-type]
            frontend=RefusingFrontend(),
        )
        yield host, [entry.name for entry in entries]
        await opener.close()
        await database.close()


async def ready(count: int, more: list[str]) -> float:
    """Return the seconds from entering the context of a Host until all of its servers are ready."""
    async with hosting(count, more) as (host, names):
        begun = time.perf_counter()
        async with host:
            host.start()  # all at once, as the chat does; asking for one after another would start one after another
            for name in names:
                assert (await host.servers.ensure_ready(name)).catalog.tools
            return time.perf_counter() - begun


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--servers", type=int, default=10)
    parser.add_argument("--ratios", default="", help="write the ratios to this file, as JSON")
    options = parser.parse_args()
    anyio.run(ready, 1, [])  # whatever is imported on the way is imported now
    floors, ours, silent = [], [], []
    for _ in range(options.rounds):
        floors.append(floor(options.servers))
        ours.append(anyio.run(ready, options.servers, []))
        silent.append(anyio.run(ready, 1, ["--silent"]))
    ratio = statistics.median(one / least for one, least in zip(ours, floors, strict=True))
    waited = min(silent)  # load only adds
    print(
        f"{options.servers} servers: ready in {statistics.median(ours):.3f} s, floor {statistics.median(floors):.3f} s"
    )
    found = {"ten servers ready": ratio, "seconds until a server silent on server/discover is ready": waited}
    return bounds.report("connecting", found, file=options.ratios)


if __name__ == "__main__":
    sys.exit(main())
