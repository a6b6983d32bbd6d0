"""Tests that Textual workers are given functions, because a coroutine might be cancelled before it is awaited."""

import ast

from tests.architecture.source_tree import module_name, module_paths, parse


def test_a_worker_is_given_a_function_to_call() -> None:
    given = {
        f"{module_name(path)}:{node.lineno}": ast.unparse(node.args[0])
        for path in module_paths()
        for node in ast.walk(parse(path))
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(".run_worker") and node.args
    }
    assert given
    assert {at: work for at, work in given.items() if work.endswith(")") and not work.startswith("partial(")} == {}
