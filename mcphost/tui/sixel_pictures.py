"""Images drawn as Sixel graphics, in place of their placeholder cells, whenever these are written to the terminal.

A Sixel image stays where it was drawn, and disappears where text is written over it. Each row of cells is therefore a
separate image, which is written again with its row.
"""

import asyncio
import re
from collections.abc import Callable
from hashlib import sha256
from itertools import pairwise
from secrets import randbelow
from typing import Protocol, runtime_checkable

from mcphost.sandbox.image_decoder import MAX_SIDE
from mcphost.sandbox.image_formats import DecodedImage
from mcphost.tui.picture_cells import MARKS, PLACEHOLDER, DecodeFn, PlacedImage
from mcphost.tui.sixel_encoder import IndexedImage, encode_sixel, index_colors, resize_image

MAX_PICTURES = 32
"""Maximum number of pictures; later ones are drawn with half-blocks."""
MAX_CELL_SIDE = 64
"""Maximum width and height of a cell in pixels, as a terminal reports them; a larger one is not believed."""
_INDEX_OF_MARK = {mark: index for index, mark in enumerate(MARKS)}
_CELL = re.compile(f"{PLACEHOLDER}(.)(.)", re.DOTALL)
# Cells as Textual writes them: colors, cells that have them, and the end of the colors.
_CELLS = re.compile(f"\x1b\\[([0-9;]*)m((?:{PLACEHOLDER}..)+)\x1b\\[0m", re.DOTALL)
_RUN = re.compile(f"(?:\x1b\\[[0-9;]*m(?:{PLACEHOLDER}..)+\x1b\\[0m)+", re.DOTALL)
_TEXT_COLOR = re.compile(r"\b38;2;(\d{1,3});(\d{1,3});(\d{1,3})\b")


@runtime_checkable
class GraphicsTerminal(Protocol):
    """Interface of a terminal driver that knows the size of a cell, and whose output can be changed."""

    transform_output: Callable[[str], str] | None
    """Function that is applied to all output, or None."""

    def cell_size(self) -> tuple[int, int]:
        """Return the width and height of a cell in pixels, or (0, 0) if the terminal does not report them."""
        ...


class _Cell:
    """A placeholder cell in the output: its colors, the number of its image, and its place in the image."""

    def __init__(self, colors: str, row: str, column: str) -> None:
        found = _TEXT_COLOR.search(colors)
        red, green, blue = map(int, found.groups()) if found else (0, 0, 0)
        self.colors = colors
        self.number = red << 16 | green << 8 | blue
        self.row, self.column = _INDEX_OF_MARK.get(row, -1), _INDEX_OF_MARK.get(column, -1)

    def is_followed_by(self, other: "_Cell") -> bool:
        """Return whether *other* is the next part of the same row of the same image."""
        return (self.number, self.row, self.column + 1) == (other.number, other.row, other.column)


class _Picture:
    """An image, and its rows of cells as escape sequences for one size of a cell."""

    def __init__(self, image: IndexedImage, columns: int, rows: int) -> None:
        self._image, self._columns, self._rows = image, columns, rows
        self._cell = 0, 0
        self._scaled = image
        self._sequences: dict[int, str] = {}

    def encode_all(self, cell: tuple[int, int]) -> None:
        """Encode each row for cells of this size."""
        for row in range(self._rows):
            self.encode(row, 0, self._columns, cell)

    def encode(self, row: int, begin: int, end: int, cell: tuple[int, int]) -> str:
        """Return the sequence that draws the cells from *begin* up to *end* of a row."""
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


class SixelPictures:
    """The images that are drawn as Sixel graphics; `draw` must be applied to all output to *terminal*."""

    def __init__(self, terminal: GraphicsTerminal) -> None:
        self._terminal = terminal
        self._next_number = 1 + randbelow(0xFF_0000)  # unlikely to be a color of the theme
        self._placed: dict[tuple[bytes, int, int], PlacedImage] = {}
        self._pictures: dict[int, _Picture] = {}

    def _cell_size(self) -> tuple[int, int]:
        size = self._terminal.cell_size()
        return size if all(0 < side <= MAX_CELL_SIDE for side in size) else (0, 0)

    async def show(self, data: str, columns: int, rows: int, decode: DecodeFn) -> DecodedImage | str:
        """Encode a base64 image for this number of cells, and return the image to lay out.

        *decode* is called with the maximum size in pixels, and must limit the colors to `MAX_COLORS`. If decoding
        fails, its error is returned. If there are too many images, or the terminal does not report the size of its
        cells, an image decoded for drawing with half-block characters is returned.
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
        """Return the output with each placeholder cell replaced by its part of an image, or by a space."""
        if PLACEHOLDER not in output:
            return output
        return _CELL.sub(" ", _RUN.sub(self._draw_run, output)).replace(PLACEHOLDER, " ")

    def _draw_run(self, run: re.Match[str]) -> str:
        cells = [_Cell(one[1], *place) for one in _CELLS.finditer(run[0]) for place in _CELL.findall(one[2])]
        ends = [at for at, (one, other) in enumerate(pairwise(cells), 1) if not one.is_followed_by(other)]
        return "".join(self._draw_cells(cells[begin:end]) for begin, end in pairwise((0, *ends, len(cells))))

    def _draw_cells(self, cells: list[_Cell]) -> str:
        """Return the sequences for adjacent cells of one row of an image.

        The cells are cleared first. Terminals differ in where a Sixel image leaves the cursor, so it is moved from the
        saved position.
        """
        first, picture, size = cells[0], self._pictures.get(cells[0].number), self._cell_size()
        blank = f"\x1b[{first.colors}m{' ' * len(cells)}\x1b[0m"
        if picture is None or first.row < 0 or first.column < 0 or not size[0]:
            return blank
        drawn = picture.encode(first.row, first.column, first.column + len(cells), size)
        return f"\x1b7{blank}\x1b8{drawn}\x1b8\x1b[{len(cells)}C"


def _encode(image: DecodedImage, columns: int, rows: int, cell: tuple[int, int]) -> _Picture:
    picture = _Picture(index_colors(image), columns, rows)
    picture.encode_all(cell)
    return picture
