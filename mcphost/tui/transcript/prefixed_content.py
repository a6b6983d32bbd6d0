"""A paragraph of the transcript whose wrapped rows have prefixes."""

from typing import TYPE_CHECKING, NamedTuple

from textual.content import Content

if TYPE_CHECKING:
    from mcphost.sandbox.image_formats import DecodedImage


class PrefixedContent(NamedTuple):
    """Content with a prefix for its first row and another for all rows that it wraps to."""

    first_prefix: str
    rest_prefix: str
    content: Content
    style: str = ""
    prefix_style: str = ""
    image_rows: int = 0
    """Number of rows reserved for an image, which is drawn in place of `content`; blank until it is decoded."""
    drawing: "DecodedImage | None" = None
