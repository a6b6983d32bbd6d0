"""Tests for starting the real program: the user can type and quit before the servers are loaded."""

import json
import signal
import sys
from pathlib import Path

import pytest

from tests.terminal.demo_program import MCPHOST_PATH
from tests.terminal.terminal import Terminal, wait_gone

FIRST_FRAME = "ype a message"  # the cursor may be on the first letter


def start_chat_with_ten_servers(terminal: Terminal, folder: Path, *more: str) -> None:
    """Start a chat with ten servers and the demo model, and wait for the first frame."""
    server = {"command": sys.executable, "args": ["-m", "mcphost.demo.server"]}
    config = folder / "mcp.json"
    config.write_text(json.dumps({"mcpServers": {f"server{number}": server for number in range(10)}}))
    terminal.run(MCPHOST_PATH, "chat", "--mcp-config", str(config), "--model", "demo", *more)
    terminal.wait_for(FIRST_FRAME)


def test_a_message_entered_at_the_first_frame_is_answered(terminal: Terminal, tmp_path: Path) -> None:
    start_chat_with_ten_servers(terminal, tmp_path)
    terminal.type("good morning")
    terminal.press("Enter")
    terminal.wait_for("▌ good morning", "I follow a few fixed rules")


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT], ids=lambda sent: sent.name)
def test_a_signal_at_the_first_frame_ends_it_like_quit(
    sent: signal.Signals, terminal: Terminal, tmp_path: Path
) -> None:
    start_chat_with_ten_servers(terminal, tmp_path)
    processes = terminal.processes()
    terminal.program().send_signal(sent)
    terminal.wait_until(lambda _: terminal.is_plain(), "the terminal as it was")
    shown = terminal.wait_for_shell()
    wait_gone([*processes, *terminal.processes()][1:], seconds=60)
    assert "mistake" not in shown
    assert "Traceback" not in shown


def test_a_lost_terminal_at_the_first_frame_ends_it(terminal: Terminal, tmp_path: Path) -> None:
    start_chat_with_ten_servers(terminal, tmp_path)
    processes = terminal.processes()
    terminal.kill_server()
    wait_gone(processes, seconds=60)


def test_a_host_that_cannot_be_opened_is_reported_on_the_plain_terminal_with_its_exit_code(
    terminal: Terminal, tmp_path: Path
) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data/mcphost.db").touch()  # without a store, the answer is known before the screen is drawn
    terminal.run("sh", "-c", f"{MCPHOST_PATH} chat --model demo --resume nowhere; echo left with $?")
    shown = terminal.wait_for("left with 2", "There is no conversation 'nowhere'.", "mcphost sessions")
    assert terminal.is_plain()
    assert "Traceback" not in shown
