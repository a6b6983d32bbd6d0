"""App class that shows the host's questions, each as a dialog or, while the user is typing, as a small card.

A card does not take the focus; the user opens the dialog from the card when ready to answer.
"""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, cast

from textual import events
from textual._cells import cell_len
from textual.content import Content
from textual.geometry import Size
from textual.screen import Screen, SystemModalScreen
from textual.widget import Widget

from mcphost.translation import N_, _
from mcphost.tui import input_guard
from mcphost.tui.input_guard import Guarded, TextInput
from mcphost.tui.key_table import keys_in_use
from mcphost.tui.navigation import NavigationApp
from mcphost.tui.widget_messages import ActionRequested

if TYPE_CHECKING:
    from mcphost.host.questions.frontend import Question
    from mcphost.tui.dialogs.dialog import AnyDialog
    from mcphost.tui.frontend import OpenMode, TuiFrontend
    from mcphost.tui.screens.entry_check import EntryCheckScreen


ENTER_HINT = N_("Press {answer} or click to open · your typing stays in the message")
_SHORT_ENTER_HINT = N_("Press {answer} or click to open")
_FRAME_CELLS = 8
_TITLE_ROWS = 2


_NO_QUESTION = N_("No question is waiting. /tasks shows what is running.")


class QuestionCard(Widget):
    """Card that announces a waiting question without taking the focus.

    A click on the card opens the question. If the card has the CSS class "slim", it is a single row at the bottom
    of the screen, so that it does not cover a form.
    """

    can_focus = False
    DEFAULT_CSS: ClassVar[str] = """
    QuestionCard {
        height: auto; margin: 0 1; padding: 0 1; background: $panel; border: round $warning;
        border-title-color: $warning; border-title-style: bold; border-subtitle-color: $muted;
    }
    QuestionCard.slim { dock: bottom; border: none; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._texts: tuple[str, tuple[str, ...], str] = ("", (), "")

    def set_texts(self, title: str, lines: tuple[str, ...], queue_position: str) -> None:
        """Set the text of the card, which must already be sanitized.

        *title* names the server and what it requests, *lines* summarize the question, and *queue_position* is a label
        such as "question 1 of 3".
        """
        if (title, lines, queue_position) != self._texts:
            self._texts = (title, lines, queue_position)
            self.border_title = Content(f"◆ {title}")
            self.border_subtitle = Content(queue_position) if queue_position else None
            self.refresh(layout=True)

    def _rows(self, width: int) -> list[Content]:
        title, lines, _place = self._texts
        if self.has_class("slim"):
            hint = Content.styled(f" · {keys_in_use(self).fill(_(_SHORT_ENTER_HINT))}", "$accent")
            room = max(8, width - hint.cell_length)
            named = Content.styled(f"◆ {title}", "bold $warning").truncate(room, ellipsis=True)
            return [Content.assemble(named, hint).truncate(width, ellipsis=True)]
        rows = [Content.styled(line, "$text").truncate(width, ellipsis=True) for line in lines if line]
        if cell_len(title) + _FRAME_CELLS > width:  # the title does not fit into the border
            rows = [*Content.styled(title, "bold $warning").wrap(width)[:_TITLE_ROWS], *rows]
        hints = [keys_in_use(self).fill(_(hint)) for hint in (ENTER_HINT, _SHORT_ENTER_HINT)]
        return [*rows, Content.styled(hints[cell_len(hints[0]) > width], "$accent")]

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Return the height of the card in rows at a width of *width* columns."""
        del container, viewport
        return len(self._rows(max(1, width)))

    def render(self) -> Content:
        """Return the summary of the question and a hint on how to open it."""
        return Content("\n").join(self._rows(max(1, self.content_size.width)))

    def on_click(self, event: events.Click) -> None:
        """Open the question as a dialog."""
        event.stop()
        self.post_message(ActionRequested("answer"))


