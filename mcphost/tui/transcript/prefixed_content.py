"""Content of transcript blocks with a prefix, such as a list marker, on each row."""

from typing import TYPE_CHECKING, NamedTuple

from textual.content import Content

if TYPE_CHECKING:
    from mcphost.sandbox.image_formats import DecodedImage


class PrefixedContent(NamedTuple):
    """Content with one prefix for its first row and another for all other rows."""

    first_prefix: str
    rest_prefix: str
    content: Content
    style: str = ""
    prefix_style: str = ""
    image_rows: int = 0
    """Rows reserved for an image, which replaces `content`. They are blank until the image is decoded."""
    drawing: "DecodedImage | None" = None
