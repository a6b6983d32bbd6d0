"""Choice between Kitty's graphics protocol, Sixel graphics and half-block characters for drawing images."""

import asyncio
import os
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from textual.driver import Driver

from mcphost.sandbox.image_formats import DecodedImage
from mcphost.tui.image_cache import ImageCache
from mcphost.tui.kitty_graphics import KittyGraphics, can_place_pictures, draws_pictures
from mcphost.tui.sixel_graphics import MAX_COLORS, GraphicsTerminal, SixelGraphics

if TYPE_CHECKING:
    from mcphost.host.runtime_settings import RuntimeSettings

SIXEL = 4
"""Device attribute of a terminal that draws Sixel graphics."""


@runtime_checkable
class AnsweringTerminal(Protocol):
    """Protocol for terminal drivers that can query the capabilities of the terminal."""

    async def ask_for_attributes(self) -> frozenset[int]:
        """Return the terminal's device attributes (DA1), or an empty set if it has not answered in time."""
        ...


def can_trust_attributes(environ: Mapping[str, str]) -> bool:
    """Return whether the device attributes describe the terminal that displays the images.

    This is not the case in tmux, screen or Zellij. For example, a tmux built with Sixel support always reports
    Sixel, even if the terminal in which tmux is running shows text in place of the images; tmux also keeps only the
    last few images.
    """
    return can_place_pictures(environ) and not environ.get("ZELLIJ")


class TerminalGraphics:
    """Display of images in *terminal*, with the method set in `screen.pictures` of *settings*.

    If the setting changes, images that are already displayed are not redrawn.
    """

    def __init__(self, terminal: Driver | None, settings: "RuntimeSettings", cache: ImageCache) -> None:
        self._terminal, self._settings, self._cache = terminal, settings, cache
        self._choosing = asyncio.Lock()
        self._kitty: KittyGraphics | None = None
        self._sixel: SixelGraphics | None = None
        self._has_answered_sixel = False

    async def show(self, data: str, width: int, height: int) -> DecodedImage | str:
        """Prepare a base64 image for *width* columns and *height* / 2 rows; return the image or an error message.

        *height* is in half-block pixels, of which each row has two.
        """
        how = self._settings.screen.pictures
        async with self._choosing:
            graphics = await self._choose(self._terminal, how) if self._terminal is not None else None
        if isinstance(graphics, SixelGraphics):
            return await graphics.show(data, width, height // 2, partial(self._cache.decode, data, colors=MAX_COLORS))
        if graphics is not None:
            return await graphics.show(data, width, height // 2, partial(self._cache.decode, data))
        return await self._cache.decode(data, width, height)

    async def _choose(self, terminal: Driver, how: str) -> KittyGraphics | SixelGraphics | None:
        """Return the graphics protocol to use for *how*, the value of `screen.pictures`.

        None means that images are drawn with half-block characters.
        """
        if how == "sixel":
            return self._use_sixel(terminal)
        # A browser has the environment variables of the server's terminal.
        if how == "half-blocks" or terminal.is_web:
            return None
        if (can_place_pictures if how == "kitty" else draws_pictures)(os.environ):
            self._kitty = self._kitty or KittyGraphics(terminal.write)
            return self._kitty
        if how == "auto" and (self._has_answered_sixel or await self._answers_sixel(terminal)):
            self._has_answered_sixel = True
            return self._use_sixel(terminal)
        return None

    async def _answers_sixel(self, terminal: Driver) -> bool:
        """Return whether the terminal reports support for Sixel graphics and the size of its cells."""
        if not (isinstance(terminal, AnsweringTerminal) and isinstance(terminal, GraphicsTerminal)):
            return False
        is_asked = can_trust_attributes(os.environ) and all(terminal.cell_size())
        return is_asked and SIXEL in await terminal.ask_for_attributes()

    def _use_sixel(self, terminal: Driver) -> SixelGraphics | None:
        if self._sixel is None and isinstance(terminal, GraphicsTerminal):
            self._sixel = SixelGraphics(terminal, lambda number: bool(self._kitty and self._kitty.has_sent(number)))
            terminal.transform_output = self._sixel.draw
        return self._sixel

    async def send_again(self) -> None:
        """Resend images that another program may have removed from the terminal."""
        if self._kitty is not None:
            await self._kitty.send_again()

    def close(self) -> None:
        """Remove all images from the terminal."""
        if self._kitty is not None:
            self._kitty.close()
