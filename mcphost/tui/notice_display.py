"""Display of brief notices (Textual's notifications), which hide neither a question nor outlive their cause."""

from collections.abc import Callable
from time import monotonic
from typing import TYPE_CHECKING, Any

from textual.notifications import SeverityLevel

from mcphost.translation import translate_sentence
from mcphost.tui.question_display import QuestionApp
from mcphost.tui.screen_text import clean_notice

if TYPE_CHECKING:
    from mcphost.tui.dialogs.dialog import AnyDialog
    from mcphost.tui.screen_reader_announcer import Announcer


class NoticeApp(QuestionApp):
    """Part of the app that shows brief notices and removes those that are obsolete."""

    _announcer: "Announcer | None" = None

    def __init__(self) -> None:
        super().__init__()
        self._shown_notices: dict[tuple[str, str, str], float] = {}

    def notify(
        self,
        message: str,
        *,
        title: str = "",
        severity: SeverityLevel = "information",
        timeout: float | None = None,
        markup: bool = True,
    ) -> None:
        """Show a notification, shortened if it is long, unless an identical one is still visible.

        Otherwise, holding down a key could stack up hundreds of notifications. In screen reader mode, the message is
        announced instead.
        """
        # It may contain a name or an error message that a server chose.
        message = clean_notice(translate_sentence(message))
        now, wanted = monotonic(), (message, title, severity)
        self._shown_notices = {one: until for one, until in self._shown_notices.items() if until > now}
        if self._announcer is not None:
            self._announcer.announce(message)
        elif wanted not in self._shown_notices:
            self._shown_notices[wanted] = now + (self.NOTIFICATION_TIMEOUT if timeout is None else timeout)
            super().notify(message, title=title, severity=severity, timeout=timeout, markup=markup)

    def dismiss_notices(self, messages: set[str]) -> None:
        """Remove the visible notices with these texts, which are obsolete."""
        texts = {clean_notice(translate_sentence(message)) for message in messages}
        self._shown_notices = {one: until for one, until in self._shown_notices.items() if one[0] not in texts}
        for notice in [one for one in self._notifications if one.message in texts]:
            self._unnotify(notice)

    def _push_dialog(self, dialog: "AnyDialog", on_answer: Callable[[Any], None], *, is_entered: bool) -> None:
        # Notices would cover the key hints of the question.
        self._shown_notices.clear()
        self.clear_notifications()
        super()._push_dialog(dialog, on_answer, is_entered=is_entered)
