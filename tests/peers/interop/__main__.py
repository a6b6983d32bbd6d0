"""Run the interop matrix (all peers, transports and start delays) and print a table.

Usage: uv run python -m tests.peers.interop [--only WORDS] [--jobs N] [--write]. At most five combinations with failed
probes are tried again, one by one. With --write, the result of the whole matrix is also written to docs/interop.md. The
exit status is 1 if a probe failed unexpectedly.
"""

import argparse
import logging
import os
import sys
from datetime import UTC, datetime

import anyio
import anyio.to_thread

from tests.peers import node
from tests.peers.interop import probes, result_page
from tests.peers.interop.peers import Cell, all_cells

# A peer without a bytecode cache compiles a whole library at each start, which takes longer than a server may.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
MAX_REPEATED = 5
"""How many combinations with failed probes may be tried once more, because the machine may have been busy."""

WIDTH = max(len(str(cell)) for cell in all_cells()) + 2


async def run_matrix(chosen: list[Cell], jobs: int) -> dict[Cell, list[probes.ProbeOutcome] | str]:
    """Run the probes of each combination, *jobs* at a time.

    Return the outcomes of each combination, or the reason why its peer cannot be installed.
    """
    found: dict[Cell, list[probes.ProbeOutcome] | str] = {}
    turns = anyio.Semaphore(jobs)

    async def one(cell: Cell) -> None:
        async with turns:
            try:
                await anyio.to_thread.run_sync(cell.peer.command, cell.transport, cell.delay)  # installs it
                found[cell] = await probes.run(cell)
            except node.PeersMissing as error:
                found[cell] = str(error)
            print_row(cell, found[cell])

    async with anyio.create_task_group() as tasks:
        for cell in chosen:
            tasks.start_soon(one, cell)
    return found


def print_row(cell: Cell, outcomes: list[probes.ProbeOutcome] | str) -> None:
    """Print the table row of one combination, followed by the errors of its failed probes."""
    if isinstance(outcomes, str):
        print(f"{cell!s:<{WIDTH}} missing: {outcomes}", flush=True)
        return
    by_name = {outcome.probe: outcome for outcome in outcomes}
    marks = [_outcome_mark(by_name[name]) if name in by_name else "" for name in probes.ALL]
    print(
        f"{cell!s:<{WIDTH}}"
        + "".join(f"{text:<{len(name) + 1}}" for text, name in zip(marks, COLUMN_TITLES, strict=True))
    )
    for outcome in outcomes:
        if not outcome.is_good:
            print(f"    {outcome.probe}: {outcome.fault or 'it works now'}")
    sys.stdout.flush()


def _is_good(outcomes: list[probes.ProbeOutcome] | str) -> bool:
    return not isinstance(outcomes, str) and all(outcome.is_good for outcome in outcomes)


def _outcome_mark(outcome: probes.ProbeOutcome) -> str:
    """Return the mark that stands for an outcome in the table."""
    if not outcome.is_good:
        return "FAIL" if outcome.fault else "WORKS"
    if outcome.limit is not None:
        return "limit"
    return outcome.note.split(" ")[0] if outcome.probe == "list changes" else "ok"


COLUMN_TITLES = [name if len(name) > 5 else f"{name:<5}" for name in probes.ALL]


def main() -> int:
    parser = argparse.ArgumentParser(description="Probes every peer of the interop matrix.")
    parser.add_argument("--only", default="", help="cells whose name contains this")
    parser.add_argument("--jobs", type=int, default=2, help="how many at the same time")
    parser.add_argument("--write", action="store_true", help="write the result to docs/interop.md")
    options = parser.parse_args()
    if options.write and options.only:
        parser.error("--write needs the whole matrix, without --only")
    logging.getLogger("mcphost").addHandler(logging.NullHandler())  # or it prints what the peers wrote to stderr
    chosen = [cell for cell in all_cells() if options.only.lower() in str(cell).lower()]
    print(f"{'':<{WIDTH}}" + "".join(f"{name:<{len(name) + 1}}" for name in COLUMN_TITLES), flush=True)
    found = anyio.run(run_matrix, chosen, options.jobs)
    doubtful = [cell for cell in chosen if not _is_good(found[cell])]
    if 0 < len(doubtful) <= MAX_REPEATED:
        print("once more, alone:", flush=True)
        found |= anyio.run(run_matrix, doubtful, 1)
    if options.write:
        ordered = {cell: found[cell] for cell in chosen}
        repeated = len(doubtful) if len(doubtful) <= MAX_REPEATED else 0
        page = result_page.render_page(ordered, datetime.now(UTC).date().isoformat(), repeated)
        result_page.PAGE.write_text(page, encoding="utf-8")
    missing = [cell for cell, outcomes in found.items() if isinstance(outcomes, str)]
    tried = [
        (cell, outcome) for cell, outcomes in found.items() if not isinstance(outcomes, str) for outcome in outcomes
    ]
    failed = [one for _, one in tried if not one.is_good]
    limits = {(cell.peer.name, one.probe, one.limit.reason) for cell, one in tried if one.limit}
    for name, probe, reason in sorted(limits):
        print(f"limit: {name}, {probe}: {reason}")
    print(f"{len(found)} cells, {len(failed)} probes failed, {len(missing)} peers missing")
    return int(bool(failed or missing))


if __name__ == "__main__":
    sys.exit(main())
