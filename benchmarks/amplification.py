"""Cost of hostile input: peak memory, CPU time and the longest event-loop stall of each entry point, against bounds.

uv run python -m benchmarks.amplification [--only TEXT] [--list] [--markdown] [--jobs N]

If bounds are broken, prints their names and exits with status 1. Each case runs in its own process. A case that exceeds
its bound is measured again on its own, up to four times, and the lowest figures are used, because a busy machine can
only add CPU time. Cases register themselves:

    @case("a batch in a revision without batches", size=10 * MB)
    async def batch(meter: Meter, size: int) -> None:
        line = b"[" + b",".join([b"{}"] * (size // 3)) + b"]"   # made before measuring begins
        with meter.measuring(len(line)):
            read(line)                                           # a McpHostError counts as "refused"

They may be in any module `benchmarks.amplification_NAME`; all of these modules are loaded. The code to be measured must
be imported inside the function.
"""

# pyright: basic

import argparse
import asyncio
import contextlib
import ctypes
import gc
import importlib
import json
import os
import pkgutil
import resource
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path

HERE = Path(__file__).resolve().parent
MB = 1_000_000
MEMORY_FACTOR = 12
MEMORY_FIXED = 30 * MB
CPU_PER_BYTE = 0.1 / MB
CPU_FIXED = 0.05  # what a case costs without any input: the beats, the loop's start
STALL = 0.050
REPEATS = 4
CASE_SECONDS = 100
ADDRESS_SPACE = 8 * 1024 * MB
_BEAT = 0.002


@dataclass(frozen=True)
class Figures:
    """The measured cost of one case, in bytes and seconds."""

    size: int
    memory: int
    cpu: float
    stall: float
    outcome: str

    @property
    def ratios(self) -> dict[str, float]:
        """The cost relative to each bound; a ratio over 1 means that the bound is broken."""
        return {
            "memory": self.memory / (MEMORY_FACTOR * self.size + MEMORY_FIXED),
            "CPU": self.cpu / (CPU_PER_BYTE * self.size + CPU_FIXED),
            "stall": self.stall / STALL,
        }

    @property
    def broken(self) -> str:
        """The names of the broken bounds, or "" if no bound is broken."""
        return ", ".join(what for what, ratio in self.ratios.items() if ratio > 1)


Entry = Callable[["Meter", int], Awaitable[None]]


@dataclass(frozen=True)
class Case:
    """A benchmark case: one kind of untrusted input for one entry point of mcphost."""

    name: str
    size: int
    entry: Entry


CASES: dict[str, Case] = {}


def case(name: str, *, size: int) -> Callable[[Entry], Entry]:
    """Register the decorated function as a case; *size* is the approximate number of bytes that it processes."""

    def register(entry: Entry) -> Entry:
        if name in CASES:
            raise ValueError(f"two cases are named {name!r}")
        CASES[name] = Case(name, size, entry)
        return entry

    return register


class Meter:
    """Meter that measures the cost of one block of code in a case."""

    def __init__(self) -> None:
        self.figures: Figures | None = None

    @contextlib.contextmanager
    def measuring(self, size: int) -> Generator[None]:
        """Measure the cost of the `with` block, which processes *size* bytes.

        A McpHostError ends the block and counts as "refused". Results should stay referenced until the block ends, so
        that the memory they occupy is measured too.
        """
        from mcphost.errors import McpHostError

        beat = _Heartbeat()
        _tidy()
        base = _status("VmRSS")
        _reset_peak()
        outcome = "read"
        cpu = time.process_time()
        beat.start()
        try:
            yield
        except McpHostError as error:
            outcome = f"refused: {error}"
        finally:
            beat.stop()
        cpu = time.process_time() - cpu
        memory = max(0, _status("VmHWM") - base)
        self.figures = Figures(size, memory, cpu, beat.longest, outcome)


class _Heartbeat:
    """Timer that measures the longest event-loop stall, in CPU time of this process only.

    A thread that holds the interpreter lock stalls the loop as well, and its CPU time is part of the process's CPU
    time.
    """

    def __init__(self) -> None:
        self.longest = 0.0
        self._loop = asyncio.get_running_loop()
        self._handle: asyncio.TimerHandle | None = None
        self._wall = self._cpu = 0.0

    def start(self) -> None:
        self._wall, self._cpu = time.perf_counter(), time.process_time()
        self._handle = self._loop.call_later(_BEAT, self._beat)

    def stop(self) -> None:
        self._look()
        if self._handle is not None:
            self._handle.cancel()

    def _beat(self) -> None:
        self._look()
        self._handle = self._loop.call_later(_BEAT, self._beat)

    def _look(self) -> None:
        wall, cpu = time.perf_counter(), time.process_time()
        self.longest = max(self.longest, min(wall - self._wall, cpu - self._cpu))
        self._wall, self._cpu = wall, cpu


