"""Tests that no page lets the chat behind it show through, as pages without a background of their own do."""

import pytest

from tests.screens.conftest import Run

pytestmark = pytest.mark.anyio
PAGES = ("f1", "f3", "f4", "f5", "f6", "f7", "f10", "f12", "ctrl+o")


@pytest.mark.parametrize("key", PAGES)
async def test_no_row_of_a_page_shows_the_chat_behind_it(run: Run, key: str) -> None:
    async with run(size=(80, 24)) as driver:
        await driver.pilot.press(key)
        await driver.until(
            lambda: driver.app.screen is not driver.app.chat and driver.app.screen.is_mounted, "the page"
        )
        await driver.pilot.pause()
        page = driver.app.screen
        assert page.styles.background.a == 1, "Textual draws the screen below where the background is not opaque"
        assert page.region == driver.app.chat.region


async def test_a_page_without_an_opaque_background_is_noticed(run: Run) -> None:
    async with run(size=(80, 24)) as driver:
        await driver.pilot.press("ctrl+l")
        await driver.until(lambda: driver.app.screen is not driver.app.chat, "the list of themes, a dialog")
        assert driver.app.screen.styles.background.a < 1
