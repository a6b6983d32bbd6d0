"""Tests for the table [keys] in config.toml, which changes keyboard shortcuts."""

from pathlib import Path

import pytest

from mcphost.cli import chat
from mcphost.cli.parser import Options
from mcphost.config.schema import HostConfig, KeyConfig
from mcphost.config.toml_files import find_entry_line
from tests.parsed_settings import parse_settings


def read(text: str) -> tuple[tuple[KeyConfig, ...], list[str]]:
    problems: list[str] = []
    return parse_settings(text, "config.toml", problems.append).keys, problems


def test_an_action_has_one_key_or_several_or_none() -> None:
    keys, problems = read('[keys]\ntheme = "ctrl+k"\nhistory = ["f6", "alt+h"]\nfolders = []\n')
    assert keys == (KeyConfig("theme", ("ctrl+k",)), KeyConfig("history", ("f6", "alt+h")), KeyConfig("folders", ()))
    assert problems == []


@pytest.mark.parametrize("value", ["3", "true", "[1]", "{a = 1}", '["a", "b", "c", "d", "e", "f"]', f'"{"x" * 41}"'])
def test_a_wrong_value_is_named_and_left_out(value: str) -> None:
    keys, (problem,) = read(f'[keys]\ntheme = {value}\nhistory = "f6"\n')
    assert keys == (KeyConfig("history", ("f6",)),)
    assert problem.startswith('config.toml, line 2: "theme" is not a key')
    assert 'write "ctrl+k"' in problem


def test_at_most_200_entries_are_read() -> None:
    keys, (problem,) = read("[keys]\n" + "".join(f'a{n} = "f6"\n' for n in range(300)))
    assert len(keys) == 200
    assert "200" in problem


def test_the_chat_tells_the_line_of_each_wrong_entry_and_how_to_correct_it(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text('theme = "dark"\n[keys]\nthemes_ = "ctrl+k"\n\nhistory = "a"\nfolders = "f5"\n', "utf-8")
    keys = (KeyConfig("themes_", ("ctrl+k",)), KeyConfig("history", ("a",)), KeyConfig("folders", ("f5",)))
    config = HostConfig(keys=keys, settings_file=str(file))
    assert chat.check_screen_settings(Options(), config).problems == (
        f'{file}, line 3: "themes_" is not an action; did you mean "theme"?',
        f'{file}, line 5: "history": a types text or moves the cursor; add ctrl or alt, or use a function key; '
        "its default key F6 stays in use.",
        f'{file}, line 6: f5 is now assigned to "folders", which leaves "prompts" with /prompts. '
        'Give "prompts" another key, or write prompts = [] for none.',
    )


def test_problems_without_the_file_name_no_line() -> None:
    keys = (KeyConfig("themes_", ("ctrl+k",)),)
    (problem,) = chat.check_screen_settings(Options(), HostConfig(keys=keys)).problems
    assert "line" not in problem


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("[keys]\ntheme = 1", 2),
        ("  [ keys ]  # mine\n\n 'theme'=1", 3),
        ('["keys"]\n"theme" = 1', 2),
        ("keys.theme = 1", 1),
        ("a = 1\nkeys = {theme = 1}", 2),
        ("[model]\ntheme = 1\n[keys]\ntheme = 1", 4),
        ("[keys]\ntheme_2 = 1\n[model]\ntheme = 1", 0),
        ("[[keys]]\ntheme = 1", 0),
        ("", 0),
    ],
)
def test_the_line_of_an_entry_is_found(text: str, line: int) -> None:
    assert find_entry_line(text, "keys", "theme") == line


def test_a_name_of_a_key_is_not_a_pattern() -> None:
    assert find_entry_line("[keys]\nxx = 1\n", "keys", "x.") == 0
