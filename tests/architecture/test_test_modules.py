"""Rules for the test modules themselves: where helpers are defined, and what tests may reach for."""

import ast
from collections import defaultdict
from collections.abc import Iterator

from tests.architecture.source_tree import ROOT, parse

TEST_FILES = sorted((ROOT / "tests").rglob("*.py"))
Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Assign


def test_no_test_module_is_imported_by_another() -> None:
    modules = {path.stem for path in TEST_FILES if path.name.startswith("test_")}
    found = [
        f"{path.relative_to(ROOT)}: {ast.unparse(node)}"
        for path in TEST_FILES
        for node in ast.walk(parse(path))
        if isinstance(node, ast.Import | ast.ImportFrom)
        and modules.intersection(part for name in _imported(node) for part in name.split("."))
    ]
    assert found == []


def test_no_public_helper_is_defined_twice_with_the_same_body() -> None:
    homes: dict[tuple[str, str], list[str]] = defaultdict(list)
    for path in TEST_FILES:
        for name, body in _helpers(parse(path), constants=path.name.startswith("test_")):
            homes[name, body].append(str(path.relative_to(ROOT)))
    assert {name: paths for (name, _), paths in homes.items() if len(paths) > 1} == {}


def _imported(node: ast.Import | ast.ImportFrom) -> list[str]:
    module = getattr(node, "module", None)
    return [alias.name for alias in node.names] + ([module] if module else [])


def _helpers(tree: ast.Module, *, constants: bool) -> Iterator[tuple[str, str]]:
    """Yield the name and the code of each public definition at the top of a module, without its docstring."""
    for node in tree.body:
        if not isinstance(node, Definition) or (isinstance(node, ast.Assign) and not constants):
            continue
        name = node.targets[0].id if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) else ""
        name = name or getattr(node, "name", "_")
        decorators = [ast.unparse(item) for item in getattr(node, "decorator_list", [])]
        registered = any(item.startswith("server.") for item in decorators)  # a tool of a program, not a helper
        if registered or name.startswith(("_", "test_")) or name == "pytestmark":
            continue
        if isinstance(node, ast.Assign):
            yield name, ast.unparse(node.value)
        else:
            body = node.body[1:] if ast.get_docstring(node) else node.body
            yield name, "\n".join([*decorators, *map(ast.unparse, body)])
