"""Tests for an app without a host yet: typed text is kept, and messages are sent once a host is attached."""

import asyncio

import pytest
from textual.events import Resize

from mcphost.config.schema import HostConfig
from mcphost.host import events
from mcphost.llm.messages import Message, TextPart
from mcphost.tui.app import McpHostApp
from mcphost.tui.screens.servers import ServersScreen
from mcphost.tui.widgets.composer import Composer
from tests.screens.app_without_host import attach_and_start, open_shell
from tests.screens.fake_host import FakeHost

pytestmark = pytest.mark.anyio


async def test_text_typed_before_there_is_a_host_is_kept() -> None:
    async with open_shell() as driver:
        await driver.type("hello")
        assert "hello" in driver.text()
        await attach_and_start(driver)
        await driver.until(lambda: "Ask anything" in driver.transcript(), "the greeting")
        await driver.type(" world")
        assert driver.app.chat.composer_input.text == "hello world"
        assert driver.host.sent == []


async def test_a_message_entered_before_there_is_a_host_is_sent_once_it_is_there() -> None:
    async with open_shell() as driver:
        await driver.type("hello")
        await driver.pilot.press("enter")
        await driver.type("next")
        await attach_and_start(driver)
        await driver.until(lambda: driver.host.sent, "the message")
        assert [text for text, _ in driver.host.sent] == ["hello"]
        assert driver.app.chat.composer_input.text == "next"


async def test_a_second_message_entered_before_there_is_a_host_stays_in_the_composer() -> None:
    async with open_shell() as driver:
        for text in ("one", "two"):
            await driver.type(text)
            await driver.pilot.press("enter")
        await attach_and_start(driver)
        await driver.until(lambda: driver.host.sent, "the message")
        assert [text for text, _ in driver.host.sent] == ["one"]
        assert driver.app.chat.composer_input.text == "two"


async def test_a_message_that_cannot_be_sent_is_back_in_the_composer() -> None:
    async with open_shell(no_model=True) as driver:
        await driver.type("hello")
        await driver.pilot.press("enter")
        assert driver.app.chat.composer_input.text == ""
        await attach_and_start(driver)
        await driver.until(lambda: driver.app.chat.composer_input.text == "hello", "the text")


async def test_a_page_asked_for_before_there_is_a_host_opens_once_it_is_there() -> None:
    async with open_shell() as driver:
        await driver.pilot.press("f3")
        assert driver.app.screen is driver.app.chat
        await attach_and_start(driver)
        await driver.until(lambda: isinstance(driver.app.screen, ServersScreen), "the page of servers")


async def test_every_key_of_the_table_is_harmless_before_there_is_a_host() -> None:
    async with open_shell() as driver:
        await driver.pilot.press("f1", "escape", "f2", "f4", "f5", "f6", "f7", "f8", "f9", "f10", "f12", "ctrl+o")
        await driver.pilot.press("ctrl+r", "ctrl+down", "ctrl+y", "ctrl+n", "ctrl+t", "escape", "slash", "escape")
        assert driver.app.crash_error is None
        assert driver.app.is_running


async def test_quitting_before_there_is_a_host_ends_the_app() -> None:
    async with open_shell() as driver:
        await driver.pilot.press("ctrl+q")
        await driver.until(lambda: not driver.app.is_running, "the end")
        assert driver.app.crash_error is None


async def test_a_request_to_quit_before_the_first_frame_ends_the_app() -> None:
    app = McpHostApp()
    app.request_quit()
    async with asyncio.timeout(10):
        await app.run_async(headless=True)
    assert app.crash_error is None


async def test_a_question_of_an_attached_host_opens() -> None:
    from tests.screens.example_questions import CALL

    async with open_shell() as driver, asyncio.TaskGroup() as tasks:
        asked = tasks.create_task(driver.frontend.ask(CALL))
        await attach_and_start(driver)
        await driver.enter_question()
        asked.cancel()


async def test_the_theme_of_the_settings_is_used_when_the_host_brings_it() -> None:
    async with open_shell() as driver:
        driver.host.config = HostConfig(theme="light")
        await attach_and_start(driver)
        assert driver.app.theme == "light"


async def test_a_message_entered_before_there_is_a_host_is_shown_at_once_and_then_once() -> None:
    gate = asyncio.Event()

    async def held(host: FakeHost, number: int, text: str) -> str:
        await gate.wait()
        host.put(events.TurnStarted(number, Message(role="user", parts=(TextPart(text),))))
        return "done"

    async with open_shell(turn=held) as driver:
        await driver.type("hello")
        await driver.pilot.press("enter")
        await driver.until(
            lambda: "▌ hello" in driver.text() and "sent when mcphost is ready" in driver.text(), "the message"
        )
        await attach_and_start(driver)
        await driver.until(lambda: driver.host.sent, "the message")
        assert driver.text().count("▌ hello") == 1
        assert driver.text().index("Ask anything") < driver.text().index("▌ hello")
        gate.set()
        await driver.until(lambda: "sent when mcphost is ready" not in driver.text(), "the turn")
        assert driver.text().count("▌ hello") == 1


async def test_a_message_returned_to_the_composer_is_no_longer_shown_as_sent() -> None:
    async with open_shell(no_model=True) as driver:
        await driver.type("hello")
        await driver.pilot.press("enter")
        await driver.until(lambda: "▌ hello" in driver.text(), "the message")
        await attach_and_start(driver)
        await driver.until(lambda: driver.app.chat.composer_input.text == "hello", "the text")
        assert "▌ hello" not in driver.text()


@pytest.mark.parametrize("width", [60, 80, *range(92, 98), 120])
async def test_the_hint_of_the_first_frame_remains(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    hints: list[str] = []
    resized = Composer.on_resize

    def noted(self: Composer, event: Resize) -> None:
        hints.append(self.composer_input.placeholder)
        resized(self, event)
        hints.append(self.composer_input.placeholder)

    monkeypatch.setattr(Composer, "on_resize", noted)
    app = McpHostApp()
    async with app.run_test(size=(width, 24)) as pilot:
        await app.first_frame_drawn.wait()
        await pilot.pause()
        assert hints
        assert len(set(hints)) == 1, hints
        app.request_quit()
