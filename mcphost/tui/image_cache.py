"""Pictures decoded for the screen: each asked for once, the newest kept; and whether any can be drawn here."""

import os
from collections import OrderedDict
from hashlib import sha256
from typing import Any

from textual.app import App

from mcphost.sandbox.image_decoder import INSTALL_HINT, ImageDecoder, is_installed
from mcphost.sandbox.image_formats import DecodedImage

_MAX_CACHED_BYTES = 16 * 1024 * 1024
_FAILURE_BYTES = 200  # bytes that one counts for


def images_unsupported_reason(app: App[Any]) -> str:
    """Why pictures are not drawn on this terminal, with what to do; empty when they are."""
    if app.no_color:
        return "NO_COLOR is set."
    if app.console.color_system != "truecolor":
        shown = os.environ.get("TERM", "")[:60]
        return f"This terminal ({shown}) does not say that it has true colours; COLORTERM=truecolor says it."
    return "" if is_installed() else INSTALL_HINT


class ImageCache:
    """Owns the decoder. `close` ends it; what is asked for afterwards would start another."""

    def __init__(self) -> None:
        self._decoder = ImageDecoder()
        self._entries: OrderedDict[tuple[bytes, int, int], DecodedImage | str] = OrderedDict()
        self._cached_bytes = 0

    async def decode(self, data: str, width: int, height: int) -> DecodedImage | str:
        """See ImageDecoder.decode; what was decoded before is there at once, also that it could not be."""
        key = sha256(data.encode(errors="replace")).digest(), width, height
        known = self._entries.get(key)
        if known is not None:
            self._entries.move_to_end(key)
            return known
        found = await self._decoder.decode(data, width, height)
        if key not in self._entries:
            self._entries[key] = found
            self._cached_bytes += _entry_bytes(found)
            while self._cached_bytes > _MAX_CACHED_BYTES:
                self._cached_bytes -= _entry_bytes(self._entries.popitem(last=False)[1])
        return found

    async def close(self) -> None:
        """End the process that decodes. Idempotent."""
        await self._decoder.close()


def _entry_bytes(found: DecodedImage | str) -> int:
    return len(found.pixels) if isinstance(found, DecodedImage) else _FAILURE_BYTES
