"""Decides which keys may answer a question: none that was pressed for something else."""

from time import monotonic

GUARD_SECONDS = 0.3
"""A question ignores keys and clicks until it was on the screen for this long; later keys start the time anew."""
TYPING_SECONDS = 2.0
"""A person whose last key went into a text field so short a time ago is still typing."""
FOCUS_KEYS = frozenset({"tab", "shift+tab", "up", "down", "left", "right", "f8"})
"""Keys by which a person enters a question; nobody types text with them."""
SCROLL_KEYS = frozenset({"pageup", "pagedown", "home", "end"})
clock = monotonic
_NEVER = float("-inf")


class AnswerGuard:
    """The state of one question: when it came on the screen, when the last key came, whether the person entered it.

    `ago` is how many seconds before now a key was pressed: a busy screen hears of it late. `delay` 0 admits every key
    at once, for a page on which nothing is agreed to.
    """

    def __init__(self, *, is_entered: bool = False, has_delay: bool = True) -> None:
        self.is_entered = is_entered
        self._has_delay = has_delay
        self._shown_at: float | None = None
        self._navigated_at = self._key_pressed_at = _NEVER

    @property
    def is_shown(self) -> bool:
        """Whether it was on the screen at all."""
        return self._shown_at is not None

    def show(self) -> None:
        """It is on the screen from now on."""
        self._shown_at = clock()

    def hide(self) -> None:
        """It is about to be shown anew."""
        self._shown_at = None

    def is_new(self, ago: float = 0.0) -> bool:
        """Whether it was not on the screen for long enough to be read when the key was pressed."""
        return self._has_delay and (self._shown_at is None or clock() - ago - self._shown_at < GUARD_SECONDS)

    def is_blocking(self, ago: float, *, is_letter: bool) -> bool:
        """Whether it is too new, or another key came too short a time before.

        Moving the focus delays letters, and not Enter: nobody moves the focus by typing a text.
        """
        last = max(self._navigated_at, self._key_pressed_at) if is_letter else self._key_pressed_at
        return self.is_new(ago) or (self._has_delay and clock() - ago - last < GUARD_SECONDS)

    def record_key(self, ago: float, *, is_navigation: bool = False) -> None:
        """Start the guard anew: a key came. `moves`: it moved the focus or scrolled."""
        if is_navigation:
            self._navigated_at = max(self._navigated_at, clock() - ago)
        else:
            self._key_pressed_at = max(self._key_pressed_at, clock() - ago)
