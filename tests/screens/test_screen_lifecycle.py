"""Tests that deferred work is dropped when its screen closes, so that late callbacks do no harm."""

import asyncio

import pytest
from textual.events import Key

from mcphost.host.events import CatalogChanged
from mcphost.tui.screens.text_viewer import TextViewerScreen
from tests.screens.conftest import Run

pytestmark = pytest.mark.anyio
PAGES = ("f1", "f2", "f3", "f4", "f5", "f6", "f7", "f9", "f10", "f12", "ctrl+o")
LIVE = ("f3", "f4", "f5", "f7", "f10", "f12", "ctrl+o")


@pytest.mark.parametrize("page", PAGES)
async def test_a_page_left_while_it_opens_keeps_the_chat_as_it_was(run: Run, page: str) -> None:
    async with run() as driver:
        driver.press_together(page)
        for _ in range(100):
            if driver.app.screen is not driver.app.chat:
                break
            await asyncio.sleep(0)
        driver.press_together("escape", page, "escape")
        await driver.pilot.pause()
        await driver.pilot.press(*["escape"] * 2)
        await driver.until(lambda: driver.app.screen is driver.app.chat, "the chat")
        await driver.type("hello")
        await driver.until(lambda: "hello" in driver.text(), "what is typed")


@pytest.mark.parametrize("page", LIVE)
async def test_a_page_that_is_being_opened_while_servers_change_is_opened(run: Run, page: str) -> None:
    async with run() as driver:
        driver.press_together(page)
        for _ in range(100):
            driver.host.put(CatalogChanged("files", "tools"))
            await asyncio.sleep(0)
        await driver.until(lambda: driver.app.screen is not driver.app.chat, "the page")
        driver.host.put(CatalogChanged("files", "tools"))
        await driver.pilot.press("escape")
        await driver.until(lambda: driver.app.screen is driver.app.chat, "the chat")


async def test_a_tool_that_appears_while_its_name_is_typed_is_completed(run: Run) -> None:
    async with run() as driver:
        views = driver.host.views
        driver.host.views = ()
        await driver.type("!files/sea")
        await driver.until(lambda: "No matching tool." in driver.text(), "that none matches")
        driver.host.put(CatalogChanged("other", "tools"))
        driver.host.views = views
        driver.host.put(CatalogChanged("files", "tools"))
        await driver.until(lambda: "No matching tool." not in driver.text(), "the tool")
        await driver.pilot.press("tab")
        await driver.until(lambda: driver.app.chat.composer_input.text.startswith("!files/search_files"), "its name")


async def test_work_for_a_closed_page_ends_silently(run: Run) -> None:
    async with run() as driver:
        page = TextViewerScreen("Title", "text")
        await driver.app.push_screen(page)
        gone = asyncio.Event()

        async def late() -> None:
            await gone.wait()
            page.query_one("#head")

        work = page.run_worker(late)
        page.dismiss(None)
        await driver.until(lambda: not page.query("*"), "its end")
        gone.set()
        await driver.until(lambda: work.is_finished, "the end of the work")
        assert driver.app.is_running


async def test_a_closed_text_is_no_longer_checked(run: Run) -> None:
    async with run() as driver:
        page = TextViewerScreen("Title", "text")
        await driver.app.push_screen(page)
        await driver.pilot.press("escape")
        await driver.until(lambda: not page.query("*"), "its end")
        page.call_after_refresh(page.check_end_shown)
        page.check_end_shown()
        await driver.pilot.pause()


async def test_keys_that_come_while_the_program_ends_do_nothing(run: Run) -> None:
    async with run() as driver:
        stopped: list[bool] = []
        driver.host.conversation.stop = lambda: bool(stopped.append(True))
        driver.app.request_quit()
        late = Key("escape", "\x1b")
        late._set_forwarded()  # no widget below used it
        await driver.app.on_event(late)
    assert stopped == []


@pytest.mark.parametrize("key", ["f1", "f3", "f4", "f5", "f6", "f7", "f10", "f12"])
async def test_a_page_covers_the_chat_to_its_last_cell(run: Run, key: str) -> None:
    async with run(size=(80, 24)) as driver:
        await driver.pilot.press(key)
        await driver.until(lambda: len(driver.app.screen_stack) > 1, key)
        assert driver.app.screen.styles.background.a == 1
