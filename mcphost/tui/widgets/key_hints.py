"""Key hints at the bottom of consent prompts and forms; clicking a hint presses its key."""

import re
from collections.abc import Callable, Iterable, Iterator

from textual import events
from textual._cells import cell_len
from textual.content import Content
from textual.style import Style
from textual.visual import VisualType

from mcphost.translation import _
from mcphost.tui.widgets.laid_out_once import StaticText

SEPARATOR = " · "
_KEY_NAMES = {"esc": "escape", "enter": "enter", "tab": "tab", "space": "space", "shift+tab": "shift+tab"}
_FUNCTION_OR_CTRL = re.compile(r"F\d{1,2}|ctrl\+\w", re.IGNORECASE)


def parse_key(hint: str) -> str:
    """Return Textual's name for the first key in a hint, or "" if the hint names no key.

    A hint is, for example, "esc/d deny" or "ctrl+s apply".
    """
    word = hint.split(" ", 1)[0]
    key = word if len(word) == 1 else word.split("/", 1)[0]
    if _FUNCTION_OR_CTRL.fullmatch(key):
        return key.lower()
    if len(key) == 1 and key.isascii() and key.isalnum():
        return key
    return _KEY_NAMES.get(key.lower(), "")


def link_keys(hints: str) -> Content:
    """Return *hints* as content in which each hint can be clicked to press its key.

    The hints are separated by " · " or line breaks.
    """
    lines = [
        Content(SEPARATOR).join(
            Content(hint).stylize(Style.from_meta({"press": key})) if (key := parse_key(hint)) else Content(hint)
            for hint in line.split(SEPARATOR)
        )
        for line in hints.split("\n")
    ]
    return Content("\n").join(lines)


def wrap_key_hints(key_hints: str, width: int) -> list[str]:
    """Wrap key hints, which are separated by " · ", into lines of at most *width* cells, without splitting a hint."""
    rows: list[str] = []
    for word in key_hints.split(SEPARATOR):
        if rows and cell_len(rows[-1]) + cell_len(word) + 3 <= width:
            rows[-1] += f"{SEPARATOR}{word}"
        else:
            rows.append(word)
    return rows


def mark_locked_keys(hints: Iterable[str], is_locked: Callable[[str], bool]) -> Iterator[str]:
    """Yield the hints for keys that work, and the first hint for a locked key, marked as "not yet".

    The hints for all other locked keys are omitted. *is_locked* receives Textual's name for a key.
    """
    is_marked = False
    for hint in hints:
        if not is_locked(parse_key(hint)):
            yield hint
        elif not is_marked:
            is_marked = True
            yield _("{hint}: not yet").format(hint=hint)


class KeyHints(StaticText):
    """Clickable key hints; a click on a hint simulates a press of its key.

    The simulated key is handled in the same way as a key on the keyboard.
    """

    def __init__(self, hints: str) -> None:
        self._hints = hints
        super().__init__(link_keys(hints), id="keys", markup=False)

    def update(self, content: VisualType = "", *, layout: bool = True) -> None:
        """Replace the hints with *content*, which is a string or unstyled Content; do nothing if it is unchanged."""
        if str(content) == self._hints:
            return  # a dialog calls this after each change, and would lay out its body again
        self._hints = str(content)
        super().update(link_keys(str(content)), layout=layout)

    def on_click(self, event: events.Click) -> None:
        """Press the key of the hint that was clicked."""
        if key := event.style.meta.get("press"):
            event.stop()
            self.app.simulate_key(str(key))  # pyright: ignore[reportUnknownMemberType]
