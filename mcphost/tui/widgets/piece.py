"""A piece of a block: content, and how its rows begin."""

from typing import TYPE_CHECKING, NamedTuple

from textual.content import Content

if TYPE_CHECKING:
    from mcphost.sandbox.image_formats import DecodedImage


class PrefixedContent(NamedTuple):
    """Content that flows inside the width, with what stands before its first and its other rows."""

    first_prefix: str
    rest_prefix: str
    content: Content
    style: str = ""
    prefix_style: str = ""
    image_rows: int = 0
    """Rows that a picture takes, instead of the content's; they are empty until it was decoded."""
    drawing: "DecodedImage | None" = None
