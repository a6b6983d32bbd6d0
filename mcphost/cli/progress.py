"""Where a sign-in is, on stderr: a line for each step, and one that is written anew while a code is waited for."""

import sys
from typing import TYPE_CHECKING

from mcphost.cli.output import print_note

if TYPE_CHECKING:
    from mcphost.auth.sign_in import SignInProgress


def format_polling(progress: "SignInProgress") -> str:
    """What is known of waiting for a code to be entered, in words."""
    times = "once" if progress.polls == 1 else f"{progress.polls} times"
    asked = f"Asked {times}" if progress.polls else "Not asked yet"
    again = f"again in {progress.interval:g} s" + (", because it wants to be asked less often" * progress.slowed)
    left = max(0, round(progress.seconds))
    return f"{asked}, {again}; {left // 60}:{left % 60:02} left."


class SignInProgressPrinter:
    """Tells a person at a terminal; elsewhere nothing is written twice."""

    def __init__(self) -> None:
        self._last_text = ""
        self._was_slowed = False
        self._has_open_line = False

    def update(self, progress: "SignInProgress") -> None:
        """One step."""
        if progress.interval:
            self._print_polling(progress)
            return
        self._end_line()
        if progress.step not in ("person", "done", "over") and progress.text != self._last_text:
            print_note(f"{progress.text[0].upper()}{progress.text[1:]}…")
        self._last_text = progress.text

    def _print_polling(self, progress: "SignInProgress") -> None:
        if not progress.polls:
            return  # the address and the code are shown next
        if sys.stderr.isatty():
            sys.stderr.write(f"\r\x1b[K{format_polling(progress)}")
            sys.stderr.flush()
            self._has_open_line = True
        elif progress.slowed != self._was_slowed:
            print_note(format_polling(progress))
        self._was_slowed = progress.slowed

    def _end_line(self) -> None:
        if self._has_open_line:
            sys.stderr.write("\n")
            self._has_open_line = False
