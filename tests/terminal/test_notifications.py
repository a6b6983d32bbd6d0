"""Tests for notifying a user who is not looking at the terminal, and for the terminal's title."""

import os
import pty
import re
import select
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.terminal.demo_program import open_demo, quit_program
from tests.terminal.terminal import WAIT_SECONDS, Terminal

FOCUS_LOST = b"\x1b[O"
READY = b"\x1b]2;mcphost - ready\x1b\\"
ASKS = b"\x1b]2;mcphost - asks\x1b\\"
NOTIFICATION = b"\x1b]9;mcphost asks: demo / add\x1b\\"
_POINTER_SHAPE = re.compile(rb"\x1b\]22;[a-z-]*\x07")  # of Textual; its bell is the end of a sequence
TITLE_SAVED, TITLE_RESTORED = b"\x1b[22;0t", b"\x1b]2;\x1b\\\x1b[23;0t"


class RawTerminal:
    """The demo on a pseudo-terminal that records every byte of its output."""

    def __init__(self, folder: Path) -> None:
        self._ours, theirs = pty.openpty()
        termios.tcsetwinsize(theirs, (30, 100))
        folders = {f"MCPHOST_{kind}_DIR": str(folder / kind) for kind in ("CONFIG", "DATA", "STATE", "CACHE")}
        plain = {name: value for name, value in os.environ.items() if name not in ("TMUX", "STY")}
        self._program = subprocess.Popen(
            [sys.executable, "-m", "mcphost", "demo"],
            stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True,
            env={**plain, **folders, "TERM": "xterm-256color", "TERM_PROGRAM": "ghostty"},
        )  # fmt: skip
        os.close(theirs)
        self.written = b""

    def wait_for(self, text: bytes, seconds: float = WAIT_SECONDS) -> None:
        """Read until the program has written this text."""
        deadline = time.monotonic() + seconds
        while text not in self.written:
            assert select.select([self._ours], [], [], max(0, deadline - time.monotonic()))[0], (text, self.written)
            self.written += os.read(self._ours, 65_536)

    def send(self, data: bytes) -> None:
        os.write(self._ours, data)

    def ask(self, *, then: bytes = b"") -> None:
        """Send a message that leads to a consent question; the bytes *then* follow Enter immediately."""
        self.wait_for(READY)
        self.wait_for(b"1/1 server")  # a message is sent without a server that starts too slowly
        self.send(b"what is 2 + 40?")
        self.wait_for(b"40?")
        self.send(b"\r" + then)
        self.wait_for(ASKS)
        self.wait_for(b"waiting for you")

    def quit(self) -> None:
        """Quit the program, and read its last output."""
        self.send(b"\x11")
        self.wait_for(TITLE_RESTORED)
        assert self._program.wait(20) == 0

    def close(self) -> None:
        self._program.kill()
        self._program.wait()
        os.close(self._ours)


@pytest.fixture
def raw(tmp_path: Path) -> Iterator[RawTerminal]:
    terminal = RawTerminal(tmp_path)
    yield terminal
    terminal.close()


def test_a_question_notifies_a_user_whose_terminal_lost_the_focus(raw: RawTerminal) -> None:
    raw.ask(then=FOCUS_LOST)
    assert NOTIFICATION in raw.written
    raw.quit()
    assert raw.written.count(TITLE_SAVED) == raw.written.count(TITLE_RESTORED) == 1


def test_a_question_writes_no_notification_and_no_bell_while_the_terminal_has_the_focus(raw: RawTerminal) -> None:
    raw.ask()
    raw.quit()
    assert b"\x1b]9;" not in raw.written
    assert b"\x07" not in _POINTER_SHAPE.sub(b"", raw.written)


def test_tmux_shows_the_state_as_the_title_and_gets_its_old_one_back(terminal: Terminal) -> None:
    def title() -> str:
        return terminal.tmux("display-message", "-p", "#{pane_title}").strip()

    before = title()
    open_demo(terminal)
    terminal.wait_until(lambda _: title() == "mcphost - ready", "the title")
    quit_program(terminal)
    terminal.wait_until(lambda _: title() == before, "the old title")
