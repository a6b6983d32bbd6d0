"""TuiFront: queues questions, one dialog at a time in order, withdraws what nobody waits for, refuses on exit."""

from asyncio import Event
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from mcphost.host.questions import (
    ApproveTool,
    ContinueTurn,
    FillForm,
    Question,
    RetryCall,
    ReviewReply,
    ReviewSampling,
    ShareRoots,
    SignIn,
    TrustServer,
    VisitUrl,
)

if TYPE_CHECKING:
    from mcphost.tui.dialogs.dialog import AnyDialog

A = TypeVar("A")
# Beside the table of dialogs, because that one loads them.
KINDS = frozenset(
    kind.KIND
    for kind in (
        ApproveTool,
        TrustServer,
        ContinueTurn,
        SignIn,
        ShareRoots,
        ReviewSampling,
        ReviewReply,
        FillForm,
        VisitUrl,
        RetryCall,
    )
)


class Stage(Protocol):
    """What the front needs of the app; all of it returns at once."""

    def open_dialog(self, dialog: "AnyDialog", answered: Callable[[Any], None]) -> None:
        """Show a dialog over everything; `answered` gets what it was dismissed with."""
        ...

    def close_dialog(self, dialog: "AnyDialog") -> None:
        """Take a dialog away unanswered."""
        ...

    def questions_changed(self, waiting: tuple[Question[Any], ...]) -> None:
        """Which questions wait now, the shown one first."""
        ...


class _Waiting:
    """One question, its answer once there is one, and its dialog while it is shown."""

    __slots__ = ("answer", "dialog", "done", "question")

    def __init__(self, question: Question[Any]) -> None:
        self.question = question
        self.done = Event()
        self.answer: Any = None
        self.dialog: AnyDialog | None = None


class TuiFront:
    """The front of the terminal UI. It exists before the app does; until `bind` questions wait."""

    def __init__(self) -> None:
        self._stage: Stage | None = None
        self._queue: deque[_Waiting] = deque()
        self._closed = False
        self._seen = 0

    def bind(self, stage: Stage) -> None:
        """From now on dialogs open on this stage, which must be able to show them."""
        self._stage = stage
        self._advance()

    def close(self) -> None:
        """The screen is going: every open and every later question gets its refusal."""
        self._closed = True
        for waiting in tuple(self._queue):
            self._settle(waiting, waiting.question.refusal())

    @property
    def waiting(self) -> tuple[Question[Any], ...]:
        """The questions nobody has answered, in order."""
        return tuple(waiting.question for waiting in self._queue)

    @property
    def kinds(self) -> frozenset[str]:
        """What there are dialogs for."""
        return KINDS

    async def ask(self, question: Question[A]) -> A:
        """The user's answer; cancelling the caller withdraws the question. Runs on the app's event loop."""
        if self._closed:
            return question.refusal()
        waiting = _Waiting(question)
        self._queue.append(waiting)
        self._advance()
        try:
            await waiting.done.wait()
        finally:
            self._withdraw(waiting)
        return waiting.answer

    def _settle(self, waiting: _Waiting, answer: Any) -> None:
        if not waiting.done.is_set():
            waiting.answer = answer
            waiting.done.set()
        self._withdraw(waiting)

    def _withdraw(self, waiting: _Waiting) -> None:
        if waiting not in self._queue:
            return
        self._queue.remove(waiting)
        dialog, waiting.dialog = waiting.dialog, None
        if dialog is not None and self._stage is not None and not waiting.done.is_set():
            self._stage.close_dialog(dialog)
        self._advance()

    def _advance(self) -> None:
        """Show the first question when none is shown, and tell everyone how many wait."""
        stage = self._stage
        if stage is None:
            return
        if not self._closed and self._queue and self._queue[0].dialog is None:
            self._seen = 1 if len(self._queue) == 1 and not self._seen else self._seen + 1
            self._show(self._queue[0], stage)
        if not self._queue:
            self._seen = 0
        elif (dialog := self._queue[0].dialog) is not None:
            dialog.show_queue(self._seen, self._seen + len(self._queue) - 1)
        stage.questions_changed(self.waiting)

    def _show(self, waiting: _Waiting, stage: Stage) -> None:
        from mcphost.tui.dialogs.table import dialog_for

        dialog = dialog_for(waiting.question)
        if dialog is None:
            self._settle(waiting, waiting.question.refusal())
            return

        def answered(answer: Any) -> None:
            waiting.dialog = None
            self._settle(waiting, waiting.question.refusal() if answer is None else answer)

        waiting.dialog = dialog
        stage.open_dialog(dialog, answered)