def _tidy() -> None:
    """Return freed memory to the system, so that memory used to prepare the input does not hide a peak."""
    gc.collect()
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def _status(field: str) -> int:
    text = Path("/proc/self/status").read_text()
    return int(text.partition(field + ":")[2].split()[0]) * 1024


def _reset_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5")


def _load() -> None:
    for module in pkgutil.iter_modules([str(HERE)]):
        if module.name.startswith("amplification_"):
            importlib.import_module(f"benchmarks.{module.name}")


async def _run(case: Case) -> Figures:
    meter = Meter()
    await case.entry(meter, case.size)
    if meter.figures is None:
        raise RuntimeError(f"{case.name!r} measured nothing")
    return meter.figures


def _lowest(name: str, found: Figures | str) -> Figures | str:
    """Measure a case that exceeds a bound again; return the lowest value of each figure."""
    for _ in range(REPEATS):
        if isinstance(found, Figures) and not found.broken:
            break
        again = _measured(name)
        if isinstance(found, Figures) and isinstance(again, Figures):
            lowest = {what: min(getattr(found, what), getattr(again, what)) for what in ("memory", "cpu", "stall")}
            found = replace(again, **lowest)
        elif isinstance(again, Figures):
            found = again
    return found


def _measured(name: str) -> Figures | str:
    """Measure a case in a separate process; return its figures, or an error message if it failed."""
    command = [sys.executable, "-m", "benchmarks.amplification", "--worker", name]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=CASE_SECONDS, cwd=HERE.parent)
    except subprocess.TimeoutExpired:
        return f"not over after {CASE_SECONDS} s"
    if done.returncode:
        return f"failed: {(done.stderr.strip().splitlines() or ['no output'])[-1][:200]}"
    return Figures(**json.loads(done.stdout.splitlines()[-1]))


def _row(name: str, found: Figures | str, *, markdown: bool) -> str:
    if isinstance(found, str):
        return f"| {name} | {found} | | | | | |" if markdown else f"{name:<60} {found}"
    ratios = found.ratios
    if markdown:
        what = f"over: {found.broken}" if found.broken else found.outcome.partition(":")[0]
        return (
            f"| {name} | {found.size / MB:.1f} MB | {found.memory / MB:.0f} MB | {ratios['memory']:.2f} "
            f"| {found.cpu:.2f} s | {ratios['CPU']:.2f} | {found.stall * 1e3:.0f} ms | {what} |"
        )
    verdict = f"OVER {found.broken}" if found.broken else "ok"
    return (
        f"{name:<60} {found.size / MB:>6.1f} MB  {found.memory / MB:>7.1f} MB {ratios['memory']:>5.2f}"
        f"  {found.cpu:>6.2f} s {ratios['CPU']:>5.2f}  {found.stall * 1e3:>6.0f} ms  {verdict:<18} "
        f"{found.outcome[:100]}"
    )


def main() -> int:
    """Measure the cases selected on the command line; return 1 if a bound is broken."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", default="", help="cases whose name contains this")
    parser.add_argument("--list", action="store_true", help="print the names")
    parser.add_argument("--markdown", action="store_true", help="print the table of benchmarks/amplification.md")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="cases measured at the same time")
    options = parser.parse_args()
    _load()
    if options.worker:
        resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
        print(json.dumps(asdict(asyncio.run(_run(CASES[options.worker])))))
        return 0
    names = [name for name in CASES if options.only.lower() in name.lower()]
    if options.list:
        print(*names, sep="\n")
        return 0
    if options.markdown:
        print("| input | fed | memory | of bound | CPU | of bound | longest stall | outcome |")
        print("|---|---|---|---|---|---|---|---|")
    with ThreadPoolExecutor(options.jobs) as pool:
        first = list(pool.map(_measured, names))
    broken: list[str] = []
    for name, found in zip(names, first, strict=True):
        found = _lowest(name, found)  # noqa: PLW2901 - nothing else runs beside it now
        if isinstance(found, str) or found.broken:
            broken.append(f"{name}: {found if isinstance(found, str) else found.broken}")
        print(_row(name, found, markdown=options.markdown), flush=True)
    print(f"{len(names)} cases, {len(broken)} over a bound", *broken, sep="\n", file=sys.stderr)
    return 1 if broken else 0


if __name__ == "__main__":
    # Cases register in the imported module, which is not the one that runs as a script.
    from benchmarks.amplification import main as registered_main

    sys.exit(registered_main())
