"""The manifest of requirements: the tests for each protocol revision, or the reason why there are none.

Tests claim a requirement with `@pytest.mark.req("id", ...)`, and add `revisions=("2025-06-18", ...)` if they cover only
some revisions. `tests/conformance/claims.py` contains the claims for the cases of the official conformance suite.
`reasons/*.tsv` contains lines `id<TAB>reason`, or `id@REVISION,REVISION<TAB>reason`.
"""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Literal, NamedTuple

from tests.conformance.cases import SUITE_CASES
from tests.conformance.claims import PROVED_REQUIREMENTS

HERE = Path(__file__).resolve().parent
TESTS = HERE.parent
LEVELS = ("MUST", "SHOULD", "MAY", "PRACTICE")
REVISIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28")
AREAS = (
    "base", "lifecycle", "stdio", "http", "sse-legacy", "tools", "resources", "prompts", "completion", "logging",
    "pagination", "progress", "cancel", "ping", "subscriptions", "mrtr", "caching", "headers", "tasks",
    "sampling", "elicitation", "roots", "security",
)  # fmt: skip
"""The protocol and what servers ask; authorization, models and the user interface are counted, not demanded here."""
GOALS = {"MUST": 0.95, "SHOULD": 0.85}
"""The share of the rows of AREAS that named tests must cover; every other row of these levels needs a reason."""


class Requirement(NamedTuple):
    """One line of `requirements.tsv`; the level PRACTICE marks good practice that the specification leaves open."""

    id: str
    revisions: str
    level: str
    area: str
    wording: str
    source: str

    @property
    def applicable_revisions(self) -> tuple[str, ...]:
        """The revisions to which the requirement applies; `any` means all."""
        if self.revisions == "any":
            return REVISIONS
        found: set[str] = set()
        for part in self.revisions.split(","):
            first, _, last = part.partition("..")
            found.update(REVISIONS[REVISIONS.index(first) : REVISIONS.index(last or first) + 1])
        return tuple(sorted(found))


class Claim(NamedTuple):
    """A test that claims to cover a requirement; empty `revisions` mean all revisions."""

    file: str
    test: str
    revisions: tuple[str, ...] = ()


State = Literal["covered", "reasoned", "open"]


class ManifestEntry(NamedTuple):
    """A requirement with the tests and reasons for each of its revisions."""

    row: Requirement
    tests: dict[str, list[Claim]]
    reasons: dict[str, str]

    @property
    def state(self) -> State:
        """The state: "covered" if all revisions have tests, "reasoned" if the others have reasons, otherwise "open"."""
        if all(self.tests[revision] for revision in self.row.applicable_revisions):
            return "covered"
        return "open" if self.uncovered_revisions() else "reasoned"

    def uncovered_revisions(self) -> tuple[str, ...]:
        """Return the revisions that have neither a test nor a reason."""
        return tuple(at for at in self.row.applicable_revisions if not self.tests[at] and at not in self.reasons)


@cache
def requirements() -> tuple[Requirement, ...]:
    """Return all requirements in the order of the file, whose first line contains the column names."""
    lines = (HERE / "requirements.tsv").read_text(encoding="utf-8").splitlines()
    return tuple(Requirement(*line.split("\t")) for line in lines[1:])


@cache
def claims() -> dict[str, list[Claim]]:
    """Return the tests marked with `@pytest.mark.req(...)`, keyed by the requirement ids in the mark."""
    found: dict[str, list[Claim]] = {}
    for path in sorted(TESTS.rglob("test_*.py")):
        text = path.read_text(encoding="utf-8")
        if "mark.req" in text:
            for ident, claim in marked_claims(text, path.relative_to(TESTS).as_posix()):
                found.setdefault(ident, []).append(claim)
    for ident, claim in suite_claims():
        found.setdefault(ident, []).append(claim)
    return found


def suite_claims() -> Iterator[tuple[str, Claim]]:
    """Yield the requirement ids claimed by scenarios of the official suite, with their case in each revision."""
    for pair in SUITE_CASES:
        case = f"test_the_official_suite_passes[{pair}]"
        for ident in PROVED_REQUIREMENTS.get(pair.scenario, ()):
            yield ident, Claim("conformance/test_suite.py", case, (pair.revision,))


def marked_claims(source: str, file: str) -> Iterator[tuple[str, Claim]]:
    """Yield each requirement id claimed in a test file, with the test; `*` stands for a mark of the whole module."""
    bearers: list[tuple[str, ast.AST]] = []

    def walk(node: ast.AST, name: str) -> None:
        for child in ast.iter_child_nodes(node):
            inner = child.name if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef) else name
            is_literal = isinstance(child, ast.Call) and not any(isinstance(arg, ast.Starred) for arg in child.args)
            if is_literal and _attribute(child) == "req" and ast.unparse(child.func) == "pytest.mark.req":
                bearers.append((inner, child))
            walk(child, inner)

    walk(ast.parse(source, file), "*")
    for name, call in bearers:
        assert isinstance(call, ast.Call)
        named = {keyword.arg: ast.literal_eval(keyword.value) for keyword in call.keywords}
        revisions = tuple(named.get("revisions", ()))
        for argument in call.args:
            yield ast.literal_eval(argument), Claim(file, name, revisions)


def _attribute(call: ast.Call) -> str:
    """Return the last name in the function of a call, such as `req`, which is much faster than `ast.unparse`."""
    return call.func.attr if isinstance(call.func, ast.Attribute) else ""


@cache
def reasons() -> dict[str, dict[str, str]]:
    """Return the reasons why requirements have no test, by id and then by revision (`*` for all)."""
    found: dict[str, dict[str, str]] = {}
    for path in sorted((HERE / "reasons").glob("*.tsv")):
        for line in path.read_text(encoding="utf-8").splitlines():
            if line.strip():
                name, _, reason = line.partition("\t")
                ident, _, revisions = name.partition("@")
                for revision in revisions.split(",") if revisions else ("*",):
                    found.setdefault(ident, {})[revision] = reason.strip()
    return found


@cache
def manifest() -> tuple[ManifestEntry, ...]:
    """Return all requirements with their tests and reasons."""
    return tuple(_entry(row) for row in requirements())


def _entry(row: Requirement) -> ManifestEntry:
    tests: dict[str, list[Claim]] = {revision: [] for revision in row.applicable_revisions}
    for claim in claims().get(row.id, []):
        for revision in claim.revisions or row.applicable_revisions:
            tests.setdefault(revision, []).append(claim)
    given = reasons().get(row.id, {})
    reason = {at: given.get(at) or given.get("*", "") for at in row.applicable_revisions if at in given or "*" in given}
    return ManifestEntry(row, tests, reason)
