"""Row of widgets that wraps at the width: no button is ever truncated."""

from fractions import Fraction
from typing import Any, cast

from textual.geometry import Offset, Region, Size
from textual.layout import ArrangeResult, Layout, WidgetPlacement
from textual.widget import Widget


class FlowLayout(Layout):
    """Layout of widgets side by side, each at its own width, in as many rows as needed."""

    name = "flow"

    def arrange(self, parent: Widget, children: list[Widget], size: Size, greedy: bool = True) -> ArrangeResult:
        """Return the placements; only right margins count."""
        placements: list[WidgetPlacement] = []
        viewport = cast("Any", parent).app.viewport_size
        x = y = tallest = 0
        for child in children:
            box = cast("Any", child)._get_box_model(  # what Textual's own layouts ask
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


class WrappingRow(Widget):
    """Container with this layout."""

    DEFAULT_CSS = """
    WrappingRow { height: auto; width: 1fr; }
    """
    _flow = FlowLayout()

    @property
    def layout(self) -> Layout:
        """Return the layout; Textual's style sheets support only its own four."""
        return self._flow


def wrap_key_hints(key_hints: str, width: int) -> list[str]:
    """Return the keys and their labels in rows; a key is never separated from its label."""
    rows: list[str] = []
    for word in key_hints.split(" · "):
        if rows and len(rows[-1]) + len(word) + 3 <= width:
            rows[-1] += f" · {word}"
        else:
            rows.append(word)
    return rows
