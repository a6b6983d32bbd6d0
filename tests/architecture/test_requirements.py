"""Tests of the manifest of requirements: claimed tests exist, and tests claim existing requirements."""

import pytest

from tests.spec.coverage import coverage_table
from tests.spec.manifest import (
    AREAS,
    GOALS,
    HERE,
    LEVELS,
    REVISIONS,
    ManifestEntry,
    claims,
    manifest,
    marked_claims,
    reasons,
    requirements,
)


def required_entries() -> list[ManifestEntry]:
    return [entry for entry in manifest() if entry.row.area in AREAS and entry.row.level in GOALS]


def test_every_claimed_id_is_in_the_list() -> None:
    known = {requirement.id for requirement in requirements()}
    assert {name: bearers for name, bearers in claims().items() if name not in known} == {}


def test_each_claim_is_made_by_a_test_and_for_revisions_the_requirement_applies_to() -> None:
    at = {requirement.id: set(requirement.applicable_revisions) for requirement in requirements()}
    for ident, bearers in claims().items():
        for claim in bearers:
            assert claim.test.startswith("test_") or claim.test == "*", f"{claim} bears a mark and is no test"
            assert set(claim.revisions) <= at[ident], f"{claim} claims {ident} where it does not apply"


def test_each_requirement_is_listed_once_with_a_level_and_real_revisions() -> None:
    every = requirements()
    assert len({item.id for item in every}) == len(every)
    assert [item for item in every if item.level not in LEVELS or not item.wording] == []
    for item in every:
        named = item.revisions.replace("..", ",").split(",")
        assert item.revisions == "any" or set(named) <= set(REVISIONS), item
        assert item.applicable_revisions, item


def test_every_reason_belongs_to_a_requirement_that_no_test_claims_and_is_a_sentence() -> None:
    rows = {entry.row.id: entry for entry in manifest()}
    for ident, given in reasons().items():
        assert ident in rows, f"{ident} is not in the list"
        for revision, reason in given.items():
            assert revision in (*rows[ident].row.applicable_revisions, "*"), f"{ident} does not apply to {revision}"
            assert reason.endswith("."), f"{ident}: a reason is a sentence"
        both = [at for at in rows[ident].reasons if rows[ident].tests[at]]
        # A reason without a revision covers the requirements that tests leave open, so it must be needed somewhere.
        needed = [at for at in rows[ident].reasons if not rows[ident].tests[at]]
        assert needed, f"{ident} has a test and a reason: remove one"
        assert not set(both) & set(given), f"{ident} has a test and a reason at {both}"


def test_a_reason_is_in_the_file_of_its_area() -> None:
    area = {requirement.id: requirement.area for requirement in requirements()}
    for path in (HERE / "reasons").glob("*"):
        assert path.suffix == ".tsv", path
        idents = [line.partition("\t")[0].partition("@")[0] for line in path.read_text().splitlines() if line.strip()]
        assert {area.get(ident) for ident in idents} <= {path.stem}, path.name


@pytest.mark.parametrize("level", GOALS)
def test_named_tests_cover_the_required_rules(level: str) -> None:
    rows = [item for item in required_entries() if item.row.level == level]
    covered = [row for row in rows if row.state == "covered"]
    assert len(covered) >= GOALS[level] * len(rows), f"{len(covered)} of {len(rows)}"


def test_uncovered_requirements_have_a_reason() -> None:
    assert [item.row.id for item in required_entries() if item.state == "open"] == []


def test_coverage_is_counted_over_all_requirements_and_claims() -> None:
    """In the last row of the table, covered, reasoned and open requirements add up to the total."""
    *_, covered, _, _, reasoned, left = coverage_table().splitlines()[-1].split()
    claimed, total = covered.split("/")
    assert int(total) == len(requirements()) == int(claimed) + int(reasoned) + int(left)


def test_a_mark_is_found_at_its_test_with_its_revisions() -> None:
    source = """
import pytest
pytestmark = pytest.mark.req("whole.file")

@pytest.mark.req("one", "two", revisions=("2025-06-18",))
def test_this() -> None: ...

@pytest.mark.parametrize("x", [pytest.param(1, marks=pytest.mark.req("three"))])
async def test_that(x) -> None: ...
"""
    found = {ident: (claim.test, claim.revisions) for ident, claim in marked_claims(source, "here.py")}
    assert found == {
        "whole.file": ("*", ()),
        "one": ("test_this", ("2025-06-18",)),
        "two": ("test_this", ("2025-06-18",)),
        "three": ("test_that", ()),
    }
