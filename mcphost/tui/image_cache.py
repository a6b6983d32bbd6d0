"""Pictures decoded for the screen: each asked for once, the newest kept; and whether any can be drawn here."""

import os
from collections import OrderedDict
from hashlib import sha256
from typing import Any

from textual.app import App

from mcphost.sandbox.image_decoder import HINT, Decoder, is_installed
from mcphost.sandbox.image_formats import Drawing

_KEPT_BYTES = 16 * 1024 * 1024
_FAILURES = 200  # bytes that one counts for


def undrawn(app: App[Any]) -> str:
    """Why pictures are not drawn on this terminal, with what to do; empty when they are."""
    if app.no_color:
        return "NO_COLOR is set."
    if app.console.color_system != "truecolor":
        shown = os.environ.get("TERM", "")[:60]
        return f"This terminal ({shown}) does not say that it has true colours; COLORTERM=truecolor says it."
    return "" if is_installed() else HINT


class Gallery:
    """Owns the decoder. `close` ends it; what is asked for afterwards would start another."""

    def __init__(self) -> None:
        self._decoder = Decoder()
        self._kept: OrderedDict[tuple[bytes, int, int], Drawing | str] = OrderedDict()
        self._bytes = 0

    async def draw(self, data: str, width: int, height: int) -> Drawing | str:
        """See Decoder.draw; what was decoded before is there at once, also that it could not be."""
        key = sha256(data.encode(errors="replace")).digest(), width, height
        known = self._kept.get(key)
        if known is not None:
            self._kept.move_to_end(key)
            return known
        found = await self._decoder.draw(data, width, height)
        if key not in self._kept:
            self._kept[key] = found
            self._bytes += _size(found)
            while self._bytes > _KEPT_BYTES:
                self._bytes -= _size(self._kept.popitem(last=False)[1])
        return found

    async def close(self) -> None:
        """End the process that decodes. Idempotent."""
        await self._decoder.close()


def _size(found: Drawing | str) -> int:
    return len(found.pixels) if isinstance(found, Drawing) else _FAILURES
