"""Tests for what commands draw on a terminal with colors: the status line of a run, and Markdown."""

import re

import pytest

from tests.flows.program import DEMO, Program
from tests.flows.typed_answers import answer_prompts

COUNT = ("run", "call demo__count_slowly to=4 seconds=1", "--model", "demo", "--allow", "demo")
BOLD, CODE = "\x1b[1m", "\x1b[36m"


def draw(program: Program, *arguments: str) -> str:
    """Run a command on a terminal with colors, and return everything that it writes."""
    program.env["TERM"] = "xterm-256color"
    code, shown = answer_prompts(program, (), "--mcp-config", program.servers(demo=DEMO), *arguments)
    assert code == 0, shown
    return shown


def test_a_run_shows_on_a_terminal_what_starts_what_it_waits_for_and_the_progress_of_calls(program: Program) -> None:
    shown = draw(program, *COUNT)
    starting, waiting = shown.index("Starting demo…"), shown.index("Waiting for demo (not an AI)…")
    progress = re.search(r"Calling demo/count_slowly: █+░* \d+%", shown)
    assert progress is not None, shown
    assert starting < waiting < progress.start() < shown.rindex("Counted to 4.")


def test_a_quiet_run_shows_nothing_but_the_answer(program: Program) -> None:
    shown = draw(program, *COUNT, "--quiet")
    assert not any(words in shown for words in ("Starting", "Waiting", "Calling"))
    assert "Counted to 4." in shown


@pytest.mark.parametrize(
    ("command", "source", "drawn"),
    [
        (("run", "hello", "--model", "demo"), "- `roll a die`", f"{CODE}roll a die\x1b[0m"),
        (("read", "demo", "demo://guide"), "# The demo server", f"{BOLD}The demo server\x1b[0m"),
        (("prompt", "demo", "plan", "topic=**stars**"), "**stars**", f"{BOLD}stars\x1b[0m"),
    ],
    ids=["answer", "resource", "prompt"],
)
def test_markdown_is_formatted_on_a_terminal_and_printed_as_it_is_elsewhere(
    program: Program, command: tuple[str, ...], source: str, drawn: str
) -> None:
    assert drawn in draw(program, *command)
    assert source in program.text("--mcp-config", program.servers(demo=DEMO), *command)
