"""Encoding of small images as Sixel graphics.

See "Sixel Graphics" in the VT330/VT340 Programmer Reference Manual, volume 2, chapter 14. A sixel is a column of six
pixels; a band of them is written once for each of its colors.
"""

import re
import sys
from functools import cache

from mcphost.sandbox.image_formats import DecodedImage
from mcphost.serialization import Struct

MAX_COLORS = 128
"""Number of colors of an image: more make a scrolled image slower to write, and few pictures look better."""
_INVISIBLE = 255
_PIXELS_PER_SIXEL = 6
_TO_CHARACTERS = bytes((value + 63) % 256 for value in range(256))
_REPEATED = re.compile(r"(.)\1{3,}")


class IndexedImage(Struct, frozen=True):
    """An image with a palette; `rows` has one byte per pixel, the index of its color, or 255 where it is invisible."""

    width: int
    rows: tuple[bytes, ...]
    palette: tuple[tuple[int, int, int], ...]


def index_colors(image: DecodedImage) -> IndexedImage:
    """Return the image with its palette; colors after the first MAX_COLORS become the first one."""
    pixels = memoryview(image.pixels).cast("I")
    colors = {value: value.to_bytes(4, sys.byteorder) for value in set(pixels)}
    opaque = sorted(value for value, color in colors.items() if color[3] >= 128)[:MAX_COLORS]
    indices = {value: 0 if color[3] >= 128 else _INVISIBLE for value, color in colors.items()}
    indices.update((value, index) for index, value in enumerate(opaque))
    flat = bytes(map(indices.__getitem__, pixels))
    rows = tuple(flat[at : at + image.width] for at in range(0, len(flat), image.width))
    palette = tuple((colors[value][0], colors[value][1], colors[value][2]) for value in opaque)
    return IndexedImage(image.width, rows, palette)


def resize_image(image: IndexedImage, width: int, height: int) -> IndexedImage:
    """Return the image stretched or shrunk to a size in pixels, without new colors."""
    columns = [x * image.width // width for x in range(width)]
    wide = [bytes(map(row.__getitem__, columns)) for row in image.rows]
    return IndexedImage(width, tuple(wide[y * len(wide) // height] for y in range(height)), image.palette)


def encode_sixel(image: IndexedImage, left: int, top: int, width: int, height: int) -> str:
    """Return the escape sequence that draws a part of the image, given in pixels, at the cursor.

    Invisible pixels leave the screen unchanged.
    """
    used: set[int] = set()
    bands: list[str] = []
    for y in range(top, top + height, _PIXELS_PER_SIXEL):
        lines = [row[left : left + width] for row in image.rows[y : min(y + _PIXELS_PER_SIXEL, top + height)]]
        colors = set(b"".join(lines)) - {_INVISIBLE}
        used |= colors
        bands.append("$".join(f"#{color}{_encode_band(lines, color)}" for color in sorted(colors)))
    # Pixels are square, and the background of the screen stays where no pixel is set.
    begin = f'\x1bP0;1;0q"1;1;{width};{height}'
    palette = "".join(_define_color(color, image.palette[color]) for color in sorted(used))
    return f"{begin}{palette}{'-'.join(bands)}\x1b\\"


def _define_color(number: int, color: tuple[int, int, int]) -> str:
    red, green, blue = (round(part * 100 / 255) for part in color)
    return f"#{number};2;{red};{green};{blue}"


def _encode_band(lines: list[bytes], color: int) -> str:
    bits = 0
    for number, line in enumerate(lines):
        bits |= int.from_bytes(line.translate(_bit_table(color, number)), "big")
    text = bits.to_bytes(len(lines[0]), "big").translate(_TO_CHARACTERS).decode("ascii")
    return _REPEATED.sub(lambda found: f"!{len(found[0])}{found[1]}", text.rstrip("?"))


@cache
def _bit_table(color: int, number: int) -> bytes:
    """Return the translation of color indices to the bit of a pixel in a sixel."""
    return bytes(1 << number if index == color else 0 for index in range(256))
