"""Compare the CPU and wall time of tool calls in mcphost and in the official `mcp` SDK, in alternating rounds.

uv run python -m benchmarks.calls [--rounds N] [--transports stdio,json,sse] [--era stateless|handshake] [--quick]

Each client runs in its own process; the server is a bare loop that costs both clients the same. CPU time is that of the
client process alone. The CPU ratio compares the best rounds, because load can only add CPU time; the ratios of wall
times compare medians. A ratio above 1 means that mcphost needs less time.
"""

# pyright: basic

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks import bounds

if TYPE_CHECKING:
    from mcphost.client.session import Session

HERE = Path(__file__).resolve().parent
ECHO = str(HERE / "echo_server.py")
# size in bytes, calls in flight, calls
STDIO = [
    (100, 1, 2000),
    (100, 16, 3200),
    (100, 64, 3200),
    (1_000_000, 1, 20),
    *((mb * 1_000_000, 1, 1) for mb in (5, 50)),
]
HTTP = [(100, 1, 300), (100, 16, 960), (1_000_000, 1, 8), (15_000_000, 1, 1)]
BIG = 2_000_000  # above it a cell is measured once with the SDK, which needs 20 s for 50 MB
Call = Callable[[int], Awaitable[str]]


@asynccontextmanager
async def opened(words: list[str], era: str = "stateless", limit: int | None = None) -> "AsyncGenerator[Session]":
    """Open an mcphost session with the echo server: at a URL if *words* starts with one, else as a stdio server."""
    from mcphost.client.connect import ClientSessionOpener
    from mcphost.config.schema import ServerConfig
    from mcphost.transport.line_reader import MESSAGE_LIMIT
    from tests.unit.client.fakes import FakeRequestHandler, RecordingObserver

    if words[0].startswith("http:"):
        config = ServerConfig(name="echo", url=words[0], era=era)  # type: ignore[arg-type]
    else:
        config = ServerConfig(name="echo", command=sys.executable, args=("-S", "-E", ECHO, *words), era=era)  # type: ignore[arg-type]
    opener = ClientSessionOpener(message_limit=limit or MESSAGE_LIMIT)
    async with opener.open(config, FakeRequestHandler(), RecordingObserver()) as session:
        yield session


@asynccontextmanager
async def ours(target: str, era: str) -> AsyncGenerator[Call]:
    from mcphost.protocol.tools import CallTool

    # Fifty megabytes on a pipe are over the default limit; HTTP is measured as it comes.
    async with opened([target], era, 100_000_000 if target == "stdio" else None) as session:

        async def call(size: int) -> str:
            return (await session.request(CallTool("text", {"size": size}))).parse_blocks()[0].text  # type: ignore[union-attr]

        yield call


@asynccontextmanager
async def sdk(target: str, era: str) -> AsyncGenerator[Call]:
    from mcp.client import Client
    from mcp.client.stdio import StdioServerParameters

    where = (
        target
        if target.startswith("http")
        else StdioServerParameters(command=sys.executable, args=["-S", "-E", ECHO, "stdio"])
    )
    async with Client(where, mode="legacy" if era == "handshake" else "2026-07-28", cache=None) as client:

        async def call(size: int) -> str:
            return (await client.call_tool("text", {"size": size})).content[0].text  # type: ignore[union-attr]

        yield call


CONTENDERS: dict[str, Callable[[str, str], AbstractAsyncContextManager[Call]]] = {"mcphost": ours, "mcp SDK": sdk}


async def work(name: str, target: str, era: str, cells: list[list[int]]) -> None:
    for size, flight, count in cells:
        async with CONTENDERS[name](target, era) as call:
            if size < BIG:
                for _ in range(10):
                    await call(min(size, 1000))
            left = count
            times: list[float] = []

            async def one_after_another(call: Call = call, size: int = size) -> None:
                nonlocal left
                while left > 0:
                    left -= 1
                    begun = time.perf_counter()
                    assert len(await call(size)) == size
                    times.append(time.perf_counter() - begun)  # noqa: B023

            cpu, wall = time.process_time(), time.perf_counter()
            async with asyncio.TaskGroup() as group:
                for _ in range(flight):
                    group.create_task(one_after_another())
            cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
            p99 = sorted(times)[int(len(times) * 0.99)]
            row = {"cell": [size, flight], "cpu": cpu / count, "wall": wall / count, "p99": p99}
            print(json.dumps(row), flush=True)


