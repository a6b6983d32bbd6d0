"""Terminal input of commands: lines, secrets without echo, and yes-or-no questions."""

import os
import sys
from collections.abc import AsyncGenerator, Generator
from contextlib import contextmanager
from typing import Any, TextIO

from mcphost.cli.output import end_status
from mcphost.errors import ConsentDenied, UsageError
from mcphost.sanitize import sanitize


def is_interactive() -> bool:
    """Return whether a user can read prompts on stderr and type on standard input."""
    return bool(sys.stdin and sys.stdin.isatty() and sys.stderr and sys.stderr.isatty())


class TerminalInput:
    """Lines of standard input; one reader for all, since a second one would miss what the first has buffered."""

    def __init__(self) -> None:
        self._lines: AsyncGenerator[Any] | None = None

    async def read_line(self) -> str | None:
        """Return the next line, stripped; None at the end of the input. May be cancelled."""
        from mcphost.headless.line_io import read_lines

        if self._lines is None:
            self._lines = read_lines(0)
        async for line in self._lines:
            return line.decode(errors="replace").strip() if isinstance(line, bytes) else ""
        return None

    async def read_secret(self, prompt: str) -> str | None:
        """Return the next line, typed without echo; earlier input is discarded."""
        try:
            end_status()
            with _disable_echo():  # before the prompt, so that no character is ever shown
                sys.stderr.write(prompt)
                sys.stderr.flush()
                return await self.read_line()
        finally:
            sys.stderr.write("\n")  # also after ctrl+c: later output begins on a new line

    async def read_choice(self, prompt: str) -> str:
        """Return the first letter of the next line in lower case, "" for none; earlier input is discarded."""
        import termios

        termios.tcflush(0, termios.TCIFLUSH)
        sys.stderr.write(prompt)
        sys.stderr.flush()
        return (await self.read_line() or "")[:1].lower()


@contextmanager
def _disable_echo() -> Generator[None]:
    """Switch off the terminal's echo and restore it at the end, also after ctrl+c."""
    import termios

    before = termios.tcgetattr(0)
    silent = [*before]
    silent[3] &= ~termios.ECHO
    try:
        termios.tcsetattr(0, termios.TCSAFLUSH, silent)
        yield
    finally:
        termios.tcsetattr(0, termios.TCSADRAIN, before)


class Confirmation:
    """The text that the user reads before a command changes something, and the question after it.

    Whether it asks does not depend on standard output: in `mcphost servers trust x | less` there is a user at the
    terminal, too. The text is then written to the terminal, not into the pipe.
    """

    def __init__(self, *, yes: bool, as_json: bool) -> None:
        self._is_interactive = not yes and sys.stdin.isatty()
        self._assume_yes = yes
        self._is_silent = as_json and not self._is_interactive
        self._output = _terminal_output(as_json=as_json) if self._is_interactive else sys.stdout

    def show(self, text: str) -> None:
        """Write what the question is about, without control characters."""
        if not self._is_silent and self._output is not None:
            self._output.write(f"{sanitize(text)}\n")

    def confirm(self, question: str, declined_message: str) -> None:
        """Ask; input that was typed before the question does not answer it.

        Raises ConsentDenied with `declined_message`, or UsageError if the user cannot be asked and there is no `--yes`.
        """
        if self._assume_yes:
            return
        if not self._is_interactive or self._output is None:
            what = (
                "no terminal to ask on" if self._is_interactive else "no way to ask: standard input is not a terminal"
            )
            raise UsageError(f"{declined_message} There is {what}.", "Read what it is about, then give --yes.")
        import termios

        end_status()
        termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)
        self._output.write(f"{sanitize(question, keep_newlines=False)} [y/N] ")
        self._output.flush()
        if sys.stdin.readline().strip().lower() not in {"y", "yes"}:
            raise ConsentDenied(declined_message)


def _terminal_output(*, as_json: bool) -> TextIO | None:
    """Return a stream that the user at the terminal can read, or None."""
    streams = (sys.stderr,) if as_json else (sys.stdout, sys.stderr)
    shown = next((stream for stream in streams if stream.isatty()), None)
    if shown is not None:
        return shown
    try:
        return open(os.ctermid(), "w", encoding="utf-8", errors="replace")
    except OSError:
        return None
