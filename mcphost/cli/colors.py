"""Styling of command output: colored words for states, text that tables may cut off, and a check for color support."""

import os
from typing import TextIO

from mcphost.translation import N_

STATE_STYLES = {
    "approved": "green",
    "counts": "green",
    "failed": "red",
    "invalid": "red",
    "not approved": "yellow",
    "ok": "green",
    "warning": "yellow",
}
"""The color of each state; a state that is not listed is dim."""

STATE_WORDS = (
    N_("approved"),
    N_("counts"),
    N_("disabled"),
    N_("failed"),
    N_("invalid"),
    N_("not approved"),
    N_("off"),
    N_("ok"),
    N_("skipped"),
    N_("warning"),
)
"""All states; they are translated when they are shown."""


class StateWord(str):
    """A word for a state, such as "ok", that a terminal displays in the color of the state."""

    __slots__ = ()


class Excerpt(str):
    """Text that a table on a terminal can cut off at the end of its column."""

    __slots__ = ()


def uses_color(stream: TextIO) -> bool:
    """Return whether *stream* is a terminal that supports color, and NO_COLOR is not set."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") not in (None, "", "dumb")
