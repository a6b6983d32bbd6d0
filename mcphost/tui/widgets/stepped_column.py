"""Containers that mount many children in small steps, so that the event loop is not blocked for long."""

import asyncio
from collections.abc import Iterable, Iterator
from itertools import islice

from textual.app import ComposeResult
from textual.containers import Vertical, VerticalScroll
from textual.message import Message
from textual.widget import Widget

from mcphost.tui.widgets.text_inputs import LabeledInput, LabeledInputGroup

_FIRST_WIDGETS = 10
_WIDGETS_PER_STEP = 8
_LINES_IN_BLOCK = 4


class SteppedMounting(Widget):
    """Base class for a widget that creates and mounts its children a few at a time.

    Textual cannot be interrupted while it styles and lays out new widgets: 100 inputs at once would block the program
    for half a second.
    """

    class Completed(Message):
        """Posted when all children have been mounted and drawn."""

    _rest: Iterator[Widget]
    _whole: asyncio.Event
    _first_count = _FIRST_WIDGETS
    _step_count = _WIDGETS_PER_STEP

    def set_widgets(self, widgets: Iterable[Widget]) -> None:
        """Set the children to mount; *widgets* may be a generator, which creates each child when it is mounted."""
        self._rest, self._whole = iter(widgets), asyncio.Event()

    def compose(self) -> ComposeResult:
        """Create the first few children."""
        yield from islice(self._rest, self._first_count)

    def on_mount(self) -> None:
        """Mount the other children after the first ones have been drawn."""
        self.call_after_refresh(self._mount_next, self._rest)

    async def replace_widgets(self, widgets: Iterable[Widget]) -> None:
        """Replace the children with *widgets*; return once the first few of these are mounted."""
        self.set_widgets(widgets)
        await self.remove_children()
        await self.mount(*islice(self._rest, self._first_count))
        self.call_after_refresh(self._mount_next, self._rest)

    async def _mount_next(self, rest: Iterator[Widget]) -> None:
        if not self.is_attached or rest is not self._rest:
            return
        if widgets := list(islice(rest, self._step_count)):
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
    """VerticalScroll that mounts its children a few at a time and does not take the focus."""

    def __init__(self, widgets: Iterable[Widget], *, widget_id: str) -> None:
        """Create a column; *widgets* is iterated over while the column is mounted."""
        super().__init__(id=widget_id)
        self.set_widgets(widgets)


class InputBlock(Vertical):
    """A few labeled inputs that are mounted in one step.

    They have a separate container, so that they are not laid out again when other inputs are added below them.
    """

    DEFAULT_CSS = "InputBlock { height: auto; }"


class SteppedInputGroup(LabeledInputGroup, SteppedMounting):
    """LabeledInputGroup that mounts its inputs a few at a time, for any number of inputs."""

    _first_count = 3
    _step_count = 1

    def __init__(self, lines: Iterable[LabeledInput]) -> None:
        """Create a group; *lines* is iterated over while the group is mounted."""
        super().__init__()
        self.set_widgets(lines)

    def set_widgets(self, widgets: Iterable[Widget]) -> None:
        """Set the inputs to mount, and divide them into blocks.

        *widgets* is iterated over while the inputs are mounted.
        """
        super().set_widgets(_divide_into_blocks(iter(widgets)))


def _divide_into_blocks(widgets: Iterator[Widget]) -> Iterator[InputBlock]:
    while block := tuple(islice(widgets, _LINES_IN_BLOCK)):
        yield InputBlock(*block)
