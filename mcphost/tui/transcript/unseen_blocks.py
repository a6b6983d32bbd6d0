"""Counter of blocks that were added below the view while the user reads further up."""

from rich.segment import Segment
from rich.style import Style as RichStyle
from textual.strip import Strip
from textual.style import Style

from mcphost.translation import _


class UnseenBlocks:
    """The blocks that the user has not seen yet; `count` is shown at the lower edge of the transcript."""

    def __init__(self) -> None:
        self.count = 0
        self._first_unseen = 0

    def update(self, total: int, bottom: int, *, is_at_end: bool) -> None:
        """Update the count: there are *total* blocks, and *bottom* is the index of the lowest visible block.

        Blocks that existed when the user scrolled up are not counted, even if they are below the view.
        """
        if is_at_end:
            self._first_unseen = total
        else:
            self._first_unseen = min(max(self._first_unseen, bottom + 1), total)
        self.count = total - self._first_unseen

    def shift(self, count: int) -> None:
        """Adjust the position of the first unseen block after *count* blocks were inserted above all others."""
        self._first_unseen += count

    def render(self, style: Style) -> Strip:
        """Return the label with the count; a click on it scrolls to the end."""
        rich_style = style.rich_style + RichStyle.from_meta({"act": "newest"})
        return Strip([Segment(_(" ↓ {count:,} new · end ").format(count=self.count), rich_style)])
