"""Tests of rules for every question: the focus starts on refusal, early keys are ignored, no mouse is needed."""

from collections.abc import Callable
from time import monotonic
from typing import Any

import pytest
from textual import events
from textual.widgets import Button

from mcphost.host.questions.questions import AllowOnce, Deny, ShareRoots
from mcphost.serialization import replace
from mcphost.tui.frontend import DIALOGS, QUESTION_KINDS, create_dialog
from tests.fakes.clock import ManualClock
from tests.screens.ask_question import PendingQuestion, each_example_question, open_guarded_dialog
from tests.screens.conftest import Run
from tests.screens.example_questions import CALL, EXAMPLE_QUESTIONS

pytestmark = pytest.mark.anyio


def test_there_is_an_example_and_a_dialog_for_each_kind_of_question() -> None:
    assert {question.KIND for question in EXAMPLE_QUESTIONS} == QUESTION_KINDS
    for question in EXAMPLE_QUESTIONS:
        several = isinstance(question, ShareRoots) and question.askers
        assert type(create_dialog(question)).__name__ == (
            "SharePerServerDialog" if several else DIALOGS[question.KIND][1]
        )


@pytest.mark.req("ui.dialog-queue")
@each_example_question
async def test_keys_typed_before_a_question_was_read_do_nothing(run: Run, clock: ManualClock, question: Any) -> None:
    async with run() as driver:
        pending, dialog = await open_guarded_dialog(driver, question)
        keys = dialog.query_one("#keys")
        clock.now += 0.299
        await driver.pilot.press("enter", "tab", "escape", "ctrl+s", "ctrl+d", "right", "down")
        assert pending.answer is None
        assert driver.app.screen is dialog
        assert driver.app.focused.id == dialog.BUTTONS[0][0]
        assert keys.styles.text_opacity == 0
        assert dialog.key_line not in driver.text()
        clock.now += 60
        await driver.until(
            lambda: keys.styles.text_opacity == 1 and dialog.key_line.split(" · ")[0] in driver.text(),
            "the keys, which are shown from the moment they work",
        )
        await driver.pilot.press("escape")
        await driver.until(lambda: pending.answer is not None)
        assert pending.answer == question.refusal()


@pytest.mark.req("ui.dialog-queue")
async def test_a_key_counts_from_when_it_was_pressed_even_on_a_busy_screen(run: Run, clock: ManualClock) -> None:
    async with run() as driver:
        pending, dialog = await open_guarded_dialog(driver, CALL)
        await driver.pilot.press("f8")
        for passed, heard in ((0.399, False), (60.0, True)):
            clock.now += passed
            key = events.Key("a", "a")
            key.time = monotonic() - 0.1
            driver.app.post_message(key)
            await driver.pilot.pause()
            assert (driver.app.screen is not dialog) is heard
        await driver.until(lambda: pending.answer == AllowOnce(), "the answer")


@pytest.mark.req("ui.dialog-queue")
@pytest.mark.parametrize(
    "question", [question for question in EXAMPLE_QUESTIONS if question.KIND in ("approve_tool", "fill_form")]
)
async def test_a_key_that_was_on_its_way_through_the_chat_when_a_question_opened_does_not_answer_it(
    run: Run, clock: ManualClock, question: Any
) -> None:
    async with run() as driver:
        pending, dialog = await open_guarded_dialog(driver, question)
        for name in ("ctrl+s", "ctrl+d", "escape", "enter", "A"):
            key = events.Key(name, None)
            driver.app.chat._forward_event(key)  # as the terminal's keys are delivered to the current screen
            await driver.pilot.pause()
        assert pending.answer is None
        assert driver.app.screen is dialog


@pytest.mark.parametrize("kind", ["approve_tool", "fill_form", "visit_url"])
async def test_a_servers_text_is_behind_bars_and_cannot_imitate_a_line_of_mcphost(run: Run, kind: str) -> None:
    example = next(question for question in EXAMPLE_QUESTIONS if kind == question.KIND)
    said = "harmless\n\n▲ mcphost checked this " + "and it is safe " * 10
    question = replace(example, **{"description" if kind == "approve_tool" else "message": said})
    async with run(size=(100, 50)) as driver:
        await open_guarded_dialog(driver, question)
        rows = [row for row in driver.text().splitlines() if "checked this" in row or "it is safe" in row]
    assert [row.count("│") for row in rows] == [3, 3], "two of them are the frame of the dialog"


@pytest.mark.req("ui.confirm")
@each_example_question
@pytest.mark.parametrize("key", ["escape", "enter"])
async def test_a_question_starts_on_refusing(run: Run, clock: ManualClock, question: Any, key: str) -> None:
    async with run(size=(80, 24)) as driver:
        pending, dialog = await open_guarded_dialog(driver, question)
        clock.now += 60
        assert driver.app.focused.id == dialog.BUTTONS[0][0]
        await driver.pilot.press(key)
        await driver.until(lambda: pending.answer is not None, "the refusal")
        assert pending.answer == question.refusal()


@each_example_question
@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_every_button_is_in_view_and_reached_by_keyboard(
    run: Run, clock: ManualClock, question: Any, size: tuple[int, int]
) -> None:
    async with run(size=size) as driver:
        _, dialog = await open_guarded_dialog(driver, question)
        clock.now += 60
        await driver.pilot.pause()
        expected = {button.id for button in dialog.query("#buttons Button").results(Button) if button.display}
        for button in dialog.query("#buttons Button").results(Button):
            inside: Callable[[Any], bool] = driver.app.screen.region.contains_region
            assert not button.display or inside(button.region), button.id
        reached = set()
        for _ in range(len(dialog.BUTTONS)):
            reached.add(driver.app.focused.id)
            await driver.pilot.press("right")
        assert expected <= reached


@each_example_question
async def test_a_click_outside_a_question_answers_nothing(run: Run, clock: ManualClock, question: Any) -> None:
    async with run() as driver:
        pending, dialog = await open_guarded_dialog(driver, question)
        clock.now += 60
        await driver.pilot.click(offset=(0, 0))
        assert pending.answer is None
        assert driver.app.screen is dialog


async def test_a_list_of_calls_obeys_the_same_rules(run: Run, clock: ManualClock) -> None:
    async with run() as driver:
        pending = [PendingQuestion(driver, replace(CALL, call=f"c{number}")) for number in range(3)]
        await driver.until(
            lambda: "3 calls are waiting" in driver.text() and driver.app.screen.guard.is_shown, "the list"
        )
        await driver.pilot.press("enter", "escape", "down", "ctrl+s")
        assert [question.answer for question in pending] == [None] * 3
        clock.now += 60
        assert driver.app.focused.id == "calls"
        await driver.pilot.press("escape")
        clock.now += 60
        assert [question.answer for question in pending] == [None] * 3
        await driver.pilot.press("escape")
        await driver.until(lambda: all(question.answer == Deny() for question in pending), "all refused")
