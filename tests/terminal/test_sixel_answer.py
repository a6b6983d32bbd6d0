"""Tests that the terminal is asked for Sixel graphics when a picture is shown, whether it answers or not."""

import os
import pty
import select
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from fcntl import ioctl
from pathlib import Path
from struct import pack

import pytest

from tests.terminal.terminal import WAIT_SECONDS

QUERY = b"\x1b[c"
SIXEL = b"\x1bP0;1;0q"
HALF_BLOCK = "▀".encode()
PROJECT = Path(__file__).parents[2]
_OTHER_TERMINALS = ("TMUX", "STY", "ZELLIJ", "KITTY_WINDOW_ID", "GHOSTTY_RESOURCES_DIR")


class PictureTerminal:
    """A chat with a picture on a pseudo-terminal with cells of 9 × 18 pixels, or of an unknown size."""

    def __init__(self, *, has_pixels: bool = True, **environment: str) -> None:
        self._ours, theirs = pty.openpty()
        ioctl(theirs, termios.TIOCSWINSZ, pack("HHHH", 40, 120, *((1_080, 720) if has_pixels else (0, 0))))
        plain = {name: value for name, value in os.environ.items() if name not in _OTHER_TERMINALS}
        self._program = subprocess.Popen(
            [sys.executable, "-m", "tests.terminal.picture_program"],
            stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True, cwd=PROJECT,
            env={**plain, "TERM": "xterm-256color", "COLORTERM": "truecolor", **environment},
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

    def close(self) -> None:
        self._program.kill()
        self._program.wait()
        os.close(self._ours)


Open = Callable[..., PictureTerminal]


@pytest.fixture
def open_picture() -> Iterator[Open]:
    opened: list[PictureTerminal] = []

    def start(*, has_pixels: bool = True, **environment: str) -> PictureTerminal:
        opened.append(PictureTerminal(has_pixels=has_pixels, **environment))
        return opened[-1]

    yield start
    for terminal in opened:
        terminal.close()


def test_a_terminal_that_answers_with_sixel_graphics_gets_them_and_every_key_is_typed(open_picture: Open) -> None:
    terminal = open_picture()
    terminal.wait_for(QUERY)
    assert b"\x1b[48;2;" in terminal.written.partition(QUERY)[0], "the screen is drawn first"
    terminal.send(b"before\x1b[?62;4;22cafter")
    terminal.wait_for(b"beforeafter")
    terminal.wait_for(SIXEL)
    assert HALF_BLOCK not in terminal.written
    assert terminal.written.count(QUERY) == 1


def test_a_terminal_that_answers_without_sixel_graphics_gets_half_blocks(open_picture: Open) -> None:
    terminal = open_picture()
    terminal.wait_for(QUERY)
    terminal.send(b"\x1b[?62;22;52c")
    terminal.wait_for(HALF_BLOCK)
    assert SIXEL not in terminal.written


def test_a_terminal_that_does_not_answer_gets_half_blocks_and_takes_keys_meanwhile(open_picture: Open) -> None:
    terminal = open_picture()
    terminal.wait_for(QUERY)
    terminal.send(b"typed meanwhile")
    terminal.wait_for(b"typed meanwhile")
    terminal.wait_for(HALF_BLOCK)
    assert SIXEL not in terminal.written


@pytest.mark.parametrize("settings", [{"has_pixels": False}, {"TMUX": "/tmp/tmux-0/default,1,0"}, {"ZELLIJ": "0"}])
def test_a_terminal_whose_answer_would_not_help_is_not_asked(open_picture: Open, settings: dict[str, str]) -> None:
    terminal = open_picture(**settings)
    terminal.wait_for(HALF_BLOCK)
    assert QUERY not in terminal.written
