"""Tests for `mcphost demo` as a new user sees it: a greeting, a tool call, and a question refused by default."""

import sys
from pathlib import Path

from tests.terminal.demo_program import TOOL_QUESTION, ask_demo, open_demo, quit_program
from tests.terminal.terminal import PROMPT, Terminal


def test_a_user_approves_a_tool_and_sees_its_result_by_keyboard_alone(terminal: Terminal) -> None:
    open_demo(terminal)
    screen = ask_demo(terminal, "what is 2 + 40?")
    assert "Deny" in screen
    assert "40" in screen
    terminal.press("a")
    terminal.wait_until(lambda screen: TOOL_QUESTION not in screen and "= 42" in screen, "the result")
    quit_program(terminal)


def test_enter_on_a_fresh_question_refuses(terminal: Terminal) -> None:
    open_demo(terminal)
    ask_demo(terminal, "what is 2 + 40?")
    terminal.press("Enter")
    screen = terminal.wait_until(
        lambda screen: TOOL_QUESTION not in screen and "declined" in screen.lower(), "the refusal"
    )
    assert "= 42" not in screen
    quit_program(terminal)


def test_keys_typed_before_the_question_do_not_answer_it(terminal: Terminal) -> None:
    open_demo(terminal)
    terminal.type("what is 2 + 40?")
    terminal.wait_for("what is 2 + 40?")
    # One burst: the question appears while these keys arrive.
    terminal.press("Enter", "a", "a", "a")
    screen = terminal.wait_for_question(TOOL_QUESTION)
    assert "= 42" not in screen


def test_alt_enter_starts_a_new_line(terminal: Terminal) -> None:
    open_demo(terminal)
    terminal.type("first line")
    terminal.press("M-Enter")
    terminal.type("second line")
    screen = terminal.wait_until(
        lambda screen: "first line\nsecond line" in "\n".join(map(str.strip, screen.split("\n"))), "both lines"
    )
    assert not [row for row in screen.split("\n") if row.strip().startswith("You  ")]
    quit_program(terminal)


def test_everything_fits_80_by_24(tmp_path: Path) -> None:
    with Terminal(tmp_path, columns=80, rows=24) as terminal:
        open_demo(terminal)
        screen = ask_demo(terminal, "what is 2 + 40?")
        assert "Deny" in screen
        assert "Allow once" in screen
        terminal.press("a")
        terminal.wait_until(lambda screen: TOOL_QUESTION not in screen and "= 42" in screen, "the result")
        quit_program(terminal)


def test_no_suggestion_wraps_in_60_columns_and_the_whole_greeting_is_shown(tmp_path: Path) -> None:
    with Terminal(tmp_path, columns=60, rows=24) as terminal:
        open_demo(terminal)
        screen = terminal.wait_for("Everything here is real", "leave.")
        suggestions = screen.partition("Try these, in order:\n")[2].partition("You approve")[0].rstrip("\n ")
        lines = [line.strip(" ▄▀█") for line in suggestions.splitlines() if line.strip(" ▄▀█")]
        asked = ("what", "remember", "show", "count", "delete", "order", "open", "ask")
        assert [line.split()[0] for line in lines] == list(asked)
        quit_program(terminal)


BROWSER = """#!{python}
import sys
from urllib.request import ProxyHandler, build_opener

build_opener(ProxyHandler({{}})).open(sys.argv[1], timeout=10).read()
"""


def test_the_greet_tool_asks_a_form_a_url_and_the_model(tmp_path: Path) -> None:
    browser = tmp_path / "browser"
    browser.write_text(BROWSER.format(python=sys.executable))
    browser.chmod(0o755)
    with Terminal(tmp_path, columns=80, rows=24, environment={"BROWSER": str(browser)}) as terminal:
        open_demo(terminal)
        terminal.wait_for("order tea", "open a page", "ask the model")
        ask_demo(terminal, "order tea")
        terminal.press("a")
        terminal.wait_for_question("asks you to fill in a form", "Your name*", "Decline")
        terminal.press("Tab")
        terminal.wait_for("esc to the buttons")
        terminal.type("Ada")
        # Cups, tea, with, day, hot, and sending it.
        terminal.press("Tab", "BSpace", "9")
        terminal.wait_for("must be at most 6")
        terminal.press("BSpace", "2")
        for name, *keys in (("tea", "Down", "Down", "Space"), ("with", "Down", "Space"), ("day",), ("hot", "n")):
            terminal.press("Tab")
            terminal.wait_for(f"{name} · ")
            for key in keys:
                terminal.press(key)
        terminal.press("Tab", "Enter")
        terminal.wait_for("returned: 2 cups of iced fresh mint tea with milk for Ada.")

        ask_demo(terminal, "open a page")
        terminal.press("a")
        terminal.wait_for_question("Open an address for", "127.0.0.1", "not encrypted; it leads to this machine")
        terminal.press("o")
        terminal.wait_for("returned: You visited the page.")

        ask_demo(terminal, "ask the model")
        terminal.press("a")
        # All that would be sent fits on this terminal; only the limits are below the edge.
        terminal.wait_for_question("Let demo ask your model?", "the kettle is on.", "a ask the model")
        terminal.press("a")
        terminal.wait_for_question("the kettle is on.", "esc/d", "end of turn")
        terminal.press("a")
        terminal.wait_for("returned: demo answered: the kettle is on.")
        quit_program(terminal)


def test_a_form_left_and_a_form_declined_are_not_the_same_to_the_server(terminal: Terminal) -> None:
    open_demo(terminal)
    for key, outcome in (("Escape", "returned: You cancelled the question"), ("C-d", "returned: You declined")):
        ask_demo(terminal, "order tea")
        terminal.press("a")
        terminal.wait_for_question("asks you to fill in a form")
        terminal.press(key)
        terminal.wait_for(outcome)
    quit_program(terminal)


def test_the_terminal_is_itself_again_after_quitting(terminal: Terminal) -> None:
    terminal.run("stty", "-a")
    terminal.wait_for("echoctl")
    before = terminal.wait_for_shell()
    open_demo(terminal)
    quit_program(terminal)
    terminal.run("clear")
    terminal.wait_until(lambda screen: screen.strip() == PROMPT, "an empty screen")
    terminal.run("stty", "-a")
    terminal.wait_for("echoctl")
    after = terminal.wait_for_shell()
    assert settings(after) == settings(before)


def settings(screen: str) -> list[str]:
    """Return the words that `stty -a` printed, without the command line and the prompts."""
    lines = screen.splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("speed"))
    end = next(number for number, line in enumerate(lines) if "echoctl" in line)
    return " ".join(lines[start : end + 1]).split()


def test_quitting_with_a_question_open_leaves_nothing(terminal: Terminal) -> None:
    open_demo(terminal)
    ask_demo(terminal, "what is 2 + 40?")
    quit_program(terminal)


def test_quitting_while_a_call_runs_leaves_nothing(terminal: Terminal) -> None:
    open_demo(terminal)
    ask_demo(terminal, "count slowly to 60")
    terminal.press("a")
    terminal.wait_until(lambda screen: TOOL_QUESTION not in screen, "the question answered")
    quit_program(terminal)


def test_the_chat_is_in_the_language_that_the_flag_names(terminal: Terminal) -> None:
    terminal.start_chat("demo", "--lang", "zh-CN")
    terminal.wait_for("服务器", "输入消息")
    terminal.press("C-q")
    terminal.wait_for_shell()
