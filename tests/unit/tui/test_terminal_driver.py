"""Tests for mcphost's terminal driver: output after the terminal is lost is not an error, and pictures are written."""

import contextlib
import fcntl
import os
import pty
import struct
import termios
from collections.abc import Callable
from threading import Thread
from typing import Any

import pytest
from textual import events
from textual.drivers._writer_thread import MAX_QUEUED_WRITES, WriterThread

from mcphost.tui.sixel_graphics import GraphicsTerminal
from mcphost.tui.terminal_driver import ReplyParser, ResilientDriver, ResilientStream


def test_any_number_of_frames_can_be_written_to_a_terminal_that_hung_up() -> None:
    master, slave = pty.openpty()
    stream = os.fdopen(slave, "w")
    os.close(master)
    writer = WriterThread(ResilientStream(stream))  # type: ignore[arg-type]

    def draw() -> None:
        for _ in range(10 * MAX_QUEUED_WRITES):
            writer.write("frame " * 2000)
            writer.flush()
        writer.stop()

    writer.start()
    drawing = Thread(target=draw, daemon=True)
    drawing.start()
    drawing.join(5)
    assert not drawing.is_alive()
    with contextlib.suppress(OSError):  # buffered output has no destination
        stream.close()


def test_ordinary_text_is_passed_to_the_terminal_unchanged() -> None:
    master, slave = pty.openpty()
    stream = os.fdopen(slave, "w")
    steady = ResilientStream(stream)
    assert steady.write("hé") == 2
    steady.flush()
    assert os.read(master, 100) == "hé".encode()
    assert steady.fileno() == slave
    stream.close()
    os.close(master)


class InstantLoop:
    """An event loop that calls functions from other threads at once."""

    def call_soon_threadsafe(self, callback: Callable[[], object]) -> None:
        callback()


class RecordingDriver(ResilientDriver):
    """A driver that counts how often it was asked to take over the terminal again."""

    def __init__(self, fileno: int) -> None:
        self.fileno, self.resumed = fileno, 0
        self._auto_restart, self._writer_thread = True, None
        self._loop = InstantLoop()

    def resume_application_mode(self) -> None:
        self.resumed += 1


def test_a_screen_is_not_started_again_on_a_lost_terminal_or_after_its_end() -> None:
    master, slave = pty.openpty()
    driver = RecordingDriver(slave)
    driver._sigcont_application()
    assert driver.resumed == 1
    os.close(master)
    driver._sigcont_application()
    assert driver.resumed == 1, "the terminal is lost"
    os.close(slave)
    master, slave = pty.openpty()
    driver = RecordingDriver(slave)
    driver.close()
    driver._sigcont_application()
    assert driver.resumed == 0, "the app has ended"
    os.close(master)
    os.close(slave)


def test_the_size_of_a_cell_is_that_of_the_terminal_divided_by_its_rows_and_columns() -> None:
    master, slave = pty.openpty()
    driver = RecordingDriver(slave)
    assert isinstance(driver, GraphicsTerminal)
    for size, cell in (((40, 120, 1_080, 720), (9, 18)), ((40, 120, 0, 0), (0, 0)), ((0, 0, 0, 0), (0, 0))):
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", *size))
        assert driver.cell_size() == cell
    os.close(master)
    os.close(slave)
    assert driver.cell_size() == (0, 0)


def test_all_output_is_transformed_if_somebody_asks_for_it() -> None:
    written: list[str] = []

    class Writer:
        def write(self, text: str) -> None:
            written.append(text)

    driver: Any = RecordingDriver(-1)
    driver._writer_thread = Writer()
    driver.write("a frame")
    driver.transform_output = str.upper
    driver.write("a frame")
    assert written == ["a frame", "A FRAME"]


@pytest.mark.parametrize(
    "pieces", [["a\x1b\rb\x1b\r\x1b[A"], ["a\x1b", "\rb", "\x1b", "\r", "\x1b[A"], ["a\x1b\r", "b\x1b\r\x1b[A"]]
)
def test_alt_enter_is_a_key_of_its_own_however_it_arrives(pieces: list[str]) -> None:
    parser = ReplyParser(lambda _: None)
    keys = [event.key for piece in pieces for event in parser.feed(piece) if isinstance(event, events.Key)]
    assert keys == ["a", "alt+enter", "b", "alt+enter", "up"]
