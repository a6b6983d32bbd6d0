"""TuiFront: queues questions, one dialog at a time in order, withdraws what nobody waits for, refuses on exit."""

from asyncio import Event
from collections import deque
from collections.abc import Callable
from itertools import count
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar, cast

from mcphost.host.questions.questions import AllowOnce, ApproveTool, Question
from mcphost.serialization import replace
from mcphost.tui.dialogs.registry import KINDS, dialog_for

if TYPE_CHECKING:
    from mcphost.tui.dialogs.dialog import AnyDialog
    from mcphost.tui.dialogs.tool_consent import Reading
    from mcphost.tui.dialogs.waiting_calls import Entry, ListVerdict, WaitingCalls

A = TypeVar("A")
OVER = "; that call has ended"
Opening = Literal["unless typing", "follows", "entered", "aside"]
"""How a question comes: as a dialog unless the person is typing, as a dialog right after another one, as a dialog that
the person opened, or beside what the person is typing."""
_SEVERAL = 2
"""So many waiting calls are a list."""


class Stage(Protocol):
    """What the front needs of the app; all of it returns at once."""

    def open_dialog(
        self, dialog: "AnyDialog", answered: Callable[[Any], None], opening: Opening = "unless typing"
    ) -> None:
        """Show a dialog over everything, or as a card; `answered` gets what it was dismissed with."""
        ...

    def close_dialog(self, dialog: "AnyDialog") -> None:
        """Take a dialog away unanswered."""
        ...

    def questions_changed(self, waiting: tuple[Question[Any], ...]) -> None:
        """Which questions wait now, the shown one first."""
        ...


class _Waiting:
    """One question, its answer once there is one, and its dialog while it is shown."""

    __slots__ = ("answer", "chosen", "dialog", "done", "key", "question", "reading")

    def __init__(self, question: Question[Any], key: str) -> None:
        self.question, self.key = question, key
        self.done = Event()
        self.answer: Any = None
        self.dialog: AnyDialog | None = None
        self.reading: Reading | None = None
        self.chosen = False  # opened from the list by the user

    @property
    def is_call(self) -> bool:
        """Whether it asks about a call."""
        return isinstance(self.question, ApproveTool)


