"""Scroll view without animation, for views whose position also changes while text is added."""

from typing import Any, cast

from textual.scroll_view import ScrollView


class ImmediateScrollView(ScrollView):
    """ScrollView that handles a scroll key immediately, instead of animating the movement in the next frames.

    With an animation, a view that stays at its end while text is added would scroll back before the first frame, and
    the key would have no effect. Textual also raises KeyError if the view adjusts its position during an animation.
    """

    def _scroll_to(self, x: float | None = None, y: float | None = None, **options: Any) -> bool:
        return cast("Any", super())._scroll_to(x, y, **(options | {"animate": False}))
