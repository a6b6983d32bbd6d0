"""Every module says in one sentence what it is for, and ARCHITECTURE.md says the same."""

import re

from tests.house.tree import ROOT, module_name, purpose, sources

ROW = re.compile(r"^\| `([\w.]+)` \| (.*?) \|$", re.MULTILINE)
HEADING = re.compile(r"^### `(mcphost[\w./]*)` — (.*)$", re.MULTILINE)


def modules() -> dict[str, str]:
    return {module_name(path): purpose(path) for path in sources() if path.name != "__init__.py"}


def rooms() -> dict[str, str]:
    return {module_name(path): purpose(path) for path in sources() if path.name == "__init__.py"}


def test_every_module_opens_with_a_sentence_that_fits_a_table() -> None:
    sentences = modules() | rooms()
    assert [name for name, sentence in sentences.items() if not sentence.endswith(".")] == []
    assert [name for name, sentence in sentences.items() if "|" in sentence or len(sentence) > 240] == []


def test_the_table_of_architecture_md_has_every_module_with_its_own_sentence() -> None:
    """`python -m tests.house.write_tables` brings the page up to date."""
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    assert dict(ROW.findall(text)) == modules()
    assert dict(HEADING.findall(text)) == rooms()
