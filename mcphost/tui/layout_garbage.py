"""Patch that frees a screen's previous layout immediately instead of leaving it to the garbage collector.

In Textual 8.2.8, the recursive function that places the widgets of a screen is part of a reference cycle, together with
the map of all widgets that it fills. Without the patch, each layout leaves the previous map to the garbage collector:
several objects per widget, and three quarters of all garbage while the user pages through a long form.
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
        """Place the widgets; return copies of the resulting map and set, and empty the originals.

        The originals are part of a reference cycle, so they would not be freed immediately.
        """
        placed, widgets = arrange(self, *args, **options)
        copies = dict(placed), set(widgets)
        placed.clear()
        widgets.clear()
        return copies

    return arrange_root
