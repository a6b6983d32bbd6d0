"""Tests that follow the demo of the README and of the quick start in a terminal.

The steps are read from the pages, so that a change of a page or of the program fails here.
"""

import re
from pathlib import Path

from tests.architecture.source_tree import ROOT
from tests.terminal.demo_program import TOOL_QUESTION, open_demo
from tests.terminal.terminal import Terminal

_README = (ROOT / "README.md").read_text(encoding="utf-8")
QUICK_START = (ROOT / "docs/quick-start.md").read_text(encoding="utf-8")
DEMO_SECTION = QUICK_START.partition("\n## Try the demo\n")[2].partition("\n## ")[0]
DURATION = re.compile(r"\d+(?:\.\d+)? m?s\b")


def tmux_key(key: str) -> str:
    """Return the tmux name of a key as the pages write it: `Ctrl+Q`, `Enter`, `F8`, `a`."""
    return key.lower().replace("ctrl+", "C-") if key.startswith("Ctrl+") else key


def drawn_lines(text: str) -> list[str]:
    """Return the lines that carry text, without frames, surrounding spaces and durations."""
    lines = (DURATION.sub("…", re.sub(r"[│▎╭╰╮╯─]+", " ", line)) for line in text.splitlines())
    return [" ".join(line.split()) for line in lines if line.strip()]


def wait_for_block(terminal: Terminal, block: str, or_else: str | None = None) -> None:
    """Wait until every line of a page's block is on the screen, in order, or until *or_else* is."""
    wanted = "\n".join(drawn_lines(block))
    terminal.wait_until(
        lambda screen: wanted in "\n".join(drawn_lines(screen)) or bool(or_else and or_else in screen),
        f"the block of the page:\n{wanted}",
    )


def quit_by(terminal: Terminal, key: str) -> None:
    terminal.press(tmux_key(key))
    terminal.wait_until(lambda _: terminal.is_plain(), "the terminal as it was")
    terminal.wait_for_shell()


def test_the_first_minute_of_the_readme_works_as_written(terminal: Terminal) -> None:
    text = " ".join(_README.split())
    steps = re.search(
        r"Type `([^`]+)`, open the question with `(\w+)`, and allow the call once with `(\w+)`\. "
        r"`(\w+)` lists the keys and `([^`]+)` quits\.",
        text,
    )
    assert steps, "the README no longer tells the first minute in these words"
    message, open_key, allow_key, help_key, quit_key = steps.groups()
    assert "uv run mcphost demo" in _README
    open_demo(terminal)
    terminal.type(message)
    terminal.wait_for(message)
    terminal.press("Enter")
    waiting = re.compile(rf"{TOOL_QUESTION}.*press {open_key}\b", re.DOTALL | re.IGNORECASE)
    terminal.wait_until(lambda screen: bool(waiting.search(screen)), "the question")
    terminal.press(tmux_key(open_key))
    terminal.wait_for_question(TOOL_QUESTION)
    terminal.press(tmux_key(allow_key))
    terminal.wait_until(lambda screen: TOOL_QUESTION not in screen and "= 42" in screen, "the result")
    terminal.press(tmux_key(help_key))
    terminal.wait_for(f"{help_key} ", "esc back")
    quit_by(terminal, quit_key)


def test_the_demo_looks_as_the_quick_start_shows_it(tmp_path: Path) -> None:
    page = DEMO_SECTION
    _, question, result = re.findall(r"```\n(.*?)```", page, re.DOTALL)
    message, enter, open_key, allow_key = re.findall(r"(?:Type|and press|Press) `([^`]+)`", page)
    with Terminal(tmp_path, columns=80, rows=24) as terminal:
        assert "mcphost demo" in page
        open_demo(terminal)
        terminal.type(message)
        terminal.wait_for(message)
        terminal.press(tmux_key(enter))
        # On a busy machine the question comes more than 2 s after the last key, and then it opens without the press.
        wait_for_block(terminal, question, or_else=f"press {open_key} or tab to answer")
        terminal.press(tmux_key(open_key))
        terminal.wait_for_question(TOOL_QUESTION)
        terminal.press(tmux_key(allow_key))
        wait_for_block(terminal, result)
        quit_by(terminal, "Ctrl+Q")
