"""The stage of TuiFront: a question opens as a dialog, or waits as a card while the person is typing."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from textual.screen import Screen, SystemModalScreen

from mcphost.tui.input_guard import Guarded, TextField
from mcphost.tui.navigation import Pages

if TYPE_CHECKING:
    from mcphost.host.questions.questions import Question
    from mcphost.tui.dialogs.dialog import AnyDialog
    from mcphost.tui.frontend import Opening, TuiFront
    from mcphost.tui.widgets.question_card import QuestionCard


class QuestionStage(Pages):
    """An app that shows questions over its pages."""

    _front: "TuiFront | None" = None
    _begun: bool = False
    _aside: "tuple[AnyDialog, Callable[[Any], None]] | None" = None

    @property
    def front(self) -> "TuiFront":
        """The front that the host asks; not before one is attached."""
        if self._front is None:
            raise RuntimeError("No front is attached yet.")
        return self._front

    def _when_begun(self, call: Callable[[], None]) -> None:
        """Call it in the app's own task, not before the first paint."""
        raise NotImplementedError

    def text_field(self, screen: Screen[Any]) -> TextField | None:
        """In the chat that is the composer, wherever the focus is."""
        return self.chat.prompt if screen is self.chat else super().text_field(screen)

    # -- the stage of TuiFront

    def open_dialog(
        self, dialog: "AnyDialog", answered: Callable[[Any], None], opening: "Opening" = "unless typing"
    ) -> None:
        """Show a question over everything, or as a card; before the first paint it waits."""

        def show() -> None:
            if opening == "aside" or (opening == "unless typing" and self.is_typing):
                self._aside = (dialog, answered)
                self.show_cards()
                return
            dialog.follows = opening == "follows"
            self._push(dialog, answered, entered=opening == "entered")

        self._when_begun(show)

    def _push(self, dialog: "AnyDialog", answered: Callable[[Any], None], *, entered: bool) -> None:
        if entered:
            dialog.enter()
        self.push_screen(dialog, answered)

    def close_dialog(self, dialog: "AnyDialog") -> None:
        """Take a dialog away, wherever it is in the stack."""
        self._when_begun(lambda: self._remove(dialog))

    def _remove(self, dialog: "AnyDialog") -> None:
        self.release_held(cast("Guarded", dialog))
        if self._aside is not None and self._aside[0] is dialog:
            self._aside = None
            self.show_cards()
        elif dialog.is_active:
            dialog.dismiss(None)
        elif dialog in self.screen_stack:
            self.run_worker(partial(self._dig_out, dialog), group="dig")

    async def _dig_out(self, dialog: "AnyDialog") -> None:
        while dialog in self.screen_stack and not dialog.is_active:
            await self.pop_screen()
        if dialog.is_active:
            dialog.dismiss(None)

    def questions_changed(self, waiting: "tuple[Question[Any], ...]") -> None:
        """Tell the chat who waits."""

        def show() -> None:
            self.chat.show_waiting(waiting)
            self.show_cards()

        self._when_begun(show)

    # -- a question that waits beside what the person is writing

    def set_aside(self, question: Guarded) -> None:
        """Back to a card: the person goes on typing."""
        dialog = cast("AnyDialog", question)
        dialog.dismiss(dialog.ASIDE)

    @property
    def open_questions(self) -> "list[Any]":
        """The screens from below, and the question that waits as a card."""
        return [*self.screen_stack, *(self._aside[:1] if self._aside else ())]

    def action_answer(self) -> None:
        """F8, or a click on the card."""
        if self._aside is not None:
            (dialog, answered), self._aside = self._aside, None
            self.show_cards()
            self._push(dialog, answered, entered=True)
        elif not self.front.waiting:
            self.notify("No question waits for you.", markup=False, timeout=3)

    def show_cards(self) -> None:
        """A card in the chat and on the page that is on top, or none."""
        for screen in {self.chat, self.screen}:
            if not screen.is_mounted:
                screen.call_after_refresh(self.show_cards)
            elif not isinstance(screen, Guarded | SystemModalScreen):
                self._show_card(screen)

    def _show_card(self, screen: Screen[Any]) -> None:
        cards = cast("list[QuestionCard]", list(screen.query("QuestionCard")))
        if self._aside is None:
            for card in cards:
                card.remove()
            return
        from mcphost.tui.widgets.question_card import QuestionCard
        from mcphost.tui.widgets.status_bars import KeyBar

        dialog = self._aside[0]
        card = cards[0] if cards else QuestionCard()
        card.tell(*dialog.card())
        if not cards:
            places = list(screen.query("#composer")) or list(screen.query(KeyBar))
            if places:
                screen.mount(card, before=places[0])
            else:
                card.styles.dock = "bottom"
                screen.mount(card)
