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
        self._asks = not yes and sys.stdin.isatty()
        self._yes = yes
        self._silent = as_json and not self._asks
        self._screen = _screen(as_json=as_json) if self._asks else sys.stdout

    def show(self, text: str) -> None:
        """Write what the question is about; control characters of it reach neither a terminal nor a pipe."""
        if not self._silent and self._screen is not None:
            self._screen.write(f"{sanitize(text)}\n")

    def confirm(self, question: str, otherwise: str) -> None:
        """Ask; what was typed before the question does not answer it.

        Raises ConsentDenied with the sentence `otherwise`, UsageError when there is nobody to ask and no `--yes`.
        """
        if self._yes:
            return
        if not self._asks or self._screen is None:
            what = "no screen to ask on" if self._asks else "nobody to ask: standard input is not a terminal"
            raise UsageError(f"{otherwise} There is {what}.", "Read what it is about, then give --yes.")
        import termios

        termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)
        self._screen.write(f"{sanitize(question, keep_newlines=False)} [y/N] ")
        self._screen.flush()
        if sys.stdin.readline().strip().lower() not in {"y", "yes"}:
            raise ConsentDenied(otherwise)


def _screen(*, as_json: bool) -> TextIO | None:
    """Return where the person at the terminal reads; None when there is no such place."""
    streams = (sys.stderr,) if as_json else (sys.stdout, sys.stderr)
    shown = next((stream for stream in streams if stream.isatty()), None)
    if shown is not None:
        return shown
    try:
        return open(os.ctermid(), "w", encoding="utf-8", errors="replace")
    except OSError:
        return None
