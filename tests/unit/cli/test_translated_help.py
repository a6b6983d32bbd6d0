"""Tests that the help and error messages of the command line are in the user's language."""

import re
from argparse import Namespace
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from mcphost import translation
from mcphost.cli import language, main
from mcphost.cli.help_text import count_wide_cells, wrap_cells
from mcphost.cli.parser import COMMANDS, EDIT_ACTIONS
from mcphost.translation import CHINESE, set_language
from tests.translation.pseudo_language import PseudoLanguage

_LOWER_WORD = re.compile(r"(?<![\w/.:-])[A-Z]?[a-z]{3,}(?![\w-]|\.\w)")
COMMAND_LINES = [*((name,) for name in COMMANDS), *(("servers", action) for action in EDIT_ACTIONS)]

CHOICES = {"auto", "stateless", "handshake", "debug", "info", "warning", "error"}


@pytest.fixture(autouse=True)
def _keep_language(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.setenv("MCPHOST_CONFIG_DIR", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "80")
    for name in ("LC_ALL", "LC_MESSAGES", "LANG"):
        monkeypatch.delenv(name, raising=False)
    set_language(CHINESE)
    yield
    set_language("en")


@pytest.fixture
def pseudo_language(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(main, "set_language_later", lambda choose: None)
    translation.use_catalog(PseudoLanguage())


def output_of(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    main.main(list(arguments))
    out, err = capsys.readouterr()
    return out + err


def names_of(words: tuple[str, ...]) -> set[str]:
    """Return the words that a command's help may contain untranslated: command names, and choices of arguments."""
    known = {"mcphost", *COMMANDS, *EDIT_ACTIONS, "list", "trust", "check", "changes", "secure"}
    if words:
        parser = main.command_parser(*words)
        module: Any = import_module(main.module_of(*words))
        module.add_arguments(words[-1], parser)
        known |= {str(choice) for action in vars(parser)["_actions"] for choice in action.choices or ()}
    return known


@pytest.mark.usefixtures("pseudo_language")
@pytest.mark.parametrize("words", [(), *COMMAND_LINES], ids=" ".join)
def test_help_has_no_text_without_a_translation(capsys: pytest.CaptureFixture[str], words: tuple[str, ...]) -> None:
    shown = output_of(capsys, *words, "--help")
    assert set(_LOWER_WORD.findall(shown)) - names_of(words) - CHOICES == set()


@pytest.mark.usefixtures("pseudo_language")
@pytest.mark.parametrize(
    "arguments",
    [
        ["--nope"],
        ["nope"],
        ["chta"],
        ["call"],
        ["--era", "nope", "tools"],
        ["--era"],
        ["--timeout", "nope", "tools"],
        ["--timeout", "-1", "tools"],
        ["run", "--max-rounds", "0", "x"],
        ["run", "--max-rounds", "x", "x"],
        ["run", "--max-cost", "x", "x"],
        ["costs", "--days", "x"],
        ["serve", "--port", "80"],
        ["serve", "--port", "x"],
        ["servers", "search", "--since", "x"],
        ["servers", "add", "a", "--nope"],
        ["servers", "remove"],
        ["tools", "--json=1"],
        ["--resume", "--", "tools"],
        ["servers", "--yes", "add"],
        ["servers", "changes"],
        ["servers", "--keep"],
        ["sessions", "search"],
        ["grants", "revoke"],
        ["audit", "show"],
        ["accounts", "use"],
        ["chat"],
    ],
    ids=" ".join,
)
def test_an_error_of_the_arguments_has_no_text_without_a_translation(
    capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    shown = output_of(capsys, *arguments)
    given = {word for one in arguments for word in re.findall("[a-z]+", one)}
    assert shown.startswith("mcphost: ")
    assert set(_LOWER_WORD.findall(shown)) - {"mcphost", "chat", "auto", "stateless", "handshake"} - given == set()


def test_help_has_no_colors_of_its_own_on_any_version_of_python(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")  # what a terminal is for argparse since Python 3.14
    assert "\x1b" not in output_of(capsys, "run", "--help") + output_of(capsys, "--help")


def test_help_is_chinese_in_a_chinese_locale(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LANG", "zh_CN.UTF-8")
    shown = output_of(capsys, "run", "--help")
    assert shown.startswith("用法：mcphost run")
    assert "\n选项:\n" in shown
    assert "显示此帮助信息并退出" in shown
    assert all(count_wide_cells(line) <= 80 for line in shown.splitlines())


def test_the_setting_comes_before_the_locale(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "config.toml").write_text('[screen]\nlanguage = "zh-CN"\n')
    monkeypatch.setenv("LANG", "en_US.UTF-8")
    assert output_of(capsys, "nope").startswith("mcphost: 没有命令 'nope'。")
    monkeypatch.delenv("MCPHOST_CONFIG_DIR")
    assert output_of(capsys, "nope", "--config-dir", str(tmp_path)).startswith("mcphost: 没有命令")
    assert output_of(capsys, f"--config-dir={tmp_path}", "nope").startswith("mcphost: 没有命令")


def test_the_flag_comes_before_the_setting_and_the_locale(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "config.toml").write_text('[screen]\nlanguage = "zh-CN"\n')
    monkeypatch.setenv("LANG", "zh_CN.UTF-8")
    assert output_of(capsys, "--lang", "en", "nope").startswith("mcphost: There is no command 'nope'.")
    monkeypatch.setenv("LANG", "en_US.UTF-8")
    (tmp_path / "config.toml").unlink()
    assert output_of(capsys, "--lang", "zh-CN", "nope").startswith("mcphost: 没有命令 'nope'。")
    assert output_of(capsys, "run", "--help", "--lang=zh-CN").startswith("用法：mcphost run")
    assert output_of(capsys, "--lang", "fr", "servers").startswith("mcphost: Argument --lang: invalid choice: 'fr'")


@pytest.mark.parametrize("content", ['[screen]\nlanguage = "xx"', "screen = 'language'", "language = [", "\0"])
def test_a_setting_that_is_no_language_leaves_the_choice_to_the_locale(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, content: str
) -> None:
    (tmp_path / "config.toml").write_text(content)
    assert output_of(capsys, "nope") == "mcphost: There is no command 'nope'. See: mcphost --help\n"


def test_texts_are_english_where_there_is_no_catalog(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(translation, "FOLDERS", {CHINESE: "missing"})
    set_language("en")
    set_language(CHINESE)
    assert translation.current_language() == "en"
    assert translation._("Servers") == "Servers"


def test_the_version_needs_neither_the_configuration_nor_a_catalog(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_arguments: list[str]) -> str:
        raise AssertionError("the language was chosen")

    monkeypatch.setattr(language, "choose_command_language", fail)
    assert output_of(capsys, "--version").startswith("mcphost ")


def test_words_of_help_are_broken_by_cells() -> None:
    assert wrap_cells("中文，中文 word 中文", 6) == ["中文，", "中文", "word", "中文"]
    assert wrap_cells("a" * 9 + " b", 4) == ["a" * 9, "b"]
    assert wrap_cells("", 4) == [""]


@pytest.mark.parametrize(("words", "columns"), [((), 80), (("servers",), 80), ((), 60), ((), 30)])
def test_the_list_of_commands_fits_into_the_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], columns: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    shown = output_of(capsys, *words, "--help").splitlines()
    listed = [line for line in shown if line.startswith(("  demo ", "  lock ", "              "))]
    assert max(map(len, listed)) <= columns
    assert any(line.strip() for line in listed)


def test_the_description_of_a_command_is_made_for_its_help_only() -> None:
    parser = main.command_parser("run")
    assert parser.description is None
    assert isinstance(parser.parse_args([]), Namespace)
