"""Images drawn as Sixel graphics: placeholder cells in the terminal output are replaced with parts of the image.

A Sixel image stays where it was drawn, and disappears where text is written over it. Each row of cells is therefore a
separate image, which is written again whenever that row is written. A sixel is a column of six pixels; a band of sixels
is written once for each of its colors. See "Sixel Graphics" in the VT330/VT340 Programmer Reference Manual, volume 2,
chapter 14.
"""

import asyncio
import re
import sys
from collections.abc import Callable
from functools import cache
from hashlib import sha256
from itertools import pairwise
from secrets import randbelow
from typing import Protocol, runtime_checkable

from mcphost.sandbox.image_formats import DecodedImage
from mcphost.sandbox.images import MAX_SIDE
from mcphost.serialization import Struct
from mcphost.tui.kitty_graphics import MARKS, PLACEHOLDER, DecodeFn, PlacedImage

MAX_COLORS = 128
"""Maximum number of colors of an image. With more, scrolling is slower, and few images look better."""
_INVISIBLE = 255
_PIXELS_PER_SIXEL = 6
_TO_CHARACTERS = bytes((value + 63) % 256 for value in range(256))
_REPEATED = re.compile(r"(.)\1{3,}")


class IndexedImage(Struct, frozen=True):
    """An image with a palette.

    Each byte in `rows` is the palette index of a pixel, or 255 for a transparent pixel.
    """

    width: int
    rows: tuple[bytes, ...]
    palette: tuple[tuple[int, int, int], ...]


