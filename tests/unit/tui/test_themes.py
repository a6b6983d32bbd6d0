"""Tests for the built-in themes."""

from pathlib import Path

import pytest
from textual.color import Color
from textual.events import Key

from mcphost.tui import themes
from mcphost.tui.terminal_driver import ReplyParser, is_dark_color
from mcphost.tui.themes import RememberedTheme, guess_theme
from tests.contrast import contrast


def test_a_dark_and_a_light_theme_are_shipped() -> None:
    assert {"dark", "light"} <= set(themes.names())
    assert themes.load("dark")[0].dark
    assert not themes.load("light")[0].dark


def test_there_are_six_more_themes_dark_and_light() -> None:
    others = [themes.load(name)[0] for name in themes.names() if name not in {"dark", "light"}]
    assert len(others) >= 6
    assert {theme.dark for theme in others} == {True, False}


def test_a_theme_of_the_user_replaces_one_of_the_same_name(tmp_path: Path) -> None:
    text = (themes.find_file("light") or tmp_path).read_text()
    (tmp_path / "dark.toml").write_text(text)
    (tmp_path / "mine.toml").write_text(text)
    assert {"mine", "light", "dark"} <= set(themes.names(tmp_path))
    assert not themes.load("dark", tmp_path)[0].dark
    assert themes.load("mine", tmp_path)[0].name == "mine"


def test_a_themes_folder_that_cannot_be_examined_counts_as_missing(tmp_path: Path) -> None:
    folder = tmp_path / ("x" * 300)
    assert set(themes.names(folder)) == set(themes.names())
    assert themes.load("dark", folder)[0].dark


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("not toml [", "Correct the file"),
        ("[colors]\nbackground = 'red'\n", '"background"'),
        ("colors = 3\n", '"background"'),
        ("x = '" + "y" * 20_000 + "'", "bytes"),
    ],
)
def test_an_invalid_theme_file_is_named_with_what_to_correct(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(text)
    with pytest.raises(themes.ThemeError) as caught:
        themes.read(file)
    assert str(file) in str(caught.value)
    assert said in str(caught.value)
    theme, problem = themes.load("mine", tmp_path)
    assert theme.background == themes.load("dark")[0].background
    assert str(file) in problem


def test_no_file_outside_the_folders_is_a_theme(tmp_path: Path) -> None:
    (tmp_path / "evil.toml").write_text("x = 1")
    assert themes.find_file("../evil", tmp_path / "themes") is None


def test_a_choice_is_remembered_until_the_setting_changes(tmp_path: Path) -> None:
    remembered = RememberedTheme(tmp_path / "state")
    assert remembered.load("dark") == ""
    remembered.save("fjord", "dark")
    assert remembered.load("dark") == "fjord"
    assert remembered.load("light") == ""
    remembered.save("auto", "")
    assert remembered.load("") == "auto"


@pytest.mark.parametrize(
    ("value", "theme"), [("15;0", "dark"), ("0;15", "light"), ("0;default;7", "light"), ("", "dark"), ("x;y", "dark")]
)
def test_colorfgbg_is_the_first_guess(value: str, theme: str) -> None:
    assert guess_theme({"COLORFGBG": value}) == theme


@pytest.mark.parametrize(
    ("answer", "is_dark"),
    [
        ("1c1c/1f1f/2626", True),
        ("ffff/ffff/ffff", False),
        ("fb/fb/fa", False),
        ("#000000", True),
        ("0000/0000/0000/ffff", True),
        ("12", None),
        ("#12345", None),
    ],
)
def test_the_answer_of_the_terminal_is_a_color(answer: str, is_dark: bool | None) -> None:
    assert is_dark_color(answer) is is_dark


def keys_of(parser: ReplyParser, *pieces: str) -> list[str]:
    return [event.key for piece in pieces for event in parser.feed(piece) if isinstance(event, Key)]


@pytest.mark.parametrize("end", ["\x07", "\x1b\\"])
@pytest.mark.parametrize("size", [1, 2, 3, 7, 100])
def test_no_part_of_an_answer_is_typed_however_it_arrives(end: str, size: int) -> None:
    found: list[bool] = []
    text = f"ab\x1b]11;rgb:ffff/ffff/ffff{end}c\x1b]10;rgb:0000/0000/0000{end}d"
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    parser = ReplyParser(found.append)
    parser.is_answer_expected = True
    assert keys_of(parser, *pieces) == ["a", "b", "c", "d"]
    assert found == [False, True]


def test_the_beginning_of_an_answer_that_never_ends_is_typed_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr("mcphost.tui.terminal_driver.monotonic", lambda: now)
    monkeypatch.setattr("textual._parser.get_time", lambda: now)
    parser = ReplyParser(lambda _: None)
    assert keys_of(parser, "\x1b]1") == []
    now = 2.0
    typed = [event.key for event in parser.tick() if isinstance(event, Key)]
    now = 4.0
    typed += [event.key for event in parser.tick() if isinstance(event, Key)]
    assert typed[-1] == "1"
    assert keys_of(parser, "yz") == ["y", "z"]


def test_the_escape_key_works_while_an_answer_is_expected(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr("mcphost.tui.terminal_driver.monotonic", lambda: now)
    monkeypatch.setattr("textual._parser.get_time", lambda: now)
    parser = ReplyParser(lambda _: None)
    parser.is_answer_expected = True
    typed = keys_of(parser, "\x1b")
    now = 0.1
    typed += [event.key for event in parser.tick() if isinstance(event, Key)]
    now = 0.3
    typed += [event.key for event in parser.tick() if isinstance(event, Key)]
    assert typed == ["escape"]


def test_a_theme_that_does_not_exist_falls_back_to_usable_colours() -> None:
    assert themes.load("no such theme")[0].foreground


@pytest.mark.parametrize("name", themes.names())
def test_text_can_be_read_on_every_background(name: str) -> None:
    path = themes.find_file(name)
    assert path is not None
    theme = themes.read(path)
    # The tint is the background of the selected row of a list.
    for back in (theme.background, theme.surface, theme.panel, theme.variables["block-cursor-background"]):
        assert back is not None
        for role, least in (("text", 7.0), ("muted", 4.5), ("faint", 4.5)):
            assert contrast(Color.parse(back), Color.parse(theme.variables[role])) >= least, (back, role)
        for color in (theme.accent, theme.error, theme.warning, theme.success):
            assert color is not None
            assert contrast(Color.parse(back), Color.parse(color)) >= 4.5, (back, color)
