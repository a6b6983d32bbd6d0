"""Break one requirement at a time in the code, and check that its tests fail: `python -m tests.spec.mutate`.

`mutations/AREA.toml` has a table `[["id"]]` for each MUST requirement, and for each claimed requirement in the areas of
mcphost itself, with `file`, `find` (a text that occurs exactly once), `replace` and, if each revision needs its own
mutation, `revisions`. The tests that claim the requirement run on a copy of the project with this one change. The
mutation is killed if one of them fails. The program prints each verdict and the share of killed mutations; it exits
with 1 if the share is below GOAL.

`--area A` and `--id ID` select requirements. `--jobs N` runs N mutations at a time. `--every` also prints the claiming
tests that pass with the mutation, because they prove another part of the requirement, or none. For the cases of the
official suite, use `tests.spec.mutate_suite`.
"""

import argparse
import itertools
import os
import queue
import shutil
import subprocess
import sys
import tempfile
import threading
import tomllib
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Literal, NamedTuple, Self

from tests.architecture.source_tree import ROOT
from tests.spec.manifest import Claim, ManifestEntry, manifest
from tests.spec.pytest_fork_server import PytestForkServer

MUTATIONS = Path(__file__).parent / "mutations"
KILL_GOAL = 0.97
HOST_AREAS = ("llm", "marketplace")
"""Areas about the host rather than the protocol; few of their rows are MUST, so every claimed one is broken."""

RUN_TIMEOUT = 300
"""For all tests of one mutation."""
TEST_TIMEOUT = 60
SLOW = ("peers/test_survey", "conformance/", "terminal/", "packaging/", "chaos/")
"""Tests that start whole programs of others; they run only where no other test bears the mark."""

Verdict = Literal["killed", "survived", "broken"]
_VERDICTS: dict[int, Verdict] = {0: "survived", 1: "killed"}


class Mutation(NamedTuple):
    """A code change that breaks one requirement, for `revisions` or, if empty, for all of its revisions."""

    id: str
    file: str
    find: str
    replace: str
    revisions: tuple[str, ...] = ()

    def is_applicable(self) -> bool:
        """Return whether the text to replace occurs in the file exactly once."""
        path = ROOT / self.file
        return path.exists() and path.read_text(encoding="utf-8").count(self.find) == 1


class MutationResult(NamedTuple):
    """The result of a mutation: the verdict, pytest's output, and the tests that failed."""

    verdict: Verdict
    output: str = ""
    failed: tuple[str, ...] = ()


@cache
def mutations() -> tuple[Mutation, ...]:
    """Return all mutations, in the order of the files and of the tables in them."""
    found: list[Mutation] = []
    for path in sorted(MUTATIONS.glob("*.toml")):
        for ident, tables in tomllib.loads(path.read_text(encoding="utf-8")).items():
            for table in tables:
                revisions = tuple(table.pop("revisions", ()))
                found.append(Mutation(ident, revisions=revisions, **table))
    return tuple(found)


def select_tests(entry: ManifestEntry, revisions: Iterable[str] = ()) -> list[str]:
    """Return pytest arguments for the tests that claim the requirement, without slow tests if there are others."""
    claims: list[Claim] = []
    for revision in revisions or entry.row.applicable_revisions:
        claims += [claim for claim in entry.tests[revision] if claim not in claims]
    fast = [claim for claim in claims if not claim.file.startswith(SLOW)]
    files = [claim.file for claim in fast or claims if claim.test == "*"]
    names = [f"{claim.file}::{claim.test}" for claim in fast or claims if claim.file not in files]
    return sorted({f"tests/{name}" for name in [*files, *names]})


def copy_project(target: Path) -> None:
    """Copy everything that the tests need, except the virtual environment, to *target*."""
    for name in ("mcphost", "tests", "themes", "docs", "benchmarks"):
        shutil.copytree(ROOT / name, target / name, ignore=shutil.ignore_patterns("__pycache__", "node_modules"))
    for name in ("pyproject.toml", "README.md", "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE"):
        shutil.copy(ROOT / name, target / name)


