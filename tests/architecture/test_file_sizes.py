"""Tests that files and functions stay within the size limits."""

import ast

from tests.architecture.source_tree import module_name, module_paths, parse

FILE_LINES = 600
FUNCTION_LINES = 60


def test_no_file_is_longer_than_600_lines() -> None:
    lengths = {module_name(path): len(path.read_text(encoding="utf-8").splitlines()) for path in module_paths()}
    assert {name: length for name, length in lengths.items() if length > FILE_LINES} == {}


def test_no_function_is_longer_than_60_lines() -> None:
    long = {}
    for path in module_paths():
        for node in ast.walk(parse(path)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                length = (node.end_lineno or node.lineno) - node.lineno + 1
                if length > FUNCTION_LINES:
                    long[f"{module_name(path)}.{node.name}"] = length
    assert long == {}
