"""Where a sign-in is, on stderr: a line for each step, and one that is written anew while a code is waited for."""

import sys
from typing import TYPE_CHECKING

from mcphost.cli.output import note

if TYPE_CHECKING:
    from mcphost.auth.user_interaction import Progress


def waiting(progress: "Progress") -> str:
    """What is known of waiting for a code to be entered, in words."""
    times = "once" if progress.polls == 1 else f"{progress.polls} times"
    asked = f"Asked {times}" if progress.polls else "Not asked yet"
    again = f"again in {progress.interval:g} s" + (", because it wants to be asked less often" * progress.slowed)
    left = max(0, round(progress.seconds))
    return f"{asked}, {again}; {left // 60}:{left % 60:02} left."


class Steps:
    """Tells a person at a terminal; elsewhere nothing is written twice."""

    def __init__(self) -> None:
        self._said = ""
        self._slowed = False
        self._open = False

    def heard(self, progress: "Progress") -> None:
        """One step."""
        if progress.interval:
            self._waits(progress)
            return
        self._end_line()
        if progress.step not in ("person", "done", "over") and progress.text != self._said:
            note(f"{progress.text[0].upper()}{progress.text[1:]}…")
        self._said = progress.text

    def _waits(self, progress: "Progress") -> None:
        if not progress.polls:
            return  # the address and the code are shown next
        if sys.stderr.isatty():
            sys.stderr.write(f"\r\x1b[K{waiting(progress)}")
            sys.stderr.flush()
            self._open = True
        elif progress.slowed != self._slowed:
            note(waiting(progress))
        self._slowed = progress.slowed

    def _end_line(self) -> None:
        if self._open:
            sys.stderr.write("\n")
            self._open = False
