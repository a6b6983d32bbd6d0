"""Free what one layout of a screen leaves behind without the garbage collector.

In Textual 8.2.8, the function that places the widgets of a screen calls itself, so that it is part of a reference cycle
with the map of all widgets that it fills. Each layout thus left the map of the one before to the garbage collector:
several objects for each widget, and three of four objects that it found while the pages of a long form were turned.
"""

from collections.abc import Callable
from typing import Any, cast

from textual._compositor import Compositor


def free_layouts_at_once() -> None:
    """Change Textual's Compositor so that the map of a layout is freed when the next one replaces it.

    Do nothing if this has been done before, or if this version of Textual has no such function.
    """
    compositor = cast("Any", Compositor)
    arrange = getattr(compositor, "_arrange_root", None)
    if arrange is not None and getattr(arrange, "__module__", "") != __name__:
        compositor._arrange_root = _return_copies(arrange)


def _return_copies(arrange: Callable[..., tuple[Any, Any]]) -> Callable[..., tuple[Any, Any]]:
    def arrange_root(self: Any, *args: Any, **options: Any) -> tuple[Any, Any]:
        """Return copies of the map and of the set of widgets; empty those that the cycle refers to."""
        placed, widgets = arrange(self, *args, **options)
        copies = dict(placed), set(widgets)
        placed.clear()
        widgets.clear()
        return copies

    return arrange_root