class TuiFront:
    """The front of the terminal UI. It exists before the app does; until `bind` questions wait."""

    def __init__(self) -> None:
        self._stage: Stage | None = None
        self._queue: deque[_Waiting] = deque()
        self._closed = False
        self._seen = 0
        self._numbers = count(1)
        self._list: WaitingCalls | None = None
        self._cursor = ""
        self._opening: Opening = "unless typing"

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

    @property
    def who(self) -> str:
        """The person at the screen, while there is one."""
        return "nobody" if self._closed else "person"

    async def ask(self, question: Question[A]) -> A:
        """The user's answer; cancelling the caller withdraws the question. Runs on the app's event loop."""
        if self._closed:
            return question.refusal()
        waiting = _Waiting(question, f"w{next(self._numbers)}")
        self._queue.append(waiting)
        self._advance()
        try:
            await waiting.done.wait()
        finally:
            self._withdraw(waiting)
        return waiting.answer

    def call_over(self, server: str, number: int) -> None:
        """The call is over for which that server asks; its questions say so, and stay until it takes them back."""
        for waiting in self._queue:
            question = waiting.question
            if (question.server, question.number) == (server, number) and not question.why.endswith(OVER):
                waiting.question = replace(question, why=f"{question.why}{OVER}")
                if waiting.dialog is not None:
                    waiting.dialog.say_why(waiting.question.why)
                    if self._stage is not None:
                        self._stage.questions_changed(self.waiting)

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
        if dialog is not None and self._stage is not None:
            self._stage.close_dialog(dialog)
        self._advance()

    # -- what is on the screen

    @property
    def _calls(self) -> list[_Waiting]:
        return [waiting for waiting in self._queue if waiting.is_call]

    def _advance(self) -> None:
        """Show the first question when none is shown, and tell everyone how many wait."""
        stage = self._stage
        if stage is None:
            return
        calls = self._calls
        self._fit_list(stage, calls)
        shown = next((waiting for waiting in self._queue if waiting.dialog is not None), None)
        if not self._closed and self._queue and shown is None and self._list is None:
            if self._queue[0].is_call and len(calls) >= _SEVERAL:
                self._show_list(stage, calls, self._opening)
            else:
                self._seen = 1 if len(self._queue) == 1 and not self._seen else self._seen + 1
                shown = self._queue[0]
                self._show(shown, stage, self._opening)
        if not self._queue:
            self._seen = 0
        elif shown is not None and shown.dialog is not None:
            shown.dialog.show_queue(self._seen, self._seen + len(self._queue) - 1)
            shown.dialog.offer_list(several=len(calls) >= _SEVERAL)
        stage.questions_changed(self.waiting)

    def _fit_list(self, stage: Stage, calls: list[_Waiting]) -> None:
        """A list follows its calls; a call that nobody has looked at yet joins those that came with it."""
        if self._list is not None:
            if len(calls) >= _SEVERAL and not self._closed:
                self._list.show_calls([_entry(waiting) for waiting in calls])
            else:
                dialog, self._list = self._list, None
                stage.close_dialog(dialog)
            return
        first = self._queue[0] if self._queue else None
        if len(calls) >= _SEVERAL and first is not None and first.is_call and first.dialog is not None:
            if first.chosen or not first.dialog.is_deaf:
                return
            dialog, first.dialog = first.dialog, None
            first.reading = None  # it was on the screen, but nobody had the time to read it
            self._seen -= 1
            stage.close_dialog(dialog)

    def _advance_after(self, opening: Opening) -> None:
        """Show the next question in this way: the person has just decided about another one."""
        self._opening = opening
        try:
            self._advance()
        finally:
            self._opening = "unless typing"

    def _show(self, waiting: _Waiting, stage: Stage, opening: Opening) -> None:
        dialog = dialog_for(waiting.question)
        if dialog is None:
            self._settle(waiting, waiting.question.refusal())
            return
        waiting.reading = dialog.keep(waiting.reading)

        def answered(answer: Any) -> None:
            if waiting.dialog is not dialog:
                return  # it was taken away
            waiting.dialog = None
            if answer is dialog.ASIDE:
                self._show(waiting, stage, "aside")
                self._advance()
            elif answer is dialog.LATER:
                self._seen -= 1
                self._advance_after("entered")
            else:
                self._settle_quietly(waiting, waiting.question.refusal() if answer is None else answer)
                self._advance_after("follows")

        waiting.dialog = dialog
        stage.open_dialog(dialog, answered, opening)

    def _show_list(self, stage: Stage, calls: list[_Waiting], opening: Opening) -> None:
        from mcphost.tui.dialogs.waiting_calls import WaitingCalls

        shown = self._list = WaitingCalls([_entry(waiting) for waiting in calls], self._cursor)

        def answered(verdict: "ListVerdict | object | None") -> None:
            if self._list is not shown:
                return  # it was taken away
            self._list = None
            if verdict is shown.ASIDE:
                self._show_list(stage, self._calls, "aside")
                self._advance()
            else:
                self._cursor = shown.next_cursor
                self._decide(cast("ListVerdict | None", verdict), stage)

        stage.open_dialog(shown, answered, opening)

    def _decide(self, verdict: "ListVerdict | None", stage: Stage) -> None:
        from mcphost.tui.dialogs.waiting_calls import AllowAll, DenyOne, OpenOne, RefuseAll

        chosen = {waiting.key: waiting for waiting in self._calls}
        match verdict:
            case RefuseAll() | None:
                for waiting in chosen.values():
                    self._settle_quietly(waiting, waiting.question.refusal())
            case AllowAll(keys):
                for waiting in (chosen[key] for key in keys if key in chosen):
                    reading = waiting.reading
                    if reading is not None and reading.is_done:
                        self._settle_quietly(waiting, AllowOnce(reading.arguments if reading.edited else None))
            case DenyOne(key) if key in chosen:
                self._settle_quietly(chosen[key], chosen[key].question.refusal())
            case OpenOne(key) if key in chosen:
                self._seen += 1
                chosen[key].chosen = True
                self._show(chosen[key], stage, "entered")
            case _:
                pass
        self._advance_after("follows")

    def _settle_quietly(self, waiting: _Waiting, answer: Any) -> None:
        """Without showing the next question: more of them are being settled."""
        if not waiting.done.is_set():
            waiting.answer = answer
            waiting.done.set()
        if waiting in self._queue:
            self._queue.remove(waiting)


def _entry(waiting: _Waiting) -> "Entry":
    from mcphost.tui.dialogs.waiting_calls import Entry

    return Entry(waiting.key, cast("ApproveTool", waiting.question), waiting.reading)
