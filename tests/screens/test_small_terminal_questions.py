"""Tests for questions on the smallest supported screen: all keys are shown, and nothing is cut off."""

import pytest

from mcphost.host.questions.questions import ApproveTool, Deny
from tests.screens import extreme_content
from tests.screens.ask_question import PendingQuestion
from tests.screens.conftest import Run

pytestmark = pytest.mark.anyio


def approval_question() -> ApproveTool:
    return ApproveTool(
        server="files",
        why="the model asked for it in turn 1",
        call="c",
        tool="write_file",
        arguments={"path": "/tmp/a", "text": "one\ntwo\nthree\nfour\nfive\nsix\nseven"},
        description="Write a file.",
        first_use=True,
    )


async def test_all_keys_of_a_question_are_shown_at_80_by_24(run: Run) -> None:
    async with run(size=(80, 24)) as driver:
        PendingQuestion(driver, approval_question())
        await driver.enter_question()
        for word in ("esc/d deny", "r reason", "a once", "s session", "A always", "e edit", "v all"):
            assert word in driver.text(), word


@pytest.mark.parametrize(
    ("key", "text", "button"),
    [("e", "ctrl+s apply", "Apply"), ("r", "enter deny with this reason", "Allow once")],
)
async def test_an_open_panel_shows_its_keys_and_keeps_the_buttons_in_view(
    run: Run, key: str, text: str, button: str
) -> None:
    async with run(size=(80, 24)) as driver:
        PendingQuestion(driver, approval_question())
        await driver.enter_question()
        await driver.pilot.press(key)
        await driver.until(
            lambda: text in driver.text() and button in driver.text() and "╰" in driver.text(), "keys and frame"
        )
        await driver.pilot.press("escape", *["escape"] * (key == "e"))
        await driver.until(
            lambda: driver.dialog is not None and "a once" in driver.text(), "the keys of the question again"
        )


async def test_a_reason_is_still_a_denial_after_looking_at_the_editor(run: Run) -> None:
    async with run(size=(80, 24)) as driver:
        pending = PendingQuestion(driver, approval_question())
        await driver.enter_question()
        await driver.pilot.press("e", "escape", "escape", "r")
        await driver.type("no")
        await driver.pilot.press("enter")
        await driver.until(lambda: pending.answer == Deny(reason="no"))


async def test_how_long_a_call_waits_is_seen_before_its_addresses_however_long_they_are(run: Run) -> None:
    async with run(size=(80, 24)) as driver:
        driver.app.run_worker(driver.frontend.ask(extreme_content.RETRY))
        await driver.enter_question()
        shown = driver.text()
        assert shown.index("waiting · closes automatically") < shown.index("https://login.")
