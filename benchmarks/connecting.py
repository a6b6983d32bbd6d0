"""Measure the time until ten stdio servers are ready, relative to starting ten processes and reading a line from each.

uv run python -m benchmarks.connecting [--rounds N] [--servers N]

A server is ready when the Host has received its list of tools. A server that never answers `server/discover` is
measured as well, because probing for the stateless protocol must not wait for a timeout.
"""

# pyright: basic

import argparse
import gc
import json
import resource
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

MIN_ROUNDS = 15
HERE = Path(__file__).resolve().parent
SERVER = [sys.executable, "-S", "-E", str(HERE / "echo_server.py"), "stdio", "50"]
HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "floor", "version": "1"}}


def floor(count: int) -> tuple[float, float]:
    """Return the seconds until each of *count* new server processes has printed a line, and the CPU time of all."""
    asked = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HELLO}).encode() + b"\n"
    cpu, begun = children_cpu(), time.perf_counter()
    # In sessions of their own, as mcphost starts them: Linux divides a busy machine by session.
    started = [
        subprocess.Popen(SERVER, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
        for _ in range(count)
    ]
    try:
        for process in started:
            assert process.stdin
            process.stdin.write(asked)
            process.stdin.flush()
        for process in started:
            assert process.stdout
            assert process.stdout.readline()
        wall = time.perf_counter() - begun
    finally:
        for process in started:
            process.kill()
            process.communicate()
    return wall, children_cpu() - cpu


def children_cpu() -> float:
    """Return the seconds of CPU time of all child processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


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
        await database.run(lambda db: None)  # only the first start of all creates the tables
        await database.close()
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


async def ready(count: int, more: list[str]) -> tuple[float, float]:
    """Return the seconds, and those of this program's CPU, from entering a Host until all of its servers are ready."""
    async with hosting(count, more) as (host, names):
        cpu, begun = time.process_time(), time.perf_counter()
        async with host:
            host.start()  # all at once, as the chat does; asking for one after another would start one after another
            for name in names:
                assert (await host.servers.ensure_ready(name)).catalog.tools
            return time.perf_counter() - begun, time.process_time() - cpu


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5, help=f"fewest; at least {MIN_ROUNDS} are run")
    parser.add_argument("--servers", type=int, default=10)
    parser.add_argument("--ratios", default="", help="write the ratios to this file, as JSON")
    options = parser.parse_args()
    anyio.run(ready, 1, [])  # whatever is imported on the way is imported now
    gc.collect()
    gc.freeze()  # as the chat does before its servers are ready
    floors: list[tuple[float, float]] = []
    ours: list[tuple[float, float]] = []
    silent: list[float] = []
    for number in range(max(options.rounds, MIN_ROUNDS)):
        if number % 2:
            ours.append(anyio.run(ready, options.servers, []))
        floors.append(floor(options.servers))
        if not number % 2:
            ours.append(anyio.run(ready, options.servers, []))
        if number < options.rounds:
            silent.append(anyio.run(ready, 1, ["--silent"])[0])
    ratio = statistics.median(one[0] / least[0] for one, least in zip(ours, floors, strict=True))
    we, they = min(cpu for _, cpu in ours), min(cpu for _, cpu in floors)
    waited = min(silent)  # load only adds
    middle = [statistics.median(wall for wall, _ in rows) for rows in (ours, floors)]
    print(f"{options.servers} servers: ready in {middle[0]:.3f} s, floor {middle[1]:.3f} s")
    print(f"CPU: mcphost {1e3 * we:.0f} ms, the processes of the floor {1e3 * they:.0f} ms")
    found = {
        "ten servers ready": ratio,
        "ten servers ready, CPU, of that of their processes": we / they,
        "seconds until a server silent on server/discover is ready": waited,
    }
    return bounds.report("connecting", found, file=options.ratios)


if __name__ == "__main__":
    sys.exit(main())
