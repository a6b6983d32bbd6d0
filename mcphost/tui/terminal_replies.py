"""Recognition of the terminal's replies about its colors, so that they are not taken for keys."""

import re
from collections.abc import Callable, Iterable, Mapping
from time import monotonic

from textual._xterm_parser import XTermParser
from textual.message import Message

QUERY_BACKGROUND = "\x1b]11;?\x1b\\"
"""Request for the terminal's background color (OSC 11 of xterm)."""
ANSWER_SECONDS = 2.0
"""Seconds within which a reply of the terminal may still change the theme."""
_TERMINALS_WITHOUT_OSC = {"linux", "dumb"}
_REPLY = re.compile(r"\x1b\]1[01];(?:rgba?:)?([0-9a-fA-F/#]{3,40})(?:\x07|\x1b\\)")
_PARTIAL_REPLY = re.compile(r"\x1b\](?:1(?:[01](?:;[rgba:0-9a-fA-F/#]{0,45}\x1b?)?)?)?\Z")
_PARTIAL_SECONDS = 1.0
"""Seconds for which an incomplete reply is held back; then it is treated as typed."""
_ESCAPE_SECONDS = 0.05
"""Seconds for which an escape character, which may be a key, is held back while a reply is expected."""


def can_ask_terminal(environ: Mapping[str, str]) -> bool:
    """Return whether it is safe to ask the terminal for its colors; some terminals print the request."""
    return environ.get("TERM", "") not in {"", *_TERMINALS_WITHOUT_OSC}


def is_dark_color(text: str) -> bool | None:
    """Return whether a color in a reply, such as "1c1c/1f1f/2626", is dark, or None if it is not a color."""
    parts = [part for part in text.strip("#").split("/") if part]
    if len(parts) == 1 and len(parts[0]) in {6, 12}:
        size = len(parts[0]) // 3
        parts = [parts[0][at : at + size] for at in range(0, 3 * size, size)]
    if len(parts) not in {3, 4}:
        return None
    try:
        red, green, blue = (int(part, 16) / (16 ** len(part) - 1) for part in parts[:3])
    except ValueError:
        return None
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue < 0.5


class ReplyParser(XTermParser):
    """Textual's key parser, extended to pass the terminal's replies about its colors to *on_color*."""

    def __init__(self, on_color: Callable[[bool], None], debug: bool = False) -> None:
        super().__init__(debug)
        self._on_color = on_color
        self._held, self._held_since = "", 0.0
        self.is_answer_expected = False
        """Whether an escape character at the end of the input may begin a reply; the Escape key is then delayed by a
        tick."""

    def feed(self, data: str) -> Iterable[Message]:
        """Parse input; an incomplete reply is held back until the rest of it arrives."""
        if not data:
            yield from super().feed(data)
            return
        data, self._held = _REPLY.sub(self._take, self._held + data), ""
        partial = _PARTIAL_REPLY.search(data)
        start = partial.start() if partial else len(data)
        if partial is None and self.is_answer_expected and data.endswith("\x1b"):
            start -= 1
        data, self._held, self._held_since = data[:start], data[start:], monotonic()
        if data:
            yield from super().feed(data)

    def tick(self) -> Iterable[Message]:
        """Handle timeouts.

        An incomplete reply that has timed out is treated as typed text.
        """
        limit = _ESCAPE_SECONDS if self._held == "\x1b" else _PARTIAL_SECONDS
        if self._held and monotonic() - self._held_since > limit:
            held, self._held = self._held, ""
            yield from super().feed(held)
        yield from super().tick()

    def _take(self, match: re.Match[str]) -> str:
        if (is_dark := is_dark_color(match[1])) is not None:
            self._on_color(is_dark)
        return ""
