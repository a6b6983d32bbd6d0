"""A private tmux server with one shell, in which tests send keys and wait for what appears on the screen."""

import itertools
import os
import re
import select
import shlex
import subprocess
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Self

import psutil
from rich.cells import cell_len

from mcphost.tui.input_guard import JUST_SHOWN_HINT, TOO_SOON_HINT
from tests.flows.fork_server import chat_command
from tests.processes import command_line, is_alive, kill

PROMPT = "ready$"
# A question that accepts keys shows its keys, one of them Escape, inside its frame.
_ACTIVE_QUESTION = re.compile(r"│[^│\n]*\besc\b[^│\n]*│")
# The top line during a turn.
_RUNNING_TURN = re.compile(r"asking the model|waiting for|thinking|answering|running tools|trying again")
WAIT_SECONDS = 100
"""How long to wait for the screen by default: a model worker that starts beside many processes took 60 seconds."""
_PACE_SECONDS = 0.4
_SETTLE_SECONDS = 0.1
_POLL_SECONDS = 0.02
_numbers = itertools.count(1)


class TmuxClient:
    """A permanent client of a tmux server in control mode, because a new process per command is 50 times slower.

    The client reads commands from standard input, and frames each response with `%begin` and `%end` (or `%error`) and
    the same three numbers. It has no display, so the terminal keeps its size.
    """

    def __init__(self, tmux: list[str]) -> None:
        command = [*tmux, "-C", "attach-session", "-f", "no-output,ignore-size"]
        self._client = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
        self._unread = b""
        self._answer()  # to attach-session

    def run(self, *command: str) -> str:
        """Run a tmux command and return its output; raise an AssertionError with its error message if it fails."""
        assert "\n" not in "".join(command), command
        assert self._client.stdin
        self._client.stdin.write(shlex.join(command).encode() + b"\n")
        answer, succeeded = self._answer()
        assert succeeded, answer
        return answer

    def wait_closed(self) -> None:
        """Wait until the client has exited, which it does when the tmux server ends."""
        with self._client:
            assert self._client.stdin
            self._client.stdin.close()
            self._client.wait(10)

    def _answer(self) -> tuple[str, bool]:
        while not (line := self._line()).startswith(b"%begin "):
            assert not line.startswith(b"%exit"), "the tmux server ended"
        numbers = line.removeprefix(b"%begin")
        lines: list[bytes] = []
        while (line := self._line()) not in (b"%end" + numbers, b"%error" + numbers):
            lines.append(line + b"\n")
        return b"".join(lines).decode(), line.startswith(b"%end")

    def _line(self) -> bytes:
        assert self._client.stdout
        while b"\n" not in self._unread:
            assert select.select([self._client.stdout], [], [], 10)[0], "tmux does not answer"
            more = os.read(self._client.stdout.fileno(), 1 << 16)
            assert more, "the tmux server ended"
            self._unread += more
        line, _, self._unread = self._unread.partition(b"\n")
        return line


