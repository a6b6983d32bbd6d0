"""Tests for a program that is stopped and continued from the shell while a question is open."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.packaging.openai_stub import run_openai_stub
from tests.terminal.demo_program import GREETING, MCPHOST_PATH, with_forked_worker
from tests.terminal.terminal import Terminal, wait_gone


def test_a_key_typed_in_the_shell_before_the_program_continues_answers_no_question(
    terminal: Terminal, tmp_path: Path
) -> None:
    config = tmp_path / "mcp.json"
    server = {"command": sys.executable, "args": ["-m", "mcphost.demo.server"]}
    config.write_text(json.dumps({"mcpServers": {"demo": server}}))
    with run_openai_stub("add", {"a": 1, "b": 2}) as model:
        chosen = ("--model", "openai/x", "--api-base", model.api_base)
        terminal.run(*with_forked_worker(), "chat", "--mcp-config", str(config), *chosen)
        terminal.wait_for("openai/x", "1/1 server")
        terminal.type("please")
        terminal.wait_for("please")
        terminal.press("Enter")
        terminal.wait_for_question("add")
        program = terminal.program()
        program.send_signal(signal.SIGTSTP)
        terminal.wait_until(lambda _: program.status() == "stopped" and terminal.is_plain(), "the shell")
        terminal.type("fg")
        terminal.press("Enter", "a")
        terminal.wait_for_question("add")
        processes = terminal.processes()
        terminal.press("C-q")
        wait_gone(processes, seconds=30)
    homes = {f"MCPHOST_{kind}_DIR": str(tmp_path / kind.lower()) for kind in ("CONFIG", "DATA", "STATE", "CACHE")}
    audit = [MCPHOST_PATH, "audit"]
    decisions = subprocess.run(audit, env={**os.environ, **homes}, capture_output=True, text=True, timeout=60).stdout
    assert "denied" in decisions
    assert "allowed" not in decisions


WRAPPER = "import subprocess, sys; sys.exit(subprocess.call(sys.argv[1:]))"


def test_a_program_whose_parent_stops_first_leaves_the_shell_usable_and_continues(terminal: Terminal) -> None:
    """As `uv run mcphost` does when its process group is stopped."""
    terminal.run(sys.executable, "-c", WRAPPER, MCPHOST_PATH, "demo")
    terminal.wait_for(GREETING, "what is 2 + 40?", "1/1 server")
    parent = terminal.program()
    (program,) = parent.children()
    parent.send_signal(signal.SIGSTOP)
    terminal.wait_for("Stopped")
    program.send_signal(signal.SIGTSTP)
    terminal.wait_until(lambda _: program.status() == "stopped" and terminal.is_plain(), "the shell's screen")
    terminal.wait_for("To continue, type fg.")
    terminal.type("fg")
    terminal.press("Enter")
    terminal.wait_for(GREETING, "what is 2 + 40?", "1/1 server")
    processes = terminal.processes()
    terminal.press("C-q")
    terminal.wait_for_shell()
    wait_gone(processes, seconds=30)


def test_a_program_that_is_stopped_alone_also_stops_its_parent_so_that_the_shell_returns(terminal: Terminal) -> None:
    terminal.run(sys.executable, "-c", WRAPPER, MCPHOST_PATH, "demo")
    terminal.wait_for(GREETING, "what is 2 + 40?", "1/1 server")
    (program,) = terminal.program().children()
    program.send_signal(signal.SIGTSTP)
    terminal.wait_for_shell()
    assert program.status() == "stopped"
    terminal.type("fg")
    terminal.press("Enter")
    terminal.wait_for(GREETING, "what is 2 + 40?", "1/1 server")
    processes = terminal.processes()
    terminal.press("C-q")
    terminal.wait_for_shell()
    wait_gone(processes, seconds=30)


def test_the_screen_is_drawn_again_in_the_same_size_after_the_program_continues(terminal: Terminal) -> None:
    terminal.run(MCPHOST_PATH, "demo")
    terminal.wait_for(GREETING, "what is 2 + 40?", "1/1 server")
    terminal.type("half a message")
    terminal.wait_for("half a message")
    program = terminal.program()
    program.send_signal(signal.SIGTSTP)
    terminal.wait_until(lambda _: program.status() == "stopped" and terminal.is_plain(), "the shell")
    terminal.type("fg")
    terminal.press("Enter")
    terminal.wait_for(GREETING, "what is 2 + 40?", "1/1 server", "half a message")
    processes = terminal.processes()
    terminal.press("C-q")
    wait_gone(processes, seconds=30)


def test_a_program_that_runs_already_when_it_is_continued_leaves_the_terminal_as_it_was(terminal: Terminal) -> None:
    """A debugger or `kill -STOP` stops the program without SIGTSTP; it then still has the terminal."""
    terminal.run(MCPHOST_PATH, "demo")
    terminal.wait_for(GREETING, "what is 2 + 40?", "1/1 server")
    program = terminal.program()
    threads = program.num_threads()
    for letter in "jqz":
        program.send_signal(signal.SIGCONT)
        # Keys that arrive while the terminal is taken over again are discarded.
        terminal.wait_until(lambda screen, twice=letter * 2: twice in screen or bool(terminal.type(twice)), letter)
    assert program.num_threads() <= threads
    processes = terminal.processes()
    terminal.press("C-q")
    terminal.wait_for_shell()
    wait_gone(processes, seconds=30)
    terminal.run("stty", "-a")
    assert " icanon" in terminal.wait_for("icanon")


def test_a_program_that_continues_in_the_background_is_usable_in_the_foreground(terminal: Terminal) -> None:
    terminal.run(MCPHOST_PATH, "demo")
    terminal.wait_for(GREETING, "what is 2 + 40?", "1/1 server")
    program = terminal.program()
    program.send_signal(signal.SIGTSTP)
    terminal.wait_until(lambda _: program.status() == "stopped" and terminal.is_plain(), "the shell")
    terminal.type("bg")
    terminal.press("Enter")
    terminal.wait_for(f"[1] {MCPHOST_PATH}")
    terminal.wait_until(lambda _: program.status() == "stopped" and terminal.is_plain(), "the shell again")
    terminal.type("fg")
    terminal.press("Enter")
    terminal.wait_for(GREETING, "what is 2 + 40?", "1/1 server")
    terminal.type("typed")
    terminal.wait_for("typed")
    processes = terminal.processes()
    terminal.press("C-q")
    terminal.wait_for_shell()
    wait_gone(processes, seconds=30)
