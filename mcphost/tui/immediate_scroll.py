"""Scrolling at once, for views that also scroll themselves."""

from typing import Any, cast

from textual.scroll_view import ScrollView


class ImmediateScrollView(ScrollView):
    """ScrollView that handles a scroll key at once, and not in the next frame of Textual's animator.

    Until that frame, a view that follows its end would scroll back there, and the key would be lost. And Textual fails
    with KeyError if the view scrolls itself while it handles the frame, such as to keep its text in place.
    """

    def _scroll_to(self, x: float | None = None, y: float | None = None, **options: Any) -> bool:
        return cast("Any", super())._scroll_to(x, y, **(options | {"animate": False}))