def index_colors(image: DecodedImage) -> IndexedImage:
    """Convert an image to palette indices; opaque colors beyond the first MAX_COLORS become the first color."""
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
    """Return the image scaled to *width* × *height* pixels, without interpolating colors."""
    columns = [x * image.width // width for x in range(width)]
    wide = [bytes(map(row.__getitem__, columns)) for row in image.rows]
    return IndexedImage(width, tuple(wide[y * len(wide) // height] for y in range(height)), image.palette)


def encode_sixel(image: IndexedImage, left: int, top: int, width: int, height: int) -> str:
    """Return the escape sequence that draws a part of the image at the cursor.

    *left*, *top*, *width* and *height* define the part in pixels. Transparent pixels leave the screen unchanged.
    """
    used: set[int] = set()
    bands: list[str] = []
    for y in range(top, top + height, _PIXELS_PER_SIXEL):
        lines = [row[left : left + width] for row in image.rows[y : min(y + _PIXELS_PER_SIXEL, top + height)]]
        colors = set(b"".join(lines)) - {_INVISIBLE}
        used |= colors
        bands.append("$".join(f"#{color}{_encode_band(lines, color)}" for color in sorted(colors)))
    # These parameters select square pixels, and leave the background where no pixel is set.
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
    """Return a table for `bytes.translate` that maps *color* to the bit of pixel *number* in a sixel.

    All other colors are mapped to 0.
    """
    return bytes(1 << number if index == color else 0 for index in range(256))


MAX_PICTURES = 32
"""Maximum number of images; later ones are drawn with half-block characters."""
MAX_CELL_SIDE = 64
"""Maximum width and height of a cell in pixels; a larger size reported by a terminal is ignored."""
_INDEX_OF_MARK = {mark: index for index, mark in enumerate(MARKS)}
_MARK = f"[{''.join(MARKS)}]"
_CELL = re.compile(f"{PLACEHOLDER}({_MARK})({_MARK})")
# Cells as Textual writes them: colors, cells that have them, and the end of the colors.
_CELLS = re.compile(f"\x1b\\[([0-9;]*)m((?:{PLACEHOLDER}{_MARK}{_MARK})+)\x1b\\[0m")
_RUN = re.compile(f"(?:\x1b\\[[0-9;]*m(?:{PLACEHOLDER}{_MARK}{_MARK})+\x1b\\[0m)+")
_TEXT_COLOR = re.compile(r"\b38;2;(\d{1,3});(\d{1,3});(\d{1,3})\b")


@runtime_checkable
class GraphicsTerminal(Protocol):
    """Protocol for terminal drivers that report the cell size and can transform their output."""

    transform_output: Callable[[str], str] | None
    """Function that is applied to all output, or None."""

    def cell_size(self) -> tuple[int, int]:
        """Return the width and height of a cell in pixels, or (0, 0) if the terminal does not report them."""
        ...


class _Cell:
    """A placeholder cell found in the output.

    - `colors`: the colors of the cell.
    - `number`: identifies the image.
    - `row` and `column`: the position of the cell in the image.
    """

    def __init__(self, colors: str, row: str, column: str) -> None:
        found = _TEXT_COLOR.search(colors)
        red, green, blue = map(int, found.groups()) if found else (0, 0, 0)
        self.colors = colors
        self.text = f"\x1b[{colors}m{PLACEHOLDER}{row}{column}\x1b[0m"
        self.number = red << 16 | green << 8 | blue
        self.row, self.column = _INDEX_OF_MARK.get(row, -1), _INDEX_OF_MARK.get(column, -1)

    def is_followed_by(self, other: "_Cell") -> bool:
        """Return whether *other* is the next cell in the same row of the same image."""
        return (self.number, self.row, self.column + 1) == (other.number, other.row, other.column)


class _Picture:
    """An image with the escape sequences that draw each of its rows of cells.

    The sequences are cached for one cell size.
    """

    def __init__(self, image: IndexedImage, columns: int, rows: int) -> None:
        self._image, self._columns, self._rows = image, columns, rows
        self._cell = 0, 0
        self._scaled = image
        self._sequences: dict[int, str] = {}

    def encode_all(self, cell: tuple[int, int]) -> None:
        """Encode every row for cells of the size *cell* in pixels, so that `encode` only has to look up the rows."""
        for row in range(self._rows):
            self.encode(row, 0, self._columns, cell)

    def encode(self, row: int, begin: int, end: int, cell: tuple[int, int]) -> str:
        """Return the escape sequence that draws the cells *begin* to *end* (exclusive) of a row.

        *cell* is the width and height of a cell in pixels.
        """
        width, height = cell
        if cell != self._cell:
            self._scaled = resize_image(self._image, self._columns * width, self._rows * height)
            self._cell = cell
            self._sequences.clear()
        if (begin, end) == (0, self._columns) and row in self._sequences:
            return self._sequences[row]
        text = encode_sixel(self._scaled, begin * width, row * height, (end - begin) * width, height)
        if (begin, end) == (0, self._columns):
            self._sequences[row] = text
        return text


class SixelGraphics:
    """Images that are drawn as Sixel graphics.

    All output to *terminal* must pass through `draw`. *draws_itself* is called with the number of an image, and
    returns whether the terminal draws that image itself, using Kitty's graphics protocol.
    """

    def __init__(self, terminal: GraphicsTerminal, draws_itself: Callable[[int], bool] = lambda _number: False) -> None:
        self._terminal, self._draws_itself = terminal, draws_itself
        self._next_number = 1 + randbelow(0xFF_0000)  # unlikely to be a color of the theme
        self._placed: dict[tuple[bytes, int, int], PlacedImage] = {}
        self._pictures: dict[int, _Picture] = {}

    def _cell_size(self) -> tuple[int, int]:
        size = self._terminal.cell_size()
        return size if all(0 < side <= MAX_CELL_SIDE for side in size) else (0, 0)

    async def show(self, data: str, columns: int, rows: int, decode: DecodeFn) -> DecodedImage | str:
        """Encode a base64 image for drawing in *columns* × *rows* cells, and return it as a PlacedImage.

        If there are too many images, the area is too large, or the terminal does not report its cell size, return an
        image decoded for half-block characters instead. *decode* is called with the maximum width and height in pixels.
        It returns an image with at most `MAX_COLORS` colors, or an error message, which this method then returns.
        """
        key = await asyncio.to_thread(lambda: sha256(data.encode(errors="replace")).digest()), columns, rows
        if key in self._placed:
            return self._placed[key]
        width, height = cell = self._cell_size()
        if not width or len(self._placed) >= MAX_PICTURES or max(columns, rows) > len(MARKS):
            return await decode(columns, rows * 2)
        image = await decode(min(MAX_SIDE, columns * width), min(MAX_SIDE, rows * height))
        if isinstance(image, str):
            return image
        picture = await asyncio.to_thread(_encode, image, columns, rows, cell)
        placed = PlacedImage(
            width=image.width, height=image.height, pixels=b"", is_complete=image.is_complete,
            number=self._next_number, columns=columns, rows=rows,
        )  # fmt: skip
        self._next_number += 1
        self._pictures[placed.number] = picture
        return self._placed.setdefault(key, placed)

    def draw(self, output: str) -> str:
        """Return the output with each placeholder cell replaced by its part of the image.

        A cell becomes a space if its image is unknown, or if the terminal has not reported its cell size. The cells of
        images that the terminal draws itself stay as they are.
        """
        if PLACEHOLDER not in output:
            return output
        parts: list[str] = []
        end = 0
        for run in _RUN.finditer(output):
            parts += _remove_cells(output[end : run.start()]), self._draw_run(run)
            end = run.end()
        return "".join((*parts, _remove_cells(output[end:])))

    def _draw_run(self, run: re.Match[str]) -> str:
        cells = [_Cell(one[1], *place) for one in _CELLS.finditer(run[0]) for place in _CELL.findall(one[2])]
        ends = [at for at, (one, other) in enumerate(pairwise(cells), 1) if not one.is_followed_by(other)]
        return "".join(self._draw_cells(cells[begin:end]) for begin, end in pairwise((0, *ends, len(cells))))

    def _draw_cells(self, cells: list[_Cell]) -> str:
        """Return the sequences that draw adjacent cells of one row of an image.

        The cells are cleared first. Terminals differ in where they leave the cursor after a Sixel image, so the cursor
        is restored to its saved position and moved from there.
        """
        first, picture, size = cells[0], self._pictures.get(cells[0].number), self._cell_size()
        if picture is None and self._draws_itself(first.number):
            return "".join(cell.text for cell in cells)
        blank = f"\x1b[{first.colors}m{' ' * len(cells)}\x1b[0m"
        if picture is None or first.row < 0 or first.column < 0 or not size[0]:
            return blank
        drawn = picture.encode(first.row, first.column, first.column + len(cells), size)
        return f"\x1b7{blank}\x1b8{drawn}\x1b8\x1b[{len(cells)}C"


def _remove_cells(output: str) -> str:
    return _CELL.sub(" ", output).replace(PLACEHOLDER, " ")


def _encode(image: DecodedImage, columns: int, rows: int, cell: tuple[int, int]) -> _Picture:
    picture = _Picture(index_colors(image), columns, rows)
    picture.encode_all(cell)
    return picture
