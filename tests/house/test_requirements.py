"""Tests claim requirements by id; every id is one of the list, and the list can be read."""

from tests.spec.coverage import LEVELS, claims, requirements, table

REVISIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28")


def test_every_claimed_id_is_in_the_list() -> None:
    known = {one.id for one in requirements()}
    assert {name: files for name, files in claims().items() if name not in known} == {}


def test_each_requirement_stands_there_once_with_a_level_and_real_revisions() -> None:
    every = requirements()
    assert len({one.id for one in every}) == len(every)
    assert [one for one in every if one.level not in LEVELS or not one.wording] == []
    for one in every:
        named = one.revisions.replace("..", ",").split(",")
        assert one.revisions == "any" or set(named) <= set(REVISIONS), one


def test_coverage_is_counted_over_all_requirements_and_claims() -> None:
    """The last row adds up: as many claimed as there are ids in the tests, of as many as there are lines."""
    last = table().splitlines()[-1].split()
    assert last[0] == "all"
    assert last[-3] == f"{len(claims())}/{len(requirements())}"
