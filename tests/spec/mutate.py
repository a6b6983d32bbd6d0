"""Break one requirement at a time and see its tests fail: `uv run python -m tests.spec.mutate [--area A] [--id ID]`.

`mutations/AREA.toml` has a table for each MUST row: `[["id"]]` with `file`, `find`, `replace` and, for a row that needs
one for each revision, `revisions`. `find` stands in the file exactly once. The tests that bear the row's mark run
against a copy of the project with that one change; the mutation is killed when one of them fails. Prints the survivors
and the share of killed ones; exits 1 below GOAL. `--jobs N` runs N at a time.
"""

import argparse
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
from typing import Literal, NamedTuple

from tests.spec.manifest import Claim, Entry, manifest

ROOT = Path(__file__).resolve().parents[2]
FOLDER = Path(__file__).parent / "mutations"
GOAL = 0.97
SECONDS = 300
SLOW = ("peers/test_survey", "conformance/", "terminal/", "packaging/", "chaos/")
"""Tests that start whole programs of others; they run only where no other test bears the mark."""

Verdict = Literal["killed", "survived", "broken"]


class Mutation(NamedTuple):
    """One change of the code that breaks one requirement, at `revisions` or at all of its own."""

    id: str
    file: str
    find: str
    replace: str
    revisions: tuple[str, ...] = ()

    def is_applicable(self) -> bool:
        """Return whether `find` stands in the file exactly once."""
        path = ROOT / self.file
        return path.exists() and path.read_text(encoding="utf-8").count(self.find) == 1


@cache
def mutations() -> tuple[Mutation, ...]:
    """Return every mutation, in the order of the files and in theirs."""
    found: list[Mutation] = []
    for path in sorted(FOLDER.glob("*.toml")):
        for ident, tables in tomllib.loads(path.read_text(encoding="utf-8")).items():
            for table in tables:
                revisions = tuple(table.pop("revisions", ()))
                found.append(Mutation(ident, revisions=revisions, **table))
    return tuple(found)


def claiming_tests(entry: Entry, revisions: Iterable[str] = ()) -> list[str]:
    """Return the pytest arguments for the tests that claim the row, without the slow ones where others do."""
    claims: list[Claim] = []
    for revision in revisions or entry.row.at:
        claims += [claim for claim in entry.tests[revision] if claim not in claims]
    fast = [claim for claim in claims if not claim.file.startswith(SLOW)]
    files = [claim.file for claim in fast or claims if claim.test == "*"]
    names = [f"{claim.file}::{claim.test}" for claim in fast or claims if claim.file not in files]
    return sorted({f"tests/{name}" for name in [*files, *names]})


def copy_project(target: Path) -> None:
    """Copy what the tests need; the virtual environment stays where it is."""
    for name in ("mcphost", "tests", "themes", "docs", "benchmarks"):
        shutil.copytree(ROOT / name, target / name, ignore=shutil.ignore_patterns("__pycache__", "node_modules"))
    for name in ("pyproject.toml", "README.md", "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE"):
        shutil.copy(ROOT / name, target / name)


def run_tests(project: Path, tests: list[str]) -> tuple[int, str]:
    """Run the tests in this copy; return pytest's exit code (1 too when they take longer than SECONDS) and output."""
    command = [sys.executable, "-m", "pytest", "-n", "0", "-x", "-q", "--no-header", "-p", "no:randomly", *tests]
    # Before the installed package on the path, also in the processes that the tests start.
    environment = {**os.environ, "PYTHONPATH": str(project), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        done = subprocess.run(
            command,
            cwd=project,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
            timeout=SECONDS,
        )
    except subprocess.TimeoutExpired:
        return 1, "the tests did not end"
    return done.returncode, done.stdout


def judge(project: Path, mutation: Mutation, tests: list[str]) -> tuple[Verdict, str]:
    """Apply the mutation in this copy, run the tests and undo it. `broken`: pytest itself could not run them."""
    path = project / mutation.file
    before = path.read_text(encoding="utf-8")
    path.write_text(before.replace(mutation.find, mutation.replace), encoding="utf-8")
    try:
        code, output = run_tests(project, tests)
    finally:
        path.write_text(before, encoding="utf-8")
    verdicts: dict[int, Verdict] = {0: "survived", 1: "killed"}
    return verdicts.get(code, "broken"), output


def run_all(chosen: list[Mutation], jobs: int) -> dict[Mutation, Verdict]:
    """Judge each mutation, `jobs` at a time, and print those that are not killed as they are found."""
    entries = {one.row.id: one for one in manifest()}
    waiting: queue.SimpleQueue[Mutation] = queue.SimpleQueue()
    for mutation in chosen:
        waiting.put(mutation)
    verdicts: dict[Mutation, Verdict] = {}

    def work() -> None:
        with tempfile.TemporaryDirectory(prefix="mcphost-mutation-") as folder:
            copy_project(Path(folder))
            while True:
                try:
                    mutation = waiting.get_nowait()
                except queue.Empty:
                    return
                tests = claiming_tests(entries[mutation.id], mutation.revisions)
                verdict, output = judge(Path(folder), mutation, tests) if tests else ("survived", "no test")
                verdicts[mutation] = verdict
                if verdict != "killed":
                    print(f"{verdict}: {mutation.id} in {mutation.file} ({' '.join(tests)})", flush=True)
                if verdict == "broken":
                    print(output[-2_000:], flush=True)

    threads = [threading.Thread(target=work) for _ in range(jobs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return verdicts


def control(chosen: list[Mutation]) -> bool:
    """Run the marked tests on unchanged code: a test that fails anyway proves nothing."""
    entries = {one.row.id: one for one in manifest()}
    tests = sorted({test for one in chosen for test in claiming_tests(entries[one.id], one.revisions)})
    done = subprocess.run([sys.executable, "-m", "pytest", "-q", "-n", "2", *tests], cwd=ROOT)
    return done.returncode == 0


def main(arguments: list[str]) -> int:
    """Run the command line; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.spec.mutate", description=__doc__)
    parser.add_argument("--area")
    parser.add_argument("--id", action="append", default=[])
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--no-control", action="store_true", help="leave out the run on unchanged code")
    given = parser.parse_args(arguments)
    area = {one.row.id: one.row.area for one in manifest()}
    chosen = [one for one in mutations() if given.area in (None, area[one.id]) and (not given.id or one.id in given.id)]
    stale = [one.id for one in chosen if not one.is_applicable()]
    if stale or not chosen:
        print(f"not applicable: {', '.join(stale)}" if stale else "no such mutation")
        return 2
    if not given.no_control and not control(chosen):
        print("the tests fail on unchanged code")
        return 2
    verdicts = run_all(chosen, given.jobs)
    killed = sum(verdict == "killed" for verdict in verdicts.values())
    print(f"{killed} of {len(chosen)} killed ({100 * killed / len(chosen):.1f} %)")
    return 0 if killed >= GOAL * len(chosen) else 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
