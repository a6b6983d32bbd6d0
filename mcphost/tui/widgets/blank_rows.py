"""Shared strip for the blank rows below a widget's text."""

from collections.abc import Callable

from textual.geometry import Region
from textual.strip import Strip


def render_with_blank_rows(render: Callable[[Region], list[Strip]], crop: Region, filled: int) -> list[Strip]:
    """Return what *render* returns for *crop*, rendering only one of the rows after the first *filled*.

    The widget has neither a border nor padding below, so these rows are all equal.
    """
    blank = crop.bottom - max(crop.y, filled)
    if blank < 2:
        return render(crop)
    strips = render(Region(crop.x, crop.y, crop.width, crop.height - blank + 1))
    return [*strips, *strips[-1:] * (blank - 1)]
