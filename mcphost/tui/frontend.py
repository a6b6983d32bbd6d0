"""The frontend of the terminal UI, which queues the host's questions and shows them one at a time."""

from asyncio import Event
from collections import deque
from collections.abc import Callable
from functools import cached_property, partial
from importlib import import_module
from itertools import count
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar, cast

from mcphost.host.questions import kinds
from mcphost.host.questions.frontend import Question
from mcphost.serialization import replace
from mcphost.sign_in_types import EntryCheck, current_entry_check
from mcphost.translation import N_, _

if TYPE_CHECKING:
    from mcphost.host.questions.questions import ApproveTool
    from mcphost.tui.dialogs.dialog import AnyDialog
    from mcphost.tui.dialogs.tool_consent import CallReview
    from mcphost.tui.dialogs.waiting_calls import ListVerdict, WaitingCall, WaitingCallsDialog


# Maps each kind of question to the module and class of its dialog, by name: imports would delay the first frame.
DIALOGS: dict[str, tuple[str, str]] = {
    kinds.APPROVE_TOOL: ("tool_consent", "ToolConsentDialog"),
    kinds.TOOLS_CHANGED: ("tools_changed", "ReviewToolChangesDialog"),
    kinds.TRUST_SERVER: ("trust", "TrustServerDialog"),
    kinds.TRUST_PROJECT: ("trust", "TrustProjectDialog"),
    kinds.CONTINUE_TURN: ("tool_consent", "ContinueTurnDialog"),
    kinds.APPROVE_COST: ("approve_cost", "ApproveCostDialog"),
    kinds.OFFER_COMPACTION: ("review_compaction", "OfferCompactionDialog"),
    kinds.REVIEW_COMPACTION: ("review_compaction", "ReviewCompactionDialog"),
    kinds.SIGN_IN: ("sign_in", "SignInDialog"),
    kinds.KEEP_SECRETS: ("secret_storage", "ChooseSecretStorageDialog"),
    kinds.UNLOCK_SECRETS: ("secret_storage", "UnlockSecretsDialog"),
    kinds.ENTER_CLIENT: ("sign_in", "EnterClientIdDialog"),
    kinds.SHARE_ROOTS: ("share_roots", "ShareRootsDialog"),
    kinds.REVIEW_SAMPLING: ("review_sampling", "ReviewSamplingDialog"),
    kinds.REVIEW_REPLY: ("review_sampling_reply", "ReviewReplyDialog"),
    kinds.FILL_FORM: ("fill_form", "FillFormDialog"),
    kinds.REVIEW_RESULT: ("review_result", "ReviewResultDialog"),
    kinds.VISIT_URL: ("visit_url", "VisitUrlDialog"),
    kinds.RETRY_CALL: ("visit_url", "RetryCallDialog"),
    kinds.OPEN_PAGE: ("pages", "OpenPageDialog"),
    kinds.PAGE_MESSAGE: ("pages", "PageMessageDialog"),
}
QUESTION_KINDS = frozenset(DIALOGS)


def create_dialog(question: Question[Any]) -> "AnyDialog | None":
    """Create the dialog for a question; return None if there is no dialog for this type of question."""
    from mcphost.host.questions.questions import ShareRoots  # loaded with the first question

    place = DIALOGS.get(question.KIND)
    if isinstance(question, ShareRoots) and question.askers:
        place = ("share_roots", "SharePerServerDialog")
    if place is None:
        return None
    return cast("AnyDialog", getattr(import_module(f"mcphost.tui.dialogs.{place[0]}"), place[1])(question))


A = TypeVar("A")
CALL_ENDED_SUFFIX = N_(" (that call has ended)")
OpenMode = Literal["auto", "follow_up", "entered", "minimized", "retry"]
"""How a question is shown.

"auto": as a card while the user is typing, otherwise as a dialog. "follow_up": as a dialog right after another question
was answered. "entered": as a dialog that the user opened, whose keys work immediately. "minimized": as a card.
"retry": as a dialog with its input open, after a wrong entry; as in "auto" if the user has typed elsewhere since then.
"""
_MIN_LISTED_CALLS = 2
"""Minimum number of waiting tool calls that are shown as a list instead of one by one."""


