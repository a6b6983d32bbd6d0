"""The rows of a widget, of which those after the last text are one strip many times."""

from collections.abc import Callable

from textual.geometry import Region
from textual.strip import Strip


def render_with_blank_rows(render: Callable[[Region], list[Strip]], crop: Region, filled: int) -> list[Strip]:
    """Return what `render` makes of `crop`, asking it for one row only of those after the first `filled`.

    The widget has neither a border nor a padding below, so that these rows are all alike.
    """
    blank = crop.bottom - max(crop.y, filled)
    if blank < 2:
        return render(crop)
    strips = render(Region(crop.x, crop.y, crop.width, crop.height - blank + 1))
    return [*strips, *strips[-1:] * (blank - 1)]
