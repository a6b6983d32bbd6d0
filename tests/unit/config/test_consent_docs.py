"""Tests that the rules and configuration files shown in docs/consent.md are parsed as that page describes."""

import re
from pathlib import Path

import pytest

from mcphost.config.loader import load_config
from mcphost.config.rule_syntax import format_rule, parse_rule
from mcphost.config.rules import Condition
from mcphost.errors import UsageError

PAGE = (Path(__file__).parents[3] / "docs" / "consent.md").read_text(encoding="utf-8")
RULES = re.findall(r"^\| `([^`]+)` \| ", PAGE, re.MULTILINE)


def code_block(kind: str) -> str:
    found = re.search(rf"```{kind}\n(.*?)```", PAGE, re.DOTALL)
    assert found
    return found[1]


@pytest.mark.parametrize("text", RULES)
def test_each_rule_of_the_table_is_one(text: str) -> None:
    assert format_rule(parse_rule(text)) == text


def test_the_table_matches_the_code() -> None:
    assert len(RULES) == 10
    rules = [parse_rule(text) for text in RULES]
    assert [rule.covers("fs", "read_file") for rule in rules[:4]] == [True, True, True, True]
    assert [rule.covers("fs", "Read_file") for rule in rules[:4]] == [True, False, False, False]
    assert rules[5].conditions == (
        Condition(("force",), "is", (False,)),
        Condition(("branch",), "in", ("main", "dev")),
    )
    assert rules[7].conditions == (Condition(("options", "depth"), "<", (3,)),)
    assert rules[8].conditions == (Condition(("to",), "is", ("bob",)), Condition((), "only", ("subject", "body")))
    assert rules[9].conditions == (Condition((), "never-from", ("mail",)),)


@pytest.mark.parametrize("code", re.findall(r"`(%[0-9A-F]{2})`", PAGE))
def test_each_percent_code_of_the_page_is_one(code: str) -> None:
    assert parse_rule(f"s/a{code}b").exact_tool == f"a{bytes.fromhex(code[1:]).decode()}b"
    with pytest.raises(UsageError):
        parse_rule("s/a%")


@pytest.mark.req("sec.docs")
def test_it_explains_the_risks_and_the_readme_links_to_it() -> None:
    said = PAGE.split("## What you agree to")[1].split("## ")[0]
    for words in ("with your rights", "Allowing a tool", "Sampling", "at your cost"):
        assert words in said
    assert "docs/consent.md" in (Path(__file__).parents[3] / "README.md").read_text(encoding="utf-8")


def test_its_files_are_read(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(code_block("toml"))
    (tmp_path / "mcp.json").write_text(code_block("json"))
    config = load_config(tmp_path)
    assert config.problems == ()
    assert {format_rule(rule) for rule in config.never_rules} >= {"git/push?force=true", "fs/delete*", "shell"}
    assert config.servers[0].trust_annotations


def test_the_settings_about_origins_are_read(tmp_path: Path) -> None:
    (block,) = [block for block in re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL) if "never-from" in block]
    (tmp_path / "config.toml").write_text(block)
    config = load_config(tmp_path)
    assert (config.problems, config.consent.origins) == ((), "ask")
    assert [format_rule(rule) for rule in config.never_rules] == ["web/*?from:mail", "chat?from:*"]
    (tmp_path / "mcp.json").write_text(re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)[1])
    assert load_config(tmp_path).servers[0].review_results
    (tmp_path / "mcp.json").write_text(re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)[2])
    assert load_config(tmp_path).servers[0].disabled_tools == ("push", "delete_*")
