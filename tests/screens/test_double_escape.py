"""Tests for Esc pressed twice in the empty message, which opens the screen for going back."""

import pytest

from mcphost.tui.chat.double_escape import AFTER_USE_SECONDS, DOUBLE_ESCAPE_SECONDS
from mcphost.tui.screens.rewind import RewindScreen
from tests.fakes.clock import ManualClock
from tests.screens.conftest import AppDriver
from tests.screens.real_program import DEMO_SERVER, Files, composer_text

pytestmark = pytest.mark.anyio


async def send(driver: AppDriver, text: str) -> None:
    await driver.type(text)
    await driver.pilot.press("enter")
    await driver.until(lambda: driver.host.conversation.messages and not driver.host.conversation.is_busy, "the answer")


def is_rewinding(driver: AppDriver) -> bool:
    return isinstance(driver.app.screen, RewindScreen)


async def test_esc_pressed_twice_in_the_empty_message_opens_the_screen_for_going_back(files: Files) -> None:
    async with files.open((100, 30)) as driver:
        await send(driver, "hello")
        await driver.pilot.press("escape", "escape")
        await driver.until(lambda: is_rewinding(driver), "the screen")
        await driver.pilot.press("enter")
        await driver.until(lambda: composer_text(driver) == "hello", "the message")


async def test_two_single_presses_of_esc_do_not_go_back(files: Files, clock: ManualClock) -> None:
    async with files.open((100, 30)) as driver:
        await send(driver, "hello")
        await driver.pilot.press("escape")
        clock.now += 2 * DOUBLE_ESCAPE_SECONDS
        await driver.pilot.press("escape")
        await driver.pilot.press("left", "escape")
        await driver.pilot.pause()
        assert not is_rewinding(driver)


async def test_esc_pressed_twice_over_a_written_message_keeps_it(files: Files) -> None:
    async with files.open((100, 30)) as driver:
        await send(driver, "hello")
        await driver.type("half")
        await driver.pilot.press("escape", "escape")
        await driver.pilot.pause()
        assert not is_rewinding(driver)
        assert composer_text(driver) == "half"


async def test_esc_pressed_twice_in_an_empty_conversation_opens_nothing(files: Files) -> None:
    async with files.open((100, 30)) as driver:
        await driver.pilot.press("escape", "escape")
        await driver.pilot.pause()
        assert not is_rewinding(driver)


async def test_esc_pressed_several_times_to_stop_a_turn_does_not_go_back(files: Files, clock: ManualClock) -> None:
    files.write_servers(demo=DEMO_SERVER)
    async with files.open((100, 30)) as driver:
        await driver.until(lambda: driver.host.servers.view("demo").catalog.tools, "the tools")
        await driver.type("note: buy milk")
        await driver.pilot.press("enter")
        await driver.until(lambda: driver.app.screen.query("QuestionCard"), "the card")
        await driver.pilot.press("escape")
        await driver.until(lambda: not driver.app.chat.pending_question_count, "the end of the question")
        await driver.until(lambda: not driver.app.chat.is_answering, "the end of the turn")
        await driver.pilot.press("escape", "escape", "escape")
        await driver.pilot.pause()
        assert not is_rewinding(driver)
        clock.now += 2 * AFTER_USE_SECONDS
        await driver.pilot.press("escape", "escape")
        await driver.until(lambda: is_rewinding(driver), "the screen")


async def test_esc_pressed_once_more_than_needed_to_leave_screens_does_not_go_back(
    files: Files, clock: ManualClock
) -> None:
    async with files.open((100, 30)) as driver:
        await send(driver, "hello")
        await driver.pilot.press("f6")
        await driver.until(lambda: driver.app.screen is not driver.app.chat, "the history")
        await driver.pilot.press("escape")
        await driver.until(lambda: driver.app.screen is driver.app.chat, "the chat")
        await driver.pilot.press("escape", "escape", "escape")
        await driver.pilot.pause()
        assert not is_rewinding(driver)
        clock.now += 2 * AFTER_USE_SECONDS
        await driver.pilot.press("escape", "escape")
        await driver.until(lambda: is_rewinding(driver), "the screen")


async def test_esc_in_the_transcript_and_once_more_to_stop_the_answer_does_not_go_back(
    files: Files, clock: ManualClock
) -> None:
    async with files.open((100, 30)) as driver:
        await send(driver, "hello")
        clock.now += 2 * AFTER_USE_SECONDS
        await driver.pilot.press("ctrl+t")
        await driver.until(lambda: driver.app.focused is driver.app.chat.query_one("#transcript"), "the transcript")
        await driver.pilot.press("escape", "escape", "escape")
        await driver.pilot.pause()
        assert not is_rewinding(driver)


async def test_esc_while_no_field_has_the_focus_stops_the_answer_and_does_not_count(
    files: Files, clock: ManualClock
) -> None:
    files.write_servers(demo=DEMO_SERVER)
    async with files.open((100, 30)) as driver:
        await driver.until(lambda: driver.host.servers.view("demo").catalog.tools, "the tools")
        await driver.type("a long answer, please")
        await driver.pilot.press("enter")
        await driver.until(lambda: driver.app.chat.is_answering, "an answer")
        clock.now += 2 * AFTER_USE_SECONDS
        driver.app.chat.set_focus(None)
        await driver.pilot.press("escape")
        await driver.until(lambda: not driver.app.chat.is_answering, "the end of the answer")
        await driver.pilot.press("escape", "escape", "escape")
        await driver.pilot.pause()
        assert not is_rewinding(driver)
        clock.now += 2 * AFTER_USE_SECONDS
        await driver.pilot.press("escape", "escape")
        await driver.until(lambda: is_rewinding(driver), "the screen")
