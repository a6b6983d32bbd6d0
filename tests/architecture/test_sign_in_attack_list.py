"""Tests that every row in the list of attacks on sign-in names existing tests."""

import ast
from pathlib import Path

from tests.unit.auth.attacks.attack_list import ROWS

TESTS = Path(__file__).parents[1]


def defined_tests(file: str) -> set[str]:
    tree = ast.parse((TESTS / file).read_text())
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


def test_every_attack_that_is_listed_is_tried_by_tests_that_exist() -> None:
    known = {file: defined_tests(file) for file in {test.partition("::")[0] for row in ROWS for test in row.tests}}
    missing = [
        (row.description, test)
        for row in ROWS
        for test in row.tests
        if test.partition("::")[2] not in known[test.partition("::")[0]]
    ]
    assert missing == []
    assert all(row.tests for row in ROWS)
    assert len({(row.kind, row.description) for row in ROWS}) == len(ROWS)


def test_no_attack_is_tried_that_the_list_does_not_name() -> None:
    listed = {test.partition("::")[2] for row in ROWS for test in row.tests}
    written = defined_tests("unit/auth/attacks/test_foreign_origins.py") | defined_tests(
        "unit/auth/attacks/test_secret_leaks.py"
    )
    assert {name for name in written if name.startswith("test_")} - listed == set()