class Terminal:
    """A terminal in tmux; leaving its `with` block ends the shell, its programs and the tmux server."""

    def __init__(
        self, folder: Path, *, columns: int = 120, rows: int = 40, environment: Mapping[str, str] | None = None
    ) -> None:
        self._tmux = ["tmux", "-L", f"mcphost-test-{os.getpid()}-{next(_numbers)}", "-f", "/dev/null"]
        self._folder = folder
        self._size = (columns, rows)
        homes = {f"MCPHOST_{kind}_DIR": str(folder / kind.lower()) for kind in ("CONFIG", "DATA", "STATE", "CACHE")}
        basics = {"LANG": "C.UTF-8", "COLORTERM": "truecolor", "PS1": f"{PROMPT} "}
        self.environment = {**basics, **homes, **(environment or {})}
        self._started: list[psutil.Process] = []
        self._pressed, self._keys = 0.0, tuple[str, ...]()

    def __enter__(self) -> Self:
        settings = [f"{name}={value}" for name, value in self.environment.items()]
        shell = shlex.join(["env", "-u", "ENV", "-u", "COLUMNS", "-u", "LINES", *settings, "sh", "-i"])
        columns, rows = self._size
        # -f /dev/null also means: remain-on-exit off, so the server ends with its shell.
        begin = ["new-session", "-d", "-x", str(columns), "-y", str(rows), "-c", str(self._folder), shell]
        done = subprocess.run(
            [*self._tmux, *begin, ";", "set", "-g", "default-terminal", "tmux-256color"],
            capture_output=True, text=True, timeout=10,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        self._control = TmuxClient(self._tmux)
        self._shell = psutil.Process(int(self.tmux("list-panes", "-F", "#{pane_pid}")))
        self.wait_for(PROMPT)
        return self

    def __exit__(self, *_: object) -> None:
        left = [*self._started, *self.processes()]
        self.kill_server()
        kill(psutil.wait_procs(left, timeout=1)[1])

    def kill_server(self) -> None:
        """Kill the tmux server and with it the terminal."""
        subprocess.run([*self._tmux, "kill-server"], capture_output=True)
        self._control.wait_closed()

    def tmux(self, *arguments: str) -> str:
        """Run a tmux command on the private server, and return its output."""
        return self._control.run(*arguments)

    def run(self, *command: str) -> None:
        """Type a command line and press Enter."""
        self.type(shlex.join(command))
        self.press("Enter")

    def start_chat(self, *arguments: str) -> None:
        """Start a chat by forking a running process: faster, but unsuitable for tests of startup and signals."""
        self.run(*chat_command({**os.environ, **self.environment}), *arguments)

    def type(self, text: str) -> None:
        """Type text literally, so that no part of it is interpreted as the name of a key."""
        self.tmux("send-keys", "-l", "--", text)

    def press(self, *keys: str) -> None:
        """Press keys, which are given by their tmux names (Enter, Escape, C-q, F2)."""
        self.tmux("send-keys", *keys)
        self._pressed, self._keys = time.monotonic(), keys

    def click(self, text: str, *, last: bool = False) -> None:
        """Click in the middle of the first (with *last*, the last) line on the screen that contains *text*.

        A screen that is being drawn can show the upper part of a page with the key bar of the page before it: the text
        must stay in its place for a moment. If the text is on both pages, in two places, wait for the new page first.
        Fail if it still moves after WAIT_SECONDS.
        """
        deadline = time.monotonic() + WAIT_SECONDS
        place, before = self._find(text, last=last), None
        while place != before:
            assert time.monotonic() < deadline, f"{text!r} never stayed in its place\n{self.screen()}"
            time.sleep(_SETTLE_SECONDS)
            place, before = self._find(text, last=last), place
        row, column = place
        for ending in "Mm":  # xterm's SGR mouse reports
            self.tmux("send-keys", "-l", "--", f"\x1b[<0;{column};{row}{ending}")

    def _find(self, text: str, *, last: bool) -> tuple[int, int]:
        rows = [(row, line) for row, line in enumerate(self.wait_for(text).split("\n"), 1) if text in line]
        row, line = rows[-1] if last else rows[0]
        return row, cell_len(line[: line.index(text)]) + cell_len(text) // 2 + 1

    def screen(self) -> str:
        """Return the text on the screen."""
        return self.tmux("capture-pane", "-p")

    def wait_for(self, *texts: str, seconds: float = WAIT_SECONDS) -> str:
        """Wait until all texts are on the screen at the same time, and return the screen."""
        return self.wait_until(lambda screen: all(text in screen for text in texts), f"{texts}", seconds)

    def wait_for_question(self, *texts: str, seconds: float = WAIT_SECONDS) -> str:
        """Wait for a question with these texts, give it the focus, and return the screen once it accepts keys."""

        def asks(screen: str) -> bool:
            if is_unfocused(screen):
                self.tmux("send-keys", "F8")
                self.wait_until(lambda now: not is_unfocused(now), "a question that was entered", seconds)
                return False
            return all(text in screen for text in texts) and accepts_keys(screen)

        screen = self.wait_until(asks, f"a question that listens: {texts}", seconds)
        # It may have been open before the last key, and accepts no letter right after one.
        time.sleep(max(0, self._pressed + _PACE_SECONDS - time.monotonic()))
        return screen

    def wait_for_shell(self, seconds: float = WAIT_SECONDS) -> str:
        """Wait until the shell's prompt is the last text on the screen, and return the screen.

        Do not type before that, because keys typed before a program has ended are discarded.
        """
        return self.wait_until(lambda screen: screen.rstrip().endswith(PROMPT), "the shell's prompt", seconds)

    def wait_between_keys(self) -> None:
        """Wait as long as a user between two keys, because a question ignores letters in quick succession."""
        time.sleep(_PACE_SECONDS)

    def wait_for_turn_end(self) -> str:
        """Wait until no turn is running, so that a message can be sent, and return the screen.

        The last word of an answer appears before the turn is over.
        """
        return self.wait_until(lambda screen: not _RUNNING_TURN.search(status(screen)), "the turn's end")

    def wait_for_cursor(self, beside: str) -> None:
        """Wait until the cursor is in a line that contains the text *beside*."""

        def is_there(screen: str) -> bool:
            row = int(self.tmux("display-message", "-p", "#{cursor_y}"))
            return beside in screen.split("\n")[row]

        self.wait_until(is_there, f"the cursor beside {beside}")

    def wait_until(self, holds: Callable[[str], bool], what: str, seconds: float = WAIT_SECONDS) -> str:
        """Wait until *holds* is true for the text of the screen, and return that text; fail with the current screen.

        If a question reports that a key came too early, the last keys are pressed again.
        """
        deadline = time.monotonic() + seconds
        while not holds(screen := self.screen()):
            is_early = TOO_SOON_HINT in screen or JUST_SHOWN_HINT in screen
            if is_early and time.monotonic() > self._pressed + 2 * _PACE_SECONDS:
                self.press(*self._keys)
            assert time.monotonic() < deadline, f"not on the screen within {seconds} s: {what}\n{screen}"
            time.sleep(_POLL_SECONDS)
        return screen

    def processes(self) -> list[psutil.Process]:
        """Return all processes started by the shell so far that are still running."""
        with suppress(psutil.NoSuchProcess):
            self._started = [*self._started, *self._shell.children(recursive=True)]
        return [process for process in set(self._started) if process.is_running()]

    def program(self) -> psutil.Process:
        """Return the program in the foreground, which is the shell's only child."""
        (program,) = self._shell.children()
        return program

    def is_plain(self) -> bool:
        """Return whether the terminal is restored: no alternate screen, no mouse reports, and a visible cursor."""
        flags = self.tmux("display-message", "-p", "#{alternate_on}#{mouse_any_flag}#{cursor_flag}").strip()
        return flags == "001"


def status(screen: str) -> str:
    """Return the first line of the screen without the number of waiting questions."""
    return screen.partition("\n")[0].partition("◆")[0]


def accepts_keys(screen: str) -> bool:
    """Return whether a question on the screen accepts keys."""
    return _ACTIVE_QUESTION.search(screen) is not None


def is_unfocused(screen: str) -> bool:
    """Return whether the screen shows a question (as a card or a dialog) that does not have the focus."""
    return "click to open" in screen or "press F8 or tab to answer" in screen


def wait_gone(processes: list[psutil.Process], seconds: float) -> None:
    """Wait until all processes have ended or are zombies; on failure, name those that are still running."""
    deadline = time.monotonic() + seconds
    while alive := [process for process in processes if _alive(process)]:
        assert time.monotonic() < deadline, (
            f"alive after {seconds} s: {[(process.pid, command_line(process)) for process in alive]}"
        )
        time.sleep(0.02)


def _alive(process: psutil.Process) -> bool:
    return process.is_running() and is_alive(process.pid)
