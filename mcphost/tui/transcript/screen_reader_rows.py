"""Transcript rows for screen readers, with words in place of symbols and without decoration."""

from textual.content import Content

from mcphost.translation import N_, _
from mcphost.tui.screen_reader import is_drawing, remove_drawing, replace_drawing
from mcphost.tui.transcript.blocks import LEVEL_MARKS
from mcphost.tui.transcript.prefixed_content import PrefixedContent
from mcphost.tui.transcript.tool_card import SPINNER, STATES

_LEVEL_WORDS = {"info": N_("Note: "), "warning": N_("Warning: "), "error": N_("Error: ")}
_PREFIX_WORDS = {f"{mark} ": _LEVEL_WORDS[level] for level, (mark, _style) in LEVEL_MARKS.items()}
_SPINNER_MARKS = str.maketrans(dict.fromkeys(SPINNER, STATES["running"][0]))


def simplify_piece(piece: PrefixedContent) -> PrefixedContent | None:
    """Return *piece* with words in place of symbols, or None if it is only decoration."""
    plain = piece.content.plain
    if plain.strip() and is_drawing(plain):
        return None
    if piece.is_decoration and is_drawing(plain[:1]):  # such as the line below a table's header, which ends with "copy"
        start = next(at for at, one in enumerate(plain) if not is_drawing(one))
        return piece._replace(content=piece.content[start:])
    shown = replace_drawing(plain[:1].translate(_SPINNER_MARKS) + plain[1:])
    return piece._replace(
        first_prefix=_(_PREFIX_WORDS.get(piece.first_prefix, "")) or remove_drawing(piece.first_prefix),
        rest_prefix=remove_drawing(piece.rest_prefix),
        content=piece.content if shown == plain else Content(shown, list(piece.content.spans)),
    )
