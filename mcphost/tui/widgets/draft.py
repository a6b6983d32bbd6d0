"""The text in the composer and where it came from: only a text that was typed may be a command or a call."""

from typing import Literal, NamedTuple

from mcphost.tui.keymap import find_slash_command
from mcphost.tui.screen_text import clean_line

TextOrigin = Literal["typed", "mixed", "inserted"]
"""`typed`: every character was typed here. `mixed`: it begins with typed text, and other text follows. `inserted`: it
begins with text from a paste, a server's prompt or an earlier message."""


class Draft(NamedTuple):
    """A text before it is sent. `source` names the server whose prompt is in it."""

    text: str
    origin: TextOrigin = "inserted"
    source: str = ""

    @property
    def is_call(self) -> bool:
        """Whether it reads like a call by hand. A blank before it makes it a message."""
        return self.text.startswith("!")

    @property
    def is_command(self) -> bool:
        """Whether it reads like a slash command. A blank before it makes it a message."""
        return self.text.startswith("/") and find_slash_command(self.text[1:].rstrip()) is not None


def describe_origin(draft: Draft, lines: int) -> str:
    """Say what enter does with a text that was not typed; empty where nobody would expect anything else."""
    if draft.origin == "typed":
        return ""
    what = "call" if draft.is_call else "command" if draft.is_command else ""
    if what and draft.origin == "mixed":
        return f"Partly not typed: type the {what} to run it, or put a space before it."
    if draft.source:
        count = f", {lines:,} lines" if lines > 1 else ""
        return f"Text of {clean_line(draft.source, 24)}{count}: enter sends it as a message."
    if what:
        return f"Not typed: enter sends it as a message. Type the {what} to run it."
    return ""


def join_drafts(*drafts: Draft) -> Draft:
    """Return the drafts, one below the other; typed only when all of them are."""
    kept = [draft for draft in drafts if draft.text]
    origin: TextOrigin = "typed" if all(draft.origin == "typed" for draft in kept) else "inserted"
    source = next((draft.source for draft in kept if draft.source), "")
    return Draft("\n".join(draft.text for draft in kept), origin, source)
