"""Last filter before the terminal: removes control characters that a widget failed to sanitize."""

import re
from typing import TYPE_CHECKING

from rich.segment import Segment
from textual.filter import LineFilter

from mcphost.sanitize import sanitize

if TYPE_CHECKING:
    from textual.color import Color

# Characters that move the cursor, end a string or reorder a line; text is sanitized where it enters already.
_CONTROL_CHARACTERS = re.compile("[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


class ControlCharacterFilter(LineFilter):
    """Filter that replaces control characters; a row it changes may be drawn slightly too wide."""

    def apply(self, segments: list[Segment], background: "Color") -> list[Segment]:
        """Return the segments without control characters. See LineFilter."""
        del background
        if not any(_CONTROL_CHARACTERS.search(segment.text) for segment in segments):
            return segments
        return [
            Segment(sanitize(segment.text, keep_newlines=False), segment.style, segment.control) for segment in segments
        ]
