"""Scrolling container that reserves a column for its scrollbar."""

from textual.containers import VerticalScroll
from textual.geometry import Size

from mcphost.tui.widgets.laid_out_once import LaidOutOnce


class StableScroll(LaidOutOnce, VerticalScroll):
    """Vertical scrolling container for use with `scrollbar-gutter: stable`, which reserves a column for the scrollbar.

    Textual 8.2.8 computes the automatic height of a container as if the content could use the reserved column. If text
    wraps only because of this column, its last row would be cut off. This class leaves the column out of the
    computation.
    """

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Return the height of the content, excluding the reserved column from the available width."""
        reserved = self.styles.scrollbar_size_vertical if self.styles.scrollbar_gutter == "stable" else 0
        return super().get_content_height(Size(container.width, 0), viewport, max(1, width - reserved))
