"""Tests for docs/interop.md, which `python -m tests.peers.interop --write` writes."""

import itertools

from tests.peers.interop.peers import Cell, all_cells
from tests.peers.interop.probes import ALL, ProbeOutcome
from tests.peers.interop.result_page import PAGE, ResultRow, parse_page, render_page


def good_outcomes(cell: Cell) -> list[ProbeOutcome]:
    limits = {probe: cell.limit(probe) for probe in ALL}
    return [ProbeOutcome(probe, limit.evidence if limit else "", limit) for probe, limit in limits.items()]


def test_the_rows_of_the_page_are_the_combinations_of_the_matrix() -> None:
    rows, _ = parse_page(PAGE.read_text(encoding="utf-8"))
    assert [row.cell for row in rows] == [str(cell) for cell in all_cells()]


def test_every_probe_on_the_page_passed_or_is_explained() -> None:
    rows, notes = parse_page(PAGE.read_text(encoding="utf-8"))
    cells = {str(cell): cell for cell in all_cells()}
    for row in rows:
        assert row.failed == "", row
        assert row.total == row.passed + len(row.lacking) == len(ALL), row
        assert {probe for probe, _ in row.lacking} == {probe for probe in ALL if cells[row.cell].limit(probe)}, row
        assert {number for _, number in row.lacking} <= notes, row


def test_the_page_names_no_host_and_has_the_layout_that_the_job_writes() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert "://" not in page
    date = page.partition("Last run on ")[2].partition(":")[0]
    repeated = int(page.partition("a probe failed: ")[2].partition(".")[0])
    written = render_page({cell: good_outcomes(cell) for cell in all_cells()}, date, repeated).splitlines()
    for line, expected in itertools.zip_longest(page.splitlines(), written):
        ends = [[text for number, text in enumerate(one.split("|")) if number != 2] for one in (line, expected)]
        assert ends[0] == ends[1]  # the second column is the release of that day


def test_the_page_shows_a_failed_probe_and_a_peer_that_could_not_be_installed() -> None:
    first, second, third, *_ = all_cells()
    outcomes = [ProbeOutcome("tools", "AssertionError: a | b"), *good_outcomes(first)[2:]]
    found = {first: outcomes, second: "npm ci failed", third: good_outcomes(third)}
    (failed, missing, good), _ = parse_page(render_page(found, "2026-01-02"))
    assert failed.failed == r"tools: AssertionError: a \| b"
    assert missing == ResultRow(str(second), 0, len(ALL), (), "not run: npm ci failed")
    assert (good.cell, good.failed) == (str(third), "")
