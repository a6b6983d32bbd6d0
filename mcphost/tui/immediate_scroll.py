"""Scrolling without animation, for views that also scroll by themselves."""

from typing import Any, cast

from textual.scroll_view import ScrollView


class ImmediateScrollView(ScrollView):
    """ScrollView that handles a scroll key immediately instead of in the next frame of Textual's animator.

    Otherwise, a view that follows its end would scroll back to the end before that frame, and the key would have no
    effect. Textual also raises KeyError if the view scrolls by itself during the frame, for example to keep its text in
    place.
    """

    def _scroll_to(self, x: float | None = None, y: float | None = None, **options: Any) -> bool:
        return cast("Any", super())._scroll_to(x, y, **(options | {"animate": False}))
