"""The criteria for a fuzzing run: uncaught errors, elapsed time and memory growth."""

import asyncio
import resource
import secrets
import selectors
import time
import traceback
from collections import Counter
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

from tests.event_loop import run_in_new_thread

HANG_SECONDS = 1.0
GROWTH_LIMIT = 100 * 1024 * 1024


class SkippingSelector(selectors.DefaultSelector):
    """A selector that never waits, but advances the clock of its event loop to the next timer."""

    skipped = 0.0

    def select(self, timeout: float | None = None) -> list[Any]:
        ready = super().select(0)
        if ready or timeout == 0:
            return ready
        if timeout is None:
            return super().select(HANG_SECONDS)  # nothing is scheduled: only another thread can continue
        self.skipped += timeout
        return []


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """An event loop with virtual time, in which timers fire in order and without waiting."""

    def __init__(self) -> None:
        self.skipping = SkippingSelector()
        super().__init__(self.skipping)

    def time(self) -> float:
        """Return the loop's time, which includes the waits that were skipped."""
        return super().time() + self.skipping.skipped


@dataclass
class FuzzReport:
    """The results of a fuzzing run and the faults that it found."""

    seed: int
    inputs: int = 0
    sessions: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    slowest: float = 0.0
    seconds: float = 0.0
    memory_growth: int = 0

    def add_fault(self, where: str, what: str) -> None:
        """Record that something forbidden happened, and where."""
        if len(self.faults) < 20:
            self.faults.append(f"{where}: {what}")

    def add_duration(self, where: str, seconds: float) -> None:
        """Record how long one input took."""
        self.slowest = max(self.slowest, seconds)
        if seconds > HANG_SECONDS:
            self.add_fault(where, f"{seconds:.2f} s for one input")

    def summary(self, noun: str) -> str:
        """Return the report as text; *noun* names what was sent."""
        outcomes = ", ".join(f"{count:,} {name}" for name, count in self.outcomes.most_common())
        return "\n".join([
            f"{self.inputs:,} mutated {noun} in {self.sessions:,} sessions, seed {self.seed}: {self.seconds:.0f} s, "
            f"slowest {1000 * self.slowest:.1f} ms, memory grew by {self.memory_growth / 1e6:.0f} MB",
            f"  {outcomes}",
            *(f"FAULT {fault}" for fault in self.faults),
        ])  # fmt: skip


def peak_memory() -> int:
    """Return the highest memory use of this process so far, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def run_monitored(report: FuzzReport, work: Callable[[], Coroutine[Any, Any, None]]) -> FuzzReport:
    """Run a coroutine function on a VirtualTimeLoop, and report uncaught errors as faults."""

    async def main() -> None:
        loop = asyncio.get_running_loop()

        def unhandled(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
            report.add_fault("event loop", f"{context.get('message')}: {context.get('exception')!r}")

        loop.set_exception_handler(unhandled)
        await work()

    before, started = peak_memory(), time.perf_counter()
    try:
        # Request ids begin at random, and mutations contain them: the same seed must give the same lines.
        with patch.object(secrets, "randbelow", lambda most: 999):
            run_in_new_thread(main, backend_options={"loop_factory": VirtualTimeLoop})
    except Exception:  # noqa: BLE001 - the very thing this is about
        report.add_fault(f"run, after {report.sessions} sessions", traceback.format_exc())
    report.seconds = time.perf_counter() - started
    report.memory_growth = peak_memory() - before
    if report.memory_growth > GROWTH_LIMIT:
        report.add_fault("run", f"memory grew by {report.memory_growth / 1e6:.0f} MB")
    return report
