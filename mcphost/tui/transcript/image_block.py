"""Transcript block for an image, drawn with half-block characters.

The block reserves rows for the image, which is drawn once it is decoded.
"""

import binascii
from typing import TYPE_CHECKING

from rich.color import Color as RichColor
from rich.segment import Segment
from rich.style import Style as RichStyle
from textual.color import Color
from textual.content import Content
from textual.strip import Strip

from mcphost.translation import _
from mcphost.tui.screen_text import clean_line
from mcphost.tui.transcript.blocks import ACTIVATE_STYLE, TranscriptBlock
from mcphost.tui.transcript.prefixed_content import PrefixedContent

if TYPE_CHECKING:
    from mcphost.llm.messages import ImagePart
    from mcphost.sandbox.image_formats import DecodedImage, ImageInfo


MAX_ROWS = 14
"""Maximum rows of an image, so that text around it stays visible on a screen of 24 rows."""
MAX_COLUMNS = 120
_PREFIX = "▎   "


def detect_image(part: "ImagePart") -> "ImageInfo | None":
    """Return an image's format and dimensions, read from its first bytes, or None if they are not recognized."""
    from mcphost.sandbox.image_formats import HEADER_BYTES, identify_image

    try:
        found = identify_image(binascii.a2b_base64(part.data[: HEADER_BYTES // 3 * 4]))
    except (binascii.Error, ValueError):
        return None
    return found if found is not None and found.width and found.height else None


class ImageCard(TranscriptBlock):
    """Image below the message or tool result that contains it.

    Enter folds the image to one row.
    """

    can_step = True
    gap = 0

    def __init__(self, part: "ImagePart", kind: "ImageInfo") -> None:
        super().__init__()
        self.part, self.kind = part, kind
        self.is_collapsed = False
        self.failure_reason = ""
        self.drawing: DecodedImage | None = None
        self._requested_size = (0, 0)  # in pixels
        self._failed_width = 0  # the width in columns when decoding failed; the rows stay reserved at this width

    def _cell_size(self, width: int) -> tuple[int, int]:
        """Return the image's width in columns and height in rows, in a block that is *width* columns wide."""
        from mcphost.sandbox.image_formats import fit_size

        columns, pixels = fit_size(
            self.kind.width, self.kind.height, max(1, min(MAX_COLUMNS, width - len(_PREFIX))), MAX_ROWS * 2
        )
        return columns, -(-pixels // 2)

    def _image_rows(self, width: int) -> int:
        if self.is_collapsed or (self.failure_reason and self._failed_width != width):
            return 0
        return self._cell_size(width)[1]

    def request_size(self, width: int) -> tuple[int, int] | None:
        """Return the size in pixels to which the image must be decoded for a block of *width* columns.

        Return None if it need not be decoded: this size has already been requested, the image is folded, or decoding
        has failed.
        """
        columns, rows = self._cell_size(width)
        sides = columns, rows * 2
        if self.is_collapsed or self.failure_reason or self._requested_size == sides:
            return None
        self._requested_size = sides
        return sides

    def set_drawing(self, sides: tuple[int, int], width: int, answer: "DecodedImage | str") -> bool:
        """Set the decoded image, or the error message if *answer* is a string.

        *sides* is the size that `request_size` returned, and *width* is the number of columns with which it was called.
        If another size has been requested since, change nothing and return False; otherwise, return True.
        """
        if self._requested_size != sides:
            return False
        if isinstance(answer, str):
            self.failure_reason, self._failed_width = answer, width
        else:
            self.drawing = answer
        return True

    def render(self, width: int) -> list[PrefixedContent]:
        """Return a heading and the image, or only the heading if the image is folded or cannot be decoded."""
        rows = self._image_rows(width)
        facts = _("{mime_type}, {width:,} × {height:,} pixels").format(
            mime_type=self.kind.mime_type, width=self.kind.width, height=self.kind.height
        )
        told = (
            f"{facts}: {clean_line(self.failure_reason, 200)}"
            if self.failure_reason
            else facts
            if self.is_collapsed
            else ""
        )
        if self.drawing is not None and not self.drawing.is_complete:
            told = _("{facts}: damaged, partly decoded").format(facts=facts)
        head = Content.assemble(
            (_("{part} image").format(part="▾" if rows else "▸"), "$faint"), (f"  {told}" if told else "", "$faint")
        )
        out = [PrefixedContent("▎ ", "▎ ", head.stylize(ACTIVATE_STYLE), "", "$faint")]
        if rows:
            out.append(PrefixedContent(_PREFIX, _PREFIX, Content(""), "", "$faint", rows, self.drawing))
        return out

    def estimate_height(self, width: int) -> int:
        """Return the height in rows, which is exact because the image's dimensions are known."""
        return self.gap + 1 + self._image_rows(width)

    def activate(self) -> tuple[str, str] | None:
        """Fold or unfold the image, and return None."""
        self.is_collapsed = not self.is_collapsed
        self.invalidate()
        return None

    def copy_text(self) -> str:
        """Return a placeholder with the format and size of the image."""
        return _("[image: {mime_type}, {width:,} × {height:,} pixels]").format(
            mime_type=self.kind.mime_type, width=self.kind.width, height=self.kind.height
        )


Rgb = tuple[int, int, int]


def render_half_blocks(drawing: "DecodedImage", background: Color) -> list[Strip]:
    """Draw an image with half-block characters, each of which shows two pixels, one above the other.

    Transparent pixels are blended with *background*. If *drawing* is a PlacedImage, the terminal draws the image
    itself; the rows then contain the placeholder cells that tell the terminal where to draw it.
    """
    from mcphost.tui.kitty_graphics import PlacedImage, render_placeholders

    if isinstance(drawing, PlacedImage):
        return render_placeholders(drawing, background)
    ground = (background.r, background.g, background.b)
    rows = [_build_pixel_row(drawing, y, ground) for y in range(drawing.height)]
    if len(rows) % 2:
        rows.append([ground] * drawing.width)
    return [_build_strip(upper, lower) for upper, lower in zip(rows[::2], rows[1::2], strict=True)]


def _build_pixel_row(drawing: "DecodedImage", y: int, ground: Rgb) -> list[Rgb]:
    begin = y * drawing.width * 4
    line = drawing.pixels[begin : begin + drawing.width * 4]
    return [
        (red, green, blue) if opacity == 255 else _blend((red, green, blue), ground, opacity)
        for red, green, blue, opacity in zip(line[::4], line[1::4], line[2::4], line[3::4], strict=True)
    ]


def _blend(colour: Rgb, ground: Rgb, opacity: int) -> Rgb:
    red, green, blue = (
        (one * opacity + other * (255 - opacity)) // 255 for one, other in zip(colour, ground, strict=True)
    )
    return red, green, blue


def _build_strip(upper: list[Rgb], lower: list[Rgb]) -> Strip:
    """Combine two rows of pixels into one row of cells; adjacent cells with the same colors share a segment."""
    segments: list[Segment] = []
    pairs = list(zip(upper, lower, strict=True))
    begin = 0
    for end in range(1, len(pairs) + 1):
        if end == len(pairs) or pairs[end] != pairs[begin]:
            top, bottom = pairs[begin]
            style = RichStyle.from_color(RichColor.from_rgb(*top), RichColor.from_rgb(*bottom))
            segments.append(Segment("▀" * (end - begin), style))
            begin = end
    return Strip(segments, len(pairs))
