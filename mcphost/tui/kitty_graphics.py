"""Images drawn with Kitty's graphics protocol.

The pixels of an image are sent once. The image appears in placeholder cells, which can be scrolled, clipped and covered
like text. Each cell contains the protocol's placeholder character, with two combining marks that encode the cell's row
and column in the image; the text color encodes the ID of the image. See
https://sw.kovidgoyal.net/kitty/graphics-protocol/#unicode-placeholders.
"""

import asyncio
import zlib
from base64 import b64encode
from collections.abc import Awaitable, Callable, Mapping, Sequence
from hashlib import sha256
from secrets import randbelow
from typing import Protocol

from rich.color import Color as RichColor
from rich.segment import Segment
from rich.style import Style as RichStyle
from textual.color import Color
from textual.strip import Strip

from mcphost.sandbox.image_formats import DecodedImage
from mcphost.sandbox.images import MAX_SIDE

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
"""Combining marks that encode the numbers from 0, from the protocol's table rowcolumn-diacritics.txt."""


class PlacedImage(DecodedImage, frozen=True, kw_only=True):
    """An image drawn in `columns` × `rows` placeholder cells, whose text color encodes the image's `number`.

    `pixels` is empty, because the layout needs only the placeholder cells.
    """

    number: int
    columns: int
    rows: int


class DecodeFn(Protocol):
    """Function that decodes an image, scaled down to at most *width* by *height* pixels."""

    def __call__(self, width: int, height: int) -> Awaitable[DecodedImage | str]:
        """Return the decoded image, or an error message."""
        ...


def render_placeholders(placed: PlacedImage, background: Color) -> list[Strip]:
    """Return rows of placeholder cells, which the terminal replaces with the image.

    Each cell is a separate segment that encodes its row and column. A cell is therefore still drawn correctly if
    other cells are covered.
    """
    number = placed.number
    color = RichColor.from_rgb(number >> 16 & 255, number >> 8 & 255, number & 255)
    style = RichStyle(color=color, bgcolor=background.rich_color)
    return [
        Strip([Segment(f"{PLACEHOLDER}{MARKS[y]}{MARKS[x]}", style) for x in range(placed.columns)], placed.columns)
        for y in range(placed.rows)
    ]


MAX_PICTURES = 32
"""Maximum number of images that are sent to the terminal; later ones are drawn with half-block characters."""
CHUNK_CHARACTERS = 4096
"""Maximum payload of an escape sequence in characters, as the protocol specifies."""
_CHUNKS_PER_WRITE = 16
_OTHER_TERMINALS = ("XTERM_VERSION", "VTE_VERSION", "KONSOLE_VERSION", "WT_SESSION")
_CELL_WIDTH, _CELL_HEIGHT = 10, 20
"""Pixels per cell; the terminal scales the image to the size of its own cells."""


def can_place_pictures(environ: Mapping[str, str]) -> bool:
    """Return whether graphics sequences reach the terminal; tmux and screen discard them."""
    return not (environ.get("TMUX") or environ.get("STY") or environ.get("TERM", "").startswith(("tmux", "screen")))


def draws_pictures(environ: Mapping[str, str]) -> bool:
    """Return whether the terminal is kitty or Ghostty, and graphics sequences reach it.

    The environment variables that kitty and Ghostty set are not enough, because another terminal that is started from
    them inherits these variables. Such a terminal is recognized by the variables that it sets itself.
    """
    if environ.get("ZELLIJ") or not can_place_pictures(environ):
        return False
    if (term := environ.get("TERM", "")) in {"xterm-kitty", "xterm-ghostty"}:
        return True
    is_started_in = environ.get("KITTY_WINDOW_ID") or environ.get("GHOSTTY_RESOURCES_DIR")
    is_other = environ.get("TERM_PROGRAM", "ghostty") != "ghostty" or any(map(environ.get, _OTHER_TERMINALS))
    return bool(is_started_in) and term.startswith("xterm") and not is_other


class KittyGraphics:
    """Images that the terminal draws with Kitty's graphics protocol.

    *write* writes text to the terminal and may block; it is called on worker threads, one call at a time. An image is
    sent once, and again after another program has used the terminal.
    """

    def __init__(self, write: Callable[[str], object]) -> None:
        self._write = write
        self._lock = asyncio.Lock()
        self._next_number = 1 + randbelow(0xFF_0000)  # other programs may have images in the same terminal
        self._sent: dict[tuple[bytes, int, int], tuple[PlacedImage, Sequence[str]]] = {}
        self._is_closed = False

    async def show(self, data: str, columns: int, rows: int, decode: DecodeFn) -> DecodedImage | str:
        """Send a base64 image to be drawn in *columns* × *rows* cells, unless the terminal already has it.

        Return the PlacedImage. If no more images can be sent, return instead an image for drawing with half-block
        characters. *decode* is called with the maximum width and height in pixels; if it fails, its error message is
        returned.
        """
        key = await asyncio.to_thread(lambda: sha256(data.encode(errors="replace")).digest()), columns, rows
        async with self._lock:
            if key in self._sent:
                return self._sent[key][0]
            if self._is_closed or len(self._sent) >= MAX_PICTURES or max(columns, rows) > len(MARKS):
                return await decode(columns, rows * 2)
            image = await decode(min(MAX_SIDE, columns * _CELL_WIDTH), min(MAX_SIDE, rows * _CELL_HEIGHT))
            if isinstance(image, str):
                return image
            placed = PlacedImage(
                width=image.width, height=image.height, pixels=b"", is_complete=image.is_complete,
                number=self._next_number, columns=columns, rows=rows,
            )  # fmt: skip
            self._next_number += 1
            writes = await asyncio.to_thread(_encode, image, placed)
            self._sent[key] = placed, writes
            await asyncio.to_thread(self._write_all, writes)
            return placed

    def has_sent(self, number: int) -> bool:
        """Return whether the image with this number has been sent to the terminal."""
        return any(placed.number == number for placed, _ in self._sent.values())

    async def send_again(self) -> None:
        """Send all images again, because the terminal may have discarded them."""
        async with self._lock:
            for _, writes in list(self._sent.values()):
                await asyncio.to_thread(self._write_all, writes)

    def _write_all(self, writes: Sequence[str]) -> None:
        for text in writes:
            if not self._is_closed:
                self._write(text)

    def close(self) -> None:
        """Remove all images from the terminal."""
        self._is_closed = True
        if self._sent:
            self._write("".join(f"\x1b_Ga=d,d=I,q=2,i={placed.number}\x1b\\" for placed, _ in self._sent.values()))
        self._sent.clear()


def _encode(image: DecodedImage, placed: PlacedImage) -> list[str]:
    """Return the escape sequences that send an image, joined into a few strings."""
    payload = b64encode(zlib.compress(image.pixels)).decode()
    chunks = [payload[at : at + CHUNK_CHARACTERS] for at in range(0, len(payload), CHUNK_CHARACTERS)]
    keys = (
        f"a=T,U=1,f=32,o=z,s={image.width},v={image.height},i={placed.number},c={placed.columns},r={placed.rows},"
    )  # fmt: skip
    sequences = [
        f"\x1b_G{'' if at else keys}q=2,m={int(at < len(chunks) - 1)};{chunk}\x1b\\" for at, chunk in enumerate(chunks)
    ]
    return ["".join(sequences[at : at + _CHUNKS_PER_WRITE]) for at in range(0, len(sequences), _CHUNKS_PER_WRITE)]
