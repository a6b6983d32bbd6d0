"""Unsent text of the composer, with a record of how it was entered."""

from typing import Literal, NamedTuple

from mcphost.tui.command_names import parse_slash_command

TextOrigin = Literal["typed", "mixed", "inserted"]
"""How the text in the composer was entered.

"typed": the user typed every character. "mixed": the text begins with typed text, and other text follows. "inserted":
the text begins with pasted text, a server's prompt or an earlier message.
"""


class Draft(NamedTuple):
    """Unsent text in the composer, and how it was entered.

    `origin` is "typed" only if the user typed all of the text. `sources` contains the names of the servers whose
    prompts were inserted into the text.
    """

    text: str
    origin: TextOrigin = "inserted"
    sources: tuple[str, ...] = ()

    @property
    def is_call(self) -> bool:
        """Whether the text begins with "!", which marks a manual tool call if the user typed the text."""
        return self.text.startswith("!")

    @property
    def is_command(self) -> bool:
        """Whether the text is a known slash command; a value is allowed only if the command takes one."""
        parsed = parse_slash_command(self.text)
        return parsed is not None and parsed.is_complete


def join_drafts(*drafts: Draft) -> Draft:
    """Join the non-empty drafts with line breaks.

    The origin of the result is "typed" only if all drafts were typed.
    """
    kept = [draft for draft in drafts if draft.text]
    origin: TextOrigin = "typed" if all(draft.origin == "typed" for draft in kept) else "inserted"
    sources = tuple(dict.fromkeys(source for draft in kept for source in draft.sources))
    return Draft("\n".join(draft.text for draft in kept), origin, sources)
