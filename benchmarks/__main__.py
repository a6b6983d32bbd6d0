"""Run all benchmarks and print the verdicts on all ratios; exit with status 1 if a bound is broken.

The last lines name the broken bounds, because long output of CI is cut in the middle; `.ci/run` repeats them.

uv run python -m benchmarks [NAME ...] [--rounds N] [--again N]
"""

# pyright: basic

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks import bounds

BUSY_LOAD = 2
"""Load for each processor above which wall times are not judged."""
DIVISIBLE = frozenset({"calls"})
"""Scripts that can measure only some of their ratios."""
ROOT = Path(__file__).resolve().parents[1]
HAS_OWN_BOUNDS = "amplification"  # its bounds are functions of the input's size


def main() -> int:
    """Run the benchmarks named on the command line, or all of them, one after another."""
    known = [*bounds.load(), HAS_OWN_BOUNDS]
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=str(__doc__).splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(known)}; without one: all")
    parser.add_argument("--rounds", type=int, default=5, help="fewest; a script whose ratios need more takes more")
    parser.add_argument(
        "--again",
        type=int,
        default=0,
        metavar="N",
        help="measure a script with a broken bound up to N times more; the best value of each ratio counts",
    )
    options = parser.parse_args()
    if unknown := sorted(set(options.names) - set(known)):
        parser.error(f"There is no benchmark {unknown[0]!r}. There are: {', '.join(known)}.")
    lines: list[str] = []
    broken: list[str] = []
    for name in options.names or known:
        found, wrong = run(name, options.rounds, options.again)
        lines += found
        broken += wrong
    print(f"\nload {os.getloadavg()[0]:.1f}", *lines, f"{len(lines)} bounds, {len(broken)} broken", sep="\n")
    print(*(f"broken bound: {one}" for one in broken), sep="\n", end="\n" if broken else "")
    return 1 if broken else 0


def run(name: str, rounds: int, again: int = 0) -> tuple[list[str], list[str]]:
    """Run one script in a separate process; return the lines of its last table and a line for each broken bound.

    While a bound is broken, the script is run again, up to *again* times: another program that runs for a moment makes
    one run slower, but a costly code change makes all runs slower.
    """
    print(f"\n== {name}", flush=True)
    if name == HAS_OWN_BOUNDS:
        code = subprocess.run([sys.executable, "-m", f"benchmarks.{name}"], cwd=ROOT).returncode
        measured = "memory, CPU and stall of hostile input"
        line = f"{name:<10}  {measured:<58}  {'ok' if code == 0 else 'BROKEN'}"
        return [line], [f"{name}, {measured}"] if code else []
    is_busy = os.getloadavg()[0] > BUSY_LOAD * (os.cpu_count() or 1)
    ratios = _measured(name, rounds)
    while again and (broken := bounds.broken(name, ratios, is_busy=is_busy)):
        print(f"\n== {name}, once more: {', '.join(broken)}", flush=True)
        ratios = bounds.best(name, ratios, _measured(name, rounds, broken))
        again -= 1
    lines, _ = bounds.table(name, ratios, is_busy=is_busy)
    return lines, bounds.describe_broken(name, ratios, is_busy=is_busy)


def _measured(name: str, rounds: int, only: Sequence[str] = ()) -> dict[str, float]:
    """Run one script; return its ratios, or an empty dict if the script failed.

    Scripts that can measure only some ratios measure those in *only*.
    """
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "ratios.json")
        command = [sys.executable, "-m", f"benchmarks.{name}", "--rounds", str(rounds), "--ratios", str(file)]
        if only and name in DIVISIBLE:
            command += ["--only", *only]
        subprocess.run(command, cwd=ROOT)
        return json.loads(file.read_text()) if file.exists() else {}


if __name__ == "__main__":
    sys.exit(main())
