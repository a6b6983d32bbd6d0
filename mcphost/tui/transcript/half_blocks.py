"""Small image as rows of half blocks: two pixels in each cell, in true colour."""

from typing import TYPE_CHECKING

from rich.color import Color as RichColor
from rich.segment import Segment
from rich.style import Style as RichStyle
from textual.color import Color
from textual.strip import Strip

if TYPE_CHECKING:
    from mcphost.sandbox.image_formats import DecodedImage

Rgb = tuple[int, int, int]


def render_half_blocks(drawing: "DecodedImage", background: Color) -> list[Strip]:
    """Return the rows, two pixels each; transparent pixels show the background."""
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
    """Return one row of cells; adjacent cells of the same colours share a segment."""
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
