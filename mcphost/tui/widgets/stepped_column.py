"""Columns that mount many rows in small steps."""

import asyncio
from collections.abc import Iterable, Iterator
from itertools import islice

from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.message import Message
from textual.widget import Widget

from mcphost.tui.widgets.text_inputs import LabeledInput, LabeledInputGroup

_FIRST_WIDGETS = 10
_WIDGETS_PER_STEP = 8


class SteppedMounting(Widget):
    """Base class for a widget that creates and mounts its children a few at a time.

    Textual cannot be interrupted while it styles and lays out new widgets: 100 inputs at once would block the program
    for half a second.
    """

    class Completed(Message):
        """Posted when all children have been mounted and drawn."""

    _rest: Iterator[Widget]
    _whole: asyncio.Event

    def set_widgets(self, widgets: Iterable[Widget]) -> None:
        """Set the children to mount; *widgets* is iterated over while they are mounted."""
        self._rest, self._whole = iter(widgets), asyncio.Event()

    def compose(self) -> ComposeResult:
        """Create the first few children."""
        yield from islice(self._rest, _FIRST_WIDGETS)

    def on_mount(self) -> None:
        """Mount the other children after the first ones have been drawn."""
        self.call_after_refresh(self._mount_next, self._rest)

    async def replace_widgets(self, widgets: Iterable[Widget]) -> None:
        """Replace the children; this returns when the first few are mounted."""
        self.set_widgets(widgets)
        await self.remove_children()
        await self.mount(*islice(self._rest, _FIRST_WIDGETS))
        self.call_after_refresh(self._mount_next, self._rest)

    async def _mount_next(self, rest: Iterator[Widget]) -> None:
        if not self.is_attached or rest is not self._rest:
            return
        if widgets := list(islice(rest, _WIDGETS_PER_STEP)):
            await self.mount(*widgets)
            self.call_after_refresh(self._mount_next, rest)
        else:
            self._whole.set()
            self.post_message(self.Completed())

    @property
    def is_whole(self) -> bool:
        """Whether all children are mounted."""
        return self._whole.is_set()

    async def wait_whole(self) -> None:
        """Wait until all children are mounted."""
        await self._whole.wait()


class SteppedColumn(VerticalScroll, SteppedMounting, can_focus=False):
    """Scrolling column of the inputs of a form."""

    def __init__(self, widgets: Iterable[Widget], *, widget_id: str) -> None:
        """Create a column; *widgets* is iterated over while the column is mounted."""
        super().__init__(id=widget_id)
        self.set_widgets(widgets)


class SteppedInputGroup(LabeledInputGroup, SteppedMounting):
    """Group of any number of labeled inputs."""

    def __init__(self, lines: Iterable[LabeledInput]) -> None:
        """Create a group; *lines* is iterated over while the group is mounted."""
        super().__init__()
        self.set_widgets(lines)
