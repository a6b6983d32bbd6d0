"""Content of transcript blocks with a prefix, such as a list marker, before each of its rows."""

from typing import TYPE_CHECKING, NamedTuple

from textual.content import Content

if TYPE_CHECKING:
    from mcphost.sandbox.image_formats import DecodedImage


class PrefixedContent(NamedTuple):
    """Content with a prefix for its first row and another one for the rows after it."""

    first_prefix: str
    rest_prefix: str
    content: Content
    style: str = ""
    prefix_style: str = ""
    image_rows: int = 0
    """Number of rows reserved for an image, which is drawn in place of `content`; blank until it is decoded."""
    drawing: "DecodedImage | None" = None
