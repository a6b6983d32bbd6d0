"""Tests that the output of `mcphost audit export` is safe to view and to open in a spreadsheet."""

import csv
import io
import json
import resource
from pathlib import Path

import pytest

from mcphost.cli.audit import export_rows, write_rows
from mcphost.errors import UsageError
from mcphost.store.audit_reader import AuditFilter, AuditReader
from mcphost.store.audit_store import FIELDS, AuditRecord, AuditStore

pytestmark = pytest.mark.anyio
HOSTILE = ["\x1b]52;c;eA==\x07", "a\u202etxt", "a\u2800b", "a\nb"]


async def create_reader(folder: Path, *subjects: str) -> AuditReader:
    ledger = AuditStore(folder / "l.db", folder / "l.head")
    for subject in subjects:
        await ledger.append(lambda subject=subject: AuditRecord(at=1, kind="tool", event="decided", subject=subject))
    await ledger.close()
    return AuditReader(folder / "l.db")


async def test_lines_of_an_export_hold_nothing_that_commands_a_terminal_and_lose_nothing(tmp_path: Path) -> None:
    output = io.StringIO()
    write_rows(await create_reader(tmp_path, *HOSTILE), AuditFilter(kind="tool"), output, "jsonl")
    assert not any(char in output.getvalue() for char in "\x1b\x07\u202e\u2800")
    assert sorted(json.loads(line)["subject"] for line in output.getvalue().splitlines()) == sorted(HOSTILE)


async def test_an_export_that_fails_leaves_no_part_of_the_rows(tmp_path: Path) -> None:
    found, out = await create_reader(tmp_path, *(f"{number} {'x' * 900}" for number in range(200))), tmp_path / "out"
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limits[1]))
    try:
        with pytest.raises(UsageError, match="out cannot be written: File too large"):
            export_rows(found, AuditFilter(), str(out), "jsonl")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert not out.exists()
    assert export_rows(found, AuditFilter(), str(out), "jsonl") == 0


async def test_cells_of_an_export_hold_nothing_that_commands_a_terminal(tmp_path: Path) -> None:
    output = io.StringIO()
    write_rows(await create_reader(tmp_path, *HOSTILE), AuditFilter(kind="tool"), output, "csv")
    assert not any(char in output.getvalue() for char in "\x1b\x07\u202e\u2800")
    cells = {row["subject"] for row in csv.DictReader(io.StringIO(output.getvalue()))}
    assert cells == {"␛]52；c；eA==␇", "a‹U+202E›txt", "a‹U+2800›b", "a⏎b"}


@pytest.mark.parametrize(
    "formula",
    ["=1+1", "+1", "-1", "@SUM(1)", "\t=1", " =1", "\r=1", "＝1", "x;=1", 'x";=1', ";=1", 'a;"=1";b', "x;\t@SUM(1)"],
)
@pytest.mark.parametrize("separator", [",", ";", "\t"])
async def test_no_cell_of_an_export_is_a_formula(tmp_path: Path, formula: str, separator: str) -> None:
    output = io.StringIO()
    write_rows(await create_reader(tmp_path, formula), AuditFilter(kind="tool"), output, "csv")
    head, row = list(csv.reader(io.StringIO(output.getvalue()), delimiter=separator))
    assert len(row) == len(head) == (1 + len(FIELDS) if separator == "," else 1)
    assert not any(cell.lstrip(' "').startswith(("=", "+", "-", "@", "＝")) for cell in row)
    assert ";" not in output.getvalue()
    assert all(cell.startswith('"') for cell in output.getvalue().splitlines())
    (named,) = csv.DictReader(io.StringIO(output.getvalue()))
    assert named["subject"][:1] in ("'", "x", "␍", "；", "a")
