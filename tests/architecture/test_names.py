"""Tests that each public class name is defined only once in mcphost."""

import ast
from collections import defaultdict

from tests.architecture.source_tree import module_name, module_paths, parse


def test_every_public_class_name_is_unique_in_the_package() -> None:
    modules: defaultdict[str, list[str]] = defaultdict(list)
    for path in module_paths():
        for node in ast.walk(parse(path)):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                modules[node.name].append(module_name(path))
    assert {name: places for name, places in modules.items() if len(places) > 1} == {}
