"""Scrolling container with a column that is reserved for its scrollbar."""

from textual.containers import VerticalScroll
from textual.geometry import Size


class StableScroll(VerticalScroll):
    """Vertical scroll for `scrollbar-gutter: stable` whose automatic height takes the reserved column into account.

    Textual 8.2.8 measures the content with that column. A text that needs the column would then wrap into one row
    more than the container is high, and its last row would be cut off.
    """

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Return the height of the content beside the reserved column, if there is one."""
        reserved = self.styles.scrollbar_size_vertical if self.styles.scrollbar_gutter == "stable" else 0
        return super().get_content_height(container, viewport, max(1, width - reserved))
