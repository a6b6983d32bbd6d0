"""Content of a block with the prefixes of its rows."""

from typing import TYPE_CHECKING, NamedTuple

from textual.content import Content

if TYPE_CHECKING:
    from mcphost.sandbox.image_formats import DecodedImage


class PrefixedContent(NamedTuple):
    """Content that wraps at the width, with a prefix for the first and the other rows."""

    first_prefix: str
    rest_prefix: str
    content: Content
    style: str = ""
    prefix_style: str = ""
    image_rows: int = 0
    """Rows of an image, in place of content; blank until it is decoded."""
    drawing: "DecodedImage | None" = None
