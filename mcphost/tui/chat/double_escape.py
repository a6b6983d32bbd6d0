"""Opening the rewind screen with Esc, pressed twice in the empty composer."""

from typing import TYPE_CHECKING

from mcphost.tui import input_guard
from mcphost.tui.widget_messages import ActionRequested

if TYPE_CHECKING:
    from mcphost.tui.screens.chat import ChatScreen

DOUBLE_ESCAPE_SECONDS = 0.5
"""Maximum seconds between the two presses of Esc."""
AFTER_USE_SECONDS = 1.5
"""How long Esc does not count after an Esc with another effect; many users press it repeatedly to stop an answer."""
_NEVER = float("-inf")


class DoubleEscape:
    """Detector for Esc pressed twice in the empty composer while nothing else uses the key.

    A press that stops an answer or a call, that cancels an edit, or that comes while a question waits does not count,
    nor do presses shortly after it.
    """

    def __init__(self, chat: "ChatScreen") -> None:
        self._chat = chat
        self._pressed_at = self._used_at = _NEVER

    def press(self, key: str, ago: float) -> bool:
        """Record a *key* that was pressed in the composer *ago* seconds ago.

        If it is the second Esc in a row, request the rewind screen and return True.
        """
        at = input_guard.clock() - ago
        if key != "escape" or not self._chat.composer_input.is_blank:
            self._pressed_at = _NEVER
        elif self._is_escape_used() or at - self._used_at < AFTER_USE_SECONDS:
            self._pressed_at, self._used_at = _NEVER, at
        elif at - self._pressed_at < DOUBLE_ESCAPE_SECONDS:
            self._pressed_at = _NEVER
            self._chat.post_message(ActionRequested("rewind"))
            return True
        else:
            self._pressed_at = at
        return False

    def _is_escape_used(self) -> bool:
        """Return whether Esc has another effect now, or whether there is no message to go back to."""
        chat = self._chat
        is_working = chat.is_answering or chat.manual_calls.is_running or chat.pending_question_count > 0
        return is_working or chat.pending_edit is not None or not chat.host.conversation.messages
