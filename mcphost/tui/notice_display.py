"""Brief notices (Textual's notifications) that do not cover an open question and disappear once they are obsolete."""

from time import monotonic, time
from typing import TYPE_CHECKING

from textual.app import App
from textual.await_complete import AwaitComplete
from textual.notifications import SeverityLevel

from mcphost.translation import translate_sentence
from mcphost.tui.input_guard import Guarded
from mcphost.tui.screen_text import clean_notice

if TYPE_CHECKING:
    from mcphost.tui.screen_reader_announcer import Announcer

MAX_HELD_NOTICES = 10
_UNREAD_SECONDS = 1.0
"""For how long after it appeared a notice counts as unread."""

_NoticeKey = tuple[str, str, SeverityLevel]


class NoticeApp(App[None]):
    """App that holds back notices while a question is open, and removes obsolete notices.

    This class does not depend on other parts of the app. It is a base class of the app because it overrides
    `notify` and `pop_screen` of Textual's App.
    """

    _announcer: "Announcer | None" = None

    def __init__(self) -> None:
        super().__init__()
        self._shown_notices: dict[_NoticeKey, float] = {}
        self._held_notices: dict[_NoticeKey, tuple[float | None, bool]] = {}

    def notify(
        self,
        message: str,
        *,
        title: str = "",
        severity: SeverityLevel = "information",
        timeout: float | None = None,
        markup: bool = True,
    ) -> None:
        """Show a notification, unless an identical one is still visible.

        Long messages are shortened. Identical notifications are skipped because holding down a key could otherwise
        stack up hundreds of them. While a question is on top, the notification is held back until the question closes.
        In screen reader mode, the message is announced instead.
        """
        # It may contain a name or an error message that a server chose.
        message = clean_notice(translate_sentence(message))
        if self._announcer is not None:
            self._announcer.announce(message)
        elif self._is_question_on_top:
            self._hold_notice((message, title, severity), timeout, markup=markup)
        else:
            self._show_notice((message, title, severity), timeout, markup=markup)

    def notify_at_once(self, message: str, timeout: float | None = None) -> None:
        """Show a notification immediately, even over a question.

        Use this only for the result of something that the user has just done, such as pressing a key.
        """
        message = clean_notice(translate_sentence(message))
        if self._announcer is not None:
            self._announcer.announce(message)
        else:
            self._show_notice((message, "", "information"), timeout, markup=False)

    def _show_notice(self, wanted: _NoticeKey, timeout: float | None, *, markup: bool) -> None:
        now = monotonic()
        self._shown_notices = {one: until for one, until in self._shown_notices.items() if until > now}
        if wanted not in self._shown_notices:
            self._shown_notices[wanted] = now + (self.NOTIFICATION_TIMEOUT if timeout is None else timeout)
            message, title, severity = wanted
            super().notify(message, title=title, severity=severity, timeout=timeout, markup=markup)

    @property
    def _is_question_on_top(self) -> bool:
        return bool(self._screen_stack) and isinstance(self.screen, Guarded)

    def _hold_notice(self, held: _NoticeKey, timeout: float | None, *, markup: bool) -> None:
        """Hold back a notice until no question is on top.

        At most MAX_HELD_NOTICES are held back. Beyond that, the oldest informational notice is dropped or, if there is
        none, the oldest notice.
        """
        self._held_notices.pop(held, None)
        self._held_notices[held] = (timeout, markup)
        if len(self._held_notices) > MAX_HELD_NOTICES:
            oldest = next(iter(self._held_notices))
            del self._held_notices[next((one for one in self._held_notices if one[2] == "information"), oldest)]

    def hold_notices(self) -> None:
        """Remove the visible notices when a question opens, because they would cover its key hints.

        Warnings, errors and notices that have only just appeared are shown again after the question is closed.
        """
        for notice in list(self._notifications):
            if notice.severity != "information" or notice.raised_at > time() - _UNREAD_SECONDS:
                key = (notice.message, notice.title, notice.severity)
                self._hold_notice(key, notice.timeout, markup=notice.markup)
        self._shown_notices.clear()
        self.clear_notifications()

    def _update_held_notices(self) -> None:
        """Show the notices that were held back, unless a question is on top now."""
        if not self._screen_stack:
            return
        if self._is_question_on_top:
            self.hold_notices()
            return
        held, self._held_notices = self._held_notices, {}
        for key, (timeout, markup) in held.items():
            self._show_notice(key, timeout, markup=markup)

    def pop_screen(self) -> AwaitComplete:
        """Remove the top screen; then show the notices that were held back during a question."""
        popped = super().pop_screen()
        self.call_later(self._update_held_notices)
        return popped

    def dismiss_notices(self, messages: set[str]) -> None:
        """Remove the visible notices with these texts, which are obsolete."""
        texts = {clean_notice(translate_sentence(message)) for message in messages}
        self._shown_notices = {one: until for one, until in self._shown_notices.items() if one[0] not in texts}
        self._held_notices = {one: how for one, how in self._held_notices.items() if one[0] not in texts}
        for notice in [one for one in self._notifications if one.message in texts]:
            self._unnotify(notice)
