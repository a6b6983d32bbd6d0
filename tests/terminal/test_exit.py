"""Tests that every way to end the program saves the conversation, ends servers and restores the terminal."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest

from tests.packaging.openai_stub import OpenAiStub, run_openai_stub
from tests.terminal.demo_program import MCPHOST_PATH, with_forked_worker
from tests.terminal.terminal import Terminal, wait_gone

ANSWER = "Nothing to do for a tool"
DEMO_ANSWER = "I follow a few fixed rules"


@pytest.fixture
def model_stub() -> Iterator[OpenAiStub]:
    with run_openai_stub("", {}) as stub:
        yield stub


def run_chat_turn(
    terminal: Terminal,
    model: OpenAiStub | None,
    folder: Path,
    answer: str = ANSWER,
    program: tuple[str, ...] = (MCPHOST_PATH,),
) -> None:
    """Start a chat with one server and wait for the answer to a message, by default from the demo model."""
    config = folder / "mcp.json"
    server = {"command": sys.executable, "args": ["-m", "mcphost.demo.server"]}
    config.write_text(json.dumps({"mcpServers": {"demo": server}}))
    chosen = ("--model", "openai/x", "--api-base", model.api_base) if model else ("--model", "demo")
    terminal.run(*program, "chat", "--mcp-config", str(config), *chosen)
    terminal.wait_for("openai/x" if model else "demo (not an AI)", "1/1 server")
    terminal.type("good morning")
    terminal.wait_for("good morning")
    terminal.press("Enter")
    # The model's library takes seconds to load in its own process.
    terminal.wait_for(answer if model else DEMO_ANSWER)


def send_second_message(terminal: Terminal) -> None:
    """Send a second message as soon as the first turn is over."""
    terminal.wait_for_turn_end()
    terminal.type("and again")
    terminal.wait_for("and again")
    terminal.press("Enter")
    terminal.wait_for("▌ and again")


def mcphost(folder: Path, *arguments: str) -> str:
    """Run an mcphost command with the folders of the terminal, and return its output."""
    homes = {f"MCPHOST_{kind}_DIR": str(folder / kind.lower()) for kind in ("CONFIG", "DATA", "STATE", "CACHE")}
    done = subprocess.run(
        [MCPHOST_PATH, *arguments], env={**os.environ, **homes}, capture_output=True, text=True, timeout=20
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def saved_sessions(folder: Path) -> list[dict[str, object]]:
    """Return the saved conversations that `mcphost sessions list --json` prints for the terminal's folders."""
    listed = json.loads(mcphost(folder, "sessions", "list", "--json"))
    return listed if isinstance(listed, list) else listed["sessions"]


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGHUP], ids=["SIGTERM", "SIGHUP"])
def test_a_signal_ends_it_like_quit(
    sent: signal.Signals, terminal: Terminal, model_stub: OpenAiStub, tmp_path: Path
) -> None:
    run_chat_turn(terminal, model_stub if sent == signal.SIGTERM else None, tmp_path)
    processes = terminal.processes()
    terminal.program().send_signal(sent)
    terminal.wait_until(lambda _: terminal.is_plain(), "the terminal as it was")
    terminal.wait_for_shell()
    wait_gone(processes, seconds=30)
    assert len(saved_sessions(tmp_path)) == 1


def test_a_lost_terminal_ends_it_like_quit(terminal: Terminal, model_stub: OpenAiStub, tmp_path: Path) -> None:
    run_chat_turn(terminal, model_stub, tmp_path, program=with_forked_worker())
    processes = terminal.processes()
    terminal.kill_server()
    wait_gone(processes, seconds=30)
    assert len(saved_sessions(tmp_path)) == 1


def test_quitting_keeps_the_conversation(terminal: Terminal, tmp_path: Path) -> None:
    run_chat_turn(terminal, None, tmp_path)
    processes = terminal.processes()
    terminal.press("C-q")
    terminal.wait_until(lambda _: terminal.is_plain(), "the terminal as it was")
    wait_gone(processes, seconds=30)
    (session,) = saved_sessions(tmp_path)
    assert session["messages"] == 2


class EndlessModel(OpenAiStub):
    """A model server that starts an answer and then sends nothing until the test ends."""

    def __init__(self) -> None:
        super().__init__("", {})
        self.over = Event()

    def stream_deltas(self, body: dict[str, Any]) -> Iterator[dict[str, Any]]:
        yield {"role": "assistant", "content": "The first half"}
        self.over.wait(60)


def test_quitting_while_the_model_answers_keeps_its_text(terminal: Terminal, tmp_path: Path) -> None:
    with EndlessModel() as model:
        thread = Thread(target=model.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            run_chat_turn(terminal, model, tmp_path, answer="The first half", program=with_forked_worker())
            processes = terminal.processes()
            terminal.press("C-q")
            terminal.wait_until(lambda _: terminal.is_plain(), "the terminal as it was")
            wait_gone(processes, seconds=30)
        finally:
            model.over.set()
            model.shutdown()
            thread.join()
    (session,) = saved_sessions(tmp_path)
    assert session["messages"] == 2
    assert "The first half" in mcphost(tmp_path, "sessions", "show", str(session["id"]))


def test_two_instances_at_once_lose_no_grant(terminal: Terminal, tmp_path: Path) -> None:
    with Terminal(tmp_path, environment={"OPENAI_API_KEY": "sk-none"}) as other:
        run_chat_turn(terminal, None, tmp_path)
        run_chat_turn(other, None, tmp_path)
        for item in (terminal, other):
            send_second_message(item)
        for item in (terminal, other):
            item.wait_until(lambda screen: DEMO_ANSWER in screen.partition("▌ and again")[2], "an answer to that")
            processes = item.processes()
            item.press("C-q")
            wait_gone(processes, seconds=30)
    assert [session["messages"] for session in saved_sessions(tmp_path)] == [4, 4]


def test_a_terminal_lost_while_drawing_does_not_block_the_exit(terminal: Terminal) -> None:
    terminal.run(MCPHOST_PATH, "demo")
    terminal.wait_for("what is 2 + 40?", "1/1 server")
    terminal.type("count slowly to 1000 in 60 s")
    terminal.wait_for("count slowly to 1000 in 60 s")
    terminal.press("Enter")
    terminal.wait_for_question("Run demo ·", "esc/d deny")
    terminal.press("a")
    terminal.wait_until(lambda screen: "Run demo ·" not in screen, "the question answered")
    terminal.wait_for("/1000")
    processes = terminal.processes()
    terminal.kill_server()
    wait_gone(processes, seconds=30)
