"""Detector for Esc pressed twice in the empty composer, which opens the rewind screen."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from mcphost.tui import input_guard
from mcphost.tui.widget_messages import ActionRequested

if TYPE_CHECKING:
    from mcphost.tui.widgets.composer import ComposerInput

DOUBLE_ESCAPE_SECONDS = 0.5
"""Maximum seconds between the two presses of Esc."""
AFTER_USE_SECONDS = 1.5
"""Seconds for which Esc is ignored after an Esc with another effect; many users press it repeatedly to stop answers."""
_NEVER = float("-inf")


class DoubleEscape:
    """Detector for Esc pressed twice in the empty composer, to open the rewind screen.

    A press of Esc does not count if *has_other_effect* returns True: Esc then stops an answer or cancels an edit, for
    example, or a question is waiting, or there is no message to go back to. For AFTER_USE_SECONDS after such a press,
    or after the screen or the focus has changed, no press counts.
    """

    def __init__(self, composer_input: "ComposerInput", has_other_effect: Callable[[], bool]) -> None:
        self._composer_input = composer_input
        self._has_other_effect = has_other_effect
        self._pressed_at = self._used_at = _NEVER
        app = cast("Any", composer_input).app
        app.screen_change_signal.subscribe(composer_input, self._end_press, immediate=True)
        composer_input.watch(composer_input, "has_focus", self._end_press, init=False)

    def _end_press(self, _change: object) -> None:
        """Ignore Esc for AFTER_USE_SECONDS, because the screen or the focus has changed.

        Users who leave a screen may press Esc several times or hold it down. Esc also moves the focus from the
        transcript to the composer.
        """
        self._pressed_at, self._used_at = _NEVER, input_guard.clock()

    def press(self, key: str, ago: float) -> bool:
        """Record a *key* that was pressed in the composer *ago* seconds ago.

        If it is the second Esc in a row, request the rewind screen and return True.
        """
        at = input_guard.clock() - ago
        if key != "escape" or not self._composer_input.is_blank:
            self._pressed_at = _NEVER
        elif self._has_other_effect() or at - self._used_at < AFTER_USE_SECONDS:
            self._pressed_at, self._used_at = _NEVER, at
        elif at - self._pressed_at < DOUBLE_ESCAPE_SECONDS:
            self._pressed_at = _NEVER
            self._composer_input.post_message(ActionRequested("rewind"))
            return True
        else:
            self._pressed_at = at
        return False
