"""What somebody types at the terminal of a command: lines, and secrets that are not shown while they are typed."""

import sys
from collections.abc import AsyncGenerator, Generator
from contextlib import contextmanager
from typing import Any


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
