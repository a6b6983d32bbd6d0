"""Tests that the theme follows the terminal's background color, as tmux and other terminals report it."""

from pathlib import Path

from tests.terminal.demo_program import open_demo, quit_program
from tests.terminal.terminal import Terminal

LIGHT_ROW, DARK_ROW = "48;2;251;251;250", "48;2;22;24;29"


def colors(terminal: Terminal) -> str:
    """Return the screen with its colors."""
    return terminal.tmux("capture-pane", "-p", "-e", "-N")


def test_the_light_theme_is_used_on_a_light_terminal(tmp_path: Path) -> None:
    with Terminal(tmp_path, environment={"COLORFGBG": ""}) as terminal:
        terminal.tmux("set", "-g", "window-style", "bg=#fbfbf0")
        open_demo(terminal)
        terminal.wait_until(lambda _: LIGHT_ROW in colors(terminal), "the light theme")
        quit_program(terminal)


def test_a_terminal_that_does_not_answer_gets_the_dark_theme_and_every_key_at_once(tmp_path: Path) -> None:
    with Terminal(tmp_path, environment={"COLORFGBG": ""}) as terminal:
        open_demo(terminal)
        terminal.type("what is 2 + 40?")
        terminal.wait_for("what is 2 + 40?")
        assert DARK_ROW in colors(terminal)
        assert "rgb:" not in terminal.screen()
        terminal.press("C-u")
        quit_program(terminal)
