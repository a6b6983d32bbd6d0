"""Tests of rules for the test modules themselves: where helpers are defined, and which names tests may use."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator

from tests.architecture.source_tree import ROOT, module_paths, parse

TEST_FILES = sorted((ROOT / "tests").rglob("*.py"))
NAMEDTUPLE_METHODS = {"_asdict", "_replace"}
"""Documented methods of namedtuple, whose underscore does not mean that they are private."""
PRIVATE = re.compile(r"_[A-Za-z][A-Za-z0-9_]*")
PRIVATE_USES = {
    "conftest.py": ["_all_secrets", "_received_secrets", "_user_secrets"],
    "screens/test_images.py": ["_decoder"],
    "unit/host/test_resource_changes.py": ["_changed", "_read"],
    "unit/test_redaction_of_large_data.py": [
        "_AMBIGUOUS_FLAG",
        "_JWT",
        "_SECRET_PATTERNS",
        "_SecretPattern",
        "_redact_ambiguous_flag",
        "_redact_jwt",
    ],
    # Names of Textual and asyncio, which have no public counterpart; the product happens to use them as well.
    "screens/rendering.py": ["_callbacks", "_ready"],
    "screens/test_bounded_turns.py": ["_run"],
    "screens/test_chat.py": ["_on_key"],
    "unit/tui/test_terminal_driver.py": ["_sigcont_application"],
    # A fixture without an event loop closes what a test left open.
    "open_databases.py": ["_close_connection"],
    # A late layout and an interrupted removal of a folder: the moments that these tests are about.
    "screens/test_file_diff.py": ["_body_version", "_mark_shown"],
    "unit/host/test_root_sharing.py": ["_remove_folder"],
    # State that must stay bounded or must be reached, and that shows nowhere else.
    "fuzz/fuzz_stdio.py": ["_items", "_pending", "_request"],
    "screens/test_long_streams.py": ["_block_layout", "_streams", "_unfinished"],
    # Textual's own names, which a mixin of the screens overrides.
    "screens/test_forms.py": ["_refresh_layout"],
    "screens/test_layout_updates.py": ["_callbacks", "_invoke_and_clear_callbacks", "_refresh_layout"],
    "screens/test_typing_during_questions.py": ["_minimized"],
    # Settings of a SQLite connection, which no other connection can read.
    "unit/store/test_audit_store.py": ["_database"],
    # Writing through a read-only connection, which no public method does.
    "unit/store/test_audit_verification.py": ["_run"],
    # Connections in memory: a session of the fuzzer opens thousands.
    "fuzz/fuzz_http_streams.py": ["_connect"],
}
"""Files below tests/ and the private names of the product that they use. Take entries out, add none."""
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


def test_test_modules_are_not_imported_by_scripts_in_strings() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in TEST_FILES
        for node in ast.walk(parse(path))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        if re.search(r"(?:from|import) tests[.\w]*\.test_", node.value)
    ]
    assert found == []


def test_tests_reach_for_no_private_names_of_the_product_but_the_listed_ones() -> None:
    private = {name for path in module_paths() for name in _private_definitions(parse(path))}
    found: dict[str, set[str]] = defaultdict(set)
    for path in TEST_FILES:
        own = set(_private_definitions(parse(path)))
        for name in _private_uses(parse(path)):
            if name in private - NAMEDTUPLE_METHODS and name not in own:
                found[path.relative_to(ROOT / "tests").as_posix()].add(name)
    assert {path: sorted(names) for path, names in found.items()} == PRIVATE_USES


def _private_definitions(tree: ast.Module) -> Iterator[str]:
    """Yield the private functions, classes, constants and attributes that a module defines."""
    for node in ast.walk(tree):
        name = getattr(node, "name", "")
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            name = node.attr if ast.unparse(node.value) in {"self", "cls"} else ""
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            name = node.id
        if isinstance(name, str) and PRIVATE.fullmatch(name):
            yield name


def _private_uses(tree: ast.Module) -> Iterator[str]:
    """Yield the private names that a test reads from other objects, imports from mcphost, or patches."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and PRIVATE.fullmatch(node.attr):
            if not (isinstance(node.value, ast.Name) and node.value.id in {"self", "cls"}):
                yield node.attr
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("mcphost"):
            yield from (alias.name for alias in node.names if PRIVATE.fullmatch(alias.name))
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith((".setattr", ".setitem", "patch")):
            for value in node.args[:2]:
                if isinstance(value, ast.Constant) and isinstance(value.value, str):
                    yield from (part for part in value.value.split(".")[-1:] if PRIVATE.fullmatch(part))


def _imported(node: ast.Import | ast.ImportFrom) -> list[str]:
    module = getattr(node, "module", None)
    return [alias.name for alias in node.names] + ([module] if module else [])


def _helpers(tree: ast.Module, *, constants: bool) -> Iterator[tuple[str, str]]:
    """Yield the name and code of each public top-level definition in a module, without docstrings."""
    for node in tree.body:
        if not isinstance(node, Definition) or (isinstance(node, ast.Assign) and not constants):
            continue
        name = node.targets[0].id if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) else ""
        name = name or getattr(node, "name", "_")
        decorators = [ast.unparse(item) for item in getattr(node, "decorator_list", [])]
        registered = any(item.startswith("server.") for item in decorators)  # a tool of a server program, not a helper
        if registered or name.startswith(("_", "test_")) or name == "pytestmark":
            continue
        if isinstance(node, ast.Assign):
            yield name, ast.unparse(node.value)
        else:
            body = node.body[1:] if ast.get_docstring(node) else node.body
            yield name, "\n".join([*decorators, *map(ast.unparse, body)])
