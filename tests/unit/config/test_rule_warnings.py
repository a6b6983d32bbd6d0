"""Tests for the warnings about rules in `consent.never` that match no call."""

from pathlib import Path

import pytest

from mcphost.config.loader import load_config
from mcphost.config.rule_syntax import parse_alternatives
from mcphost.config.rule_warnings import find_rule_warnings, find_rules_without_tool
from mcphost.config.rules import Rule
from mcphost.config.schema import ConfigWarning


def rules(*texts: str) -> list[Rule]:
    return [rule for text in texts for rule in parse_alternatives(text)]


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ("work/save?path=undr:/etc", 'did you mean "under:"?'),
        ("work/save?path=regex:a.*", 'did you mean "re:"?'),
        ("wrk/die", "there is no server 'wrk'; did you mean \"work\"?"),
    ],
)
def test_a_misspelt_rule_is_a_warning_when_the_configuration_is_loaded(tmp_path: Path, rule: str, words: str) -> None:
    (tmp_path / "config.toml").write_text(f'[consent]\nnever = ["{rule}"]\n')
    (tmp_path / "mcp.json").write_text('{"mcpServers": {"work": {"command": "true"}}}')
    (problem,) = load_config(tmp_path).problems
    assert words in problem
    assert repr(rule) in problem
    assert isinstance(problem, ConfigWarning)


def test_a_rule_that_can_match_is_no_warning() -> None:
    good = ("work", "work/die", "work/d*", "work/a/b", "a/b/die", "work/get?url=http:a", "work/x?path=under:/etc")
    assert find_rule_warnings(rules(*good), ["work", "a/b"], with_unlike=True) == ()


def test_a_server_of_another_project_is_named_only_on_request() -> None:
    assert find_rule_warnings(rules("other/die"), ["work"], with_unlike=False) == ()
    (warning,) = find_rule_warnings(rules("other/die"), ["work"], with_unlike=True)
    assert "there is no server 'other'." in warning


def test_a_tool_that_a_connected_server_does_not_have_is_a_warning() -> None:
    tools = {"work": ["die", "save"], "a/b": ["x"]}
    given = rules("work/dei", "work/saev", "work/die", "work/d*", "work", "away/x", "a/b/x")
    first, second = find_rules_without_tool(given, tools)
    assert first == 'In "consent.never", the rule \'work/dei\' matches no call: "work" has no such tool.'
    assert second.endswith("has no such tool. Did you mean 'save'?")
