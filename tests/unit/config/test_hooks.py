"""Tests for hooks in config.toml: parsing, and that an invalid hook is an error instead of being skipped."""

from pathlib import Path

import pytest

from mcphost.config.hooks import parse_project_hooks
from mcphost.config.loader import load_config
from mcphost.config.project_texts import ProjectText
from mcphost.errors import ConfigError
from tests.parsed_settings import parse_settings

GOOD = '[[hooks]]\nevent = "before_call"\nmatch = "files/write*?path=under:/etc"\ncommand = ["check", "--now"]\n'


def test_a_hook_has_its_event_rules_command_and_the_folder_of_its_file(tmp_path: Path) -> None:
    problems: list[str] = []
    (hook,) = parse_settings(GOOD, str(tmp_path / "config.toml"), problems.append).hooks
    assert problems == []
    assert hook.settings.command == ("check", "--now")
    assert (hook.settings.timeout, hook.settings.on_failure) == (10.0, "deny")
    assert [rule.server for rule in hook.rules] == ["files"]
    assert hook.folder == str(tmp_path)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('hooks = "check"', "is not a list"),
        ('[[hooks]]\nevent = "before_call"', 'hook 1 has no "command"'),
        ('[[hooks]]\nevent = "always"\ncommand = ["x"]', '"event"'),
        ('[[hooks]]\nevent = "before_call"\ncommand = "rm -rf /"', '"command" is text'),
        ('[[hooks]]\nevent = "before_call"\ncommand = []', '"command"'),
        ('[[hooks]]\nevent = "before_call"\ncommand = ["x"]\ntimeout = 301', '"timeout"'),
        ('[[hooks]]\nevent = "before_call"\ncommand = ["x"]\nmatch = "*"', 'in "match"'),
        ('[[hooks]]\nevent = "before_call"\ncommand = ["x"]\nallow = true', '"allow" is unknown'),
    ],
)
def test_a_wrong_hook_ends_the_start_because_it_may_be_meant_to_forbid(tmp_path: Path, text: str, reason: str) -> None:
    (tmp_path / "config.toml").write_text(
        f"{GOOD if text.startswith('[[') else ''}{text.replace('hook 1', 'hook 2')}\n"
    )
    with pytest.raises(ConfigError) as caught:
        load_config(tmp_path)
    assert reason.replace("hook 1", "hook 2") in str(caught.value)


def test_broken_toml_with_hooks_ends_the_start(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(f"{GOOD}x = \n")
    with pytest.raises(ConfigError, match="not valid TOML"):
        load_config(tmp_path)


def test_a_projects_hooks_with_a_long_key_are_refused_before_they_are_parsed() -> None:
    text = ProjectText(path="/repo/.mcphost/hooks.toml", text="a." * 11_000 + "a = 1", digest="", is_own=False)
    with pytest.raises(ConfigError, match=r"/repo/.mcphost/hooks.toml: a key of more than 50 parts"):
        parse_project_hooks(text, "/repo")
