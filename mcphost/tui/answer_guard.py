"""Guard that rejects keys and clicks not meant for the question on the screen."""

from time import monotonic

GUARD_SECONDS = 0.3
"""Seconds a question ignores keys and clicks after it appears; each key restarts the wait."""
TYPING_SECONDS = 2.0
"""Seconds after the last key in a text field during which the user counts as typing."""
FOCUS_KEYS = frozenset({"tab", "shift+tab", "up", "down", "left", "right", "f8"})
"""Keys that enter a question; none of them types text."""
SCROLL_KEYS = frozenset({"pageup", "pagedown", "home", "end"})
clock = monotonic
_NEVER = float("-inf")


class AnswerGuard:
    """Input state of one question: when it appeared, when the last key came, whether the user entered it.

    `ago` is the age of a key press in seconds: a busy screen handles keys late. Without `has_delay` every key is
    accepted at once, for a page that approves nothing.
    """

    def __init__(self, *, is_entered: bool = False, has_delay: bool = True) -> None:
        self.is_entered = is_entered
        self._has_delay = has_delay
        self._shown_at: float | None = None
        self._navigated_at = self._key_pressed_at = _NEVER

    @property
    def is_shown(self) -> bool:
        """Whether the question has been on the screen."""
        return self._shown_at is not None

    def show(self) -> None:
        """Record that the question is on the screen."""
        self._shown_at = clock()

    def hide(self) -> None:
        """Record that the question is about to be shown again."""
        self._shown_at = None

    def is_new(self, ago: float = 0.0) -> bool:
        """Return whether the question was on the screen too briefly when the key was pressed."""
        return self._has_delay and (self._shown_at is None or clock() - ago - self._shown_at < GUARD_SECONDS)

    def is_blocking(self, ago: float, *, is_letter: bool) -> bool:
        """Return whether the key comes too soon after the question appeared or after another key.

        Moving the focus delays letters but not Enter, because typing text does not move the focus.
        """
        last = max(self._navigated_at, self._key_pressed_at) if is_letter else self._key_pressed_at
        return self.is_new(ago) or (self._has_delay and clock() - ago - last < GUARD_SECONDS)

    def record_key(self, ago: float, *, is_navigation: bool = False) -> None:
        """Restart the guard after a key; `is_navigation` means that the key moved the focus or scrolled."""
        if is_navigation:
            self._navigated_at = max(self._navigated_at, clock() - ago)
        else:
            self._key_pressed_at = max(self._key_pressed_at, clock() - ago)
