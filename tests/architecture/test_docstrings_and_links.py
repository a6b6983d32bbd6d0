"""Every module opens with one sentence; the documents link to files that exist."""

import re

from tests.architecture.source_tree import ROOT, docstring_summary, module_name, module_paths


def documented_modules() -> dict[str, str]:
    return {module_name(path): docstring_summary(path) for path in module_paths() if path.name != "__init__.py"}


def rooms() -> dict[str, str]:
    return {module_name(path): docstring_summary(path) for path in module_paths() if path.name == "__init__.py"}


def test_every_module_opens_with_a_sentence_that_fits_a_table() -> None:
    sentences = documented_modules() | rooms()
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
