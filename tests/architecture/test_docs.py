"""Tests of the user documentation: links resolve, commands and settings are valid, and the wording is plain."""

import re
import shlex
from pathlib import Path

import pytest

from mcphost.cli.main import parse_arguments
from mcphost.cli.parser import COMMANDS
from mcphost.config.loader import load_config
from mcphost.config.settings import Overrides
from tests.architecture.source_tree import ROOT

PAGES = sorted([*(ROOT / "docs").glob("*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "ARCHITECTURE.md"])
OF_USERS = ["README.md", "quick-start.md", "models.md", "costs.md", "servers.md", "consent.md",
            "instructions.md", "sign-in.md", "audit.md", "history.md", "scripting.md", "context.md",
            "security.md", "screen.md", "troubleshooting.md"]  # fmt: skip
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
PRIVATE_WORDS = re.compile(r"\b(house|houses|floor|floors|door|doors|ledgers?|pass phrase)\b", re.IGNORECASE)


def shown_commands(page: Path) -> list[str]:
    """Return the lines that start mcphost in the plain code blocks of a page, without comments."""
    lines = [line for language, block in BLOCK.findall(page.read_text(encoding="utf-8")) if not language
             for line in block.splitlines()]  # fmt: skip
    found = [re.sub(r"\s+#.*", "", line) for line in lines]
    return [line.split("| ")[-1].removeprefix("$ ") for line in found if re.match(r"(\$ )?(.*\| )?mcphost\b", line)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_to_a_file_leads_to_one(page: Path) -> None:
    links = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
    missing = [link for link in links if "://" not in link and not (page.parent / link).exists()]
    assert missing == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_it_shows_is_valid(page: Path) -> None:
    for line in shown_commands(page):
        command, *rest = shlex.split(line.removeprefix("mcphost").replace("…", "x")) or ["chat"]
        rest = [word.strip("[]") for word in rest if word != "..."]
        if command.startswith("--"):
            command, rest = "chat", [command, *rest]
        assert command in COMMANDS, line
        if "--help" not in rest and "--version" not in rest:
            parse_arguments(command, rest)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_setting_it_shows_is_read_without_a_problem(page: Path, tmp_path: Path) -> None:
    names = {"json": "mcp.json", "toml": "config.toml"}
    for number, (language, block) in enumerate(BLOCK.findall(page.read_text(encoding="utf-8"))):
        if language not in names or (language == "json" and '"mcpServers"' not in block):
            continue
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / names[language]).write_text(block, encoding="utf-8")
        config = load_config(folder, overrides=Overrides(), environ={}, strict=True)
        assert config.problems == (), block


def test_the_index_names_every_page_in_the_order_of_a_user() -> None:
    index = (ROOT / "docs/README.md").read_text(encoding="utf-8")
    assert re.findall(r"^\d+\. \[[^]]+\]\(([^)]+)\)", index, re.MULTILINE) == OF_USERS[1:]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_it_uses_no_private_words(page: Path) -> None:
    prose = re.sub(r"`[^`]*`", "", BLOCK.sub("", page.read_text(encoding="utf-8")))  # files and keys keep their names
    assert PRIVATE_WORDS.findall(prose) == []


def source_text() -> str:
    """Return the source code of mcphost with adjacent string literals joined."""
    text = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "mcphost").rglob("*.py"))
    return re.sub(r'"\s*\n\s*f?"', "", text)


def test_every_message_in_troubleshooting_is_a_message_of_the_program() -> None:
    page, source = (ROOT / "docs/troubleshooting.md").read_text(encoding="utf-8"), source_text()
    tables = re.findall(r"^\| message \|.*?(?=\n\n)", page, re.MULTILINE | re.DOTALL)
    messages = [row.split("|")[1].strip() for table in tables for row in table.splitlines()[2:]]
    assert len(messages) > 20
    missing = [one for one in messages for part in one.split(" … ") if part.replace('"', '\\"') not in source
               and part not in source]  # fmt: skip
    assert missing == []


def test_the_changelog_of_a_version_has_at_most_60_lines() -> None:
    versions = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").split("\n## ")
    assert max(version.count("\n") for version in versions) <= 60
