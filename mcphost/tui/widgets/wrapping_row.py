"""Container that places its children side by side, in as many rows as they need."""

from fractions import Fraction
from typing import Any, cast

from textual.geometry import Offset, Region, Size
from textual.layout import ArrangeResult, Layout, WidgetPlacement
from textual.widget import Widget

from mcphost.tui.widgets.laid_out_once import LaidOutOnce


class FlowLayout(Layout):
    """Layout that places widgets side by side at their own widths, and starts a new row when necessary."""

    name = "flow"

    def arrange(self, parent: Widget, children: list[Widget], size: Size, greedy: bool = True) -> ArrangeResult:
        """Place the children in rows; only their right margins are taken into account."""
        placements: list[WidgetPlacement] = []
        viewport = cast("Any", parent).app.viewport_size
        x = y = tallest = 0
        for child in children:
            box = cast("Any", child)._get_box_model(  # as Textual's own layouts do
                size, viewport, Fraction(size.width), Fraction(size.height), greedy=greedy
            )
            width, height = int(box.width), max(1, int(box.height))
            if x and x + width > size.width:
                x, y, tallest = 0, y + tallest, 0
            region = Region(x, y, min(width, size.width), height)
            placements.append(WidgetPlacement(region, Offset(0, 0), box.margin, child))
            x += width + box.margin.right
            tallest = max(tallest, height)
        return placements


class WrappingRow(LaidOutOnce, Widget):
    """Container that places its children side by side, and starts a new row when a child does not fit."""

    DEFAULT_CSS = """
    WrappingRow { height: auto; width: 1fr; }
    """
    _flow = FlowLayout()

    @property
    def layout(self) -> Layout:
        """The flow layout; it is set in code because a style sheet can select only Textual's built-in layouts."""
        return self._flow
