"""Tests that commands shown in hints are safe to paste: every inserted value is quoted."""

import ast
import re

from mcphost.cli.parser import COMMANDS
from tests.architecture.source_tree import module_name, module_paths, parse

_VERBS = "|".join(sorted(COMMANDS))
_COMMAND = re.compile(
    rf"(?:\bmcphost (?:{_VERBS}) (?:[a-z]+ |x |--[a-z-]+ )*|(?<!\S)--(?:allow|account|pass-results) )$"
)


def unquoted_lines(tree: ast.Module) -> list[int]:
    """Return the numbers of the lines that insert an unquoted value into a command."""
    found: list[int] = []
    for node in ast.walk(tree):
        if not isinstance(node, ast.JoinedStr):
            continue
        before = ""
        for part in node.values:
            if isinstance(part, ast.Constant):
                before += str(part.value)
            elif isinstance(part, ast.FormattedValue):
                if _COMMAND.search(before) and not _is_quoted(part.value):
                    found.append(part.lineno)
                before += "x"
    return found


def _is_quoted(value: ast.expr) -> bool:
    """Return whether a value is quoted or known to be safe, judging by the names in the expression."""
    names = {node.id for node in ast.walk(value) if isinstance(node, ast.Name)}
    return bool(names & {"quote", "quote_rule", "rule", "usage", "command"})


def test_every_name_in_a_command_line_of_a_hint_is_quoted() -> None:
    assert {module_name(path): lines for path in module_paths() if (lines := unquoted_lines(parse(path)))} == {}


def test_a_bare_name_in_a_command_line_is_found() -> None:
    assert unquoted_lines(ast.parse("f'Do it with: mcphost servers trust {name}'")) == [1]
    assert unquoted_lines(ast.parse("f'x --allow {name}'")) == [1]
    assert unquoted_lines(ast.parse("f'mcphost login {quote(name)} --account {account}'")) == [1]
    assert unquoted_lines(ast.parse("f'mcphost login {quote(name)}'")) == []
