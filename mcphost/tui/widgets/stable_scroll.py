"""Scrolling container that reserves a column for its scrollbar."""

from textual.containers import VerticalScroll
from textual.geometry import Size

from mcphost.tui.widgets.laid_out_once import LaidOutOnce


class StableScroll(LaidOutOnce, VerticalScroll):
    """Vertical scrolling container that computes its automatic height correctly with a reserved column.

    It is meant for `scrollbar-gutter: stable`, which reserves a column for the scrollbar. Textual 8.2.8 measures
    the content as if it could use this column. Text that wraps only because of the column would then need more rows
    than the container has, and its last row would be cut off.
    """

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Return the height of the content, excluding the reserved column from the available width."""
        reserved = self.styles.scrollbar_size_vertical if self.styles.scrollbar_gutter == "stable" else 0
        return super().get_content_height(Size(container.width, 0), viewport, max(1, width - reserved))
