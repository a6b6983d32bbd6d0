"""Display of questions: as a dialog, or as a card while the user is typing."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, cast

from textual import events
from textual.content import Content
from textual.geometry import Size
from textual.screen import Screen, SystemModalScreen
from textual.widget import Widget

from mcphost.tui.input_guard import Guarded, TextInput
from mcphost.tui.messages import ActionRequested
from mcphost.tui.navigation import NavigationApp

if TYPE_CHECKING:
    from mcphost.host.questions.frontend import Question
    from mcphost.tui.dialogs.dialog import AnyDialog
    from mcphost.tui.frontend import OpenMode, TuiFrontend


ENTER_HINT = "Press F8 or click to open · your typing stays in the message"
_SHORT_ENTER_HINT = "Press F8 or click to open"
_FRAME_CELLS = 8
_TITLE_ROWS = 2


class QuestionCard(Widget):
    """Card that takes neither focus nor keys."""

    can_focus = False
    DEFAULT_CSS: ClassVar[str] = """
    QuestionCard {
        height: auto; margin: 0 1; padding: 0 1; background: $panel; border: round $warning;
        border-title-color: $warning; border-title-style: bold; border-subtitle-color: $muted;
    }
    """

    def __init__(self) -> None:
        super().__init__()
        self._texts: tuple[str, tuple[str, ...], str] = ("", (), "")

    def set_texts(self, title: str, lines: tuple[str, ...], queue_position: str) -> None:
        """Set the texts, all sanitized.

        *title* says who wants what, *lines* what it is about, *queue_position* how many questions wait.
        """
        if (title, lines, queue_position) != self._texts:
            self._texts = (title, lines, queue_position)
            self.border_title = Content(f"◆ {title}")
            self.border_subtitle = Content(queue_position) if queue_position else None
            self.refresh(layout=True)

    def _rows(self, width: int) -> list[Content]:
        title, lines, _ = self._texts
        rows = [Content.styled(line, "$text").truncate(width, ellipsis=True) for line in lines if line]
        if len(title) + _FRAME_CELLS > width:  # the frame has no space for all of it
            rows = [*Content.styled(title, "bold $warning").wrap(width)[:_TITLE_ROWS], *rows]
        return [*rows, Content.styled(ENTER_HINT if len(ENTER_HINT) <= width else _SHORT_ENTER_HINT, "$accent")]

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Return the number of rows."""
        del container, viewport
        return len(self._rows(max(1, width)))

    def render(self) -> Content:
        """Return the subject and the key."""
        return Content("\n").join(self._rows(max(1, self.content_size.width)))

    def on_click(self, event: events.Click) -> None:
        """Open the question."""
        event.stop()
        self.post_message(ActionRequested("answer"))


class QuestionApp(NavigationApp):
    """An app that shows questions over its pages."""

    _frontend: "TuiFrontend | None" = None
    _is_started: bool = False
    _minimized: "tuple[AnyDialog, Callable[[Any], None]] | None" = None

    @property
    def frontend(self) -> "TuiFrontend":
        """The attached frontend. Raises RuntimeError before `attach`."""
        if self._frontend is None:
            raise RuntimeError("No frontend is attached yet.")
        return self._frontend

    def _run_when_started(self, call: Callable[[], None]) -> None:
        """Call it in the app's task, after the first frame and the start of the host."""
        raise NotImplementedError

    def find_text_input(self, screen: Screen[Any]) -> TextInput | None:
        """Return the composer on the chat, wherever the focus is."""
        return self.chat.composer_input if screen is self.chat else super().find_text_input(screen)

    # -- QuestionDisplay for TuiFrontend

    def open_dialog(self, dialog: "AnyDialog", on_answer: Callable[[Any], None], mode: "OpenMode" = "auto") -> None:
        """Show a question as a dialog or as a card, once the app has started."""

        def show() -> None:
            if mode == "minimized" or (mode == "auto" and self.is_typing):
                self._minimized = (dialog, on_answer)
                self.update_question_cards()
                return
            dialog.is_follow_up = mode == "follow_up"
            self._push_dialog(dialog, on_answer, is_entered=mode == "entered")

        self._run_when_started(show)

    def _push_dialog(self, dialog: "AnyDialog", on_answer: Callable[[Any], None], *, is_entered: bool) -> None:
        if is_entered:
            dialog.enter()
        self.push_screen(dialog, on_answer)

    def close_dialog(self, dialog: "AnyDialog") -> None:
        """Remove a dialog, wherever it is in the screen stack."""
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
        """Show the waiting questions in the chat and on the cards."""

        def show() -> None:
            self.chat.show_pending_questions(pending)
            self.update_question_cards()

        self._run_when_started(show)

    # -- a question minimized to a card

    def minimize(self, question: Guarded) -> None:
        """Replace the question by a card, so that the user can go on typing."""
        dialog = cast("AnyDialog", question)
        dialog.dismiss(dialog.MINIMIZED)

    @property
    def open_questions(self) -> "list[Any]":
        """The screens from the bottom up, and the minimized question."""
        return [*self.screen_stack, *(self._minimized[:1] if self._minimized else ())]

    def action_answer(self) -> None:
        """Open and enter the minimized question."""
        if self._minimized is not None:
            (dialog, answered), self._minimized = self._minimized, None
            self.update_question_cards()
            self._push_dialog(dialog, answered, is_entered=True)
        elif not self.frontend.pending_questions:
            self.notify("No question is waiting.", markup=False, timeout=3)

    def update_question_cards(self) -> None:
        """Show or remove the card in the chat and on the top page."""
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
