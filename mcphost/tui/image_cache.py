"""Least-recently-used cache of decoded images, and a function that checks for image support."""

import os
from collections import OrderedDict
from hashlib import sha256
from typing import Any

from textual.app import App

from mcphost.sandbox.image_formats import DecodedImage
from mcphost.sandbox.images import INSTALL_HINT, ImageDecoder, is_installed
from mcphost.translation import _
from mcphost.tui.screen_reader import is_reader

MAX_CACHED_BYTES = 16 * 1024 * 1024
_FAILURE_BYTES = 200  # size in bytes that is assumed for a cached error


def images_unsupported_reason(app: App[Any]) -> str:
    """Return the reason why the terminal cannot show images, with a remedy if there is one.

    Return "" if the terminal can show images.
    """
    if is_reader(app):
        return _("A screen reader cannot read it.")
    if app.no_color:
        return _("NO_COLOR is set.")
    if app.console.color_system != "truecolor":
        shown = os.environ.get("TERM", "")[:60]
        return _(
            "This terminal ({shown}) does not report true color. If it supports it, set COLORTERM=truecolor."
        ).format(shown=shown)
    return "" if is_installed() else INSTALL_HINT


class ImageCache:
    """LRU cache of up to MAX_CACHED_BYTES of images, which are decoded by a separate process.

    The first `decode` starts the process and `close` ends it; a later `decode` starts a new one.
    """

    def __init__(self) -> None:
        self._decoder = ImageDecoder()
        self._entries: OrderedDict[tuple[bytes, int, int, int], DecodedImage | str] = OrderedDict()
        self.cached_bytes = 0

    async def decode(self, data: str, width: int, height: int, *, colors: int = 0) -> DecodedImage | str:
        """Return the base64 image *data*, decoded and scaled down to at most *width* × *height* pixels.

        If *colors* is not 0, the image has at most that many colors, and each pixel is either opaque or fully
        transparent. If decoding fails, return a phrase that describes the error. Images and errors are cached. Raises
        only CancelledError.
        """
        key = sha256(data.encode(errors="replace")).digest(), width, height, colors
        known = self._entries.get(key)
        if known is not None:
            self._entries.move_to_end(key)
            return known
        result = await self._decoder.decode(data, width, height, colors)
        if key not in self._entries:
            self._entries[key] = result
            self.cached_bytes += _entry_bytes(result)
            while self.cached_bytes > MAX_CACHED_BYTES:
                self.cached_bytes -= _entry_bytes(self._entries.popitem(last=False)[1])
        return result

    @property
    def entry_count(self) -> int:
        """The number of cached images and errors."""
        return len(self._entries)

    async def close(self) -> None:
        """End the decoder process if it is running. Idempotent."""
        await self._decoder.close()


def _entry_bytes(entry: DecodedImage | str) -> int:
    return len(entry.pixels) if isinstance(entry, DecodedImage) else _FAILURE_BYTES
