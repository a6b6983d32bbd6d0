"""A row of widgets that goes on in the next row where the width ends: no button is ever cut."""

from fractions import Fraction
from typing import Any, cast

from textual.geometry import Offset, Region, Size
from textual.layout import ArrangeResult, Layout, WidgetPlacement
from textual.widget import Widget


class FlowLayout(Layout):
    """One beside the other, each as wide as it wants to be, in as many rows as that takes."""

    name = "flow"

    def arrange(self, parent: Widget, children: list[Widget], size: Size, greedy: bool = True) -> ArrangeResult:
        """Where each goes; of the margins only the right one counts."""
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
    """What is in it flows."""

    DEFAULT_CSS = """
    WrappingRow { height: auto; width: 1fr; }
    """
    _flow = FlowLayout()

    @property
    def layout(self) -> Layout:
        """Textual's style sheets know no layout but its own four."""
        return self._flow


def wrap_key_hints(key_hints: str, width: int) -> list[str]:
    """The keys and what they do, in rows: one key is never apart from its words."""
    rows: list[str] = []
    for word in key_hints.split(" · "):
        if rows and len(rows[-1]) + len(word) + 3 <= width:
            rows[-1] += f" · {word}"
        else:
            rows.append(word)
    return rows
