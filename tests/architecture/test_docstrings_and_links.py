"""Tests that every module starts with a one-sentence docstring, and that documents link to existing files."""

import ast
import re

from tests.architecture.source_tree import ROOT, docstring_summary, module_name, module_paths


def documented_modules() -> dict[str, str]:
    return {module_name(path): docstring_summary(path) for path in module_paths() if path.name != "__init__.py"}


def documented_packages() -> dict[str, str]:
    return {module_name(path): docstring_summary(path) for path in module_paths() if path.name == "__init__.py"}


def test_every_module_opens_with_a_sentence_that_fits_a_table() -> None:
    sentences = documented_modules() | documented_packages()
    assert [name for name, sentence in sentences.items() if not sentence.endswith((".", "?"))] == []
    assert [name for name, sentence in sentences.items() if "|" in sentence or len(sentence) > 240] == []


def test_the_first_screen_of_the_readme_has_the_image_and_the_two_commands() -> None:
    first_screen = "\n".join((ROOT / "README.md").read_text(encoding="utf-8").splitlines()[:24])
    assert "uv run mcphost demo" in first_screen
    assert "uv run pytest" in first_screen
    (picture,) = re.findall(r"!\[[^]]+\]\(([^)]+)\)", first_screen)
    assert (ROOT / picture).stat().st_size > 10_000


def test_links_between_the_pages_have_targets() -> None:
    for page in ROOT.glob("*.md"):
        for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text(encoding="utf-8")):
            assert (ROOT / target).exists(), f"{page.name} points to {target}"


def parameter_names(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> set[str]:
    """Return the parameters of a function; for a class, return its fields and the parameters of its methods."""
    if isinstance(node, ast.ClassDef):
        members = [one for one in node.body if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)]
        fields = {
            one.target.id for one in node.body if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name)
        }
        return fields.union(*map(parameter_names, members))
    arguments = node.args
    named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    return {one.arg for one in [*named, arguments.vararg, arguments.kwarg] if one is not None}


def test_a_docstring_names_only_parameters_that_exist() -> None:
    wrong: list[str] = []
    for path in module_paths():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                named = set(re.findall(r"(?<![\w*])\*([a-z_]+)\*(?![\w*])", ast.get_docstring(node) or ""))
                wrong += [f"{module_name(path)}.{node.name}: *{name}*" for name in named - parameter_names(node)]
    assert wrong == []
