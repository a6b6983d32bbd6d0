"""Tests that each mutation applies to the code and belongs to a claimed requirement, and that one of them is killed."""

from functools import cache
from pathlib import Path

import pytest

from tests.spec import mutate
from tests.spec.manifest import ManifestEntry, manifest
from tests.spec.mutate import Mutation, mutations


@cache
def requirement_rows() -> dict[str, ManifestEntry]:
    """Return the requirements by id; they are read on demand, because that reads all test files."""
    return {entry.row.id: entry for entry in manifest()}


def test_every_mutation_changes_code_that_occurs_exactly_once() -> None:
    assert [f"{mutation.id} in {mutation.file}" for mutation in mutations() if not mutation.is_applicable()] == []
    assert [mutation.id for mutation in mutations() if mutation.find == mutation.replace] == []


def test_every_mutation_breaks_a_must_row_or_a_host_row_that_tests_claim_at_these_revisions() -> None:
    for mutation in mutations():
        assert mutation.id in requirement_rows(), f"{mutation.id} is not in the list"
        entry = requirement_rows()[mutation.id]
        assert entry.row.level == "MUST" or entry.row.area in mutate.HOST_AREAS, mutation.id
        assert set(mutation.revisions) <= set(entry.row.applicable_revisions), mutation.id
        assert mutate.select_tests(entry, mutation.revisions), f"no test claims {mutation.id}"


def test_every_must_row_has_a_mutation_or_a_reason_at_each_of_its_revisions() -> None:
    broken: dict[str, set[str]] = {}
    for mutation in mutations():
        broken.setdefault(mutation.id, set()).update(
            mutation.revisions or requirement_rows()[mutation.id].row.applicable_revisions
        )
    unproved = {
        ident: left
        for ident, entry in requirement_rows().items()
        if entry.row.level == "MUST"
        and (left := set(entry.row.applicable_revisions) - broken.get(ident, set()) - set(entry.reasons))
    }
    assert unproved == {}


def test_every_claimed_row_of_the_host_has_a_mutation() -> None:
    broken = {mutation.id for mutation in mutations()}
    rows = [entry for entry in requirement_rows().values() if entry.row.area in mutate.HOST_AREAS]
    assert [entry.row.id for entry in rows if any(entry.tests.values()) and entry.row.id not in broken] == []


def test_a_mutation_is_in_the_file_of_its_area() -> None:
    for path in mutate.MUTATIONS.glob("*.toml"):
        named = [mutation.id for mutation in mutations() if f'[["{mutation.id}"]]' in path.read_text(encoding="utf-8")]
        assert {requirement_rows()[ident].row.area for ident in named} == {path.stem}


@pytest.mark.parametrize(
    ("replace", "verdict", "failed"),
    [("VALUE = 2", "killed", ("test_part.py::test_it",)), ("VALUE = 0 + 1", "survived", ())],
)
def test_a_mutation_is_killed_by_a_test_that_fails_with_it(
    tmp_path: Path, replace: str, verdict: str, failed: tuple[str, ...]
) -> None:
    (tmp_path / "mcphost").mkdir()
    (tmp_path / "mcphost" / "part.py").write_text("VALUE = 1\n")
    (tmp_path / "test_part.py").write_text(
        "import runpy\n\ndef test_it() -> None:\n    assert runpy.run_path('mcphost/part.py')['VALUE'] == 1\n"
    )
    mutation = Mutation("some.id", "mcphost/part.py", "VALUE = 1", replace)
    with mutate.MutationRunner(tmp_path) as judge:
        assert judge.run(mutation, ["test_part.py"]).verdict == verdict
        assert judge.run(mutation, ["test_part.py"], every=True).failed == failed
    assert (tmp_path / "mcphost" / "part.py").read_text() == "VALUE = 1\n"
