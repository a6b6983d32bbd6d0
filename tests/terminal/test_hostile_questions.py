"""Tests that text from a hostile model and questions from a hostile server are shown with visible marks."""

from pathlib import Path

import pytest

from tests.terminal.hostile_text import (
    find_effects,
    model_server,
    run_on_terminal,
    sign_in_server,
    write_config,
    write_hostile_files,
)
from tests.terminal.terminal import Terminal


def leave_question(terminal: Terminal, question: str) -> None:
    """Wait until the question accepts keys, press Escape, and wait until it is closed."""
    terminal.wait_for_question(question)
    terminal.press("Escape")
    terminal.wait_until(lambda screen: question not in screen, f"the end of {question}")


def unfold_until(terminal: Terminal, mark: str) -> None:
    """Go back through the conversation, unfolding each block, until the screen shows *mark*."""
    terminal.press("C-t")
    terminal.wait_for("[ ] step")
    terminal.press("Enter")
    for _ in range(12):
        before = styled_screen(terminal)
        terminal.press("[", "Enter")
        terminal.wait_until(lambda _, before=before: styled_screen(terminal) != before, "another block")
        if mark in terminal.screen():
            break
    terminal.wait_for(mark)
    terminal.press("Escape")
    terminal.wait_for_cursor("Type a message")  # what follows an Escape at once is read as a key with Alt


def styled_screen(terminal: Terminal) -> str:
    """Return the screen with its colours, which also show what has the focus."""
    return terminal.tmux("capture-pane", "-p", "-e")


def close_page(terminal: Terminal, page: str) -> None:
    terminal.press("Escape")
    terminal.wait_until(lambda screen: page not in screen, f"the end of {page}")


def call_by_hand(terminal: Terminal, tool: str) -> None:
    """Call a tool as the user, and make sure that Enter does not accept a suggestion instead."""
    terminal.type(f"!evil/{tool}")
    terminal.wait_for("(tool-words)")
    terminal.type(" ")
    terminal.wait_until(lambda screen: "(tool-words)" not in screen, "no suggestion")
    terminal.press("Enter")


@pytest.mark.req("sec.terminal-escape")
@pytest.mark.timeout(240)
def test_no_byte_of_a_hostile_model_or_of_a_question_acts_on_the_terminal(terminal: Terminal, tmp_path: Path) -> None:
    raw = tmp_path / "raw"
    run_on_terminal(tmp_path, "tools", "evil", "--mcp-config", str(write_config(tmp_path)))
    write_config(tmp_path, changed=True)
    terminal.tmux("pipe-pane", f"cat > {raw}")
    with model_server() as base, sign_in_server() as other:
        write_hostile_files(tmp_path, other)
        terminal.start_chat("--model", "openai/m", "--api-base", base)
        terminal.wait_for_question("(approved)")
        terminal.press("End")  # it can be accepted once its end was on the screen
        terminal.wait_until(lambda screen: "read to the end first" not in screen, "its end")
        terminal.wait_between_keys()
        terminal.press("s")
        terminal.wait_until(lambda screen: "Use the server evil?" not in screen, "the answer")
        leave_question(terminal, "(after)")  # a tool that changed
        for page, *shown in (
            ("F7", "Permissions", "(grant-tool)"),
            ("C-o", "Shared folders", "(root-name)"),
            ("F10", "Audit  newest", "changed tools "),
            ("F3", "Servers  2 of 2", "sign-in needed"),
        ):
            terminal.press(page)
            terminal.wait_for(*shown)
            terminal.press("Down")
            if page == "F7":
                terminal.wait_for("(grant-account)", "(grant-place)")  # of the grant under the cursor
        terminal.wait_for("Servers  2 of 2", "(oauth-words)")
        terminal.press("F4")
        terminal.wait_for("(resource-title)")
        leave_question(terminal, "(root-name)")  # the first read
        terminal.wait_for("(resource-text)")
        terminal.press("w")
        terminal.wait_for("(refusal)")
        close_page(terminal, "(resource-title)")
        terminal.type("hello")
        terminal.press("Enter")
        terminal.wait_for("Run ", "(given)")
        terminal.wait_for_question("esc/d deny")
        terminal.press("End")
        terminal.wait_for("(tool-title)")
        leave_question(terminal, "esc/d deny")
        terminal.wait_for("THE END")
        unfold_until(terminal, "▾ thought")
        for tool, question in (("form", "(form-message)"), ("visit", "(visit-message)"), ("sample", "(system)")):
            call_by_hand(terminal, tool)
            terminal.wait_for_question(question)
            if tool == "form":
                terminal.press("Tab")
                terminal.wait_for("tab/enter next")
                terminal.press("Tab")
                terminal.wait_until(lambda screen: "ctrl+t empty text" not in screen, "the field with options")
                terminal.press("Space")  # opens the list of options
                terminal.wait_for("(option-name)")
                terminal.press("Escape")
                terminal.wait_for("esc cancel")  # the buttons have the focus again
            leave_question(terminal, question)
        terminal.type("break")
        terminal.press("Enter")
        terminal.wait_for("(model-error)")
        terminal.press("C-q")
        terminal.wait_for_shell()
    data = raw.read_bytes()
    drawn = data.decode("utf-8", "replace")
    sources = (
        "model-text", "(thinking", "given", "tool-title", "tool-words", "progress", "result", "answer", "model-error",
        "form-message", "visit-message", "system", "sampling-message", "(approved", "(before", "(after", "(root-name",
        "(folder", "(grant-tool", "(grant-account", "(grant-place", "(oauth-words", "(refusal", "(field-title",
        "(field-words", "(option-name",
    )  # fmt: skip
    assert [source for source in sources if source not in drawn] == []
    assert find_effects(data, screen=True) == []
