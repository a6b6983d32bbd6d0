"""Every benchmark, and the verdicts on all ratios; exits with 1 when a bound is broken.

uv run python -m benchmarks [NAME ...] [--rounds N]
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks import bounds

ROOT = Path(__file__).resolve().parents[1]
HAS_OWN_BOUNDS = "amplification"  # its bounds are functions of the input's size


def main() -> int:
    """Run the named benchmarks, or all of them, one after another."""
    known = [*bounds.load(), HAS_OWN_BOUNDS]
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=str(__doc__).splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(known)}; without one: all")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    if unknown := sorted(set(options.names) - set(known)):
        parser.error(f"There is no benchmark {unknown[0]!r}. There are: {', '.join(known)}.")
    lines: list[str] = []
    broken = 0
    for name in options.names or known:
        found, count = run(name, options.rounds)
        lines += found
        broken += count
    print(f"\nload {os.getloadavg()[0]:.1f}", *lines, f"{len(lines)} bounds, {broken} broken", sep="\n")
    return 1 if broken else 0


def run(name: str, rounds: int) -> tuple[list[str], int]:
    """Run one script in a process of its own; return its lines of the last table and how many bounds are broken."""
    print(f"\n== {name}", flush=True)
    command = [sys.executable, "-m", f"benchmarks.{name}"]
    if name == HAS_OWN_BOUNDS:
        code = subprocess.run(command, cwd=ROOT).returncode
        return [f"{name:<10}  {'memory, CPU and stall of hostile input':<58}  {'ok' if code == 0 else 'BROKEN'}"], code
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "ratios.json")
        subprocess.run([*command, "--rounds", str(rounds), "--ratios", str(file)], cwd=ROOT)
        ratios = json.loads(file.read_text()) if file.exists() else {}
    return bounds.table(name, ratios)


if __name__ == "__main__":
    sys.exit(main())
