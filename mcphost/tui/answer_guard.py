"""Decides which keys may answer a question: none that was pressed for something else."""

from time import monotonic

GUARD_SECONDS = 0.3
"""A question ignores keys and clicks until it was on the screen for this long; later keys start the time anew."""
TYPING_SECONDS = 2.0
"""A person whose last key went into a text field so short a time ago is still typing."""
ENTERING_KEYS = frozenset({"tab", "shift+tab", "up", "down", "left", "right", "f8"})
"""Keys by which a person enters a question; nobody types text with them."""
READING_KEYS = frozenset({"pageup", "pagedown", "home", "end"})
clock = monotonic
_NEVER = float("-inf")


class AnswerGuard:
    """The state of one question: when it came on the screen, when the last key came, whether the person entered it.

    `ago` is how many seconds before now a key was pressed: a busy screen hears of it late. `delay` 0 admits every key
    at once, for a page on which nothing is agreed to.
    """

    def __init__(self, *, entered: bool = False, delays: bool = True) -> None:
        self.entered = entered
        self._delays = delays
        self._shown_at: float | None = None
        self._key_at = self._other_at = _NEVER

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
        return self._delays and (self._shown_at is None or clock() - ago - self._shown_at < GUARD_SECONDS)

    def is_closed(self, ago: float, *, to_letters: bool) -> bool:
        """Whether it is too new, or another key came too short a time before.

        Moving the focus delays letters, and not Enter: nobody moves the focus by typing a text.
        """
        last = max(self._key_at, self._other_at) if to_letters else self._other_at
        return self.is_new(ago) or (self._delays and clock() - ago - last < GUARD_SECONDS)

    def press(self, ago: float, *, moves: bool = False) -> None:
        """Start the guard anew: a key came. `moves`: it moved the focus or scrolled."""
        if moves:
            self._key_at = max(self._key_at, clock() - ago)
        else:
            self._other_at = max(self._other_at, clock() - ago)
