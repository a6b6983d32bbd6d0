"""Yes-or-no questions of commands: asked whenever standard input is a terminal, answered by `--yes` elsewhere."""

import os
import sys
from typing import TextIO

from mcphost.errors import ConsentDenied, UsageError
from mcphost.sanitize import sanitize


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
