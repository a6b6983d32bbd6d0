"""Tests that the commands and settings shown in the README exist."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture.source_tree import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
COMMANDS = sorted(
    {
        match[1]
        for language, block in BLOCKS
        if not language
        for line in block.splitlines()
        if (match := re.match(r"(?:uv run )?mcphost +([a-z]+)\b", line))
    }
)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_it_names_explains_itself(command: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mcphost", command, "--help"], cwd=ROOT, capture_output=True, text=True, timeout=30
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"usage: mcphost {command}")


def test_its_settings_are_read_without_a_complaint(tmp_path: Path) -> None:
    from mcphost.config.loader import load_config
    from mcphost.config.settings import Overrides

    (tmp_path / "config.toml").write_text(next(block for language, block in BLOCKS if language == "toml"))
    config = load_config(tmp_path, files=(), project=None, overrides=Overrides(), environ={}, strict=True)
    assert config.problems == ()
    assert config.model.name == "anthropic/claude-sonnet-4-5"


SIGN_IN = (ROOT / "docs/sign-in.md").read_text(encoding="utf-8")


def test_commands_on_the_sign_in_page_are_valid() -> None:
    from mcphost.cli.main import parse_arguments

    typed = re.findall(r"(?:^|`)mcphost ([a-z][^`#\n]*)", SIGN_IN, re.MULTILINE)
    assert {words.split()[0] for words in typed} >= {"login", "logout", "accounts", "servers", "doctor"}
    for words in typed:
        command, *rest = words.split()
        parse_arguments(command, rest)


def test_the_accounts_of_that_page_are_read_without_a_complaint(tmp_path: Path) -> None:
    from mcphost.config.loader import load_config
    from mcphost.config.settings import Overrides

    (tmp_path / "mcp.json").write_text(re.findall(r"^```json\n(.*?)^```", SIGN_IN, re.MULTILINE | re.DOTALL)[0])
    config = load_config(tmp_path, files=(), project=None, overrides=Overrides(), environ={}, strict=True)
    assert config.problems == ()
    assert [server.oauth.account for server in config.servers] == ["work", "personal"]
