"""What somebody types at the terminal of a command: lines, and secrets that are not shown while they are typed."""

import os
import sys
from collections.abc import AsyncGenerator, Generator
from contextlib import contextmanager
from typing import Any, TextIO

from mcphost.errors import ConsentDenied, UsageError
from mcphost.sanitize import sanitize


def is_interactive() -> bool:
    """Whether there is somebody who reads our questions and can type an answer."""
    return bool(sys.stdin and sys.stdin.isatty() and sys.stderr and sys.stderr.isatty())


class TerminalInput:
    """Lines of standard input, one reader for all of them: a second one would miss what the first has read."""

    def __init__(self) -> None:
        self._lines: AsyncGenerator[Any] | None = None

    async def read_line(self) -> str | None:
        """The next line without spaces around it; None at the end of the input. May be cancelled."""
        from mcphost.headless.line_io import read_lines

        if self._lines is None:
            self._lines = read_lines(0)
        async for line in self._lines:
            return line.decode(errors="replace").strip() if isinstance(line, bytes) else ""
        return None

    async def read_secret(self, prompt: str) -> str | None:
        """The next line, which the terminal does not show; what was typed before the prompt is thrown away."""
        try:
            with _disable_echo():  # before anybody is asked, so that no letter is ever shown
                sys.stderr.write(prompt)
                sys.stderr.flush()
                return await self.read_line()
        finally:
            sys.stderr.write("\n")  # also after ctrl+c: what comes next begins a line

    async def read_choice(self, prompt: str) -> str:
        """The first letter of what is typed, in lower case; "" for none. Nothing typed ahead counts."""
        import termios

        termios.tcflush(0, termios.TCIFLUSH)
        sys.stderr.write(prompt)
        sys.stderr.flush()
        return (await self.read_line() or "")[:1].lower()


@contextmanager
def _disable_echo() -> Generator[None]:
    """The terminal shows nothing of what is typed; it does again afterwards, also after ctrl+c."""
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
    """What a person reads before a command changes something, and the question after it.

    Where the standard output goes does not decide whether there is a question: in `mcphost servers trust x | less` a
    person sits at the terminal, too. What they must read is then written to the terminal, not into the pipe.
    """

    def __init__(self, *, yes: bool, as_json: bool) -> None:
        self._is_interactive = not yes and sys.stdin.isatty()
        self._assume_yes = yes
        self._is_silent = as_json and not self._is_interactive
        self._output = _terminal_output(as_json=as_json) if self._is_interactive else sys.stdout

    def show(self, text: str) -> None:
        """Write what the question is about; control characters of it reach neither a terminal nor a pipe."""
        if not self._is_silent and self._output is not None:
            self._output.write(f"{sanitize(text)}\n")

    def confirm(self, question: str, declined_message: str) -> None:
        """Ask; what was typed before the question does not answer it.

        Raises ConsentDenied with the sentence `otherwise`, UsageError when there is nobody to ask and no `--yes`.
        """
        if self._assume_yes:
            return
        if not self._is_interactive or self._output is None:
            what = "no screen to ask on" if self._is_interactive else "nobody to ask: standard input is not a terminal"
            raise UsageError(f"{declined_message} There is {what}.", "Read what it is about, then give --yes.")
        import termios

        termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)
        self._output.write(f"{sanitize(question, keep_newlines=False)} [y/N] ")
        self._output.flush()
        if sys.stdin.readline().strip().lower() not in {"y", "yes"}:
            raise ConsentDenied(declined_message)


def _terminal_output(*, as_json: bool) -> TextIO | None:
    """Return where the person at the terminal reads; None when there is no such place."""
    streams = (sys.stderr,) if as_json else (sys.stdout, sys.stderr)
    shown = next((stream for stream in streams if stream.isatty()), None)
    if shown is not None:
        return shown
    try:
        return open(os.ctermid(), "w", encoding="utf-8", errors="replace")
    except OSError:
        return None
