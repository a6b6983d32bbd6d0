"""Repeat tests under load to reveal race conditions: `uv run python -m tests.repeat_under_load TEST...`.

`--times N` sets the number of runs (50 by default). The program exits with 1 if a run failed, and prints the end of the
first failure.
"""

import argparse
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

BUSY_LOOP = "while True: pass"


@contextmanager
def busy_cores(cores: int) -> Iterator[None]:
    """Keep as many processes busy as *cores* says, until the block ends."""
    started = [subprocess.Popen([sys.executable, "-c", BUSY_LOOP]) for _ in range(cores)]
    try:
        yield
    finally:
        for process in started:
            process.kill()
            process.wait()


def run_once(tests: list[str]) -> str | None:
    """Run the tests one after another; return the output if one fails, otherwise None."""
    command = [sys.executable, "-m", "pytest", "-n", "0", "-q", *tests]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return done.stdout if done.returncode else None


def main(arguments: list[str]) -> int:
    """Run the command line; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.repeat_under_load", description=__doc__)
    parser.add_argument("tests", nargs="+", metavar="TEST")
    parser.add_argument("--times", type=int, default=50)
    args = parser.parse_args(arguments)
    failures: list[str] = []
    with busy_cores(os.cpu_count() or 1):
        for number in range(1, args.times + 1):
            output = run_once(args.tests)
            if output is not None:
                failures.append(output)
            print(f"\r{number} of {args.times}, {len(failures)} failed", end="", flush=True)
    print()
    if failures:
        print(failures[0][-6_000:])
    return 1 if failures else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
