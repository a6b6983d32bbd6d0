"""Tests that the published tables of amplification list every case, within its bounds."""

import re
import subprocess
import sys
from pathlib import Path

from tests.architecture.source_tree import ROOT

TABLE = Path(ROOT, "benchmarks", "amplification.md")
SECURITY = Path(ROOT, "docs", "security.md")
MAX_STALL_MS = 50


def read_rows(text: str) -> list[list[str]]:
    """Return the cells of each row of a Markdown table, without the header and its rule."""
    rows = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in text.splitlines() if line[:2] == "| "]
    return rows[1:]


def test_every_case_has_one_row_and_every_row_is_a_case() -> None:
    listing = [sys.executable, "-m", "benchmarks.amplification", "--list"]
    cases = subprocess.run(listing, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    assert sorted(row[0] for row in read_rows(TABLE.read_text())) == sorted(cases)


def test_every_row_is_within_the_three_bounds() -> None:
    rows = read_rows(TABLE.read_text())
    over = [row[0] for row in rows if max(float(row[3]), float(row[5])) > 1 or int(row[6].split()[0]) > MAX_STALL_MS]
    assert (len(rows) > 200, over) == (True, [])


def test_the_summary_of_the_security_document_counts_every_case() -> None:
    summary = SECURITY.read_text().partition("| input | cases | memory |")[2].partition("\n\n")[0]
    counts = re.findall(r"^\|[^|]+\| (\d+) \|", summary, re.MULTILINE)
    assert sum(map(int, counts)) == len(read_rows(TABLE.read_text()))
