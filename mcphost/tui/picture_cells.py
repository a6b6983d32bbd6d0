"""Text cells that stand for the parts of an image which the terminal draws with its real pixels.

They scroll, clip and are covered like text. Each cell has the placeholder character of Kitty's graphics protocol: two
combining marks encode the row and column of the part, and the text color encodes the number of the image. See
https://sw.kovidgoyal.net/kitty/graphics-protocol/#unicode-placeholders.
"""

from collections.abc import Awaitable
from typing import Protocol

from rich.color import Color as RichColor
from rich.segment import Segment
from rich.style import Style as RichStyle
from textual.color import Color
from textual.strip import Strip

from mcphost.sandbox.image_formats import DecodedImage

PLACEHOLDER = "\U0010eeee"
MARKS = tuple(map(chr, (
    0x305, 0x30d, 0x30e, 0x310, 0x312, 0x33d, 0x33e, 0x33f, 0x346, 0x34a, 0x34b, 0x34c, 0x350, 0x351,
    0x352, 0x357, 0x35b, 0x363, 0x364, 0x365, 0x366, 0x367, 0x368, 0x369, 0x36a, 0x36b, 0x36c, 0x36d,
    0x36e, 0x36f, 0x483, 0x484, 0x485, 0x486, 0x487, 0x592, 0x593, 0x594, 0x595, 0x597, 0x598, 0x599,
    0x59c, 0x59d, 0x59e, 0x59f, 0x5a0, 0x5a1, 0x5a8, 0x5a9, 0x5ab, 0x5ac, 0x5af, 0x5c4, 0x610, 0x611,
    0x612, 0x613, 0x614, 0x615, 0x616, 0x617, 0x657, 0x658, 0x659, 0x65a, 0x65b, 0x65d, 0x65e, 0x6d6,
    0x6d7, 0x6d8, 0x6d9, 0x6da, 0x6db, 0x6dc, 0x6df, 0x6e0, 0x6e1, 0x6e2, 0x6e4, 0x6e7, 0x6e8, 0x6eb,
    0x6ec, 0x730, 0x732, 0x733, 0x735, 0x736, 0x73a, 0x73d, 0x73f, 0x740, 0x741, 0x743, 0x745, 0x747,
    0x749, 0x74a, 0x7eb, 0x7ec, 0x7ed, 0x7ee, 0x7ef, 0x7f0, 0x7f1, 0x7f3, 0x816, 0x817, 0x818, 0x819,
    0x81b, 0x81c, 0x81d, 0x81e, 0x81f, 0x820, 0x821, 0x822, 0x823, 0x825, 0x826, 0x827, 0x829, 0x82a,
    0x82b, 0x82c, 0x82d, 0x951,
)))  # fmt: skip
"""The marks for the numbers from 0, from the protocol's table rowcolumn-diacritics.txt."""


class PlacedImage(DecodedImage, frozen=True, kw_only=True):
    """An image that is drawn in this number of cells, with its number in their color; `pixels` is empty."""

    number: int
    columns: int
    rows: int


class DecodeFn(Protocol):
    """Function that decodes an image, scaled down to at most *width* by *height* pixels."""

    def __call__(self, width: int, height: int) -> Awaitable[DecodedImage | str]:
        """Return the decoded image, or an error message."""
        ...


def render_placeholders(placed: PlacedImage, background: Color) -> list[Strip]:
    """Return rows of placeholder cells in which the terminal shows the image.

    Each cell is a separate segment that encodes its row and column, so that it stays correct if other cells are
    covered.
    """
    number = placed.number
    color = RichColor.from_rgb(number >> 16 & 255, number >> 8 & 255, number & 255)
    style = RichStyle(color=color, bgcolor=background.rich_color)
    return [
        Strip([Segment(f"{PLACEHOLDER}{MARKS[y]}{MARKS[x]}", style) for x in range(placed.columns)], placed.columns)
        for y in range(placed.rows)
    ]
