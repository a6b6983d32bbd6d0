"""Scrolling column that mounts many rows in small steps."""

import asyncio
from collections.abc import Iterable
from itertools import islice

from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.widget import Widget

_FIRST_WIDGETS = 10
_WIDGETS_PER_STEP = 8


class SteppedColumn(VerticalScroll, can_focus=False):
    """Scrolling column that creates and mounts its children a few at a time.

    Textual cannot be interrupted while it styles and lays out new widgets: 100 inputs at once would block the program
    for half a second.
    """

    def __init__(self, widgets: Iterable[Widget], *, widget_id: str) -> None:
        """Create a column; *widgets* is iterated over while the column is mounted."""
        super().__init__(id=widget_id)
        self._widgets = iter(widgets)
        self._whole = asyncio.Event()

    def compose(self) -> ComposeResult:
        """Create the first few widgets."""
        yield from islice(self._widgets, _FIRST_WIDGETS)

    def on_mount(self) -> None:
        """Mount the other widgets after the first ones have been drawn."""
        self.call_after_refresh(self._mount_next)

    async def _mount_next(self) -> None:
        if not self.is_attached:
            return
        if widgets := list(islice(self._widgets, _WIDGETS_PER_STEP)):
            await self.mount(*widgets)
            self.call_after_refresh(self._mount_next)
        else:
            self._whole.set()

    def fit(self) -> None:
        """Limit the height of the column, so that the description above it and the lines below it stay visible."""
        rows = self.screen.size.height
        described = rows * 3 // 10 + 1 if self.screen.query("#description") else 0
        self.styles.max_height = max(4, rows * 95 // 100 - described - 8)

    @property
    def is_whole(self) -> bool:
        """Whether all widgets are mounted."""
        return self._whole.is_set()

    async def wait_whole(self) -> None:
        """Wait until all widgets are mounted."""
        await self._whole.wait()
