"""Tests that a screen is laid out again only if the size of something may have changed."""

import pytest
from textual.screen import Screen

from mcphost.tui.widgets.one_line_text import OneLineText
from tests.screens.ask_question import PendingQuestion
from tests.screens.conftest import Run
from tests.screens.screenshots import LONG_FORM

pytestmark = pytest.mark.anyio


async def test_the_line_about_the_unread_rest_changes_without_another_layout(run: Run) -> None:
    layouts: list[Screen[object]] = []
    async with run(size=(80, 24)) as driver:
        PendingQuestion(driver, LONG_FORM)
        dialog = await driver.enter_question()
        await driver.until(lambda: "more lines" in driver.text(), "the rest of the form")
        await driver.pilot.pause()
        dialog.screen_layout_refresh_signal.subscribe(dialog, layouts.append, immediate=True)
        dialog.query_one("#more", OneLineText).update("another text")
        await driver.until(lambda: "another text" in driver.text(), "the changed line")
        await driver.pilot.pause()
        assert layouts == []
        dialog.refresh(layout=True)
        await driver.until(lambda: layouts == [dialog], "a layout")
