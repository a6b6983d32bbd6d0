"""Print which requirements are covered by tests, and which cannot be tested: `uv run python -m tests.spec.coverage`.

`--missing [AREA]` lists the requirements that are still open. `--manifest [AREA]` lists every requirement at every
revision, with its tests or the reason why there are none.
"""

import sys
from collections import Counter

from tests.spec.manifest import LEVELS, ManifestEntry, manifest


def coverage_table() -> str:
    """Return a table of how many requirements are covered, by area and level, and how many are reasoned or open."""
    entries = manifest()
    total = Counter((entry.row.area, entry.row.level) for entry in entries)
    covered = Counter((entry.row.area, entry.row.level) for entry in entries if entry.state == "covered")
    states = Counter((entry.row.area, entry.state) for entry in entries)
    areas = sorted({area for area, _ in total})
    columns = (*(f"{level:>16}" for level in (*LEVELS, "all")), f"{'reasoned':>10}{'open':>6}")
    lines = ["".join([f"{'area':<14}", *columns])]
    for area in (*areas, "all"):
        cells: list[str] = []
        for level in (*LEVELS, "all"):
            keys = [key for key in total if area in (key[0], "all") and level in (key[1], "all")]
            cells.append(_cell(sum(covered[key] for key in keys), sum(total[key] for key in keys)))
        rest = [sum(states[key] for key in states if area in (key[0], "all") and key[1] == state) for state in REST]
        lines.append("".join([f"{area:<14}", *(f"{cell:>16}" for cell in cells), f"{rest[0]:>10}{rest[1]:>6}"]))
    return "\n".join(lines)


REST = ("reasoned", "open")


def _cell(covered: int, total: int) -> str:
    return f"{covered}/{total} {100 * covered // total:>3} %" if total else "-"


def open_requirements(area: str | None) -> str:
    """Return the requirements with neither a test nor a reason, in one area or all.

    If only some revisions are open, they are listed after `at`.
    """
    lines: list[str] = []
    for entry in manifest():
        if entry.state == "open" and area in (None, entry.row.area):
            left = entry.uncovered_revisions()
            some = f" (at {', '.join(left)})" if len(left) < len(entry.row.applicable_revisions) else ""
            lines.append(f"{entry.row.level:<9} {entry.row.id}: {entry.row.wording}{some}")
    return "\n".join(lines)


def manifest_text(area: str | None) -> str:
    """Return each requirement with its revisions and, for each revision, the tests or the reason why there are none."""
    return "\n".join(_entry(entry) for entry in manifest() if area in (None, entry.row.area))


def _entry(entry: ManifestEntry) -> str:
    lines = [f"{entry.row.id} ({entry.row.level}, {entry.state})"]
    for revision in entry.row.applicable_revisions:
        proofs = [f"{claim.file}::{claim.test}" for claim in entry.tests[revision]]
        what = entry.reasons.get(revision)
        lines.append(f"  {revision}  {', '.join(proofs) or (f'no test: {what}' if what else 'open')}")
    return "\n".join(lines)


if __name__ == "__main__":
    words = sys.argv[1:]
    which = (words[1:] or [None])[0]
    if words[:1] == ["--missing"]:
        print(open_requirements(which))
    elif words[:1] == ["--manifest"]:
        print(manifest_text(which))
    else:
        print(coverage_table())
