"""A piece of a block: content, and how its rows begin."""

from typing import TYPE_CHECKING, NamedTuple

from textual.content import Content

if TYPE_CHECKING:
    from mcphost.sandbox.image_formats import Drawing


class Piece(NamedTuple):
    """Content that flows inside the width, with what stands before its first and its other rows."""

    first: str
    rest: str
    content: Content
    style: str = ""
    lead: str = ""
    rows: int = 0
    """Rows that a picture takes, instead of the content's; they are empty until it was decoded."""
    drawing: "Drawing | None" = None
