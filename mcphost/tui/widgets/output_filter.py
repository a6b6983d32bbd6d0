"""The last net before the terminal: no segment with a control character leaves, whichever widget forgot to clean it."""

import re
from typing import TYPE_CHECKING

from rich.segment import Segment
from textual.filter import LineFilter

from mcphost.sanitize import sanitize

if TYPE_CHECKING:
    from textual.color import Color

# What moves a cursor, ends a string or reorders a line. Text is cleaned where it enters; this only sees mistakes.
_CONTROL_CHARACTERS = re.compile("[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


class ControlCharacterFilter(LineFilter):
    """Replaces what would act on the terminal; a row it had to touch may be drawn a little too wide."""

    def apply(self, segments: list[Segment], background: "Color") -> list[Segment]:
        """See LineFilter."""
        del background
        if not any(_CONTROL_CHARACTERS.search(segment.text) for segment in segments):
            return segments
        return [
            Segment(sanitize(segment.text, keep_newlines=False), segment.style, segment.control) for segment in segments
        ]
