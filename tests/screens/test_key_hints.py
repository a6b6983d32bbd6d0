"""Tests for key hints at the bottom of questions and forms, which can be clicked."""

import pytest

from mcphost.host.questions.questions import Deny
from mcphost.tui.widgets.status_bars import KeyBar
from tests.fakes.clock import ManualClock
from tests.screens.ask_question import PendingQuestion, open_guarded_dialog, tool_question
from tests.screens.conftest import AppDriver, Run

pytestmark = pytest.mark.anyio


async def click_text(driver: AppDriver, text: str) -> None:
    """Click the first character of *text* on the screen."""
    lines = driver.text().splitlines()
    row = next(at for at, line in enumerate(lines) if text in line)
    await driver.pilot.click(offset=(lines[row].index(text), row))


async def test_a_click_on_a_hint_of_a_question_presses_its_key(run: Run) -> None:
    async with run(size=(100, 40)) as driver:
        pending = PendingQuestion(driver, tool_question())
        await driver.enter_question()
        await click_text(driver, "e edit")
        await driver.until(lambda: "Edit the arguments of files · write_file" in driver.text(), "the editor")
        assert pending.answer is None
        await click_text(driver, "esc")
        await driver.until(lambda: "Run files · write_file?" in driver.text(), "the question")
        assert pending.answer is None


async def test_a_click_on_the_hint_that_denies_is_an_answer(run: Run) -> None:
    async with run(size=(100, 40)) as driver:
        pending = PendingQuestion(driver, tool_question())
        await driver.enter_question()
        await click_text(driver, "esc/d deny")
        await driver.until(lambda: pending.answer is not None, "the answer")
        assert isinstance(pending.answer, Deny)


async def test_a_click_on_the_hints_before_the_question_accepts_keys_does_nothing(run: Run, clock: ManualClock) -> None:
    async with run(size=(100, 40)) as driver:
        pending, dialog = await open_guarded_dialog(driver, tool_question())
        hints = dialog.query_one("#keys").region
        for column in range(hints.x, hints.right, 2):
            await driver.pilot.click(offset=(column, hints.y))
        assert pending.answer is None


async def test_a_click_on_a_hint_of_a_form_presses_its_key(run: Run) -> None:
    async with run(size=(100, 40)) as driver:
        await driver.pilot.press("f6")
        await driver.until(lambda: "esc back" in driver.text(), "the history")
        await click_text(driver, "esc back")
        await driver.until(lambda: driver.app.screen is driver.app.chat, "the chat")


async def test_behind_a_question_only_the_keys_that_work_are_shown(run: Run) -> None:
    async with run(size=(100, 40)) as driver:
        bar = driver.app.chat.query_one(KeyBar)
        assert "F3 servers" in bar.render().plain
        PendingQuestion(driver, tool_question())
        await driver.enter_question()
        assert bar.render().plain == "ctrl+q quit"
        await driver.pilot.press("escape")
        await driver.until(lambda: driver.app.screen is driver.app.chat, "the chat")
        assert "F3 servers" in bar.render().plain
