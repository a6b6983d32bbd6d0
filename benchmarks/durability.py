"""Kill real programs and damage their files: no acknowledged message may be lost, and every loss is reported.

uv run python -m benchmarks.durability [--kills N] [--damages N] [--seed N] [--record FILE] [--seconds N]

Runs tests/chaos/kill_conversation.py and tests/chaos/damage_files.py in blocks, each with its own seed, which is
printed. With --record, finished blocks are written to FILE and are not repeated by the next run, so that a run of some
hours can be done in parts: --seconds ends a part. Exits with 1 if a message was lost, a command crashed or a loss was
not reported.
"""

# pyright: basic

import argparse
import json
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from tests.chaos import damage_files, kill_conversation

ROUNDS = {"kills": kill_conversation.run_rounds, "damages": damage_files.run_rounds}
PER_BLOCK = {"kills": 25, "damages": 20}


def main() -> int:
    """Run the blocks that are missing in the record, and print the totals of all blocks."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.durability", description=str(__doc__).splitlines()[0])
    parser.add_argument("--kills", type=int, default=1_000)
    parser.add_argument("--damages", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1, help="of the first block; the next block has the next number")
    parser.add_argument("--record", type=Path, help="file of the finished blocks, one line of JSON for each")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no block after that time")
    options = parser.parse_args()
    finished = read_record(options.record)
    known = {(block["what"], block["seed"]) for block in finished}
    began = time.monotonic()
    for what, seed, count in plan({"kills": options.kills, "damages": options.damages}, options.seed):
        if (what, seed) in known or time.monotonic() - began > options.seconds:
            continue
        block = run_block(what, seed, count)
        print(json.dumps(block), flush=True)
        finished.append(block)
        if options.record:
            with options.record.open("a") as file:
                file.write(json.dumps(block) + "\n")
    return report(finished, {"kills": options.kills, "damages": options.damages})


def read_record(file: Path | None) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()] if file and file.exists() else []


def plan(counts: dict[str, int], seed: int) -> list[tuple[str, int, int]]:
    """Return the blocks as kind, seed and number of rounds."""
    return [
        (what, seed + at // PER_BLOCK[what], min(PER_BLOCK[what], count - at))
        for what, count in counts.items()
        for at in range(0, count, PER_BLOCK[what])
    ]


def run_block(what: str, seed: int, count: int) -> dict[str, Any]:
    began = time.monotonic()
    block: dict[str, Any] = {"what": what, "seed": seed, "rounds": count}
    with tempfile.TemporaryDirectory() as folder:
        try:
            block["found"] = ROUNDS[what](Path(folder), count, seed)
        except AssertionError as error:
            block["failure"] = str(error)
    return {**block, "seconds": round(time.monotonic() - began)}


def report(finished: list[dict[str, Any]], wanted: dict[str, int]) -> int:
    """Print the totals of each kind; return 1 if a block failed."""
    failures = [block for block in finished if "failure" in block]
    for what, rounds_wanted in wanted.items():
        blocks = [block for block in finished if block["what"] == what and "found" in block]
        found = Counter[str]()
        for block in blocks:
            found.update(block["found"])
        seeds = [block["seed"] for block in blocks]
        rounds, seconds = sum(block["rounds"] for block in blocks), sum(block["seconds"] for block in blocks)
        if blocks:
            facts = ", ".join(f"{count:,} {name}" for name, count in found.items())
            print(f"{rounds:,} of {rounds_wanted:,} {what}, seeds {min(seeds)} to {max(seeds)}, {seconds:,} s: {facts}")
    for block in failures:
        print(f"FAILED: {block['what']}, seed {block['seed']}: {block['failure']}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