class QuestionDisplay(Protocol):
    """Interface that TuiFrontend uses to show questions in the app.

    None of the methods waits for the user.
    """

    def open_dialog(self, dialog: "AnyDialog", on_answer: Callable[[Any], None], mode: OpenMode = "auto") -> None:
        """Show a question's dialog or, depending on *mode*, a small card that announces the question.

        *mode* is explained at `OpenMode`. *on_answer* is called with the dialog's result when the dialog is
        dismissed.
        """
        ...

    def close_dialog(self, dialog: "AnyDialog") -> None:
        """Remove a dialog whose question was answered elsewhere or withdrawn by the host."""
        ...

    def open_check(self) -> None:
        """Open a window that receives typed text while mcphost checks an entry, such as a passphrase.

        Without this window, a user who types the entry again would type it into the composer. The window is closed by
        `close_check`, or by `open_dialog` if the entry was wrong; the dialog then takes over the typed text.
        """
        ...

    def close_check(self) -> None:
        """Close the window opened by `open_check`, and discard the text typed into it."""
        ...

    def update_questions(self, pending: tuple[Question[Any], ...]) -> None:
        """Update the display of the questions that are waiting; *pending* contains them in queue order."""
        ...


class _PendingQuestion:
    """A question in the queue, with its dialog while one is shown, and the answer once the user has given one."""

    def __init__(self, question: Question[Any], key: str, check: EntryCheck | None = None) -> None:
        self.question, self.key, self.check = question, key, check
        self.done = Event()
        self.answer: Any = None
        self.dialog: AnyDialog | None = None
        self.review: CallReview | None = None
        self.is_user_opened = False  # whether the user opened the dialog from the list of waiting calls

    @cached_property
    def title(self) -> str:
        """The title of the question's dialog."""
        dialog = create_dialog(self.question)
        return "" if dialog is None else dialog.headline()

    @property
    def is_call(self) -> bool:
        """Whether the question asks the user to approve a tool call."""
        return self.question.KIND == kinds.APPROVE_TOOL