def one_round(name: str, transport: str, era: str, cells: list[tuple[int, int, int]]) -> list[dict[str, Any]]:
    server = None
    target = "stdio"
    if transport != "stdio":
        more = ["--sse"] if transport == "sse" else []
        server = subprocess.Popen([sys.executable, "-S", "-E", ECHO, "http", *more], stdout=subprocess.PIPE, text=True)
        assert server.stdout is not None
        target = f"http://127.0.0.1:{int(server.stdout.readline())}/mcp"
    command = [sys.executable, "-m", "benchmarks.calls", "--worker", json.dumps([name, target, era, cells])]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=HERE.parent)
    finally:
        if server is not None:
            server.kill()
            server.communicate()
    if done.returncode:
        why = done.stderr.strip().splitlines()[-2:]
        print(f"  {name} over {transport}: {why}", file=sys.stderr)
    return [json.loads(line) for line in done.stdout.splitlines()]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--transports", default="stdio,json,sse")
    parser.add_argument("--era", choices=["stateless", "handshake"], default="stateless")
    parser.add_argument("--quick", action="store_true", help="small messages only")
    parser.add_argument("--only", nargs="+", metavar="RATIO", help="only what these ratios of bounds.toml need")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    parser.add_argument("--ratios", default="", help="write the ratios to this file, as JSON")
    options = parser.parse_args()
    if options.worker:
        asyncio.run(work(*json.loads(options.worker)))
        return 0
    ratios: dict[str, float] = {}
    print(f"{'':7}{'size':>11} {'in flight':>9}   {'CPU ms a call':^25} {'wall ms a call':^25}   ratio CPU, wall, p99")
    for transport in options.transports.split(","):
        cells = needed(transport, options.only)
        if options.quick:
            cells = [cell for cell in cells if cell[0] == 100]
        seen: dict[tuple[int, int], dict[str, list[dict[str, Any]]]] = {}
        for number in range(options.rounds if cells else 0):
            part = [cell for cell in cells if number == 0 or cell[0] < BIG]  # 50 MB once: the SDK needs 20 s
            for name in CONTENDERS:
                for row in one_round(name, transport, options.era, part):
                    seen.setdefault(tuple(row["cell"]), {}).setdefault(name, []).append(row)
        for cell, rows in seen.items():
            ratios |= report(transport, cell, rows)
        ratios |= linear(transport, seen)
    is_partial = options.quick or options.only is not None or options.transports != "stdio,json,sse"
    return bounds.report("calls", ratios, is_partial=is_partial, file=options.ratios)


def needed(transport: str, ratios: Sequence[str] | None) -> list[tuple[int, int, int]]:
    """Return the cells of a transport (bytes, calls in flight, calls) that the named ratios need; None needs all."""
    cells = STDIO if transport == "stdio" else HTTP
    if ratios is None:
        return cells
    names = [name.removeprefix(f"{transport} ") for name in ratios if name.startswith(f"{transport} ")]
    return [
        (size, flight, count)
        for size, flight, count in cells
        if any(name.startswith(f"{size:,} B, {flight} in") or (size > BIG and "a byte" in name) for name in names)
    ]


def middle(rows: list[dict[str, Any]], what: str) -> float:
    return statistics.median(row[what] for row in rows) if rows else float("nan")


def report(transport: str, cell: tuple[int, int], rows: dict[str, list[dict[str, Any]]]) -> dict[str, float]:
    """Print one row of the results and return its ratios, keyed by name, or {} if one of the clients failed."""
    if not rows.get("mcphost") or not rows.get("mcp SDK"):
        print(f"{transport:7}{cell[0]:>11,} {cell[1]:>9}   {'mcphost' if not rows.get('mcphost') else 'the SDK'} fails")
        return {}
    cpu = {name: min(row["cpu"] for row in rows[name]) for name in CONTENDERS}
    wall, p99 = ({name: middle(rows[name], what) for name in CONTENDERS} for what in ("wall", "p99"))
    ratios = {
        what: values["mcp SDK"] / values["mcphost"] for what, values in (("CPU", cpu), ("wall", wall), ("p99", p99))
    }
    print(
        f"{transport:7}{cell[0]:>11,} {cell[1]:>9}   {cpu['mcphost'] * 1e3:>11.3f}/{cpu['mcp SDK'] * 1e3:<13.3f}"
        f" {wall['mcphost'] * 1e3:>11.3f}/{wall['mcp SDK'] * 1e3:<13.3f}   "
        + " ".join(f"{ratio:6.1f}x" for ratio in ratios.values()),
        flush=True,
    )
    return {f"{transport} {cell[0]:,} B, {cell[1]} in flight, {what}": ratio for what, ratio in ratios.items()}


def linear(transport: str, seen: dict[tuple[int, int], dict[str, list[dict[str, Any]]]]) -> dict[str, float]:
    """Return how much more a byte costs mcphost in the largest response than in the smallest large one."""
    large = {cell[0]: middle(rows.get("mcphost", []), "cpu") / cell[0] for cell, rows in seen.items() if cell[0] > BIG}
    if len(large) < 2:
        return {}
    ratio = large[max(large)] / large[min(large)]
    print(f"a byte of {max(large):,} costs {ratio:.2f}x a byte of {min(large):,}", flush=True)
    return {f"{transport} {max(large) // 10**6} MB, a byte against one of {min(large) // 10**6} MB": ratio}


if __name__ == "__main__":
    sys.exit(main())
