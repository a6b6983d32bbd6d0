"""Draft of a message and the origin of its text: only typed text may be a command or a call."""

from typing import Literal, NamedTuple

from mcphost.tui.keymap import find_slash_command
from mcphost.tui.screen_text import clean_line

TextOrigin = Literal["typed", "mixed", "inserted"]
"""`typed`: every character was typed here. `mixed`: typed text followed by other text.

`inserted`: text of a paste, a server's prompt or an earlier message comes first.
"""


class Draft(NamedTuple):
    """A text before it is sent; `source` is the server whose prompt it contains."""

    text: str
    origin: TextOrigin = "inserted"
    source: str = ""

    @property
    def is_call(self) -> bool:
        """Return whether it is written as a manual call; a leading space makes it a message."""
        return self.text.startswith("!")

    @property
    def is_command(self) -> bool:
        """Return whether it is written as a slash command; a leading space makes it a message."""
        return self.text.startswith("/") and find_slash_command(self.text[1:].rstrip()) is not None


def describe_origin(draft: Draft, lines: int) -> str:
    """Return what Enter does with text that was not typed; "" if that is obvious."""
    if draft.origin == "typed":
        return ""
    what = "call" if draft.is_call else "command" if draft.is_command else ""
    if what and draft.origin == "mixed":
        return f"Partly not typed: type the {what} to run it, or start with a space."
    if draft.source:
        count = f", {lines:,} lines" if lines > 1 else ""
        return f"Text of {clean_line(draft.source, 24)}{count}: enter sends it as a message."
    if what:
        return f"Not typed: enter sends it as a message. Type the {what} to run it."
    return ""


def join_drafts(*drafts: Draft) -> Draft:
    """Return the drafts joined by line breaks; typed only if all of them are."""
    kept = [draft for draft in drafts if draft.text]
    origin: TextOrigin = "typed" if all(draft.origin == "typed" for draft in kept) else "inserted"
    source = next((draft.source for draft in kept if draft.source), "")
    return Draft("\n".join(draft.text for draft in kept), origin, source)