class TuiFrontend:
    """Frontend that shows the host's questions as dialogs, one at a time.

    Questions wait in the queue until `bind` is called.
    """

    def __init__(self) -> None:
        self._display: QuestionDisplay | None = None
        self._queue: deque[_PendingQuestion] = deque()
        self._is_closed = False
        self._shown_count = 0
        self._key_numbers = count(1)
        self._call_list: WaitingCallsDialog | None = None
        self._cursor = ""
        self._open_mode: OpenMode = "auto"
        self._answered_kind = ""
        self._check: EntryCheck | None = None
        """The check of the user's last entry, during which no other question is shown."""

    def bind(self, display: QuestionDisplay) -> None:
        """Show all questions on *display*, including those that are already waiting."""
        self._display = display
        self._show_next()

    def close(self) -> None:
        """Decline all open questions, and all questions that are asked later."""
        self._is_closed = True
        self._check = None
        for waiting in tuple(self._queue):
            self._settle(waiting, waiting.question.refusal())

    @property
    def pending_questions(self) -> tuple[Question[Any], ...]:
        """The unanswered questions, in queue order."""
        return tuple(waiting.question for waiting in self._queue)

    @property
    def kinds(self) -> frozenset[str]:
        """The kinds of question (`Question.KIND`) that this frontend can show."""
        return QUESTION_KINDS

    @property
    def who(self) -> str:
        """Who answers the questions: "person" or, after `close`, "nobody".

        After `close`, all questions are declined.
        """
        return "nobody" if self._is_closed else "person"

    async def ask(self, question: Question[A]) -> A:
        """Put the question in the queue and wait for the user's answer.

        After `close`, return `question.refusal()` without asking. Cancellation removes the question from the queue and
        the screen. Call this on the app's event loop.
        """
        if self._is_closed:
            return question.refusal()
        check = current_entry_check()
        waiting = _PendingQuestion(question, f"w{next(self._key_numbers)}", check)
        if check is not None and check is self._check:
            self._queue.appendleft(waiting)
            self._check = None
        else:
            self._queue.append(waiting)
        self._show_next()
        try:
            await waiting.done.wait()
        finally:
            self._withdraw(waiting)
        return waiting.answer

    def mark_call_ended(self, server: str, number: int) -> None:
        """Mark the open questions that *server* asked during a request that has now ended.

        The suffix "(that call has ended)" is added to the reason that is displayed with these questions. *number*
        identifies the request; see `Question.number`.
        """
        for waiting in self._queue:
            question = waiting.question
            if (question.server, question.number) == (server, number) and not question.why.endswith(
                _(CALL_ENDED_SUFFIX)
            ):
                waiting.question = replace(question, why=f"{question.why}{_(CALL_ENDED_SUFFIX)}")
                if waiting.dialog is not None:
                    waiting.dialog.update_reason(waiting.question.why)
                    if self._display is not None:
                        self._display.update_questions(self.pending_questions)

    def _begin_check(self, check: EntryCheck, answer: Any) -> None:
        """If mcphost now checks *answer*, show no other question until *check* has ended.

        Only passphrases and pasted redirect URLs are checked. If one is wrong, its question is asked again.
        """
        from mcphost.host.questions.sign_in import EnterPassphrase, KeepInEncryptedFile, PastedRedirect

        is_checked = isinstance(answer, EnterPassphrase | KeepInEncryptedFile | PastedRedirect)  # asked again if wrong
        if is_checked and self._display is not None and not self._is_closed:
            self._check, check.on_end = check, partial(self._end_check, check)
            self._display.open_check()

    def _end_check(self, check: EntryCheck) -> None:
        if check is self._check:
            self._check = None
            if self._display is not None:
                self._display.close_check()
            self._show_next_in_mode("follow_up")

    def _settle(self, waiting: _PendingQuestion, answer: Any) -> None:
        if not waiting.done.is_set():
            waiting.answer = answer
            waiting.done.set()
        self._withdraw(waiting)

    def _withdraw(self, waiting: _PendingQuestion) -> None:
        if waiting not in self._queue:
            return
        self._queue.remove(waiting)
        dialog, waiting.dialog = waiting.dialog, None
        if dialog is not None and self._display is not None:
            self._display.close_dialog(dialog)
        self._show_next()

    # -- what is on the screen

    @property
    def _pending_calls(self) -> list[_PendingQuestion]:
        return [waiting for waiting in self._queue if waiting.is_call]

    def _show_next(self) -> None:
        """Show the first queued question, unless a question is already open.

        If the first question asks to approve a tool call and other calls are waiting too, all of these calls are shown
        in one list. In any case, the queue position that the open dialog shows is updated.
        """
        stage = self._display
        if stage is None:
            return
        calls = self._pending_calls
        self._update_call_list(stage, calls)
        shown = next((waiting for waiting in self._queue if waiting.dialog is not None), None)
        is_free = not self._is_closed and self._check is None and self._call_list is None
        if is_free and self._queue and shown is None:
            if self._queue[0].is_call and len(calls) >= _MIN_LISTED_CALLS:
                self._show_call_list(stage, calls, self._open_mode)
            else:
                self._shown_count = 1 if len(self._queue) == 1 and not self._shown_count else self._shown_count + 1
                shown = self._queue[0]
                self._show_question(shown, stage, self._open_mode)
        if self._call_list is not None:
            self._call_list.show_next_question(next((one.title for one in self._queue if not one.is_call), ""))
        if not self._queue:
            self._shown_count = 0
        elif shown is not None and shown.dialog is not None:
            shown.dialog.show_queue_position(self._shown_count, self._shown_count + len(self._queue) - 1)
            shown.dialog.set_list_available(is_available=len(calls) >= _MIN_LISTED_CALLS)
        stage.update_questions(self.pending_questions)

    def _update_call_list(self, display: QuestionDisplay, calls: list[_PendingQuestion]) -> None:
        """Update the list of waiting tool calls; close it when fewer than two are left.

        If a second call arrives just after the dialog of the first has appeared, the list replaces that dialog.
        """
        if self._call_list is not None:
            if len(calls) >= _MIN_LISTED_CALLS and not self._is_closed:
                self._call_list.show_calls([_create_waiting_call(waiting) for waiting in calls])
            else:
                dialog, self._call_list = self._call_list, None
                display.close_dialog(dialog)
            return
        first = self._queue[0] if self._queue else None
        if len(calls) >= _MIN_LISTED_CALLS and first is not None and first.is_call and first.dialog is not None:
            if first.is_user_opened or not first.dialog.is_guarded:
                return
            dialog, first.dialog = first.dialog, None
            first.review = None  # the dialog was on the screen too briefly to be read
            self._shown_count -= 1
            display.close_dialog(dialog)

    def _show_next_in_mode(self, mode: OpenMode) -> None:
        """Show the next question, after the user has answered or postponed the previous one.

        *mode* is explained at `OpenMode`.
        """
        self._open_mode = mode
        try:
            self._show_next()
        finally:
            self._open_mode = "auto"

    def _show_question(self, waiting: _PendingQuestion, display: QuestionDisplay, mode: OpenMode) -> None:
        dialog = create_dialog(waiting.question)
        if dialog is None:
            self._settle(waiting, waiting.question.refusal())
            return
        if mode == "auto" and waiting.question.is_retry and self._answered_kind == waiting.question.KIND:
            mode = "retry"
        if waiting.check is not None:
            dialog.on_dismissed = partial(self._begin_check, waiting.check)
        waiting.review = dialog.restore_review(waiting.review)

        def answered(answer: Any) -> None:
            if waiting.dialog is not dialog:
                return  # the dialog was removed
            waiting.dialog = None
            if answer is dialog.MINIMIZED:
                self._show_question(waiting, display, "minimized")
                self._show_next()
            elif answer is dialog.POSTPONED:
                self._shown_count -= 1
                self._show_next_in_mode("entered")
            else:
                self._answered_kind = waiting.question.KIND
                self._record_answer(waiting, waiting.question.refusal() if answer is None else answer)
                self._show_next_in_mode("follow_up")

        waiting.dialog = dialog
        display.open_dialog(dialog, answered, mode)

    def _show_call_list(self, display: QuestionDisplay, calls: list[_PendingQuestion], mode: OpenMode) -> None:
        from mcphost.tui.dialogs.waiting_calls import WaitingCallsDialog

        shown = self._call_list = WaitingCallsDialog([_create_waiting_call(waiting) for waiting in calls], self._cursor)

        def answered(verdict: "ListVerdict | object | None") -> None:
            if self._call_list is not shown:
                return  # the list was removed
            self._call_list = None
            if verdict is shown.MINIMIZED:
                self._show_call_list(display, self._pending_calls, "minimized")
                self._show_next()
            else:
                self._cursor = shown.next_cursor
                self._apply_verdict(cast("ListVerdict | None", verdict), display)

        display.open_dialog(shown, answered, mode)

    def _apply_verdict(self, verdict: "ListVerdict | None", display: QuestionDisplay) -> None:
        from mcphost.host.questions.questions import AllowOnce
        from mcphost.tui.dialogs.waiting_calls import AllowAll, DenyOne, OpenOne, RefuseAll

        chosen = {waiting.key: waiting for waiting in self._pending_calls}
        match verdict:
            case RefuseAll() | None:
                for waiting in chosen.values():
                    self._record_answer(waiting, waiting.question.refusal())
            case AllowAll(keys):
                for waiting in (chosen[key] for key in keys if key in chosen):
                    reading = waiting.review
                    if reading is not None and reading.is_complete:
                        self._record_answer(waiting, AllowOnce(reading.arguments if reading.is_edited else None))
            case DenyOne(key) if key in chosen:
                self._record_answer(chosen[key], chosen[key].question.refusal())
            case OpenOne(key) if key in chosen:
                self._shown_count += 1
                chosen[key].is_user_opened = True
                self._show_question(chosen[key], display, "entered")
            case _:
                pass
        self._show_next_in_mode("follow_up")

    def _record_answer(self, waiting: _PendingQuestion, answer: Any) -> None:
        """Record the answer and remove the question from the queue, without showing the next question yet."""
        if not waiting.done.is_set():
            waiting.answer = answer
            waiting.done.set()
        if waiting in self._queue:
            self._queue.remove(waiting)


def _create_waiting_call(waiting: _PendingQuestion) -> "WaitingCall":
    from mcphost.tui.dialogs.waiting_calls import WaitingCall

    return WaitingCall(waiting.key, cast("ApproveTool", waiting.question), waiting.review)