class QuestionApp(NavigationApp):
    """App that displays the host's questions over its screens; it implements QuestionDisplay for TuiFrontend.

    It is a base class because only the app can open a question as a screen or as a widget of the current screen, and
    because the keys for questions run the app's `action_*` methods.
    """

    _frontend: "TuiFrontend | None" = None
    _is_started: bool = False
    _minimized: "tuple[AnyDialog, Callable[[Any], None]] | None" = None
    _answered_at = float("-inf")
    _check_screen: "EntryCheckScreen | None" = None

    @property
    def frontend(self) -> "TuiFrontend":
        """The attached frontend. Raises RuntimeError if none is attached yet."""
        if self._frontend is None:
            raise RuntimeError("No frontend is attached yet.")
        return self._frontend

    def _run_when_started(self, call: Callable[[], object]) -> None:
        """Invoke *call* in the app's own task, once the host has started."""
        raise NotImplementedError

    def find_text_input(self, screen: Screen[Any]) -> TextInput | None:
        """Return the text field of *screen* that receives typed text, or None if there is none.

        In the chat, this is always the composer's text area, even if another widget has the focus.
        """
        return self.chat.composer_input if screen is self.chat else super().find_text_input(screen)

    # -- QuestionDisplay for TuiFrontend

    def open_dialog(self, dialog: "AnyDialog", on_answer: Callable[[Any], None], mode: "OpenMode" = "auto") -> None:
        """Show a question's dialog or, depending on *mode*, a card, once the host has started.

        *on_answer* is called with the dialog's result when the dialog is dismissed.
        """

        def answered(answer: Any) -> None:
            self._answered_at = input_guard.clock()
            on_answer(answer)

        def show() -> None:
            checked_text = self._end_check()
            dialog.is_retry = mode == "retry" and (checked_text is not None or self._last_typed_at <= self._answered_at)
            dialog.retry_text = checked_text or ""
            is_auto = mode in ("auto", "retry") and not dialog.is_retry
            if mode == "minimized" or (is_auto and self.is_typing):
                self._minimized = (dialog, answered)
                self.update_question_cards()
                return
            dialog.is_follow_up = mode == "follow_up"
            self._push_dialog(dialog, answered, is_entered=dialog.is_retry or mode == "entered")

        self._run_when_started(show)

    def _push_dialog(self, dialog: "AnyDialog", on_answer: Callable[[Any], None], *, is_entered: bool) -> None:
        self.hold_notices()
        if is_entered:
            dialog.enter()
        self.push_screen(dialog, on_answer)

    def open_check(self) -> None:
        """Open a window that receives typed text while mcphost checks an entry, such as a passphrase."""
        from mcphost.tui.screens.entry_check import EntryCheckScreen

        self._check_screen = EntryCheckScreen()
        self.push_screen(self._check_screen)

    def close_check(self) -> None:
        """Close the window opened by `open_check`, and discard the text typed into it."""
        self._run_when_started(self._end_check)

    def _end_check(self) -> str | None:
        """Close the window opened by `open_check`.

        Return the text that the user typed into it, or None if the window is not open.
        """
        screen, self._check_screen = self._check_screen, None
        if screen is None or screen not in self.screen_stack:
            return None
        typed = screen.typed_text
        if screen.is_active:
            screen.dismiss(None)
        else:
            self.run_worker(partial(self._close_covered_dialog, screen), group="dig")
        return typed

    def close_dialog(self, dialog: "AnyDialog") -> None:
        """Remove a question's dialog, even if it is minimized to a card or covered by other screens."""
        self._run_when_started(lambda: self._remove_dialog(dialog))

    def _remove_dialog(self, dialog: "AnyDialog") -> None:
        self.release_buffered_keys(cast("Guarded", dialog))
        if self._minimized is not None and self._minimized[0] is dialog:
            self._minimized = None
            self.update_question_cards()
        elif dialog.is_active:
            dialog.dismiss(None)
        elif dialog in self.screen_stack:
            self.run_worker(partial(self._close_covered_dialog, dialog), group="dig")

    async def _close_covered_dialog(self, dialog: "AnyDialog | EntryCheckScreen") -> None:
        while dialog in self.screen_stack and not dialog.is_active:
            await self.pop_screen()
        if dialog.is_active:
            dialog.dismiss(None)

    def update_questions(self, pending: "tuple[Question[Any], ...]") -> None:
        """Show the pending questions in the chat and on the question cards, once the host has started."""
        self._run_when_started(lambda: self.show_pending_questions(pending))

    def show_pending_questions(self, pending: "tuple[Question[Any], ...]") -> None:
        """Show the pending questions in the chat and on the question cards."""
        self.chat.show_pending_questions(pending)
        self.update_question_cards()
        if self.is_setup_postponed and not pending:
            self.call_after_refresh(self.offer_setup)  # the dialog of the last question is still being removed

    # -- a question minimized to a card

    def minimize(self, question: Guarded) -> None:
        """Replace the question's dialog with a card, so that the user can continue typing."""
        dialog = cast("AnyDialog", question)
        dialog.dismiss(dialog.MINIMIZED)

    @property
    def open_questions(self) -> "list[Any]":
        """All screens on the stack, from the bottom up, followed by the dialog that is minimized to a card, if any.

        Not all of these screens show questions; callers must select those that do.
        """
        return [*self.screen_stack, *(self._minimized[:1] if self._minimized else ())]

    def action_answer(self) -> None:
        """Open the minimized question; its keys work immediately, because the user has asked for it.

        Show a notification if no question is waiting.
        """
        if self._minimized is not None:
            (dialog, answered), self._minimized = self._minimized, None
            dialog.is_retry = dialog.question.is_retry  # what the user types next is meant for the input
            self.update_question_cards()
            self._push_dialog(dialog, answered, is_entered=True)
        elif not self.frontend.pending_questions:
            self.notify(_(_NO_QUESTION), markup=False, timeout=4)

    def action_app(self, call: str = "") -> None:
        """Open the interactive page of the tool call with the id *call* in the browser.

        If *call* is "", open the page of the selected call, or else of the newest one.
        """
        from mcphost.tui.page_actions import open_page

        if self.screen is self.chat:
            self.run_worker(partial(open_page, self.chat, call), group="page")

    def update_question_cards(self) -> None:
        """Update the question cards in the chat and on the top screen; remove them if no question is minimized."""
        for screen in {self.chat, self.screen}:
            if not screen.is_mounted:
                screen.call_after_refresh(self.update_question_cards)
            elif not isinstance(screen, Guarded | SystemModalScreen):
                self._update_question_card(screen)

    def _update_question_card(self, screen: Screen[Any]) -> None:
        cards = cast("list[QuestionCard]", list(screen.query("QuestionCard")))
        screen.set_class(self._minimized is not None, "has-question-card")  # notices are shown above the card
        if self._minimized is None:
            for card in cards:
                card.remove()
            return
        from mcphost.tui.widgets.status_bars import KeyBar

        self.dismiss_notices({_(_NO_QUESTION)})
        dialog = self._minimized[0]
        card = cards[0] if cards else QuestionCard()
        card.set_texts(*dialog.card_texts())
        if not cards:
            places = list(screen.query("#composer")) or list(screen.query(KeyBar))
            if places:
                screen.mount(card, before=places[0])
            else:
                card.add_class("slim")
                screen.mount(card)
