"""Images drawn with Kitty's graphics protocol: the pixels are sent once, and placeholder cells show them."""

import asyncio
import zlib
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from secrets import randbelow

from mcphost.sandbox.image_decoder import MAX_SIDE
from mcphost.sandbox.image_formats import DecodedImage
from mcphost.tui.picture_cells import MARKS, DecodeFn, PlacedImage

MAX_PICTURES = 32
"""Maximum number of pictures that are sent to the terminal; later ones are drawn with half-blocks."""
CHUNK_CHARACTERS = 4096
"""Maximum length of the payload of one escape sequence, by the protocol."""
_CHUNKS_PER_WRITE = 16
_CELL_WIDTH, _CELL_HEIGHT = 10, 20
"""Pixels per cell; the terminal scales the picture to the size of its own cells."""


def can_place_pictures(environ: Mapping[str, str]) -> bool:
    """Return whether escape sequences reach the terminal itself; tmux and screen would drop them."""
    return not (environ.get("TMUX") or environ.get("STY") or environ.get("TERM", "").startswith(("tmux", "screen")))


class KittyPictures:
    """The images that were sent to the terminal.

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
        """Send a base64 image for this number of cells, unless the terminal already has it.

        *decode* is called with the maximum size in pixels. If decoding fails, its error is returned. If no more images
        can be sent, an image decoded for drawing with half-block characters is returned.
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
    """Return the escape sequences that send an image, grouped into a few texts to write."""
    payload = b64encode(zlib.compress(image.pixels)).decode()
    chunks = [payload[at : at + CHUNK_CHARACTERS] for at in range(0, len(payload), CHUNK_CHARACTERS)]
    keys = (
        f"a=T,U=1,f=32,o=z,s={image.width},v={image.height},i={placed.number},c={placed.columns},r={placed.rows},"
    )  # fmt: skip
    sequences = [
        f"\x1b_G{'' if at else keys}q=2,m={int(at < len(chunks) - 1)};{chunk}\x1b\\" for at, chunk in enumerate(chunks)
    ]
    return ["".join(sequences[at : at + _CHUNKS_PER_WRITE]) for at in range(0, len(sequences), _CHUNKS_PER_WRITE)]
