"""`mcphost demo`, as a newcomer meets it: greeting, a tool call, a question that refuses unless told otherwise."""

import sys
from pathlib import Path

from tests.terminal.terminal import PROMPT, Terminal, wait_gone

MCPHOST = str(Path(sys.executable).with_name("mcphost"))
GREETING = "demo (not an AI)"
QUESTION = "wants to run"
# A question ignores what is typed in its first 300 ms, so that nobody approves by accident; people take longer, and
# so does a busy machine between drawing the question and counting its time.
HEED = 1.0


def open_demo(terminal: Terminal) -> None:
    terminal.run(MCPHOST, "demo")
    terminal.wait_for(GREETING, "what is 2 + 40?", "1/1 server", seconds=20)


def ask(terminal: Terminal, text: str) -> str:
    """Type a message, wait for the question it leads to and for the moment it heeds keys."""
    terminal.type(text)
    terminal.wait_for(text)
    terminal.press("Enter")
    screen = terminal.wait_for(QUESTION, "Deny", "esc/d deny")
    terminal.pause(HEED)
    return screen


def quit_program(terminal: Terminal) -> None:
    """Ctrl+Q: the terminal is itself again within a second, and no process stays."""
    processes = terminal.processes()
    assert len(processes) >= 2, "the program and its server"
    terminal.press("C-q")
    terminal.wait_until(lambda _: terminal.is_plain(), "the terminal as it was", seconds=1.5)
    terminal.wait_until(lambda screen: screen.rstrip().endswith(PROMPT), "the shell's prompt", seconds=5)
    wait_gone(processes, seconds=2)


def test_a_person_gets_a_tool_approved_and_sees_its_result_by_keyboard_alone(terminal: Terminal) -> None:
    open_demo(terminal)
    screen = ask(terminal, "what is 2 + 40?")
    assert "Deny" in screen
    assert "40" in screen
    terminal.press("a")
    terminal.wait_until(lambda screen: QUESTION not in screen and "= 42" in screen, "the result")
    quit_program(terminal)


def test_enter_on_a_fresh_question_refuses(terminal: Terminal) -> None:
    open_demo(terminal)
    ask(terminal, "what is 2 + 40?")
    terminal.press("Enter")
    screen = terminal.wait_until(lambda screen: QUESTION not in screen and "declined" in screen.lower(), "the refusal")
    assert "= 42" not in screen
    quit_program(terminal)


def test_keys_typed_before_the_question_came_do_not_answer_it(terminal: Terminal) -> None:
    open_demo(terminal)
    terminal.type("what is 2 + 40?")
    terminal.wait_for("what is 2 + 40?")
    # One burst: the question appears while these are on their way.
    terminal.press("Enter", "a", "a", "a")
    screen = terminal.wait_for(QUESTION)
    terminal.pause(HEED)
    assert QUESTION in terminal.screen()
    assert "= 42" not in screen


def test_everything_fits_80_by_24(tmp_path: Path) -> None:
    with Terminal(tmp_path, columns=80, rows=24) as terminal:
        open_demo(terminal)
        screen = ask(terminal, "what is 2 + 40?")
        assert "Deny" in screen
        assert "Allow once" in screen
        terminal.press("a")
        terminal.wait_until(lambda screen: QUESTION not in screen and "= 42" in screen, "the result")
        quit_program(terminal)


def test_the_terminal_is_itself_again_after_quitting(terminal: Terminal) -> None:
    terminal.run("stty", "-a")
    before = terminal.wait_for("icanon")
    open_demo(terminal)
    quit_program(terminal)
    terminal.press("C-l")
    terminal.run("clear")
    terminal.run("stty", "-a")
    after = terminal.wait_for("icanon")
    assert settings(after) == settings(before)


def settings(screen: str) -> list[str]:
    """The words of `stty -a`, with the typed command and prompts left out."""
    lines = screen.splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("speed"))
    end = next(number for number, line in enumerate(lines) if "echoctl" in line)
    return " ".join(lines[start : end + 1]).split()


def test_quitting_with_a_question_open_leaves_nothing(terminal: Terminal) -> None:
    open_demo(terminal)
    ask(terminal, "what is 2 + 40?")
    quit_program(terminal)


def test_quitting_while_a_call_runs_leaves_nothing(terminal: Terminal) -> None:
    open_demo(terminal)
    ask(terminal, "count slowly to 60")
    terminal.press("a")
    terminal.wait_until(lambda screen: QUESTION not in screen, "the question answered")
    quit_program(terminal)
