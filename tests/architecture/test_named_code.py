"""Tests that ARCHITECTURE.md and the pages inside the package name only files, classes and functions that exist."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from tests.architecture.source_tree import PACKAGE, ROOT, module_paths, parse

PAGES = sorted([ROOT / "ARCHITECTURE.md", *PACKAGE.rglob("README.md")])
FILE = re.compile(r"[\w./-]+\.(?:py|js|css|tsv)")
NAME = re.compile(r"(?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*(?:\(.*\))?")


def named_code(page: Path) -> list[str]:
    """Return the texts in backticks outside of code blocks."""
    return re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL))


@cache
def defined_names() -> frozenset[str]:
    """Return the names of all modules, packages, classes, functions, parameters and variables of mcphost."""
    names = {part for path in module_paths() for part in path.relative_to(ROOT).with_suffix("").parts}
    for path in module_paths():
        for node in ast.walk(parse(path)):
            match node:
                case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                    names.add(name)
                case ast.arg(arg=name) | ast.Name(id=name) | ast.Attribute(attr=name):
                    names.add(name)
                case _:
                    pass
    return frozenset(names)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_file_that_a_page_of_developers_names_exists(page: Path) -> None:
    files = [text for text in named_code(page) if FILE.fullmatch(text)]
    places = (page.parent, PACKAGE, ROOT)
    assert files
    assert [name for name in files if not any((place / name).is_file() for place in places)] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_class_and_function_that_a_page_of_developers_names_exists(page: Path) -> None:
    # A word in lower case without an underscore may be a command, a setting or a word of a protocol.
    texts = [text.partition("(")[0] for text in named_code(page) if NAME.fullmatch(text) and not FILE.fullmatch(text)]
    words = [word for text in texts for word in text.split(".") if "_" in word or word != word.lower()]
    assert words
    assert [word for word in words if word not in defined_names()] == []


def test_every_module_that_the_table_of_packages_names_is_in_its_package() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (.*) \|$", (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8"), re.MULTILINE)
    packages = [(PACKAGE / name, text) for name, text in rows if (PACKAGE / name).is_dir()]
    missing = [
        f"{package.name}: {name}"
        for package, text in packages
        for name in re.findall(r"`(\w+)`", text)
        if not any(path.stem == name for path in package.rglob("*"))
    ]
    assert len(packages) > 10
    assert missing == []
