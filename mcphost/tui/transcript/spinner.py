"""Spinner and elapsed time on the cards of running tool calls."""

from collections.abc import Callable, Sequence

from textual.timer import Timer
from textual.widget import Widget

from mcphost.tui.screen_reader import is_reader
from mcphost.tui.transcript.blocks import TranscriptBlock
from mcphost.tui.transcript.tool_card import BACKGROUND_OFFER_SECONDS

_SPIN_SECONDS = 0.25
_FAST_SPIN_SECONDS = 10.0
_SLOW_SPIN_SECONDS = 1.0
"""Seconds between spinner frames of a long call, whose elapsed time changes once a second."""
_MAX_SPINNER_BLOCKS = 50
"""Number of blocks at the end that are searched for running tool calls."""


class CallSpinner:
    """Timer that redraws the rows of running calls as long as there are any.

    *redraw* is called with the index of the block of each running call.
    """

    def __init__(
        self, widget: Widget, get_blocks: Callable[[], Sequence[TranscriptBlock]], redraw: Callable[[int], None]
    ) -> None:
        self._widget, self._get_blocks, self._redraw = widget, get_blocks, redraw
        self._timer: Timer | None = None
        self._count = 0

    def start(self) -> None:
        """Start the timer if a call is running and the timer is not."""
        if self._timer is None and any(block.is_running for block in self._get_blocks()[-_MAX_SPINNER_BLOCKS:]):
            self._count = 0
            wait = BACKGROUND_OFFER_SECONDS if is_reader(self._widget) else _SPIN_SECONDS
            self._timer = self._widget.set_timer(wait, self.advance)

    def advance(self) -> None:
        """Redraw only the row with the spinner and elapsed time of each visible running call."""
        self._timer = None
        blocks = self._get_blocks()
        first = max(0, len(blocks) - _MAX_SPINNER_BLOCKS)
        running = [index for index in range(first, len(blocks)) if blocks[index].is_running]
        if not running:
            return
        self._count += 1
        often = self._count * _SPIN_SECONDS < _FAST_SPIN_SECONDS
        if not is_reader(self._widget):  # once for screen readers, to offer the background
            self._timer = self._widget.set_timer(_SPIN_SECONDS if often else _SLOW_SPIN_SECONDS, self.advance)
        if self._widget.screen.is_current or self._widget.app.screen.is_modal:  # pyright: ignore[reportUnknownMemberType]
            for index in running:
                self._redraw(index)
