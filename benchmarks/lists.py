"""Compare the CPU time and memory of `tools/list` with 10,000 tools in mcphost and in the official `mcp` SDK.

uv run python -m benchmarks.lists [--rounds N] [--tools N]

Each client runs in its own process. The CPU time is that of the best round, because load can only add CPU time: a
processor shared with other programs took 40 ms to 75 ms for the same list within a minute. The memory is the median
growth of the process while it holds the list.
"""

# pyright: basic

import argparse
import asyncio
import gc
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil

from benchmarks import bounds

HERE = Path(__file__).resolve().parent
ECHO = str(HERE / "echo_server.py")
MIN_ROUNDS = 10


async def ours(tools: int) -> Any:
    from benchmarks.calls import opened
    from mcphost.client.pagination import list_tools

    async with opened(["stdio", str(tools)]) as session:
        return await measured(lambda: list_tools(session), lambda kept: len(kept.entries))


async def sdk(tools: int) -> Any:
    from mcp.client import Client
    from mcp.client.stdio import StdioServerParameters

    where = StdioServerParameters(command=sys.executable, args=["-S", "-E", ECHO, "stdio", str(tools)])
    async with Client(where, mode="2026-07-28", cache=None) as client:
        return await measured(client.list_tools, lambda kept: len(kept.tools))


async def measured(work: Any, count: Any) -> dict[str, float]:
    gc.collect()
    process = psutil.Process()
    memory, cpu, wall = process.memory_info().rss, time.process_time(), time.perf_counter()
    kept = await work()
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    gc.collect()
    return {"cpu": cpu, "wall": wall, "memory": process.memory_info().rss - memory, "count": count(kept)}


CONTENDERS = {"mcphost": ours, "mcp SDK": sdk}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3, help=f"fewest; at least {MIN_ROUNDS} are run")
    parser.add_argument("--tools", type=int, default=10_000)
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    parser.add_argument("--ratios", default="", help="write the ratios to this file, as JSON")
    options = parser.parse_args()
    if options.worker:
        print(json.dumps(asyncio.run(CONTENDERS[options.worker](options.tools))))
        return 0
    rows: dict[str, list[dict[str, float]]] = {name: [] for name in CONTENDERS}
    for _ in range(max(options.rounds, MIN_ROUNDS)):
        for name, found in rows.items():
            command = [sys.executable, "-m", "benchmarks.lists", "--worker", name, "--tools", str(options.tools)]
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=120, cwd=HERE.parent, check=True)
            found.append(json.loads(done.stdout))
    middle = {
        name: {what: statistics.median(row[what] for row in found) for what in found[0]} for name, found in rows.items()
    }
    for name, found in rows.items():
        middle[name]["cpu"] = min(row["cpu"] for row in found)
    for name, row in middle.items():
        cpu, memory = 1e3 * row["cpu"], row["memory"] / 1e6
        print(f"{name:8} {row['count']:>8,.0f} tools  CPU {cpu:>8.1f} ms  memory {memory:>7.1f} MB")
    we, they = middle["mcphost"], middle["mcp SDK"]
    found = {
        "10,000 tools, CPU": they["cpu"] / we["cpu"],
        "10,000 tools, memory": they["memory"] / max(1, we["memory"]),
    }
    return bounds.report("lists", found, file=options.ratios)


if __name__ == "__main__":
    sys.exit(main())
