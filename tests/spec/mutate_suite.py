"""Check the requirements claimed for cases of the official suite: `uv run python -m tests.spec.mutate_suite [--id ID]`.

A claim in `tests/conformance/claims.py` is valid if the case fails with one of the requirement's mutations. The program
prints each invalid claim, and exits with 1 if there is one. It takes several minutes.
"""

import argparse
import sys
import tempfile
from pathlib import Path

from tests.spec.manifest import suite_claims
from tests.spec.mutate import MutationRunner, copy_project, mutations


def unproved_cases(ident: str, cases: dict[str, str], judge: MutationRunner) -> list[str]:
    """Return the cases, with their revisions, that do not fail with any mutation of the requirement."""
    left = dict(cases)
    for mutation in (mutation for mutation in mutations() if mutation.id == ident):
        tried = [case for case, revision in left.items() if not mutation.revisions or revision in mutation.revisions]
        if tried:
            failed = judge.run(mutation, tried, every=True).failed
            left = {case: revision for case, revision in left.items() if case not in failed}
    return list(left)


def main(arguments: list[str]) -> int:
    """Run the command line; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.spec.mutate_suite", description=__doc__)
    parser.add_argument("--id", action="append", default=[])
    args = parser.parse_args(arguments)
    claimed: dict[str, dict[str, str]] = {}
    for ident, claim in suite_claims():
        if not args.id or ident in args.id:
            claimed.setdefault(ident, {})[f"tests/{claim.file}::{claim.test}"] = claim.revisions[0]
    failures = 0
    with tempfile.TemporaryDirectory(prefix="mcphost-mutation-") as folder:
        copy_project(Path(folder))
        with MutationRunner(Path(folder)) as judge:
            for ident, cases in claimed.items():
                left = unproved_cases(ident, cases, judge)
                failures += len(left)
                print(f"{'proved' if not left else f'passes all the same: {left}'}: {ident} ({len(cases)})", flush=True)
    return 1 if failures else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
