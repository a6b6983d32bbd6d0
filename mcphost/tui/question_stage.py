"""The stage of TuiFrontend: a question opens as a dialog, or waits as a card while the person is typing."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from textual.screen import Screen, SystemModalScreen

from mcphost.tui.input_guard import Guarded, TextInput
from mcphost.tui.navigation import NavigationApp

if TYPE_CHECKING:
    from mcphost.host.questions.questions import Question
    from mcphost.tui.dialogs.dialog import AnyDialog
    from mcphost.tui.frontend import OpenMode, TuiFrontend
    from mcphost.tui.widgets.question_card import QuestionCard


class QuestionApp(NavigationApp):
    """An app that shows questions over its pages."""

    _frontend: "TuiFrontend | None" = None
    _is_started: bool = False
    _minimized: "tuple[AnyDialog, Callable[[Any], None]] | None" = None

    @property
    def frontend(self) -> "TuiFrontend":
        """The front that the host asks; not before one is attached."""
        if self._frontend is None:
            raise RuntimeError("No front is attached yet.")
        return self._frontend

    def _run_when_started(self, call: Callable[[], None]) -> None:
        """Call it in the app's own task, not before the first paint."""
        raise NotImplementedError

    def find_text_input(self, screen: Screen[Any]) -> TextInput | None:
        """In the chat that is the composer, wherever the focus is."""
        return self.chat.composer_input if screen is self.chat else super().find_text_input(screen)

    # -- the stage of TuiFrontend

    def open_dialog(
        self, dialog: "AnyDialog", on_answer: Callable[[Any], None], mode: "OpenMode" = "unless typing"
    ) -> None:
        """Show a question over everything, or as a card; before the first paint it waits."""

        def show() -> None:
            if mode == "aside" or (mode == "unless typing" and self.is_typing):
                self._minimized = (dialog, on_answer)
                self.update_question_cards()
                return
            dialog.is_follow_up = mode == "follows"
            self._push_dialog(dialog, on_answer, is_entered=mode == "entered")

        self._run_when_started(show)

    def _push_dialog(self, dialog: "AnyDialog", on_answer: Callable[[Any], None], *, is_entered: bool) -> None:
        if is_entered:
            dialog.enter()
        self.push_screen(dialog, on_answer)

    def close_dialog(self, dialog: "AnyDialog") -> None:
        """Take a dialog away, wherever it is in the stack."""
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

    async def _close_covered_dialog(self, dialog: "AnyDialog") -> None:
        while dialog in self.screen_stack and not dialog.is_active:
            await self.pop_screen()
        if dialog.is_active:
            dialog.dismiss(None)

    def update_questions(self, pending: "tuple[Question[Any], ...]") -> None:
        """Tell the chat who waits."""

        def show() -> None:
            self.chat.show_pending_questions(pending)
            self.update_question_cards()

        self._run_when_started(show)

    # -- a question that waits beside what the person is writing

    def minimize(self, question: Guarded) -> None:
        """Back to a card: the person goes on typing."""
        dialog = cast("AnyDialog", question)
        dialog.dismiss(dialog.MINIMIZED)

    @property
    def open_questions(self) -> "list[Any]":
        """The screens from below, and the question that waits as a card."""
        return [*self.screen_stack, *(self._minimized[:1] if self._minimized else ())]

    def action_answer(self) -> None:
        """F8, or a click on the card."""
        if self._minimized is not None:
            (dialog, answered), self._minimized = self._minimized, None
            self.update_question_cards()
            self._push_dialog(dialog, answered, is_entered=True)
        elif not self.frontend.pending_questions:
            self.notify("No question waits for you.", markup=False, timeout=3)

    def update_question_cards(self) -> None:
        """A card in the chat and on the page that is on top, or none."""
        for screen in {self.chat, self.screen}:
            if not screen.is_mounted:
                screen.call_after_refresh(self.update_question_cards)
            elif not isinstance(screen, Guarded | SystemModalScreen):
                self._update_question_card(screen)

    def _update_question_card(self, screen: Screen[Any]) -> None:
        cards = cast("list[QuestionCard]", list(screen.query("QuestionCard")))
        if self._minimized is None:
            for card in cards:
                card.remove()
            return
        from mcphost.tui.widgets.question_card import QuestionCard
        from mcphost.tui.widgets.status_bars import KeyBar

        dialog = self._minimized[0]
        card = cards[0] if cards else QuestionCard()
        card.set_texts(*dialog.card_texts())
        if not cards:
            places = list(screen.query("#composer")) or list(screen.query(KeyBar))
            if places:
                screen.mount(card, before=places[0])
            else:
                card.styles.dock = "bottom"
                screen.mount(card)
