"""However the program is told to leave, it leaves like quit: conversation saved, servers ended, terminal restored."""

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

from tests.packaging.openai_stub import Stub, openai_stub
from tests.terminal.terminal import PROMPT, Terminal, wait_gone

MCPHOST = str(Path(sys.executable).with_name("mcphost"))
ANSWER = "Nothing to do for a tool"


@pytest.fixture
def model() -> Iterator[Stub]:
    with openai_stub("", {}) as stub:
        yield stub


def talk(terminal: Terminal, model: Stub, folder: Path, answer: str = ANSWER) -> None:
    """A chat with one server and one finished turn."""
    config = folder / "mcp.json"
    server = {"command": sys.executable, "args": ["-m", "mcphost.demo.server"]}
    config.write_text(json.dumps({"mcpServers": {"demo": server}}))
    terminal.run(MCPHOST, "chat", "--mcp-config", str(config), "--model", "openai/x", "--api-base", model.api_base)
    terminal.wait_for("openai/x", "demo", seconds=20)
    terminal.type("good morning")
    terminal.wait_for("good morning")
    terminal.press("Enter")
    # The model's library takes seconds to load in its own process.
    terminal.wait_for(answer, seconds=40)


def mcphost(folder: Path, *arguments: str) -> str:
    """What a command prints about the folder the terminal used."""
    homes = {f"MCPHOST_{kind}_DIR": str(folder / kind.lower()) for kind in ("CONFIG", "DATA", "STATE", "CACHE")}
    done = subprocess.run(
        [MCPHOST, *arguments], env={**os.environ, **homes}, capture_output=True, text=True, timeout=20
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def saved(folder: Path) -> list[dict[str, object]]:
    """What `mcphost sessions list --json` tells about the folder the terminal used."""
    listed = json.loads(mcphost(folder, "sessions", "list", "--json"))
    return listed if isinstance(listed, list) else listed["sessions"]


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGHUP], ids=["SIGTERM", "SIGHUP"])
def test_a_signal_ends_it_like_quit(sent: signal.Signals, terminal: Terminal, model: Stub, tmp_path: Path) -> None:
    talk(terminal, model, tmp_path)
    processes = terminal.processes()
    terminal.program().send_signal(sent)
    terminal.wait_until(lambda _: terminal.is_plain(), "the terminal as it was", seconds=2)
    terminal.wait_until(lambda screen: screen.rstrip().endswith(PROMPT), "the shell's prompt", seconds=5)
    wait_gone(processes, seconds=2)
    assert len(saved(tmp_path)) == 1


def test_a_lost_terminal_ends_it_like_quit(terminal: Terminal, model: Stub, tmp_path: Path) -> None:
    talk(terminal, model, tmp_path)
    processes = terminal.processes()
    terminal.tmux("kill-server")
    wait_gone(processes, seconds=6)
    assert len(saved(tmp_path)) == 1


def test_quitting_keeps_the_conversation(terminal: Terminal, model: Stub, tmp_path: Path) -> None:
    talk(terminal, model, tmp_path)
    processes = terminal.processes()
    terminal.press("C-q")
    terminal.wait_until(lambda _: terminal.is_plain(), "the terminal as it was", seconds=1.5)
    wait_gone(processes, seconds=5)
    (session,) = saved(tmp_path)
    assert session["messages"] == 2


class Endless(Stub):
    """Begins to answer and then says nothing more, until the test is over."""

    def __init__(self) -> None:
        super().__init__("", {})
        self.over = Event()

    def answer(self, body: dict[str, Any]) -> Iterator[dict[str, Any]]:
        yield {"role": "assistant", "content": "The first half"}
        self.over.wait(60)


def test_quitting_while_the_model_answers_keeps_what_it_said(terminal: Terminal, tmp_path: Path) -> None:
    with Endless() as model:
        thread = Thread(target=model.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            talk(terminal, model, tmp_path, answer="The first half")
            processes = terminal.processes()
            terminal.press("C-q")
            terminal.wait_until(lambda _: terminal.is_plain(), "the terminal as it was", seconds=1.5)
            wait_gone(processes, seconds=5)
        finally:
            model.over.set()
            model.shutdown()
            thread.join()
    (session,) = saved(tmp_path)
    assert session["messages"] == 2
    assert "The first half" in mcphost(tmp_path, "sessions", "show", str(session["id"]))


def test_two_instances_at_once_lose_nothing(terminal: Terminal, model: Stub, tmp_path: Path) -> None:
    with Terminal(tmp_path, environment={"OPENAI_API_KEY": "sk-none"}) as other:
        talk(terminal, model, tmp_path)
        talk(other, model, tmp_path)
        for one in (terminal, other):
            one.type("and again")
            one.wait_for("and again")
        for one in (terminal, other):
            one.press("Enter")
        for one in (terminal, other):
            one.wait_until(lambda screen: screen.count(ANSWER) == 2, "the second answer", seconds=20)
            processes = one.processes()
            one.press("C-q")
            wait_gone(processes, seconds=6)
    assert [session["messages"] for session in saved(tmp_path)] == [4, 4]


def test_a_terminal_lost_in_the_middle_of_drawing_does_not_hold_it_up(terminal: Terminal) -> None:
    terminal.run(MCPHOST, "demo")
    terminal.wait_for("what is 2 + 40?", "1/1 server", seconds=20)
    terminal.type("count slowly to 1000 in 60 s")
    terminal.wait_for("count slowly to 1000 in 60 s")
    terminal.press("Enter")
    terminal.wait_for("wants to run", "esc/d deny")
    terminal.pause(1.0)
    terminal.press("a")
    terminal.wait_until(lambda screen: "wants to run" not in screen, "the question answered")
    terminal.wait_for("/1000")
    processes = terminal.processes()
    terminal.tmux("kill-server")
    wait_gone(processes, seconds=6)