class MutationRunner:
    """A context manager that runs mutations, one after another, on a copy of the project."""

    def __init__(self, project: Path) -> None:
        self._project = project
        self._server = PytestForkServer(project)
        self._timestamps = itertools.count(1_000_000_000, 10)

    def __enter__(self) -> Self:
        self._server.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._server.__exit__(*error)

    def run(self, mutation: Mutation, tests: list[str], *, every: bool = False) -> MutationResult:
        """Apply a mutation, run the tests, and undo it; the verdict `broken` means that pytest could not run them.

        With *every*, the run does not stop at the first failure.
        """
        path = self._project / mutation.file
        before, moment = path.read_text(encoding="utf-8"), path.stat().st_mtime
        path.write_text(before.replace(mutation.find, mutation.replace), encoding="utf-8")
        # Python recognizes stale bytecode by time and size: each version gets its own time.
        self._set_timestamp(path, next(self._timestamps))
        try:
            return self._run(tests, every=every)
        finally:
            path.write_text(before, encoding="utf-8")
            self._set_timestamp(path, moment)

    def _run(self, tests: list[str], *, every: bool) -> MutationResult:
        """Run the tests in two steps, unit tests first, because they are the fastest and one failure is enough."""
        units = [test for test in tests if test.startswith("tests/unit/")]
        rest = [test for test in tests if test not in units]
        judgement = MutationResult("broken")
        for group in (units, rest):
            if group and (every or judgement.verdict != "killed"):
                options = ["-n", "0", "-q", "--no-header", "--timeout", str(TEST_TIMEOUT), *([] if every else ["-x"])]
                done = self._server.run([*options, *group], RUN_TIMEOUT)
                # A mutation may break more than a test, such as pytest's own process.
                verdict = "killed" if done.failed else _VERDICTS.get(done.code, "broken")
                if verdict == "broken":
                    return MutationResult(verdict, done.output)
                killed = "killed" in (verdict, judgement.verdict)
                failed = (*judgement.failed, *done.failed)
                judgement = MutationResult("killed" if killed else "survived", done.output, failed)
        return judgement

    def _set_timestamp(self, path: Path, moment: float) -> None:
        os.utime(path, (moment, moment))


def run_all(chosen: list[Mutation], jobs: int, *, every: bool = False) -> list[tuple[Mutation, MutationResult]]:
    """Run the tests on each mutation, *jobs* at a time, and print each verdict as soon as it is known."""
    entries = {entry.row.id: entry for entry in manifest()}
    waiting: queue.SimpleQueue[Mutation] = queue.SimpleQueue()
    for mutation in chosen:
        waiting.put(mutation)
    judged: list[tuple[Mutation, MutationResult]] = []

    def work() -> None:
        with tempfile.TemporaryDirectory(prefix="mcphost-mutation-") as folder:
            copy_project(Path(folder))
            with MutationRunner(Path(folder)) as judge:
                while True:
                    try:
                        mutation = waiting.get_nowait()
                    except queue.Empty:
                        return
                    tests = select_tests(entries[mutation.id], mutation.revisions)
                    judgement = judge.run(mutation, tests, every=every) if tests else MutationResult("survived")
                    judged.append((mutation, judgement))
                    report(mutation, judgement, tests, every=every)

    threads = [threading.Thread(target=work) for _ in range(jobs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return judged


def report(mutation: Mutation, judgement: MutationResult, tests: list[str], *, every: bool) -> None:
    """Print the verdict; with *every*, also print each claiming test that passes.

    If no test failed, the verdict lists the tests that claim the requirement.
    """
    verdict = judgement.verdict
    marked = "" if verdict == "killed" else f" ({' '.join(tests)})"
    print(f"{verdict}: {mutation.id} in {mutation.file}{marked}", flush=True)
    if verdict == "broken":
        print(judgement.output[-2_000:], flush=True)
    if every and verdict == "killed":
        for test in tests:
            if not any(name == test or name.startswith((f"{test}[", f"{test}::")) for name in judgement.failed):
                print(f"passes: {test} with {mutation.id} in {mutation.file}", flush=True)


def check_unmutated(chosen: list[Mutation]) -> bool:
    """Return whether the claiming tests pass on unchanged code, because otherwise their failures prove nothing."""
    entries = {entry.row.id: entry for entry in manifest()}
    tests = sorted({test for item in chosen for test in select_tests(entries[item.id], item.revisions)})
    done = subprocess.run([sys.executable, "-m", "pytest", "-q", "-n", "2", *tests], cwd=ROOT)
    return done.returncode == 0


def main(arguments: list[str]) -> int:
    """Run the command line; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.spec.mutate", description=__doc__)
    parser.add_argument("--area")
    parser.add_argument("--id", action="append", default=[])
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--every", action="store_true", help="also print the marked tests that pass with a mutation")
    parser.add_argument("--no-control", action="store_true", help="leave out the run on unchanged code")
    args = parser.parse_args(arguments)
    area = {entry.row.id: entry.row.area for entry in manifest()}
    chosen = [
        mutation
        for mutation in mutations()
        if args.area in (None, area[mutation.id]) and (not args.id or mutation.id in args.id)
    ]
    stale = [item.id for item in chosen if not item.is_applicable()]
    if stale or not chosen:
        print(f"not applicable: {', '.join(stale)}" if stale else "no such mutation")
        return 2
    if not args.no_control and not check_unmutated(chosen):
        print("the tests fail on unchanged code")
        return 2
    judged = run_all(chosen, args.jobs, every=args.every)
    killed = sum(judgement.verdict == "killed" for _, judgement in judged)
    print(f"{killed} of {len(chosen)} killed ({100 * killed / len(chosen):.1f} %)")
    return 0 if killed >= KILL_GOAL * len(chosen) else 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
