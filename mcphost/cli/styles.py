"""What text of commands means for a terminal: states, excerpts, and whether colors are used."""

import os
from typing import TextIO

STATE_STYLES = {
    "approved": "green",
    "counts": "green",
    "failed": "red",
    "invalid": "red",
    "not approved": "yellow",
    "ok": "green",
    "warning": "yellow",
}
"""Colors by meaning; a state without one is dim."""


class StateWord(str):
    """A word of mcphost about a state; a terminal shows it in the color of its meaning."""

    __slots__ = ()


class Excerpt(str):
    """Text of which the beginning is enough; a terminal cuts it at the end of its column."""

    __slots__ = ()


def uses_color(stream: TextIO) -> bool:
    """Return whether *stream* is a terminal that may be sent colors."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") not in (None, "", "dumb")
