"""Tests for a program that is stopped and continued from the shell while a question is open."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.packaging.openai_stub import run_openai_stub
from tests.terminal.demo_program import MCPHOST_PATH, with_forked_worker
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
