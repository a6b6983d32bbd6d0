"""Prints which share of the requirements the tests claim, by area and level: `uv run python -m tests.spec.coverage`.

With `--missing [AREA]` it lists the requirements that no test claims instead.
"""

import ast
import sys
from collections import Counter
from functools import cache
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
TESTS = HERE.parent
LEVELS = ("MUST", "SHOULD", "MAY", "PRACTICE")


class Requirement(NamedTuple):
    """One line of `requirements.tsv`; PRACTICE is what the specification leaves open and a good host does."""

    id: str
    revisions: str
    level: str
    area: str
    wording: str
    source: str


def requirements() -> list[Requirement]:
    """The list in its order; its first line names the columns."""
    lines = (HERE / "requirements.tsv").read_text(encoding="utf-8").splitlines()
    return [Requirement(*line.split("\t")) for line in lines[1:]]


@cache
def claims() -> dict[str, list[str]]:
    """Every id in a `@pytest.mark.req(...)` of the tests, with the files that name it."""
    found: dict[str, list[str]] = {}
    for path in sorted(TESTS.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"), str(path))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.mark.req":
                for argument in node.args:
                    found.setdefault(ast.literal_eval(argument), []).append(str(path.relative_to(TESTS)))
    return found


def table() -> str:
    """Claimed and all requirements, a row for each area and a column for each level."""
    claimed = claims()
    total = Counter((one.area, one.level) for one in requirements())
    covered = Counter((one.area, one.level) for one in requirements() if one.id in claimed)
    areas = sorted({area for area, _ in total})
    lines = ["".join([f"{'area':<14}", *(f"{level:>16}" for level in (*LEVELS, "all"))])]
    for area in (*areas, "all"):
        cells: list[str] = []
        for level in (*LEVELS, "all"):
            keys = [key for key in total if area in (key[0], "all") and level in (key[1], "all")]
            cells.append(_cell(sum(covered[key] for key in keys), sum(total[key] for key in keys)))
        lines.append("".join([f"{area:<14}", *(f"{cell:>16}" for cell in cells)]))
    return "\n".join(lines)


def _cell(covered: int, total: int) -> str:
    return f"{covered}/{total} {100 * covered // total:>3} %" if total else "-"


def missing(area: str | None) -> str:
    """The requirements that no test claims, of one area or of all."""
    claimed = claims()
    rows = [one for one in requirements() if one.id not in claimed and area in (None, one.area)]
    return "\n".join(f"{one.level:<9} {one.id}: {one.wording}" for one in rows)


if __name__ == "__main__":
    words = sys.argv[1:]
    print(missing((words[1:] or [None])[0]) if words[:1] == ["--missing"] else table())
