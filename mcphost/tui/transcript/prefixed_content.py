"""Content of transcript blocks with a prefix, such as a list marker, on each row."""

from typing import TYPE_CHECKING, NamedTuple

from textual.content import Content

if TYPE_CHECKING:
    from mcphost.sandbox.image_formats import DecodedImage


PROSE_WIDTH = 100
"""Maximum width of running text in columns; longer rows are hard to read."""


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
    max_width: int = 0
    """Maximum width in columns, including the prefix; 0 means the width of the window."""
    is_decoration: bool = False
    """Whether the content, such as the row above a code block, is not part of the text and cannot be copied."""


def justify_ends(left: Content, right: Content, width: int) -> Content:
    """Combine two contents in one row of *width* cells, one at the left edge and one at the right edge.

    If there is not enough room, *left* is truncated.
    """
    room = width - right.cell_length - 1
    if left.cell_length > room:
        left = left.truncate(max(1, room), ellipsis=True)
    return Content.assemble(left, " " * max(1, width - left.cell_length - right.cell_length), right)
