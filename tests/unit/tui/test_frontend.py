"""Tests for the queue of questions, without a screen."""

from collections.abc import Callable
from typing import Any

import anyio
import pytest

from mcphost.host.questions.frontend import Question
from mcphost.host.questions.questions import AllowOnce, ApproveTool, ContinueTurn
from mcphost.tui.dialogs.waiting_calls import AllowAll, OpenOne
from mcphost.tui.frontend import OpenMode, TuiFrontend

pytestmark = pytest.mark.anyio


class RecordingStage:
    """A stage that records the dialogs and waiting questions that it is given."""

    def __init__(self) -> None:
        self.open: list[tuple[Any, Callable[[Any], None]]] = []
        self.waiting: tuple[Question[Any], ...] = ()
        self.openings: list[OpenMode] = []

    def open_dialog(self, dialog: Any, on_answer: Callable[[Any], None], mode: OpenMode = "auto") -> None:
        self.open.append((dialog, on_answer))
        self.openings.append(mode)

    def close_dialog(self, dialog: Any) -> None:
        self.open = [item for item in self.open if item[0] is not dialog]

    def update_questions(self, pending: tuple[Question[Any], ...]) -> None:
        self.waiting = pending

    def answer(self, value: Any) -> None:
        _, answered = self.open.pop()
        answered(value)


def create_question(rounds: int = 1) -> ContinueTurn:
    return ContinueTurn(server="", why="", rounds=rounds)


async def ask_repeatedly(frontend: TuiFrontend, rounds: int, into: list[tuple[int, bool]]) -> None:
    into.append((rounds, await frontend.ask(create_question(rounds))))


async def test_questions_are_shown_one_at_a_time_in_order_of_arrival() -> None:
    frontend, stage, received = TuiFrontend(), RecordingStage(), []
    frontend.bind(stage)
    async with anyio.create_task_group() as group:
        for rounds in (1, 2, 3):
            group.start_soon(ask_repeatedly, frontend, rounds, received)
        for rounds in (1, 2, 3):
            await anyio.wait_all_tasks_blocked()
            assert len(stage.open) == 1
            assert stage.open[0][0].rounds == rounds
            assert len(stage.waiting) == 4 - rounds
            stage.answer(True)
    assert received == [(1, True), (2, True), (3, True)]


async def test_questions_wait_until_there_is_a_screen() -> None:
    frontend, stage, received = TuiFrontend(), RecordingStage(), []
    async with anyio.create_task_group() as group:
        group.start_soon(ask_repeatedly, frontend, 1, received)
        await anyio.wait_all_tasks_blocked()
        assert len(frontend.pending_questions) == 1
        frontend.bind(stage)
        stage.answer(True)
    assert received == [(1, True)]


async def test_cancelling_the_asker_withdraws_its_dialog_and_shows_the_next() -> None:
    frontend, stage, received = TuiFrontend(), RecordingStage(), []
    frontend.bind(stage)
    async with anyio.create_task_group() as outer:
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as group:
                group.start_soon(ask_repeatedly, frontend, 1, received)
                await anyio.wait_all_tasks_blocked()
                outer.start_soon(ask_repeatedly, frontend, 2, received)
                await anyio.wait_all_tasks_blocked()
                scope.cancel()
        await anyio.wait_all_tasks_blocked()
        assert [dialog.rounds for dialog, _ in stage.open] == [2]
        stage.answer(True)
    assert received == [(2, True)]


async def test_a_dialog_that_ends_without_an_answer_is_a_refusal() -> None:
    frontend, stage, received = TuiFrontend(), RecordingStage(), []
    frontend.bind(stage)
    async with anyio.create_task_group() as group:
        group.start_soon(ask_repeatedly, frontend, 1, received)
        await anyio.wait_all_tasks_blocked()
        stage.answer(None)
    assert received == [(1, False)]


async def test_closing_refuses_waiting_requests_and_all_later_ones() -> None:
    frontend, stage, received = TuiFrontend(), RecordingStage(), []
    frontend.bind(stage)
    async with anyio.create_task_group() as group:
        for rounds in (1, 2):
            group.start_soon(ask_repeatedly, frontend, rounds, received)
        await anyio.wait_all_tasks_blocked()
        frontend.close()
    assert sorted(received) == [(1, False), (2, False)]
    assert await frontend.ask(create_question()) is False


async def test_a_kind_of_question_the_screen_does_not_know_is_refused() -> None:
    class UnknownQuestion(Question[str], frozen=True, kw_only=True):
        KIND = "strange"

        def refusal(self) -> str:
            return "no"

    frontend = TuiFrontend()
    frontend.bind(RecordingStage())
    assert await frontend.ask(UnknownQuestion(server="", why="")) == "no"


async def test_allow_all_runs_read_calls_with_their_edits_and_no_unread_ones() -> None:
    frontend, stage = TuiFrontend(), RecordingStage()
    frontend.bind(stage)
    answers: dict[str, Any] = {}

    async def call(name: str) -> None:
        asked = ApproveTool(server="s", why="", call=name, tool="t", arguments={"n": 1})
        answers[name] = await frontend.ask(asked)

    async with anyio.create_task_group() as group:
        for name in ("a", "b", "c"):
            group.start_soon(call, name)
            await anyio.wait_all_tasks_blocked()
        for key, arguments in (("w1", {"n": 9}), ("w2", {"n": 1})):
            stage.answer(OpenOne(key))
            dialog = stage.open[-1][0]
            dialog.review.edit(arguments)
            dialog.review.is_end_shown = True
            stage.answer(dialog.POSTPONED)
        stage.answer(OpenOne("w3"))
        stage.answer(stage.open[-1][0].POSTPONED)
        stage.answer(AllowAll(("w1", "w2", "w3")))
        await anyio.wait_all_tasks_blocked()
        assert answers == {"a": AllowOnce({"n": 9}), "b": AllowOnce()}
        assert [question.call for question in frontend.pending_questions] == ["c"]  # type: ignore[attr-defined]
        frontend.close()
