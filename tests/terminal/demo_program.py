"""Send messages to the demo in a terminal, and quit it."""

import json
import sys
from pathlib import Path

from tests.flows.fork_server import model_worker_command
from tests.terminal.terminal import Terminal, wait_gone

FORKED_WORKER = Path(__file__).with_name("forked_worker.py")
MCPHOST_PATH = str(Path(sys.executable).with_name("mcphost"))


GREETING = "demo (not an AI)"


TOOL_QUESTION = "Run demo ·"


def open_demo(terminal: Terminal) -> None:
    terminal.run(MCPHOST_PATH, "demo")
    terminal.wait_for(GREETING, "what is 2 + 40?", "1/1 server")


def ask_demo(terminal: Terminal, text: str) -> str:
    """Send a message, wait until the consent question for its call accepts keys, and return the screen."""
    terminal.wait_for_turn_end()
    terminal.type(text)
    terminal.wait_for(text)
    terminal.press("Enter")
    return terminal.wait_for_question(TOOL_QUESTION, "Deny", "esc/d deny")


def quit_program(terminal: Terminal) -> None:
    """Press Ctrl+Q, and check that the terminal is restored and that no process remains."""
    processes = terminal.processes()
    assert len(processes) >= 2, "the program and its server"
    terminal.press("C-q")
    terminal.wait_until(lambda _: terminal.is_plain(), "the terminal as it was")
    terminal.wait_for_shell()
    wait_gone(processes, seconds=30)


def with_forked_worker() -> tuple[str, ...]:
    """Return the command of the real mcphost, except that its model worker is forked with litellm already imported."""
    return (sys.executable, str(FORKED_WORKER), json.dumps(model_worker_command()))
