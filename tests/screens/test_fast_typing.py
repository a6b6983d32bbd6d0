"""Tests that text typed faster than the screen is drawn arrives unchanged."""

from typing import Any

import pytest
from textual import events

from tests.screens.ask_question import PendingQuestion, tool_question
from tests.screens.conftest import Run

pytestmark = pytest.mark.anyio
BURST = ("a", "b", "c", "backspace", "x", "left", "y", "home", "z", "end", "ctrl+w", "k")


def press_at_once(driver: Any, *keys: str) -> None:
    """Post all keys before the first one is handled."""
    for key in keys:
        driver.app.post_message(events.Key(key, key if len(key) == 1 else None))


async def test_keys_that_edit_a_message_act_in_the_order_in_which_they_were_pressed(run: Run) -> None:
    async with run() as driver:
        prompt = driver.app.chat.query_one("#prompt")
        press_at_once(driver, *BURST[:9])
        await driver.until(lambda: prompt.text == "zabyx", prompt.text)
        press_at_once(driver, *BURST[9:])
        await driver.until(lambda: prompt.text == "k")
        press_at_once(driver, "l", "ctrl+u", "m")
        await driver.until(lambda: prompt.text == "m")


async def test_keys_that_edit_a_line_act_in_the_order_in_which_they_were_pressed(run: Run) -> None:
    async with run() as driver:
        PendingQuestion(driver, tool_question())
        dialog = await driver.enter_question()
        await driver.pilot.press("r")
        line = dialog.query_one("#reason-text")
        await driver.until(lambda: line.has_focus)
        press_at_once(driver, *BURST[:9])
        await driver.until(lambda: line.value == "zabyx", line.value)


async def test_letters_typed_right_behind_enter_begin_the_next_message(run: Run) -> None:
    async def quiet(*_: Any) -> str:
        return ""

    async with run(turn=quiet) as driver:
        prompt = driver.app.chat.query_one("#prompt")
        press_at_once(driver, *"one", "enter", *"two", "enter", *"three")
        await driver.until(lambda: prompt.text.endswith("three"), prompt.text)
        await driver.until(lambda: driver.host.sent, "the message")
        assert "".join([text for text, _ in driver.host.sent]) + prompt.text == "onetwothree"
