"""Run a fuzzer and print a report: `uv run python -m tests.fuzz lines|streams|http --count 1000000 --seed 1`."""

import argparse
import sys

from tests.fuzz import fuzz_http_parser, fuzz_http_streams, fuzz_stdio


def main() -> int:
    """Run the chosen fuzzer; return 0 if it found no fault, otherwise 1."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("what", choices=("lines", "streams", "http"))
    parser.add_argument("--count", type=int, default=10_000, help="how many mutated inputs")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="begin with this session, to repeat what was found in it")
    args = parser.parse_args()
    if args.what == "http":
        outcomes, differences = fuzz_http_parser.run(args.count, args.seed)
        print(*(f"{count:9,} {kind}" for kind, count in outcomes.most_common()), *differences, sep="\n")
        return 1 if differences else 0
    run = {"lines": fuzz_stdio.run, "streams": fuzz_http_streams.run}[args.what]
    report = run(args.count, args.seed, args.first)
    print(report.summary(args.what))
    return 1 if report.faults else 0


if __name__ == "__main__":
    sys.exit(main())
